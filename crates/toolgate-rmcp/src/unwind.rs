//! Panics of a tool: caught where it runs, so that its client gets an answer.
//!
//! rmcp runs each request in a task of its own. A panic there leaves the connection up and the
//! request without any answer, and its client waits for ever.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
};

/// The future panicked. What it said is on stderr, by the panic hook.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Panicked;

/// Runs a future to its end, or to its panic.
///
/// In the same task, because rmcp links requests to the client (elicitation, sampling) to the call
/// that they belong to by the task that makes them.
pub(crate) async fn caught<F: Future>(future: F) -> Result<F::Output, Panicked> {
    let mut future = pin!(future);
    poll_fn(move |task| {
        // A future that panicked is dropped and never polled again, so nobody sees it half done.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(task))) {
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(_payload) => Poll::Ready(Err(Panicked)),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_answer_also_after_a_pause() {
        assert_eq!(caught(async { 7 }).await, Ok(7));
        let late: Result<(), _> = caught(async {
            tokio::task::yield_now().await;
            panic!("expected in this test")
        })
        .await;
        assert_eq!(late, Err(Panicked));
    }
}
