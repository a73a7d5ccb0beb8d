//! A layer that adds an argument to every call.

use serde_json::json;
use toolgate::{Call, Context, Middleware, testing::Harness, transform_request};

fn inject_argument() -> impl Middleware {
    transform_request("inject-argument", |mut call: Call, _: &mut Context| {
        call.insert_arg("injectedParam", "value")?;
        Ok(call)
    })
}

/// The tool gets the argument, and other arguments stay.
pub(crate) async fn show() {
    let harness = Harness::new(inject_argument());
    harness.call("list", json!({"path": "."})).await;
    assert_eq!(harness.seen(), [json!({"path": ".", "injectedParam": "value"})]);
}
