//! Filter: tools that are switched off, new, or not allowed by the request are hidden and refused.
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
    call::{Call, Listing, ToolList},
    context::Context,
    control::Control,
    failure::Failure,
    identity::ToolId,
    layer::Next,
    middleware::{Explained, Hooks, Middleware, Order},
    outcome::Outcome,
    registry::Code,
    selector::{Selector, Steps},
};

/// The layer's name.
pub const NAME: &str = "filter";

/// Lets pass what is active, known and allowed by the request.
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
    /// The custom message says nothing.
    #[error("the message for inactive tools is empty: write one, or leave it out for the default")]
    EmptyMessage,
}

/// Why a tool does not pass.
#[derive(Clone, Copy, Debug)]
enum Refusal<'a> {
    /// This selector switches it off.
    Inactive(&'a Selector),
    /// It is new.
    Quarantined,
    /// A list of allowed tools, of the request or of a call that it is part of, leaves it out.
    NotAllowed,
    /// The control data of the request exceeds a bound.
    Control(&'a str),
}

const TOO_COSTLY: &str =
    "the patterns of `allowedTools` take more than 5000000 steps to match: name the tools instead";

impl Filter {
    /// A filter of these statuses. `known` is only asked where new tools are quarantined.
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

    /// The one decision, for listings and calls alike. What the operator says comes before what the
    /// request says about itself.
    fn decide<'a>(
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

    fn failure(&self, refusal: Refusal<'_>, call: &Call, namespace: &str) -> Failure {
        let (tool, name) = (call.id(), called(call));
        match refusal {
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
                    "Tool \"{name}\" is new and quarantined in this namespace until somebody has \
                     looked at it"
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
            Refusal::Control(fault) => exceeded(fault),
        }
    }

    fn check(&self, cx: &Context, call: &Call) -> Result<(), Failure> {
        let decision = self.decide(cx.control(), call.id(), &mut Steps::default());
        decision.map_err(|refusal| self.failure(refusal, call, &cx.session().namespace))
    }
}

/// Control data beyond a bound: nothing is allowed.
fn exceeded(fault: &str) -> Failure {
    Failure::new(Code::ControlTooLarge, fault)
        .suggest("Send less in `_meta`, or connect to a namespace that has only these tools.")
        .by(NAME, "control data")
}

/// The name to tell the caller: the one that it used.
fn called(call: &Call) -> &str {
    call.wire_name().map_or_else(|| call.id().name(), AsRef::as_ref)
}

impl Middleware for Filter {
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

    fn hooks(&self) -> Hooks {
        Hooks::TOOLS
    }

    fn order(&self) -> &'static [Order] {
        &[
            Order::Inside(super::error_results::NAME, "refusals are rendered too"),
            Order::Outside(super::retry::NAME, "a refused call must never be tried again"),
        ]
    }

    fn explain(&self, cx: &Context, call: &Call) -> Option<Explained> {
        let by = match self.statuses.of(call.id()) {
            Some((_, selector)) => format!("active: {selector}"),
            None if self.quarantine.is_some() => "known".to_owned(),
            None => "not inactive".to_owned(),
        };
        Some(Explained::of(&self.check(cx, call), &by))
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        match self.check(cx, &call) {
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
        if let Some(fault) = &cx.control().fault {
            return Err(exceeded(fault));
        }
        let mut list = next.list(cx, listing).await?;
        // One budget for the whole list: its length is the server's, the patterns are the client's.
        let mut steps = Steps::default();
        let mut fault = None;
        list.retain(|tool| match self.decide(cx.control(), tool.id(), &mut steps) {
            Ok(()) => true,
            Err(Refusal::Control(why)) => {
                fault = Some(why.to_owned());
                false
            }
            Err(_) => false,
        });
        fault.map_or(Ok(list), |fault| Err(exceeded(&fault)))
    }
}
