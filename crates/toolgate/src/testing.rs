//! Tests of layers and chains without a server: scripted tools, callers, paused time, and assertions.
//!
//! [`Harness`] runs one layer, or a whole chain, against tools that answer as the test says. It shows what the tools
//! received, and [`Harness::assert_agreement`] checks that a layer's listing, its calls and its explanations tell the
//! same story about every tool.
//!
//! ```
//! use serde_json::json;
//! use toolgate::{
//!     Call, Code, Context, Failure, Middleware, Next, Outcome, Tier,
//!     testing::{self, Harness, assert_denied, tool},
//! };
//!
//! struct OfficeHours(fn() -> bool);
//!
//! impl Middleware for OfficeHours {
//!     fn name(&self) -> &'static str { "office-hours" }
//!
//!     async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
//!         if !(self.0)() {
//!             return Failure::new(Code::Refused, "the office is closed").into();
//!         }
//!         next.call(cx, call).await
//!     }
//! }
//!
//! testing::run_paused(async {
//!     let open = Harness::new(OfficeHours(|| true)).tool(tool("stock", Tier::Readonly));
//!     assert_eq!(testing::text(&open.call("stock", json!({"sku": "a"})).await), "ok");
//!     assert_eq!(open.seen(), [json!({"sku": "a"})]);
//!
//!     let closed = Harness::new(OfficeHours(|| false));
//!     assert_denied(&closed.call("stock", json!({})).await, Code::Refused);
//!     assert_eq!(closed.seen().len(), 0);
//! });
//! ```
//!
//! Everything here panics where a test would fail, so it stands behind the feature `testing`, which belongs into
//! `[dev-dependencies]`.
#![expect(clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod agreement;
mod assertions;
mod captured_log;
mod harness;
mod server;
mod time;

use std::sync::Arc;

use toolgate_wire::{Json, Limits};

pub use assertions::{assert_denied, result_value, text};
pub use captured_log::CapturedLog;
pub use harness::Harness;
pub use server::{HangingServer, ScriptedServer, answering, failing};
pub use time::{advance, run_paused};

use crate::{
    Call, Chain, ClientInfo, Context, Endpoint, Middleware, Outcome, Principal, Session, Tier,
    TierRules, Tool, ToolId,
};

/// JSON from its text.
///
/// # Panics
///
/// If the text is no JSON.
#[must_use]
pub fn json(text: impl Into<String>) -> Json {
    Json::parse(text.into(), &Limits::default()).expect("the text is JSON")
}

/// The session `s-1` of the local user `me` in the namespace `default`.
#[must_use]
pub fn session() -> Arc<Session> {
    Arc::new(Session {
        id: "s-1".into(),
        namespace: "default".into(),
        principal: Principal::Local("me".into()),
    })
}

/// A context for one new call of [`session`].
#[must_use]
pub fn context() -> Context {
    Context::new(session())
}

/// A client's name and version, for [`Context::with_client`].
#[must_use]
pub fn client(name: &str, version: &str) -> Option<Arc<ClientInfo>> {
    Some(Arc::new(ClientInfo { name: name.to_owned(), version: Some(version.to_owned()) }))
}

/// The tool `main/NAME` of this tier; `None` for a tool that does not say what it does.
///
/// ```
/// use toolgate::{Tier, testing::tool};
///
/// assert_eq!(tool("stock", Tier::Readonly).id().to_string(), "main/stock");
/// assert_eq!(tool("unknown", None).tier(), None);
/// ```
#[must_use]
pub fn tool(name: &str, tier: impl Into<Option<Tier>>) -> Arc<Tool> {
    defined_tool(name, tier.into(), &format!("{{\"name\":{name:?}}}"))
}

/// The tool `main/NAME` of this tier, with the definition that its server lists, as JSON text.
///
/// # Panics
///
/// If the definition is no JSON.
#[must_use]
pub fn defined_tool(name: &str, tier: Option<Tier>, definition: &str) -> Arc<Tool> {
    let id = ToolId::new("main", name);
    let rule = tier.map(|tier| (id.to_string().parse().expect("a tool's name selects it"), tier));
    let rules = TierRules::new(rule.into_iter().collect(), true);
    Arc::new(Tool::listed(id, json(definition), &rules))
}

/// The chain of one layer.
///
/// # Panics
///
/// If the layer is refused, with the reason.
#[must_use]
pub fn chain(layer: impl Middleware) -> Chain {
    match Chain::builder().layer(layer).build() {
        Ok(chain) => chain,
        Err(error) => panic!("{error}"),
    }
}

/// Calls `tool` through `chain`, with arguments as JSON text. [`Harness::call`] is shorter where the arguments' bytes do
/// not matter.
pub async fn call(chain: &Chain, tool: &Arc<Tool>, arguments: &str, end: &dyn Endpoint) -> Outcome {
    let call = Call::new(Arc::clone(tool), Some(json(arguments)));
    chain.call(&mut context(), call, end).await
}

#[cfg(test)]
mod tests;
