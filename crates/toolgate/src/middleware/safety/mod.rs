//! Safety: tools above the allowed tier are hidden from listings and refused when called.
#![doc = include_str!("README.md")]

#[cfg(test)]
mod tests;

use crate::{
    call::{Call, Listing, ToolList},
    context::Context,
    failure::Failure,
    layer::Next,
    middleware::{Explained, Hooks, Middleware, Order},
    outcome::Outcome,
    registry::Code,
    tier::Tier,
    tool::Tool,
};

/// The layer's name.
pub const NAME: &str = "safety";

/// Lets pass what is at or below one tier.
#[derive(Clone, Copy, Debug)]
pub struct Safety {
    allowed: Tier,
    variable: Option<&'static str>,
}

impl Safety {
    /// Allows tools up to and including this tier.
    #[must_use]
    pub fn new(allowed: Tier) -> Self {
        Self { allowed, variable: None }
    }

    /// In the words of a system where this variable sets the tier.
    #[must_use]
    pub fn set_by(mut self, variable: &'static str) -> Self {
        self.variable = Some(variable);
        self
    }

    /// What a denial says: what is wrong, and what would enable the tool.
    fn words(self, tool: &Tool, tier: Tier) -> (String, String) {
        let (name, allowed) = (tool.id().name(), self.allowed);
        match self.variable {
            Some(variable) => (
                format!("Tool '{name}' is not available at the current safety level."),
                format!("Set {variable}={tier} to enable {tier} tools."),
            ),
            None => (
                format!(
                    "Tool '{name}' is not available at the current safety level: it is {tier}, and \
                     the level is {allowed}."
                ),
                format!(
                    "Only the operator can allow it, with safety = \"{tier}\" (or --safety {tier})."
                ),
            ),
        }
    }

    /// The one decision, for listings and calls alike.
    fn decide(self, tool: &Tool, namespace: &str) -> Result<(), Failure> {
        let allowed = self.allowed;
        match tool.tier() {
            Some(tier) if tier <= allowed => Ok(()),
            Some(tier) => {
                let (message, next) = self.words(tool, tier);
                Err(Failure::new(Code::TierDenied, message)
                    .suggest(next)
                    .by(NAME, format!("{tier} > {allowed}")))
            }
            None if tool.definition().is_none() => {
                let message = format!("Unknown tool: '{}'", tool.id().name());
                Err(Failure::new(Code::UnknownTool, message)
                    .suggest("Call tools/list for available tools.")
                    .by(NAME, "not listed"))
            }
            None => {
                let message = format!(
                    "Tool '{}' is not available at the current safety level: nobody says which \
                     tier it has, and the level is {allowed}.",
                    tool.id().name()
                );
                Err(Failure::new(Code::TierUnknown, message)
                    .suggest(format!(
                        "Only the operator can give it one: [namespaces.{namespace}.tools.{:?}] tier = \
                         \"readonly\", \"mutating\" or \"destructive\".",
                        tool.id().to_string()
                    ))
                    .by(NAME, "tier unknown"))
            }
        }
    }
}

impl Middleware for Safety {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe(&self) -> String {
        format!("up to {}; a tool without a tier is denied", self.allowed)
    }

    fn hooks(&self) -> Hooks {
        Hooks::TOOLS
    }

    fn order(&self) -> &'static [Order] {
        &[Order::Outside(super::timeout::NAME, "a denial takes no time")]
    }

    fn needs_tools(&self) -> bool {
        true
    }

    fn explain(&self, cx: &Context, call: &Call) -> Option<Explained> {
        let decision = self.decide(call.tool(), &cx.session().namespace);
        Some(Explained::of(&decision, &format!("at or below {}", self.allowed)))
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        match self.decide(call.tool(), &cx.session().namespace) {
            Ok(()) => next.call(cx, call).await,
            Err(denial) => denial.into(),
        }
    }

    async fn list(
        &self,
        cx: &mut Context,
        listing: Listing,
        next: Next<'_>,
    ) -> Result<ToolList, Failure> {
        let mut list = next.list(cx, listing).await?;
        let namespace = &cx.session().namespace;
        list.retain(|tool| self.decide(tool, namespace).is_ok());
        Ok(list)
    }
}
