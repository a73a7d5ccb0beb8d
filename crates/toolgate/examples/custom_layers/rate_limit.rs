//! A layer that counts calls per caller and namespace. (The layer `rate-limit` does more: bursts, quotas, selectors.)

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use toolgate::{
    Call, Code, Context, Failure, Middleware, Principal,
    testing::{Harness, advance, assert_denied},
    transform_request,
};

type Counts = Mutex<HashMap<(Principal, Arc<str>), (Instant, u32)>>;

fn rate_limit(limit: u32, window: Duration) -> impl Middleware {
    let counts = Counts::default();
    transform_request("calls-per-window", move |call: Call, cx: &mut Context| {
        let key = (cx.principal().clone(), Arc::clone(&cx.session().namespace));
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.retain(|_, (start, _)| start.elapsed() < window);
        let (start, count) = counts.entry(key).or_insert((Instant::now(), 0));
        *count += 1;
        let wait = window.saturating_sub(start.elapsed());
        let full = || Failure::new(Code::RateLimited, "rate limit exceeded").retry_after(wait);
        if *count > limit { Err(full()) } else { Ok(call) }
    })
}

/// The third call in a minute is refused with the time to wait, and passes after it.
pub(crate) async fn show() {
    let harness = Harness::new(rate_limit(2, Duration::from_secs(60)));
    for _ in 0..2 {
        assert_eq!(harness.call("search", ()).await.code(), None);
    }
    advance(Duration::from_secs(20)).await;
    let outcome = harness.call("search", ()).await;
    assert_eq!(assert_denied(&outcome, Code::RateLimited).retry_after_seconds(), Some(40));
    advance(Duration::from_secs(40)).await;
    assert_eq!(harness.call("search", ()).await.code(), None);
}
