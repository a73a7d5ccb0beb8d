//! Catches the panic of a tool, so that its client gets a response.
//!
//! rmcp runs each request in a task of its own. After a panic there, the connection stays open, the request gets no
//! response, and the client waits forever.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    task::Poll,
};

/// The future has panicked. The panic hook has written the message to stderr.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PanicError;

/// Runs a future until it completes or panics.
///
/// In the same task, because rmcp uses the task to associate requests to the client (elicitation, sampling) with the
/// call that they belong to.
pub(crate) async fn catch_panic<F: Future>(future: F) -> Result<F::Output, PanicError> {
    let mut future = pin!(future);
    poll_fn(move |task| {
        // A future that has panicked is dropped and not polled again, so its inconsistent state is never seen.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(task))) {
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(_payload) => Poll::Ready(Err(PanicError)),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_answer_also_after_a_pause() {
        assert_eq!(catch_panic(async { 7 }).await, Ok(7));
        let late: Result<(), _> = catch_panic(async {
            tokio::task::yield_now().await;
            panic!("expected in this test")
        })
        .await;
        assert_eq!(late, Err(PanicError));
    }
}
