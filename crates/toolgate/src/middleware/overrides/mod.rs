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
pub use map::{Collision, OverrideError, Overrides, ResolvedName};

use crate::{
    call::{Call, Listing, ToolList},
    context::Context,
    failure::Failure,
    layer::Next,
    layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec},
    middleware::{Explanation, Hooks, Middleware, Order},
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
        "sets arguments before other layers decide on them"
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
/// The gateway resolves the names of tools before the chain runs, so that calls arrive here with the identity of the
/// tool.
#[derive(Clone, Debug)]
pub struct OverrideTools {
    current: CurrentOverrides,
}

impl OverrideTools {
    /// Creates the layer. Each listing reads the current overrides.
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
        const FINAL: &str = "a decision needs the arguments that the tool receives";
        const SENT: &str = "refused calls are recorded with the arguments that the caller sent";
        const ALWAYS: &[Order] = &[
            Order::Inside(super::error_results::NAME, "refusals are rendered too"),
            Order::Inside(super::log::NAME, SENT),
            Order::Outside(super::validate::NAME, FINAL),
            Order::Outside(super::preconditions::NAME, FINAL),
            Order::Outside(super::retry::NAME, "arguments are filled in once"),
        ];
        // Overrides of names do not affect decisions. Overrides of arguments do, so they must come before `policy`.
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

    /// A new name may collide with the name of another tool, which only the listing shows.
    fn needs_tools(&self) -> bool {
        self.current.configured().renames() > 0
    }

    fn explain(&self, _: &Context, call: &Call) -> Option<Explanation> {
        let replacement = self.current.configured().of(call.id())?;
        let decides = replacement.hides_arguments();
        decides.then(|| Explanation::of(&replacement.check(call), "no hidden argument is sent"))
    }

    async fn call(&self, cx: &mut Context, mut call: Call, next: Next<'_>) -> Outcome {
        // The configured overrides are enough: only the names depend on the listed tools.
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

/// The tool as clients see it. `None` if no override changes what its server published.
fn published(tool: &Tool, overrides: &Overrides) -> Option<Tool> {
    let replacement = overrides.of(tool.id())?;
    let new_name = overrides.new_name(tool.id());
    Some(tool.published(replacement.definition(tool.definition()?, new_name)?))
}
