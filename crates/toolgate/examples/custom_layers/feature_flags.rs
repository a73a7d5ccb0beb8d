//! A layer that switches tools off. One decision serves calls, listings and explanations.

use std::collections::HashSet;

use toolgate::{
    Code, Context, Failure, Middleware, Tier, ToolAccess, gate,
    testing::{Harness, assert_denied, tool},
};

fn feature_flags(disabled: HashSet<String>) -> impl Middleware {
    gate("feature-flags", move |_: &Context, access: &ToolAccess<'_>| {
        let name = access.tool().id().name();
        let message = || format!("tool `{name}` is disabled for maintenance");
        let failure = || Failure::new(Code::ToolDisabled, message());
        if disabled.contains(name) { Err(failure()) } else { Ok(()) }
    })
}

/// A disabled tool is neither listed nor called.
pub(crate) async fn show() {
    let disabled = HashSet::from(["dangerous_tool".to_owned(), "deprecated_tool".to_owned()]);
    let harness = Harness::new(feature_flags(disabled))
        .tools(["dangerous_tool", "read"].map(|name| tool(name, Tier::Readonly)));
    assert_eq!(harness.list().await.unwrap(), ["read"]);
    assert_denied(&harness.call("dangerous_tool", ()).await, Code::ToolDisabled);
    harness.assert_agreement().await;
}
