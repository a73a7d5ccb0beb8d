//! Overrides: tools under other names, titles, descriptions and annotations, with arguments filled in.
#![doc = include_str!("README.md")]

mod config;
mod current;
mod map;
mod replace;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub(crate) use config::values;
pub use config::{Original, OverrideConfig};
pub use current::CurrentOverrides;
pub use map::{Collision, OverrideError, Overrides, Resolved};

use crate::{
    call::{Call, Listing, ToolList},
    context::Context,
    failure::Failure,
    layer::Next,
    layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec},
    middleware::{Explained, Hooks, Middleware, Order},
    outcome::Outcome,
    tool::Tool,
};

/// The layer's name.
pub const NAME: &str = "overrides";

/// The declaration of the layer.
#[derive(Debug)]
pub struct OverridesSpec;

impl LayerSpec for OverridesSpec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn why(&self) -> &'static str {
        "whatever decides sees the arguments that the tool gets"
    }

    fn needed_for(&self, inputs: &LayerInputs) -> Option<&'static str> {
        inputs.get::<CurrentOverrides>().map(|_| "a change of a tool")
    }

    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        let overrides = inputs.get::<CurrentOverrides>().cloned();
        Ok(BuiltLayer::if_some(overrides.map(OverrideTools::new), "no tool is changed"))
    }
}

/// Shows tools as the overrides say, and fills in the arguments of their calls.
///
/// Names are resolved by the door, before the chain: what is called here is already known by identity.
#[derive(Clone, Debug)]
pub struct OverrideTools {
    current: CurrentOverrides,
}

impl OverrideTools {
    /// Shows what these overrides say, as they hold at the time.
    #[must_use]
    pub fn new(current: CurrentOverrides) -> Self {
        Self { current }
    }
}

impl Middleware for OverrideTools {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe(&self) -> String {
        let set = self.current.configured();
        format!("{} tools, {} of them renamed", set.iter().count(), set.renames())
    }

    fn hooks(&self) -> Hooks {
        Hooks::TOOLS
    }

    fn order(&self) -> &'static [Order] {
        const FINAL: &str = "it decides on the arguments that the tool gets";
        const SENT: &str = "what is refused is recorded, with what the caller sent";
        const ALWAYS: &[Order] = &[
            Order::Inside(super::error_results::NAME, "refusals are rendered too"),
            Order::Inside(super::log::NAME, SENT),
            Order::Outside(super::validate::NAME, FINAL),
            Order::Outside(super::preconditions::NAME, FINAL),
            Order::Outside(super::retry::NAME, "arguments are filled in once"),
        ];
        // Names decide nothing: only where arguments are filled in it matters who sees them.
        const ARGUMENTS: &[Order] = &[
            Order::Inside(super::error_results::NAME, "refusals are rendered too"),
            Order::Inside(super::log::NAME, SENT),
            Order::Outside(super::validate::NAME, FINAL),
            Order::Outside(super::policy::NAME, FINAL),
            Order::Outside(super::preconditions::NAME, FINAL),
            Order::Outside(super::retry::NAME, "arguments are filled in once"),
        ];
        if self.current.configured().changes_arguments() { ARGUMENTS } else { ALWAYS }
    }

    /// A new name may be another tool's own: only the listing tells.
    fn needs_tools(&self) -> bool {
        self.current.configured().renames() > 0
    }

    fn explain(&self, _: &Context, call: &Call) -> Option<Explained> {
        let replacement = self.current.configured().of(call.id())?;
        let decides = replacement.hides_arguments();
        decides.then(|| Explained::of(&replacement.check(call), "no hidden argument is sent"))
    }

    async fn call(&self, cx: &mut Context, mut call: Call, next: Next<'_>) -> Outcome {
        // Arguments are as they were set: only names depend on what is listed.
        if let Some(replacement) = self.current.configured().of(call.id()) {
            match replacement.arguments(&call) {
                Ok(None) => {}
                Ok(Some(arguments)) => call.set_arguments(arguments),
                Err(refusal) => return refusal.into(),
            }
        }
        next.call(cx, call).await
    }

    async fn list(
        &self,
        cx: &mut Context,
        listing: Listing,
        next: Next<'_>,
    ) -> Result<ToolList, Failure> {
        let mut list = next.list(cx, listing).await?;
        let current = self.current.get();
        let mut changed = false;
        let shown = list.tools().iter().map(|tool| match published(tool, &current) {
            Some(tool) => {
                changed = true;
                Arc::new(tool)
            }
            None => Arc::clone(tool),
        });
        let shown = shown.collect();
        if changed {
            list.set_tools(shown);
        }
        Ok(list)
    }
}

/// The tool as clients see it; `None` if that is as its server published it.
fn published(tool: &Tool, overrides: &Overrides) -> Option<Tool> {
    let replacement = overrides.of(tool.id())?;
    let new_name = overrides.new_name(tool.id());
    Some(tool.published(replacement.definition(tool.definition()?, new_name)?))
}
