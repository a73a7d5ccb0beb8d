//! Response limit: an oversized result is shortened, keeps its tail and stays valid.
#![doc = include_str!("README.md")]

mod config;
mod cut;
mod shrink;
mod structured;
#[cfg(test)]
mod tests;

pub(crate) use config::SMALLEST;
pub use config::{Keep, ResponseLimitConfig};
use shrink::{CONTENT, CONTENTS, Rigid, shrink};

use crate::{
    call::{Answer, Call, Request},
    context::Context,
    failure::Failure,
    middleware::{Hooks, Middleware, Order},
    next::Next,
    outcome::{Outcome, ToolResult},
    registry::Code,
    selector::Selector,
};

/// The layer's name.
pub const NAME: &str = "response-limit";

/// The most bytes of one result where nobody sets it.
pub const DEFAULT_BYTES: usize = 1_000_000;

/// Shortens oversized results of calls, and of `resources/read`.
#[derive(Clone, Debug)]
pub struct ResponseLimit {
    config: ResponseLimitConfig,
}

impl ResponseLimit {
    /// With these settings. Limits below 1000 bytes are raised to it: a shorter result could not
    /// even say that it was shortened.
    #[must_use]
    pub fn new(mut config: ResponseLimitConfig) -> Self {
        config.bytes = config.bytes.max(SMALLEST);
        for (_, bytes, _) in &mut config.tools {
            *bytes = bytes.map(|bytes| bytes.max(SMALLEST));
        }
        Self { config }
    }

    /// The limit and the end to keep for this call: a selector that names the tool exactly wins,
    /// else the first that covers it.
    fn of(&self, call: &Call) -> (usize, Keep) {
        let covering = || self.config.tools.iter().filter(|(s, ..)| call.is_covered_by(s));
        let rule = covering().find(|(s, ..)| Selector::is_exact(s)).or_else(|| covering().next());
        rule.map_or((self.config.bytes, self.config.keep), |(_, bytes, keep)| {
            (bytes.unwrap_or(self.config.bytes), keep.unwrap_or(self.config.keep))
        })
    }
}

impl Middleware for ResponseLimit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe(&self) -> String {
        let keep = match self.config.keep {
            Keep::Tail => "tail",
            Keep::Head => "head",
        };
        let rules = self.config.tools.len();
        match (self.config.bytes, rules) {
            (usize::MAX, _) => format!("single tools only, {rules} rules, keeps the {keep}"),
            (bytes, 0) => format!("at most {bytes} bytes a result, keeps the {keep}"),
            (bytes, _) => format!(
                "at most {bytes} bytes a result, keeps the {keep}; {rules} rules for single tools"
            ),
        }
    }

    fn hooks(&self) -> Hooks {
        Hooks { call: true, list: false, request: true }
    }

    fn order(&self) -> &'static [Order] {
        &[Order::Outside(super::error_results::NAME, "error results are bounded too")]
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        let (limit, keep) = self.of(&call);
        let tool = std::sync::Arc::clone(call.tool());
        let mut outcome = next.call(cx, call).await;
        let Some(result) = outcome.result() else {
            return outcome;
        };
        if result.json().len() <= limit {
            return outcome;
        }
        let (size, is_error) = (result.json().len(), result.is_error());
        // A tool that is known to declare no output schema may lose its structured content.
        let optional = tool.definition().is_some_and(|json| json.get("outputSchema").is_none());
        match shrink(result.json(), &CONTENT, limit, keep, optional) {
            Ok(json) => {
                let result_type = json.get("resultType");
                outcome.set_result(ToolResult::known(json, is_error, result_type.as_ref()));
                outcome
            }
            Err(Rigid) => too_large(outcome, size, limit),
        }
    }

    async fn request(&self, cx: &mut Context, request: Request, next: Next<'_>) -> Answer {
        let is_read = &*request.method == "resources/read";
        let mut answer = next.request(cx, request).await;
        let Ok(result) = &answer.body else {
            return answer;
        };
        let (size, limit) = (result.len(), self.config.bytes);
        if is_read && size > limit {
            match shrink(result, &CONTENTS, limit, self.config.keep, true) {
                Ok(json) => answer.set_result(json),
                Err(Rigid) => answer.set_error(refusal(size, limit).to_rpc().to_json()),
            }
        }
        answer
    }
}

fn refusal(size: usize, limit: usize) -> Failure {
    let message = format!(
        "The result of {size} bytes is over the limit of {limit} bytes and cannot be shortened \
         without breaking its structure"
    );
    Failure::new(Code::ResponseTooLarge, message)
        .suggest("Ask for less at once, or raise limits.response_bytes.")
        .by(NAME, format!("limits.response_bytes = {limit}"))
}

/// What the client reads instead. A call that had failed anyway stays failed for its own reason.
fn too_large(outcome: Outcome, size: usize, limit: usize) -> Outcome {
    let failure = refusal(size, limit).ran(outcome.ran());
    let result = super::error_results::rendered(&failure);
    let mut refused = match outcome.failure() {
        Some(_) => outcome,
        None => Outcome::failed(failure),
    };
    refused.set_result(result);
    refused
}
