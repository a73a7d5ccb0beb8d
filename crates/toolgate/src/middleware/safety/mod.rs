//! Safety: hides tools above the allowed tier from listings, and refuses calls of them.
#![doc = include_str!("README.md")]

#[cfg(test)]
mod tests;

use crate::{
    authorize::{Authorize, Denial, ToolAccess},
    context::Context,
    failure::Failure,
    layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec},
    middleware::Order,
    preset::Preset,
    registry::Code,
    tier::Tier,
    tool::Tool,
};

/// The layer's name.
pub const NAME: &str = "safety";

/// The setting `safety`: the highest tier that is allowed.
#[derive(Clone, Copy, Debug)]
pub struct HighestTier(pub Tier);

/// The declaration of the layer.
#[derive(Debug)]
pub struct SafetySpec;

impl LayerSpec for SafetySpec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn why(&self) -> &'static str {
        "the layers inside of it do no work for a denied call"
    }

    fn needed_for(&self, inputs: &LayerInputs) -> Option<&'static str> {
        inputs.get::<HighestTier>().map(|_| "`safety`")
    }

    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        let Some(HighestTier(tier)) = inputs.get() else {
            return Ok(BuiltLayer::off("no `safety` tier is set"));
        };
        Ok(BuiltLayer::on(match inputs.get::<Preset>() {
            Some(Preset::Libtmux) => Safety::new(*tier).set_by("LIBTMUX_SAFETY"),
            _ => Safety::new(*tier),
        }))
    }
}

/// Allows tools at or below one tier.
///
/// ```
/// use toolgate::{Tier, middleware::safety::Safety, testing::{self, Harness, tool}};
///
/// let harness = Harness::new(Safety::new(Tier::Readonly))
///     .tools([tool("read", Tier::Readonly), tool("drop", Tier::Destructive)]);
/// assert_eq!(testing::run_paused(harness.list()).unwrap(), ["read"]);
/// ```
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

    /// Sets the environment variable that denials name as the setting of the tier, for presets.
    #[must_use]
    pub fn set_by(mut self, variable: &'static str) -> Self {
        self.variable = Some(variable);
        self
    }

    /// The message of a denial, and its suggestion.
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

    /// Decides whether the tool's tier is allowed.
    fn check(self, tool: &Tool, namespace: &str) -> Result<(), Failure> {
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
                    "Tool '{}' is not available at the current safety level: it has no \
                     tier, and the level is {allowed}.",
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

impl Authorize for Safety {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe(&self) -> String {
        format!("up to {}; a tool without a tier is denied", self.allowed)
    }

    fn order(&self) -> &'static [Order] {
        &[Order::Outside(super::timeout::NAME, "a denied call needs no timeout")]
    }

    fn needs_tools(&self) -> bool {
        true
    }

    fn decide(&self, cx: &Context, access: &mut ToolAccess<'_>) -> Result<(), Denial> {
        Ok(self.check(access.tool(), &cx.session().namespace)?)
    }

    fn allowed_by(&self, _: &Context, _: &ToolAccess<'_>) -> String {
        format!("at or below {}", self.allowed)
    }
}
