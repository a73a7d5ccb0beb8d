//! Timeout: a call that hangs ends in time, and the rest of the chain is dropped.

use tokio::time::Instant;

use super::*;
use crate::{
    Executed, Outcome,
    registry::Class,
    testing::{self, HangingServer, answering, chain, context, json, tool},
};

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_is_given_up_in_time() {
    let (begun, server) = (Instant::now(), HangingServer::default());
    let layer = chain(Timeout::new(Duration::from_mins(1)));
    let outcome = testing::call(&layer, &tool("t", None), "{}", &server).await;
    assert_eq!(begun.elapsed().as_secs(), 60);
    assert_eq!(outcome.class(), Class::TimedOut);
    assert_eq!(outcome.executed(), Executed::Maybe);
    let failure = outcome.failure().unwrap();
    assert_eq!(failure.code(), Code::TimedOut);
    assert_eq!(failure.message(), "Tool execution timed out after 1m");
    assert_eq!(
        failure.suggestion(),
        Some(
            "Ask for less at once; the call may have run in part. Only the operator can raise limits.timeout."
        )
    );
    assert_eq!(failure.decided_by(), Some(NAME));
    assert_eq!(failure.rule(), Some("limits.timeout = 1m"));
    assert!(!failure.is_expected());
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_the_chain_is_dropped_before_the_client_is_told() {
    let server = HangingServer::default();
    let layer = chain(Timeout::new(Duration::from_millis(250)));
    testing::call(&layer, &tool("t", None), "{}", &server).await;
    let dropped = tokio::time::timeout(Duration::ZERO, server.dropped.notified()).await;
    assert!(dropped.is_ok(), "dropping is what tells the server");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_ends_in_time_is_not_touched() {
    let layer = chain(Timeout::new(Duration::from_mins(1)));
    let line = r#"{"content":[{"type":"text","text":"1.0"}]}"#;
    let server = testing::ScriptedServer::new(move |_| {
        Outcome::answered(crate::ToolResult::new(json(line))).with_origin(line.into())
    });
    let outcome = testing::call(&layer, &tool("t", None), "{}", &server).await;
    assert!(matches!(outcome.into_reply(), crate::Reply::Verbatim(bytes) if bytes == line));
}

#[tokio::test(start_paused = true)]
async fn only_calls_are_timed() {
    let layer = chain(Timeout::new(Duration::from_millis(1)));
    assert!(!layer.sees_listings() && !layer.sees_request("ping") && !layer.needs_tools());
    let request = crate::Request { method: "resources/subscribe".into(), params: Some(json("{}")) };
    let server = answering(json("{}"));
    assert!(layer.request(&mut context(), request, &server).await.body.is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_longest_time_there_is_does_not_overflow() {
    let layer = chain(Timeout::new(Duration::MAX));
    let server = answering(json("{}"));
    let outcome = testing::call(&layer, &tool("t", None), "{}", &server).await;
    assert!(outcome.failure().is_none());
}
