//! Preconditions: checks conditions before a tool is called, such as a confirmation, an open deployment, or your own.
#![doc = include_str!("README.md")]

mod approvals;
mod argument;
pub(crate) mod binding;
mod builtin;
mod config;
mod confirm;
mod gate;
mod person;
mod preview;
mod seals;
#[cfg(test)]
mod tests;
mod verdict;

use std::sync::Arc;

pub use approvals::{
    ApprovalError, ApprovalNote, ApprovalRequest, Approvals, Decision, DecisionInfo,
};
pub use argument::{ConfirmArgument, ConfirmArgumentSpec, NAME as CONFIRM_ARGUMENT};
pub use config::{ConfirmConfig, Fallback, Mode, PreconditionRule, PreconditionRules};
pub use confirm::{Approval, ConfirmedBy};
pub use gate::{BadPreconditions, Gate};
pub use seals::Seals;
pub use verdict::{ConfirmKey, Precondition, Preview, Question, Verdict};

use crate::{
    call::Call,
    context::Context,
    failure::Failure,
    layer::Next,
    layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec},
    middleware::{Explanation, Hooks, Middleware, Order},
    outcome::Outcome,
    registry::Code,
};

/// The layer's name.
pub const NAME: &str = "preconditions";

/// The declaration of the layer.
#[derive(Debug)]
pub struct PreconditionsSpec;

impl LayerSpec for PreconditionsSpec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn why(&self) -> &'static str {
        "asks a person only about calls that the checks outside of it allow"
    }

    fn needed_for(&self, inputs: &LayerInputs) -> Option<&'static str> {
        let is_set = inputs.get::<ConfirmConfig>().is_some()
            || inputs.get::<PreconditionRules>().is_some_and(|rules| !rules.is_empty());
        is_set.then_some("`[confirm]` or `[[preconditions]]`")
    }

    fn add_state(&self, inputs: &mut LayerInputs) -> Result<(), BadSettings> {
        if inputs.get::<Arc<Seals>>().is_none() {
            inputs.set(Arc::new(Seals::new().map_err(BadSettings::new)?));
        }
        Ok(())
    }

    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        // Always on: a request may ask for a dry run.
        Ok(BuiltLayer::on(Preconditions::new(Gate::from_inputs(inputs)?)))
    }
}

/// Runs a call only if its preconditions hold.
#[derive(Clone, Debug)]
pub struct Preconditions {
    gate: Arc<Gate>,
}

impl Preconditions {
    /// Creates the layer with the preconditions of this gate.
    #[must_use]
    pub fn new(gate: Arc<Gate>) -> Self {
        Self { gate }
    }
}

impl Middleware for Preconditions {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe(&self) -> String {
        self.gate.describe()
    }

    fn hooks(&self) -> Hooks {
        Hooks::CALL
    }

    fn decides(&self) -> bool {
        !self.gate.is_empty()
    }

