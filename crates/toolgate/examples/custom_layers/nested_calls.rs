//! A layer that calls another tool first. The nested call passes the whole chain, with the restrictions of its parent.

use serde_json::json;
use toolgate::{
    Failure, Middleware, ToolResult, from_fn,
    testing::{Harness, text},
};

fn check_first() -> impl Middleware {
    from_fn("check-first", async |cx, call, next| {
        if call.id().name() == "deploy" {
            let checked = next.nested(cx, "check", call.arguments().cloned()).await;
            if checked.code().is_some() {
                return checked;
            }
        }
        next.call(cx, call).await
    })
}

/// A deployment runs only after its check, which gets the same arguments.
pub(crate) async fn show() {
    let harness = Harness::new(check_first()).answers_with(|call| match call.id().name() {
        "check" if call.arguments().is_some_and(|it| it.get("force").is_none()) => {
            Failure::tool("TestsFail", "3 tests fail").into()
        }
        name => ToolResult::text(&format!("{name} done")).into(),
    });
    let refused = harness.call("deploy", json!({})).await;
    assert_eq!(refused.failure().unwrap().message(), "3 tests fail");
    assert_eq!(text(&harness.call("deploy", json!({"force": true})).await), "deploy done");
    assert_eq!(harness.seen().len(), 3);
}
