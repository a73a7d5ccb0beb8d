//! Flags: refuses tools that are disabled for maintenance, and hides them from listings unless `listed` is set.
#![doc = include_str!("README.md")]

mod config;
#[cfg(test)]
mod tests;

pub use config::FlagsConfig;

use crate::{
    authorize::{Authorize, Denial, ToolAccess},
    context::Context,
    failure::Failure,
    layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec},
    middleware::Order,
    registry::Code,
    selector::Selector,
};

/// The layer's name.
pub const NAME: &str = "flags";

/// The declaration of the layer.
#[derive(Debug)]
pub struct FlagsSpec;

impl LayerSpec for FlagsSpec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn why(&self) -> &'static str {
        "refuses disabled tools before the other access checks"
    }

    fn needed_for(&self, inputs: &LayerInputs) -> Option<&'static str> {
        inputs.get::<FlagsConfig>().map(|_| "`[flags]`")
    }

    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        let config = inputs.get::<FlagsConfig>().cloned();
        Ok(BuiltLayer::if_some(config.map(Flags::new), "there is no `[flags]`"))
    }
}

/// Refuses tools that the operator has disabled.
///
/// ```
/// use toolgate::{Code, middleware::flags::{Flags, FlagsConfig}, testing::{self, Harness, assert_denied}};
///
/// let mut config = FlagsConfig::default();
/// config.disabled = vec!["*/drop".parse()?];
/// let harness = Harness::new(Flags::new(config));
/// assert_denied(&testing::run_paused(harness.call("drop", ())), Code::ToolDisabled);
/// # Ok::<(), toolgate::BadSelector>(())
/// ```
#[derive(Clone, Debug)]
pub struct Flags {
    config: FlagsConfig,
}

impl Flags {
    /// Creates the layer with these settings.
    #[must_use]
    pub fn new(config: FlagsConfig) -> Self {
        Self { config }
    }
}

impl Authorize for Flags {
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

    fn order(&self) -> &'static [Order] {
        &[
            Order::Inside(super::error_results::NAME, "refusals are rendered too"),
            Order::Outside(super::retry::NAME, "a refused call must never be tried again"),
        ]
    }

    fn hides(&self) -> bool {
        !self.config.listed
    }

    fn decide(&self, _: &Context, access: &mut ToolAccess<'_>) -> Result<(), Denial> {
        let mut disabled = self.config.disabled.iter();
        let Some(selector) = disabled.find(|selector| selector.covers(access.tool().id())) else {
            return Ok(());
        };
        let message = format!("Tool '{}' is currently disabled for maintenance", access.name());
        Err(Failure::new(Code::ToolDisabled, message)
            .suggest("Use another tool, or call again later.")
            .by(NAME, format!("disabled: {selector}"))
            .into())
    }

    fn allowed_by(&self, _: &Context, _: &ToolAccess<'_>) -> String {
        "not disabled".to_owned()
    }
}
