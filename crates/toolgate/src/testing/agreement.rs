//! Whether a listing, the calls and the explanations of a chain agree about every tool.

use std::sync::Arc;

use toolgate_wire::Json;

use super::Harness;
use crate::{Call, Class, Code, Explanation, RetrySafety, Tool};

impl Harness {
    /// Checks that listing, calls and explanations tell the same story about every tool, for this caller:
    ///
    /// - a tool that the listing hides cannot be called,
    /// - a tool that the listing shows can be called, with some of its [samples](Self::sample) at least,
    /// - a call that an explanation denies does not reach the tool, and
    /// - a call that is refused is explained as denied, or as one that asks a person first.
    ///
    /// Refusals that pass by themselves (a rate limit), and those of invalid arguments, contradict nothing.
    ///
    /// ```should_panic
    /// use toolgate::{
    ///     Context, Listing, Tier, ToolList,
    ///     testing::{self, Harness, tool},
    ///     transform_list,
    /// };
    ///
    /// // It hides a tool and lets it be called.
    /// let hide = transform_list("hide", |mut list: ToolList, _: &Listing, _: &mut Context| {
    ///     list.retain(|tool| tool.id().name() != "wipe");
    ///     Ok(list)
    /// });
    /// let harness = Harness::new(hide).tool(tool("wipe", Tier::Destructive));
    /// testing::run_paused(harness.assert_agreement());
    /// ```
    ///
    /// # Panics
    ///
    /// If they disagree, with every case.
    pub async fn assert_agreement(&self) {
        let found = self.disagreements().await;
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    /// The cases in which listing, calls and explanations disagree, one sentence each; see
    /// [`assert_agreement`](Self::assert_agreement).
    pub async fn disagreements(&self) -> Vec<String> {
        let listed = self.list_tools().await;
        let listed = listed.map(|list| list.tools().to_vec()).unwrap_or_default();
        let mut found = Vec::new();
        for tool in &self.server.tools {
            let is_listed = listed.iter().any(|shown| shown.id() == tool.id());
            let mut may_run = false;
            for arguments in self.samples_of(tool) {
                let case = format!("`{}` with {}", tool.id(), arguments.as_str());
                let ended = self.try_call(Call::new(Arc::clone(tool), Some(arguments))).await;
                may_run |= ended.may_run();
                found.extend(ended.contradiction().map(|why| format!("{case}: {why}")));
                if ended.reached && !is_listed {
                    found.push(format!("{case}: the listing hides the tool, but it ran"));
                }
            }
            if is_listed && !may_run {
                let id = tool.id();
                found.push(format!("`{id}`: the listing shows it, but every call was refused"));
            }
        }
        found
    }

    fn samples_of(&self, tool: &Tool) -> Vec<Json> {
        let samples = self.samples.iter().filter(|(name, _)| name == tool.id().name());
        let samples: Vec<_> = samples.map(|(_, arguments)| arguments.clone()).collect();
        if samples.is_empty() { vec![Json::empty_object()] } else { samples }
    }

    async fn try_call(&self, call: Call) -> Attempt {
        let explained = self.explain_call(&call);
        let refuses = |decision: &Explanation| !decision.allowed && !decision.is_undecided();
        let denied = explained.iter().find(|(_, decision)| refuses(decision));
        let (denied_by, asks) =
            (denied.map(|(layer, _)| *layer), explained.iter().any(|(_, it)| it.asks));
        let before = self.server.calls();
        let outcome = self.run(call).await;
        let code = outcome.code().filter(|_| outcome.class() == Class::Denied);
        Attempt { reached: self.server.calls() > before, refused: code, denied_by, asks }
    }
}

/// What an explanation said of a call, and how the call ended.
struct Attempt {
    reached: bool,
    refused: Option<Code>,
    denied_by: Option<&'static str>,
    asks: bool,
}

impl Attempt {
    /// Whether the refusal tells nothing about the tool: it passes by itself, or depends on the arguments.
    fn says_nothing(&self) -> bool {
        self.refused.is_some_and(|code| {
            code == Code::InvalidArguments || code.entry().retry == RetrySafety::Safe
        })
    }

    fn may_run(&self) -> bool {
        self.refused.is_none() || self.asks || self.says_nothing()
    }

    fn contradiction(&self) -> Option<String> {
        match (self.denied_by, self.refused) {
            (Some(layer), _) if self.reached => {
                Some(format!("`{layer}` explains that it denies the call, but the tool ran"))
            }
            (None, Some(code)) if !self.reached && !self.asks && !self.says_nothing() => {
                Some(format!(
                    "the call was refused with `{}`, but no layer explains that it denies it",
                    code.name()
                ))
            }
            _ => None,
        }
    }
}
