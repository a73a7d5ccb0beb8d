//! Retry: readonly calls only, passing failures only, so often and no more, and never once given up.

use std::sync::Arc;

use tokio::time::Instant;

use super::*;
use crate::{
    Executed, Tier, Tool, ToolResult,
    middleware::{safety::Safety, timeout::Timeout},
    testing::{
        self, HangingServer, ScriptedServer, answering, chain, context, failing, json, tool,
    },
};

fn config(times: u32) -> RetryConfig {
    RetryConfig { times, ..RetryConfig::default() }
}

fn readonly() -> Arc<Tool> {
    tool("show", Tier::Readonly)
}

/// How often a call reaches its tool when it fails like this every time.
async fn attempts(tool: &Arc<Tool>, failure: Failure) -> usize {
    let server = failing(failure);
    let outcome = testing::call(&chain(Retry::new(config(3))), tool, "{}", &server).await;
    assert!(outcome.failure().is_some());
    server.calls()
}

/// Which failures of a readonly call are tried again.
fn is_tried_again(code: Code) -> bool {
    matches!(
        code,
        Code::ServerCrashed
            | Code::ServerUnavailable
            | Code::ServerProtocol
            | Code::Overloaded
            | Code::ServerStartTimeout
    )
}

#[tokio::test(start_paused = true)]
async fn only_failures_that_pass_by_themselves_are_tried_again() {
    for code in Code::ALL {
        let expected = if is_tried_again(*code) { 4 } else { 1 };
        let failure = Failure::new(*code, "as it is");
        assert_eq!(attempts(&readonly(), failure).await, expected, "{code:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tools_own_error_is_tried_again_only_if_it_says_that_it_passes() {
    // `invalid option: nope-nope` stays wrong, however often it is sent.
    let failure = Failure::tool("LibTmuxException", "tmux error: invalid option: nope-nope");
    assert_eq!(attempts(&readonly(), failure.clone()).await, 1);
    assert_eq!(attempts(&readonly(), failure.transient()).await, 4);

    let error = r#"{"content":[],"isError":true}"#;
    let server = answering(json(error));
    let outcome = testing::call(&chain(Retry::new(config(3))), &readonly(), "{}", &server).await;
    assert_eq!(server.calls(), 1);
    assert_eq!(outcome.result().unwrap().json().as_str(), error);
}

#[tokio::test(start_paused = true)]
async fn only_readonly_calls_are_tried_again() {
    for tier in [Some(Tier::Mutating), Some(Tier::Destructive), None] {
        for failure in [
            Failure::new(Code::ServerUnavailable, "nothing ran, but still"),
            Failure::tool("Busy", "busy").transient(),
        ] {
            assert_eq!(attempts(&tool("t", tier), failure).await, 1, "{tier:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_works_again_is_answered() {
    let server = ScriptedServer::new(|attempt| match attempt {
        0 | 1 => Failure::new(Code::ServerCrashed, "gone").into(),
        _ => ToolResult::text("here").into(),
    });
    let outcome = testing::call(&chain(Retry::new(config(3))), &readonly(), "{}", &server).await;
    assert_eq!(server.calls(), 3);
    assert!(outcome.failure().is_none());
}

#[tokio::test(start_paused = true)]
async fn the_last_failure_is_told() {
    let server = ScriptedServer::new(|attempt| {
        Failure::new(Code::ServerCrashed, format!("attempt {attempt}")).into()
    });
    let outcome = testing::call(&chain(Retry::new(config(2))), &readonly(), "{}", &server).await;
    assert_eq!(outcome.failure().unwrap().message(), "attempt 2");
    for times in [0, 1, 7] {
        let server = failing(Failure::new(Code::ServerCrashed, "gone"));
        testing::call(&chain(Retry::new(config(times))), &readonly(), "{}", &server).await;
        assert_eq!(server.calls(), times as usize + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn each_wait_is_twice_the_last_up_to_the_longest() {
    let begun = Instant::now();
    let server = failing(Failure::new(Code::ServerUnavailable, "down"));
    let layer = chain(Retry::new(RetryConfig {
        times: 6,
        base_delay: Duration::from_millis(100),
        max_delay: Duration::from_secs(1),
        ..RetryConfig::default()
    }));
    testing::call(&layer, &readonly(), "{}", &server).await;
    // 100, 200, 400, 800, and then the longest twice.
    assert_eq!(begun.elapsed().as_millis(), 1500 + 2000);
    let endless = Retry::new(RetryConfig {
        times: u32::MAX,
        base_delay: Duration::MAX,
        max_delay: Duration::MAX,
        ..RetryConfig::default()
    });
    assert_eq!(endless.delay(u32::MAX), Duration::MAX, "and nothing overflows");
}

#[tokio::test(start_paused = true)]
async fn no_wait_and_no_attempt_outlive_the_client() {
    let (begun, mut cx) = (Instant::now(), context());
    let cancel = cx.cancel().clone();
    let server = failing(Failure::new(Code::ServerCrashed, "gone"));
    let slow = chain(Retry::new(RetryConfig {
        times: 3,
        base_delay: Duration::from_secs(100),
        max_delay: Duration::from_secs(100),
        ..RetryConfig::default()
    }));
    let call = Call::new(readonly(), None);
    let client = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(slow.call(&mut cx, call, &server), client);
    assert_eq!(begun.elapsed().as_secs(), 1);
    assert_eq!(server.calls(), 1);
    assert_eq!(outcome.class(), Class::Cancelled);
    assert_eq!(outcome.executed(), Executed::Maybe, "the attempt that failed may have run");
    assert!(matches!(outcome.into_reply(), crate::Reply::Nothing));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_given_up_before_is_not_tried_again() {
    let mut cx = context();
    cx.cancel().cancel();
    let server = failing(Failure::new(Code::ServerUnavailable, "down"));
    let call = Call::new(readonly(), None);
    let outcome = chain(Retry::new(config(3))).call(&mut cx, call, &server).await;
    assert_eq!(server.calls(), 1);
    assert_eq!(outcome.executed(), Executed::No);
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_its_own_time_and_none_follows_one_that_was_too_long() {
    let begun = Instant::now();
    let both = crate::Chain::builder()
        .layer(Retry::new(config(3)))
        .layer(Timeout::new(Duration::from_secs(5)));
    let both = both.build().unwrap();
    let outcome = testing::call(&both, &readonly(), "{}", &HangingServer::default()).await;
    assert_eq!(outcome.class(), Class::TimedOut);
    assert_eq!(begun.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_denied_call_never_comes_here() {
    let both =
        crate::Chain::builder().layer(Safety::new(Tier::Readonly)).layer(Retry::new(config(3)));
    let both = both.build().unwrap();
    let server = failing(Failure::new(Code::ServerUnavailable, "down"));
    testing::call(&both, &tool("kill", Tier::Destructive), "{}", &server).await;
    assert_eq!(server.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn every_attempt_gets_the_same_call() {
    let server = failing(Failure::new(Code::ServerCrashed, "gone"));
    testing::call(&chain(Retry::new(config(2))), &readonly(), r#"{"n":1.0}"#, &server).await;
    assert_eq!(server.seen(), [r#"{"n":1.0}"#; 3]);
}

#[tokio::test(start_paused = true)]
async fn errors_that_the_operator_names_are_tried_again_for_readonly_tools() {
    let layer = || {
        chain(Retry::new(RetryConfig {
            codes: vec![-32000],
            messages: vec!["*Rate Limit*".to_owned(), "timed out?".to_owned()],
            ..config(3)
        }))
    };
    let rejected = |code, message: &str| {
        Failure::rejected(crate::RpcError { code, message: message.to_owned(), data: None })
    };
    for (failure, expected) in [
        (rejected(-32000, "busy"), 4),
        (rejected(-32001, "busy"), 1),
        (rejected(-32603, "the RATE LIMIT of today"), 4),
        (rejected(-32603, "timed out!"), 4),
        (rejected(-32603, "it timed out!"), 1),
        (Failure::tool("Busy", "rate limit"), 4),
        (Failure::new(Code::PolicyDenied, "rate limit"), 1),
        (Failure::new(Code::TimedOut, "rate limit"), 1),
    ] {
        let server = failing(failure.clone());
        testing::call(&layer(), &readonly(), "{}", &server).await;
        assert_eq!(server.calls(), expected, "{failure:?}");
        let server = failing(failure);
        testing::call(&layer(), &tool("write", Tier::Mutating), "{}", &server).await;
        assert_eq!(server.calls(), 1, "only readonly calls are tried again");
    }
    for (result, expected) in [
        (r#"{"content":[{"type":"text","text":"hit the rate limit"}],"isError":true}"#, 4),
        (r#"{"content":[{"type":"text","text":"hit the rate limit"}],"isError":false}"#, 1),
        (r#"{"content":[{"type":"text","text":"no such file"}],"isError":true}"#, 1),
    ] {
        let server = answering(json(result));
        testing::call(&layer(), &readonly(), "{}", &server).await;
        assert_eq!(server.calls(), expected, "{result}");
    }
}
