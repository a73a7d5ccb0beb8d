//! Layers from functions: they change, refuse and share a state, and `?` ends a call.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use serde::Deserialize;

use super::*;
use crate::{
    Class, Code, Executed, Failure, Handled, ToolResult,
    testing::{self, answering, json, tool},
};

async fn only_readonly(cx: &mut Context, call: Call, next: Next<'_>) -> Handled {
    if call.tool().tier() != Some(crate::Tier::Readonly) {
        return Err(Failure::refused("this server is readonly"));
    }
    Ok(next.call(cx, call).await)
}

#[tokio::test]
async fn a_function_refuses_with_a_question_mark() {
    let chain = testing::chain(from_fn("only-readonly", only_readonly));
    let server = answering(json("{}"));
    let refused = testing::call(&chain, &tool("t", None), "{}", &server).await;
    assert_eq!((refused.code(), refused.class()), (Some(Code::Refused), Class::Denied));
    assert_eq!((refused.executed(), server.calls()), (Executed::No, 0));
    let readonly = tool("t", crate::Tier::Readonly);
    assert_eq!(testing::call(&chain, &readonly, "{}", &server).await.class(), Class::Ok);
}

#[derive(Deserialize)]
struct Wait {
    seconds: u32,
}

#[tokio::test]
async fn typed_arguments_that_do_not_fit_refuse_the_call() {
    let chain = testing::chain(from_fn("short", async |cx, mut call, next| {
        let wait: Wait = call.args()?;
        call.insert_arg("seconds", wait.seconds.min(10))?;
        Ok(next.call(cx, call).await.insert_meta("example.com/asked", wait.seconds))
    }));
    let server = answering(json(r#"{"content":[],"_meta":{"a":1}}"#));
    let outcome = testing::call(&chain, &tool("t", None), r#"{"seconds":99,"x":1}"#, &server).await;
    assert_eq!(server.seen(), [r#"{"seconds":10,"x":1}"#]);
    let meta = serde_json::json!({"a": 1, "example.com/asked": 99});
    assert_eq!(testing::result_value(&outcome)["_meta"], meta);
    for misfit in [r#"{"seconds":"all of them"}"#, "{}"] {
        let refused = testing::call(&chain, &tool("t", None), misfit, &server).await;
        assert_eq!(refused.code(), Some(Code::InvalidArguments), "{misfit}");
    }
    assert_eq!(server.calls(), 1);
}

#[tokio::test]
async fn all_calls_share_the_state() {
    let layer = from_fn_with("budget", AtomicU32::new(1), async |left, cx, call, next| {
        if left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err() {
            return Failure::refused("used up").into();
        }
        next.call(cx, call).await
    });
    let (chain, server) = (testing::chain(layer), answering(json("{}")));
    assert!(testing::call(&chain, &tool("t", None), "{}", &server).await.failure().is_none());
    let refused = testing::call(&chain, &tool("t", None), "{}", &server).await;
    assert_eq!(refused.code(), Some(Code::Refused));
}

#[tokio::test]
async fn texts_are_replaced_in_content_structured_content_and_failures() {
    let layer = from_fn("clean", async |cx, call, next| {
        next.call(cx, call).await.map_texts(|text| text.replace("secret", "***").into())
    });
    let chain = testing::chain(layer);
    let result = r#"{"content":[{"type":"text","text":"a secret"}],"structuredContent":{"secret":["secret"]}}"#;
    let outcome = testing::call(&chain, &tool("t", None), "{}", &answering(json(result))).await;
    let read = testing::result_value(&outcome);
    assert_eq!(read["content"][0]["text"], "a ***");
    assert_eq!(read["structuredContent"], serde_json::json!({"secret": ["***"]}), "keys stay");
    let failing = testing::failing(Failure::new(Code::ToolFailed, "a secret"));
    let outcome = testing::call(&chain, &tool("t", None), "{}", &failing).await;
    assert_eq!(outcome.failure().unwrap().message(), "a ***");
    let clean: Outcome = ToolResult::text("clean").into();
    let clean = clean.with_origin("line".into()).map_texts(|text| text.into());
    assert!(matches!(clean.into_reply(), crate::Reply::Verbatim(_)), "unchanged bytes stay");
}

#[test]
fn a_name_shows() {
    let layer = from_fn("only-readonly", only_readonly);
    assert_eq!(format!("{layer:?}"), "FromFn(\"only-readonly\")");
    let layer = from_fn_with("n", 1, async |_: &i32, cx, call, next| next.call(cx, call).await);
    assert_eq!((format!("{layer:?}"), layer.name()), ("FromFnWith(\"n\")".to_owned(), "n"));
}
