//! Breaker: opens after failures, lets one call through after the wait, closes when that goes well.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use super::*;
use crate::{
    Chain, Executed, ToolResult,
    testing::{self, HangingServer, ScriptedServer, json, tool},
};

/// A server that fails while it is told to, and counts its calls.
struct Flaky {
    fails: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
    chain: Chain,
}

impl Flaky {
    fn new(config: BreakerConfig) -> Self {
        let chain = testing::chain(Breaker::new(config, Circuits::default()).unwrap());
        Self { fails: Arc::new(AtomicBool::new(true)), calls: Arc::default(), chain }
    }

    async fn call_by(&self, name: &str, code: Code) -> Outcome {
        let (fails, calls) = (Arc::clone(&self.fails), Arc::clone(&self.calls));
        let server = ScriptedServer::new(move |_| {
            calls.fetch_add(1, Relaxed);
            if fails.load(Relaxed) {
                Outcome::failed(Failure::new(code, "gone"))
            } else {
                Outcome::answered(ToolResult::new(json("{}")))
            }
        });
        testing::call(&self.chain, &tool(name, None), "{}", &server).await
    }

    async fn call(&self) -> Outcome {
        self.call_by("t", Code::ServerUnavailable).await
    }
}

fn three() -> BreakerConfig {
    BreakerConfig { failures: 3, ..BreakerConfig::default() }
}

#[tokio::test(start_paused = true)]
async fn it_opens_waits_tries_once_and_closes() {
    let flaky = Flaky::new(three());
    for _ in 0..3 {
        assert_eq!(flaky.call().await.code(), Some(Code::ServerUnavailable));
    }
    tokio::time::advance(Duration::from_secs(2)).await;
    let refused = flaky.call().await;
    assert_eq!((refused.code(), refused.executed()), (Some(Code::CircuitOpen), Executed::No));
    let failure = refused.failure().unwrap();
    assert_eq!(
        failure.message(),
        "The server `main` is not called: 3 calls in a row failed; it is tried again in 8s"
    );
    assert_eq!(failure.rule(), Some("breaker: 3 calls in a row failed"));
    assert_eq!(flaky.calls.load(Relaxed), 3, "the server is left alone");
    // The trial fails: twice as long.
    tokio::time::advance(Duration::from_secs(8)).await;
    assert_eq!(flaky.call().await.code(), Some(Code::ServerUnavailable));
    tokio::time::advance(Duration::from_secs(19)).await;
    assert_eq!(flaky.call().await.code(), Some(Code::CircuitOpen));
    tokio::time::advance(Duration::from_secs(1)).await;
    flaky.fails.store(false, Relaxed);
    assert_eq!(flaky.call().await.class(), Class::Ok);
    // All is forgotten.
    flaky.fails.store(true, Relaxed);
    for _ in 0..3 {
        assert_eq!(flaky.call().await.code(), Some(Code::ServerUnavailable));
    }
    assert_eq!(flaky.call().await.code(), Some(Code::CircuitOpen));
}

#[tokio::test(start_paused = true)]
async fn answers_and_what_says_nothing_do_not_open_it() {
    let flaky = Flaky::new(three());
    for code in
        [Code::ToolFailed, Code::ServerRejected, Code::Refused, Code::Overloaded, Code::Cancelled]
    {
        for _ in 0..5 {
            assert_eq!(flaky.call_by("t", code).await.code(), Some(code));
        }
    }
    // Two failures, then an answer, as often as you like.
    for _ in 0..5 {
        flaky.fails.store(true, Relaxed);
        flaky.call().await;
        flaky.call_by("t", Code::TimedOut).await;
        flaky.fails.store(false, Relaxed);
        assert_eq!(flaky.call().await.class(), Class::Ok);
    }
}

