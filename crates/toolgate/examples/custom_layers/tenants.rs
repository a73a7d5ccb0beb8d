//! A fifth layer between the built-in ones: calls per tenant, counted where a call is valid and permitted, and before
//! anything records that it is about to run.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use serde_json::json;
use toolgate::{
    Call, Code, Context, Failure, Middleware,
    settings::Settings,
    stack::{self, Parts, Stack, StackError},
    testing::{Harness, assert_denied},
    transform_request,
};

fn tenants(limit: u32) -> impl Middleware {
    let counts = Mutex::new(HashMap::<String, u32>::new());
    transform_request("tenants", move |call: Call, cx: &mut Context| {
        let tenant: String = cx.claim("tenant").ok_or_else(|| Failure::refused("no tenant"))?;
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(tenant).or_default();
        *count += 1;
        let used_up = || Failure::new(Code::QuotaExceeded, format!("{limit} calls are used up"));
        if *count > limit { Err(used_up()) } else { Ok(call) }
    })
}

fn configured() -> Result<Stack, StackError> {
    let (settings, parts) = (Settings::default(), Parts::default());
    stack::builder(&settings, parts)?.before("audit-intent", tenants(1)).build()
}

/// Each tenant has its own count.
pub(crate) async fn show() {
    let chain = configured().unwrap().chain;
    let harness = |name| Harness::of(chain.clone()).claims(json!({"tenant": name}));
    let (red, blue) = (harness("red"), harness("blue"));
    assert_eq!(red.call("read", ()).await.code(), None);
    assert_denied(&red.call("read", ()).await, Code::QuotaExceeded);
    assert_eq!(blue.call("read", ()).await.code(), None);
}
