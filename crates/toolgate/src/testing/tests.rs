//! The agreement check finds each way to disagree, and the built-in layers that decide agree.

use serde_json::json;

use super::*;
use crate::{
    Code, Explanation, Failure, Hooks, Listing, Next, ToolList,
    middleware::{
        error_results::ErrorResults,
        flags::{Flags, FlagsConfig},
        safety::Safety,
    },
};

/// A layer with an answer of its own to each question.
#[derive(Clone, Copy, Debug)]
struct Answers {
    lists: bool,
    calls: bool,
    explains: Option<bool>,
    code: Code,
}

impl Middleware for Answers {
    fn name(&self) -> &'static str {
        "answers"
    }

    fn hooks(&self) -> Hooks {
        Hooks::TOOLS
    }

    fn explain(&self, _: &Context, _: &Call) -> Option<Explanation> {
        let allowed = self.explains?;
        let (rule, why) = (String::new(), String::new());
        Some(Explanation { allowed, asks: false, rule, why, code: None })
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        if self.calls {
            return next.call(cx, call).await;
        }
        Failure::new(self.code, "no").into()
    }

    async fn list(
        &self,
        cx: &mut Context,
        listing: Listing,
        next: Next<'_>,
    ) -> Result<ToolList, Failure> {
        let mut list = next.list(cx, listing).await?;
        list.retain(|_| self.lists);
        Ok(list)
    }
}

async fn disagreements(answers: Answers) -> Vec<String> {
    Harness::new(answers).tool(tool("t", Tier::Readonly)).disagreements().await
}

#[tokio::test]
async fn each_contradiction_is_found_and_named() {
    let consistent =
        Answers { lists: true, calls: true, explains: Some(true), code: Code::Refused };
    assert_eq!(disagreements(consistent).await, [""; 0]);
    let denies = Answers { lists: false, calls: false, explains: Some(false), ..consistent };
    assert_eq!(disagreements(denies).await, [""; 0]);
    for (answers, sentence) in [
        (
            Answers { lists: false, ..consistent },
            "`main/t` with {}: the listing hides the tool, but it ran",
        ),
        (
            Answers { explains: Some(false), ..consistent },
            "`main/t` with {}: `answers` explains that it denies the call, but the tool ran",
        ),
        (
            Answers { lists: true, ..denies },
            "`main/t`: the listing shows it, but every call was refused",
        ),
        (
            Answers { explains: None, ..denies },
            "`main/t` with {}: the call was refused with `REFUSED`, but no layer explains that it denies it",
        ),
    ] {
        assert_eq!(disagreements(answers).await, [sentence], "{answers:?}");
    }
}

#[tokio::test]
async fn a_refusal_that_passes_by_itself_contradicts_nothing() {
    for code in [Code::RateLimited, Code::InvalidArguments] {
        let answers = Answers { lists: true, calls: false, explains: None, code };
        assert_eq!(disagreements(answers).await, [""; 0], "{code:?}");
    }
}

#[tokio::test]
async fn built_in_layers_agree() {
    let tools =
        || [None, Some(Tier::Readonly), Some(Tier::Destructive)].into_iter().zip(["a", "b", "c"]);
    let tools = || tools().map(|(tier, name)| tool(name, tier));
    for allowed in Tier::ALL {
        Harness::new(Safety::new(allowed)).tools(tools()).assert_agreement().await;
    }
    let flags = FlagsConfig { disabled: vec!["main/b".parse().unwrap()], ..FlagsConfig::default() };
    Harness::new(Flags::new(flags)).tools(tools()).assert_agreement().await;
}

#[tokio::test]
async fn meta_is_admitted_as_from_a_client() {
    let settings = crate::settings::Settings::default();
    let chain = crate::stack::build(&settings).unwrap().chain;
    let harness = Harness::of(chain)
        .tools([tool("a", Tier::Readonly), tool("b", Tier::Readonly)])
        .meta(json!({"allowedTools": ["a"]}));
    assert_eq!(harness.list().await.unwrap(), ["a"]);
    assert_eq!(text(&harness.call("a", ()).await), "ok");
    assert_denied(&harness.call("b", ()).await, Code::ToolNotAllowed);
    assert_eq!(harness.seen(), [serde_json::Value::Null]);
    harness.assert_agreement().await;
}

#[tokio::test]
#[should_panic = "the call ended as `tool_error` with `TOOL_FAILED`, not refused with `REFUSED`: no"]
async fn a_tool_error_is_no_refusal() {
    let harness = Harness::new(ErrorResults).answers_with(|_| Failure::tool("No", "no").into());
    assert_denied(&harness.call("t", ()).await, Code::Refused);
}
