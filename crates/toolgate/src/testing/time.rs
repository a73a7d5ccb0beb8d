//! Time in tests: it stands still unless every task waits.

use std::{future::Future, time::Duration};

/// Runs a future on a runtime of its own whose clock is paused: while every task waits, time jumps to the next timer,
/// so that a test of an hour takes no time. `#[tokio::test(start_paused = true)]` does the same.
///
/// ```
/// use std::time::Duration;
/// use toolgate::{Code, middleware::timeout::Timeout, testing::{self, Harness}};
///
/// let timeout = Timeout::new(Duration::from_secs(3600));
/// let outcome = testing::run_paused(Harness::new(timeout).hangs().call("slow", ()));
/// assert_eq!(outcome.code(), Some(Code::TimedOut));
/// ```
///
/// # Panics
///
/// If the system refuses a runtime, or the future panics.
pub fn run_paused<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("the system gives a runtime")
        .block_on(future)
}

/// Moves the paused clock on.
///
/// # Panics
///
/// If the clock is not paused.
pub async fn advance(duration: Duration) {
    tokio::time::advance(duration).await;
}