#[tokio::test(start_paused = true)]
async fn a_share_of_the_last_calls_opens_it_too() {
    let config = BreakerConfig { failures: 100, share: 0.5, of: 4, ..three() };
    let flaky = Flaky::new(config);
    for fails in [true, false, false] {
        flaky.fails.store(fails, Relaxed);
        assert_ne!(flaky.call().await.code(), Some(Code::CircuitOpen));
    }
    flaky.fails.store(true, Relaxed);
    flaky.call().await;
    let refused = flaky.call().await;
    let message = refused.failure().unwrap().message().to_owned();
    assert!(message.contains("2 of the last 4 calls failed"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn one_call_tries_and_one_that_is_given_up_leaves_the_trial_to_the_next() {
    let flaky = Flaky::new(BreakerConfig { failures: 1, ..three() });
    flaky.call().await;
    tokio::time::advance(Duration::from_secs(10)).await;
    let hanging = HangingServer::default();
    let tool = tool("t", None);
    {
        let mut trial = std::pin::pin!(testing::call(&flaky.chain, &tool, "{}", &hanging));
        assert!(futures_poll(trial.as_mut()).await, "it hangs");
        assert_eq!(flaky.call().await.code(), Some(Code::CircuitOpen), "one is enough");
    }
    flaky.fails.store(false, Relaxed);
    assert_eq!(flaky.call().await.class(), Class::Ok);
}

/// Whether a future is still under way after it was polled once.
async fn futures_poll<F: Future + ?Sized>(future: std::pin::Pin<&mut F>) -> bool {
    tokio::time::timeout(Duration::from_millis(1), future).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn tools_can_be_counted_one_by_one() {
    let flaky = Flaky::new(BreakerConfig { per: BreakerScope::Tool, failures: 1, ..three() });
    flaky.call().await;
    let refused = flaky.call().await;
    assert!(refused.failure().unwrap().message().starts_with("The tool `t` of the server `main`"));
    assert_eq!(flaky.call_by("other", Code::ToolFailed).await.code(), Some(Code::ToolFailed));
}

/// A call of one principal that ends so.
async fn call_of(chain: &Chain, principal: &str, code: Option<Code>) -> Outcome {
    let session = crate::Session {
        principal: Principal::Key(principal.into()),
        ..crate::Session::clone(testing::context().session())
    };
    let server = ScriptedServer::new(move |_| match code {
        Some(code) => Outcome::failed(Failure::new(code, "slow")),
        None => Outcome::answered(ToolResult::new(json("{}"))),
    });
    let mut cx = Context::new(session.into());
    chain.call(&mut cx, Call::new(tool("t", None), None), &server).await
}

/// [review 14] The slow calls of one principal opened the circuit for everybody.
#[tokio::test(start_paused = true)]
async fn one_principals_failures_open_its_own_circuit_only() {
    let chain = testing::chain(Breaker::new(three(), Circuits::default()).unwrap());
    for code in [Code::TimedOut, Code::ServerProtocol, Code::ServerCrashed] {
        call_of(&chain, "mallory", Some(code)).await;
    }
    assert_eq!(call_of(&chain, "mallory", None).await.code(), Some(Code::CircuitOpen));
    assert_eq!(call_of(&chain, "alice", None).await.class(), Class::Ok);
    // The server is really away: alice finds out by herself, and from then on nobody else has to.
    for _ in 0..3 {
        call_of(&chain, "alice", Some(Code::ServerUnavailable)).await;
    }
    let refused = call_of(&chain, "bob", None).await;
    assert_eq!(refused.code(), Some(Code::CircuitOpen));
    let rule = refused.failure().unwrap().rule().unwrap().to_owned();
    assert_eq!(rule, "breaker: calls of 2 principals keep failing");
    // After the wait anybody finds out.
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(call_of(&chain, "bob", None).await.class(), Class::Ok);
    assert_eq!(call_of(&chain, "alice", None).await.class(), Class::Ok, "the trial");
}

/// [review 14] A client that cannot be asked opened the circuit for everybody.
#[tokio::test(start_paused = true)]
async fn what_a_client_lacks_does_not_count() {
    let chain = testing::chain(Breaker::new(three(), Circuits::default()).unwrap());
    let codes =
        [Code::ClientIncapable, Code::InvalidArguments, Code::Cancelled, Code::ControlTooLarge];
    for code in codes.into_iter().cycle().take(12) {
        assert_eq!(call_of(&chain, "mallory", Some(code)).await.code(), Some(code));
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let plain = BreakerConfig::default;
    for (config, why) in [
        (BreakerConfig { failures: 0, ..plain() }, BadBreaker::Failures),
        (BreakerConfig { share: 0.0, ..plain() }, BadBreaker::Share),
        (BreakerConfig { share: f64::NAN, ..plain() }, BadBreaker::Share),
        (BreakerConfig { of: 65, ..plain() }, BadBreaker::Of),
        (BreakerConfig { wait: Duration::from_hours(1), ..plain() }, BadBreaker::Wait),
    ] {
        assert_eq!(Breaker::new(config, Circuits::default()).err(), Some(why));
    }
}
