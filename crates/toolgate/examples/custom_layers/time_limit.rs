//! A layer that ends calls that take too long. Dropping the rest of the chain cancels the call at its server.

use std::time::Duration;

use toolgate::{Code, Failure, Middleware, from_fn_with, testing::Harness};

fn time_limit(limit: Duration) -> impl Middleware {
    from_fn_with("time-limit", limit, async |limit, cx, call, next| {
        let late = |_| Failure::new(Code::TimedOut, format!("the tool took longer than {limit:?}"));
        tokio::time::timeout(*limit, next.call(cx, call)).await.map_err(late)
    })
}

/// A call that hangs ends, and one that answers passes.
pub(crate) async fn show() {
    let limit = || time_limit(Duration::from_secs(30));
    let outcome = Harness::new(limit()).hangs().call("sleep", ()).await;
    assert_eq!(outcome.failure().unwrap().message(), "the tool took longer than 30s");
    assert_eq!(Harness::new(limit()).call("echo", ()).await.code(), None);
}
