//! Audit intent: a record of each call that may change something, written before it runs.

use super::{AuditConfig, AuditSink, Intents, Target};
use crate::{
    call::Call,
    context::Context,
    failure::{Executed, Failure},
    layer::Next,
    layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec},
    middleware::{
        Hooks, Middleware, Order, filter, flags, overrides, policy, retry, safety, timeout,
    },
    outcome::Outcome,
    registry::Code,
    tier::Tier,
};

/// The layer's name.
pub const NAME: &str = "audit-intent";

/// The declaration of the layer.
#[derive(Debug)]
pub struct AuditIntentSpec;

impl LayerSpec for AuditIntentSpec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn why(&self) -> &'static str {
        "records an intent only for a permitted call, and one intent per call, even if the call is retried"
    }

    fn needed_for(&self, inputs: &LayerInputs) -> Option<&'static str> {
        let config = inputs.get::<AuditConfig>()?;
        if config.required {
            return Some("`audit.required`");
        }
        let announces_all = config.file != Target::Off && config.intents == Intents::All;
        announces_all.then_some("`audit.intents`")
    }

    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        let Some(sink) = inputs.get::<AuditSink>() else {
            return Ok(BuiltLayer::off("`audit.file` is off"));
        };
        let is_on = inputs.get_or_default::<AuditConfig>().intents() != Intents::Off;
        let layer = is_on.then(|| AuditIntent::new(sink.clone()));
        Ok(BuiltLayer::if_some(layer, "`audit.intents` is off"))
    }
}

/// Marks a call that admission refused. It passes the chain only so that the refusal is rendered and recorded, so no
/// intent is written.
#[derive(Clone, Copy, Debug)]
pub struct RefusedAtAdmission;

/// Records calls before they go to their tool.
#[derive(Clone, Debug)]
pub struct AuditIntent {
    sink: AuditSink,
}

impl AuditIntent {
    /// Writes intents to this sink, which has to be that of [`Audit`](super::Audit).
    #[must_use]
    pub fn new(sink: AuditSink) -> Self {
        Self { sink }
    }

    fn is_announced(&self, cx: &Context, call: &Call) -> bool {
        if cx.extensions().get::<RefusedAtAdmission>().is_some() {
            return false;
        }
        match self.sink.intents() {
            Intents::All => true,
            Intents::Mutating => call.tool().tier() != Some(Tier::Readonly),
            Intents::Off => false,
        }
    }

    /// Writes the intent. The call does not run if it is cancelled meanwhile, or if a required intent cannot be
    /// written.
    async fn announce(&self, cx: &Context, call: &Call) -> Result<(), Failure> {
        let written = tokio::select! {
            biased;
            written = self.sink.announce(cx, call) => written,
            () = cx.cancel().cancelled() => {
                return Err(Failure::new(Code::Cancelled, "the client cancelled the call").with_executed(Executed::No));
            }
        };
        if written || !self.sink.is_required() {
            return Ok(());
        }
        let message = "The call cannot be recorded, and no call may run without a record";
        Err(Failure::new(Code::AuditUnavailable, message)
            .by(NAME, "audit.required")
            .suggest("Call again later, or ask the operator to look at the audit file."))
    }
}

const PERMITTED: &str = "an intent is recorded only for a permitted call";

impl Middleware for AuditIntent {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decides(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        let which = match self.sink.intents() {
            Intents::All => "every call",
            Intents::Mutating => "calls that may change something",
            Intents::Off => "nothing",
        };
        let else_refused = if self.sink.is_required() { ", else they are refused" } else { "" };
        format!("{which} recorded before the tool runs{else_refused}")
    }

    fn hooks(&self) -> Hooks {
        Hooks::CALL
    }

    fn order(&self) -> &'static [Order] {
        &[
            Order::Inside(super::NAME, "refusals are recorded too"),
            Order::Inside(overrides::NAME, PERMITTED),
            Order::Inside(super::super::validate::NAME, PERMITTED),
            Order::Inside(filter::NAME, PERMITTED),
            Order::Inside(flags::NAME, PERMITTED),
            Order::Inside(policy::NAME, PERMITTED),
            Order::Inside(safety::NAME, PERMITTED),
            Order::Inside(super::super::rate_limit::NAME, PERMITTED),
            Order::Outside(
                retry::NAME,
                "one intent is recorded per call, even if the call is retried",
            ),
            Order::Outside(
                timeout::NAME,
                "the timeout of the tool does not include the writing of the intent",
            ),
            Order::InsideDecisions(PERMITTED),
        ]
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        if self.is_announced(cx, &call)
            && let Err(refused) = self.announce(cx, &call).await
        {
            return refused.into();
        }
        next.call(cx, call).await
    }
}
