//! A layer that adds a member to `_meta` of every result.

use toolgate::{
    Call, Context, Middleware, Outcome, Timestamp,
    testing::{Harness, result_value},
    transform_response,
};

fn stamp_result() -> impl Middleware {
    transform_response("stamp-result", |outcome: Outcome, _: &Call, _: &mut Context| {
        outcome.insert_meta("processedAt", Timestamp::now().to_string())
    })
}

/// The client gets the time, and the content stays.
pub(crate) async fn show() {
    let result = result_value(&Harness::new(stamp_result()).call("list", ()).await);
    assert!(result["_meta"]["processedAt"].as_str().unwrap().ends_with('Z'));
    assert_eq!(result["content"][0]["text"], "ok");
}
