//! Flags: tools that are disabled for maintenance are refused, and hidden unless set otherwise.
#![doc = include_str!("README.md")]

mod config;
#[cfg(test)]
mod tests;

pub use config::FlagsConfig;

use crate::{
    call::{Call, Listing, ToolList},
    context::Context,
    failure::Failure,
    identity::ToolId,
    layer::Next,
    middleware::{Explained, Hooks, Middleware, Order},
    outcome::Outcome,
    registry::Code,
    selector::Selector,
};

/// The layer's name.
pub const NAME: &str = "flags";

/// Refuses tools that are disabled for a while.
#[derive(Clone, Debug)]
pub struct Flags {
    config: FlagsConfig,
}

impl Flags {
    /// With these settings.
    #[must_use]
    pub fn new(config: FlagsConfig) -> Self {
        Self { config }
    }

    /// The one decision, for listings and calls alike: the selector that disables the tool.
    fn disabled_by(&self, tool: &ToolId) -> Option<&Selector> {
        self.config.disabled.iter().find(|selector| selector.covers(tool))
    }

    fn check(&self, call: &Call) -> Result<(), Failure> {
        let Some(selector) = self.disabled_by(call.id()) else {
            return Ok(());
        };
        // The caller is told the name that it used.
        let name = call.wire_name().map_or_else(|| call.id().name(), AsRef::as_ref);
        let message = format!("Tool '{name}' is currently disabled for maintenance");
        Err(Failure::new(Code::ToolDisabled, message)
            .suggest("Use another tool, or call again later.")
            .by(NAME, format!("disabled: {selector}")))
    }
}

impl Middleware for Flags {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe(&self) -> String {
        let disabled: Vec<String> = self.config.disabled.iter().map(Selector::to_string).collect();
        let listed = if self.config.listed { "still listed" } else { "hidden" };
        match disabled.as_slice() {
            [] => "nothing is disabled".to_owned(),
            names => format!("disabled and {listed}: {}", names.join(", ")),
        }
    }

    fn hooks(&self) -> Hooks {
        if self.config.listed { Hooks::CALL } else { Hooks::TOOLS }
    }

    fn order(&self) -> &'static [Order] {
        &[
            Order::Inside(super::error_results::NAME, "refusals are rendered too"),
            Order::Outside(super::retry::NAME, "a refused call must never be tried again"),
        ]
    }

    fn explain(&self, _: &Context, call: &Call) -> Option<Explained> {
        Some(Explained::of(&self.check(call), "not disabled"))
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        match self.check(&call) {
            Ok(()) => next.call(cx, call).await,
            Err(refusal) => refusal.into(),
        }
    }

    async fn list(
        &self,
        cx: &mut Context,
        listing: Listing,
        next: Next<'_>,
    ) -> Result<ToolList, Failure> {
        let mut list = next.list(cx, listing).await?;
        list.retain(|tool| self.disabled_by(tool.id()).is_none());
        Ok(list)
    }
}
