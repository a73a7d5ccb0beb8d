//! Filter: hides and refuses tools that are inactive, quarantined as new, or not allowed by the request.
#![doc = include_str!("README.md")]

mod config;
mod known;
mod status;
#[cfg(test)]
mod tests;

pub use config::{FilterConfig, NewTools, Status};
pub use known::KnownTools;
use status::Statuses;

use crate::{
    authorize::{Authorize, Denial, ToolAccess},
    context::Context,
    control::Control,
    failure::Failure,
    identity::ToolId,
    layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec},
    middleware::Order,
    registry::Code,
    selector::{Selector, Steps},
};

/// The layer's name.
pub const NAME: &str = "filter";

/// The declaration of the layer.
#[derive(Debug)]
pub struct FilterSpec;

impl LayerSpec for FilterSpec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn why(&self) -> &'static str {
        "refuses inactive tools before the other access checks"
    }

    fn needed_for(&self, inputs: &LayerInputs) -> Option<&'static str> {
        let config = inputs.get::<FilterConfig>()?;
        (*config != FilterConfig::default()).then_some("`status` of a tool or `new_tools`")
    }

    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        // Always on: a request may restrict its own tools by `_meta.allowedTools`.
        let layer = Filter::new(&inputs.get_or_default(), inputs.get_or_default())?;
        Ok(BuiltLayer::on(layer))
    }
}

/// Allows tools that are active, known and allowed by the request.
#[derive(Clone, Debug)]
pub struct Filter {
    statuses: Statuses,
    message: Option<String>,
    quarantine: Option<KnownTools>,
}

/// Why a filter was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// A selector has both statuses.
    #[error("`{0}` is set both active and inactive: remove one of them")]
    Contradiction(Selector),
    /// The custom message is empty.
    #[error("the message for inactive tools is empty: write one, or leave it out for the default")]
    EmptyMessage,
}

/// Why a tool does not pass.
#[derive(Clone, Copy, Debug)]
enum Refusal<'a> {
    /// This selector makes the tool inactive.
    Inactive(&'a Selector),
    /// The tool is new, and new tools are quarantined.
    Quarantined,
    /// The tool is not in a list of allowed tools, of the request or of a call that the request is part of.
    NotAllowed,
    /// The control data of the request exceeds a limit.
    Control(&'a str),
}

const TOO_COSTLY: &str =
    "the patterns of `allowedTools` take more than 5000000 steps to match: name the tools instead";

impl Filter {
    /// Creates the layer. It uses `known` only if new tools are quarantined.
    pub fn new(config: &FilterConfig, known: KnownTools) -> Result<Self, FilterError> {
        if config.message.as_ref().is_some_and(|message| message.trim().is_empty()) {
            return Err(FilterError::EmptyMessage);
        }
        Ok(Self {
            statuses: Statuses::new(&config.inactive, &config.active)?,
            message: config.message.clone(),
            quarantine: (config.new_tools == NewTools::Quarantine).then_some(known),
        })
    }

    /// Decides whether the tool passes. The settings of the operator are checked before the control data of the
    /// request.
    fn check<'a>(
        &'a self,
        control: &'a Control,
        tool: &ToolId,
        steps: &mut Steps,
    ) -> Result<(), Refusal<'a>> {
        match (self.statuses.of(tool), &self.quarantine) {
            (Some((Status::Inactive, selector)), _) => return Err(Refusal::Inactive(selector)),
            (None, Some(known)) if !known.is_known(tool) => return Err(Refusal::Quarantined),
            _ => {}
        }
        if let Some(fault) = &control.fault {
            return Err(Refusal::Control(fault));
        }
        for list in &control.allowed {
            match list.covers(tool, steps) {
                Some(true) => {}
                Some(false) => return Err(Refusal::NotAllowed),
                None => return Err(Refusal::Control(TOO_COSTLY)),
            }
        }
        Ok(())
    }

    fn denial(&self, refusal: Refusal<'_>, access: &ToolAccess<'_>, namespace: &str) -> Denial {
        let (tool, name) = (access.tool().id(), access.name());
        let failure = match refusal {
            Refusal::Inactive(selector) => {
                let message = match &self.message {
                    Some(custom) => custom.replace("{name}", name),
                    None => format!(
                        "Tool \"{name}\" is currently inactive and disallowed in this namespace"
                    ),
                };
                Failure::new(Code::ToolInactive, message)
                    .suggest("Call tools/list for the tools that are active.")
                    .by(NAME, format!("inactive: {selector}"))
            }
            Refusal::Quarantined => {
                let message = format!(
                    "Tool \"{name}\" is new and quarantined in this namespace until the operator \
                     approves it"
                );
                Failure::new(Code::ToolQuarantined, message)
                    .suggest(format!(
                        "Ask the operator to look at it and to set \
                         [namespaces.{namespace}.tools.{:?}] status = \"active\".",
                        tool.to_string()
                    ))
                    .by(NAME, "new_tools: quarantine")
            }
            Refusal::NotAllowed => {
                let message = format!(
                    "Access denied: Tool '{name}' is not in the allowed tools list for this agent."
                );
                Failure::new(Code::ToolNotAllowed, message)
                    .suggest("Call one of the tools in `_meta.allowedTools`.")
                    .by(NAME, "allowedTools")
            }
            Refusal::Control(fault) => return Denial::Request(exceeded(fault)),
        };
        Denial::Tool(failure)
    }
}

/// The failure for control data that exceeds a limit: such a request may use no tool.
fn exceeded(fault: &str) -> Failure {
    Failure::new(Code::ControlTooLarge, fault)
        .suggest("Send less in `_meta`, or connect to a namespace that has only these tools.")
        .by(NAME, "control data")
}

impl Authorize for Filter {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe(&self) -> String {
        let (inactive, active) = self.statuses.count();
        let statuses = match (inactive, active) {
            (0, 0) => "all tools active".to_owned(),
            _ => format!("{inactive} inactive, {active} active by name"),
        };
        let new = if self.quarantine.is_some() { "quarantined" } else { "allowed" };
        format!("{statuses}; new tools are {new}; _meta.allowedTools narrows")
    }

    fn order(&self) -> &'static [Order] {
        &[
            Order::Inside(super::error_results::NAME, "refusals are rendered too"),
            Order::Outside(super::retry::NAME, "a refused call must never be tried again"),
        ]
    }

    fn check_listing(&self, cx: &Context) -> Result<(), Failure> {
        cx.control().fault.as_ref().map_or(Ok(()), |fault| Err(exceeded(fault)))
    }

    fn decide(&self, cx: &Context, access: &mut ToolAccess<'_>) -> Result<(), Denial> {
        let decision = self.check(cx.control(), access.tool().id(), access.steps);
        decision.map_err(|refusal| self.denial(refusal, access, &cx.session().namespace))
    }

    fn allowed_by(&self, _: &Context, access: &ToolAccess<'_>) -> String {
        match self.statuses.of(access.tool().id()) {
            Some((_, selector)) => format!("active: {selector}"),
            None if self.quarantine.is_some() => "known".to_owned(),
            None => "not inactive".to_owned(),
        }
    }
}