    fn order(&self) -> &'static [Order] {
        const LAST: &str = "a person is asked only about calls that the other checks allow";
        const RECORDED: &str = "previews and refusals are recorded too";
        if self.gate.is_empty() {
            return &[Order::Outside(super::timeout::NAME, "a preview needs no timeout")];
        }
        &[
            Order::Inside(super::error_results::NAME, "refusals are rendered for the caller"),
            Order::Inside(super::log::NAME, RECORDED),
            Order::Inside(super::trail::NAME, RECORDED),
            Order::Inside(
                super::overrides::NAME,
                "the caller confirms the arguments that the tool receives",
            ),
            Order::Inside(super::validate::NAME, LAST),
            Order::Inside(super::filter::NAME, LAST),
            Order::Inside(super::flags::NAME, LAST),
            Order::Inside(super::policy::NAME, LAST),
            Order::Inside(super::safety::NAME, LAST),
            Order::Inside(super::scopes::NAME, LAST),
            Order::Inside(super::rate_limit::NAME, LAST),
            Order::Outside(
                super::audit::intent::NAME,
                "an intent is recorded only for a permitted call",
            ),
            Order::Outside(super::retry::NAME, "a person is asked once"),
            Order::Outside(
                super::timeout::NAME,
                "the timeout of the tool does not include the time that a person takes to answer",
            ),
        ]
    }

    fn needs_tools(&self) -> bool {
        self.gate.needs_tools()
    }

    fn asks(&self) -> bool {
        !self.gate.is_empty()
    }

    fn checks_rounds(&self) -> bool {
        true
    }

    fn explain(&self, cx: &Context, call: &Call) -> Option<Explanation> {
        let (decision, open) = self.gate.explain(cx, call);
        let asks = matches!(decision.verdict, Verdict::Ask(_));
        let code = match &decision.verdict {
            Verdict::Allow => None,
            Verdict::Ask(_) => Some(Code::ConfirmRequired),
            Verdict::Preview(_) => Some(Code::DryRunPreview),
            Verdict::Defer(_) => Some(Code::Deferred),
            Verdict::Deny(failure) => Some(failure.code()),
        };
        let (allowed, why) = match decision.verdict {
            Verdict::Allow if open.is_empty() => return None,
            Verdict::Allow => {
                let why = "this is decided when the call is made".to_owned();
                let rule = open.join(", ");
                return Some(Explanation { allowed: true, asks: false, rule, why, code: None });
            }
            Verdict::Ask(_) => {
                let otherwise = match self.gate.config.fallback {
                    Fallback::Approval => "otherwise it waits for `toolgate approve`",
                    Fallback::Refuse => "otherwise it is refused",
                    Fallback::AgentMayConfirmItself | Fallback::Token => {
                        "otherwise the agent may confirm it itself, with a token"
                    }
                };
                let why = "each call has to be confirmed first: by the user, if the client can ask";
                (true, format!("{why}; {otherwise}"))
            }
            Verdict::Preview(preview) if !preview.missing.contains(&ConfirmKey::Operator) => {
                (false, "it is only shown: the caller asks for a dry run".to_owned())
            }
            Verdict::Preview(_) if decision.rule.starts_with("dry_run") => {
                let why = "it is only shown: the operator's `[[preconditions]]` require `dry_run`";
                (false, why.to_owned())
            }
            Verdict::Preview(_) => {
                let why = self.gate.operator;
                (false, format!("it is only shown: {why}; only the operator changes that"))
            }
            Verdict::Defer(wait) => {
                (false, format!("not before {} from now", crate::duration::format(wait)))
            }
            Verdict::Deny(failure) => (false, failure.message().to_owned()),
        };
        Some(Explanation { allowed, asks, rule: decision.rule, why, code })
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        let decision = self.gate.decide(cx, &call).await;
        match decision.verdict {
            Verdict::Allow => match confirm::check_round(&self.gate, cx, &call) {
                Ok(()) => next.call(cx, call).await,
                Err(outcome) => outcome,
            },
            Verdict::Ask(question) => {
                match confirm::confirm(&self.gate, cx, &call, &question, &decision.rule).await {
                    Ok(approval) => {
                        cx.extensions_mut().insert(approval);
                        let outcome = next.call(cx, call.clone()).await;
                        confirm::seal_server_state(&self.gate, cx, &call, outcome)
                    }
                    Err(outcome) => outcome,
                }
            }
            Verdict::Preview(shown) => preview::dry(&self.gate, cx, &call, &shown, &decision.rule),
            Verdict::Defer(wait) => {
                let text = format!("`{}` may not be called right now", call.id().name());
                Failure::new(Code::Deferred, text).retry_after(wait).by(NAME, decision.rule).into()
            }
            Verdict::Deny(failure) => match failure.rule() {
                Some(_) => failure.into(),
                None => failure.by(NAME, decision.rule).into(),
            },
        }
    }
}

/// The confirmation that the caller sent with its call, in `_meta` or as an argument.
#[cfg(feature = "rate-limit")]
pub(crate) fn confirmation(cx: &Context) -> Option<&toolgate_wire::Json> {
    confirm::confirmation_of(cx)
}
