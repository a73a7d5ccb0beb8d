//! Audit: writes one structured record for each call, with its arguments redacted.
#![doc = include_str!("README.md")]

mod batch;
mod config;
mod counts;
mod event;
mod file;
mod file_lock;
mod head;
mod hidden;
pub mod intent;
mod output;
mod queue;
mod record;
mod redact;
mod rejection;
mod rotation;
mod seal;
pub(in crate::middleware) mod secret_names;
mod simple_arguments;
mod sink;
mod tail;
#[cfg(test)]
mod tests;
pub mod verify;
mod writer;

use std::time::Instant;

pub use config::{
    AuditConfig, AuditKind, AuditSync, DigestAlgorithm, Intents, OnFull, RedactConfig, Target,
};
pub use counts::AuditCounts;
pub use event::AuditEvent;
pub use intent::{AuditIntent, AuditIntentSpec};
pub use output::{About, AuditLine, AuditOutput};
pub use redact::Redactor;
pub(in crate::middleware) use redact::{cut, insert};
pub use rejection::Rejection;
pub use sink::{AuditSink, OpenError};

use crate::{
    call::Call,
    context::Context,
    failure::Executed,
    layer::Next,
    layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec},
    middleware::{Hooks, Middleware, Order},
    outcome::Outcome,
    registry::Class,
    tier::Tier,
};

/// The layer's name.
pub const NAME: &str = "audit";

/// The declaration of the layer.
#[derive(Debug)]
pub struct AuditSpec;

impl LayerSpec for AuditSpec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn why(&self) -> &'static str {
        "records refused and executed calls; the recorded outcome tells them apart"
    }

    fn needed_for(&self, inputs: &LayerInputs) -> Option<&'static str> {
        (inputs.get::<AuditConfig>()?.file != Target::Off).then_some("`audit.file`")
    }

    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        let sink = inputs.get::<AuditSink>().cloned();
        Ok(BuiltLayer::if_some(sink.map(Audit::new), "`audit.file` is off"))
    }
}

/// Records each call.
///
/// ```
/// use std::time::Duration;
/// use toolgate::middleware::audit::{Audit, AuditConfig, AuditSink, RedactConfig, Target};
/// use toolgate::testing::{self, Harness};
///
/// let folder = tempfile::tempdir()?;
/// let file = folder.path().join("audit.jsonl");
/// let mut config = AuditConfig::default();
/// config.file = Target::File(file.clone());
/// let sink = AuditSink::open(&config, &RedactConfig::default())?.expect("the audit is on");
/// testing::run_paused(Harness::new(Audit::new(sink.clone())).call("write", ()));
/// sink.close(Duration::from_secs(60));
/// assert!(std::fs::read_to_string(file)?.contains("\"write\""));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Audit {
    sink: AuditSink,
}

impl Audit {
    /// Creates a layer that sends its records to this sink.
    #[must_use]
    pub fn new(sink: AuditSink) -> Self {
        Self { sink }
    }
}

impl Middleware for Audit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decides(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        format!("one record per call to {}, arguments redacted", self.sink.describe())
    }

    fn hooks(&self) -> Hooks {
        Hooks::RESULTS
    }

    fn order(&self) -> &'static [Order] {
        const TIMED: Order =
            Order::Outside(super::timeout::NAME, "calls that took too long are recorded too");
        const DENIED: &str = "denials are recorded too";
        const REQUIRED: Order = Order::Requires(
            intent::NAME,
            "`audit.required` is set, so that no call may run before its record is written",
        );
        const WITH_DECISIONS: &[Order] = &[
            REQUIRED,
            Order::Outside(super::safety::NAME, DENIED),
            Order::Outside(super::scopes::NAME, DENIED),
            Order::Outside(super::overrides::NAME, "refusals are recorded too"),
            Order::Outside(super::validate::NAME, "refusals are recorded too"),
            Order::Outside(super::filter::NAME, "refusals are recorded too"),
            Order::Outside(super::flags::NAME, "refusals are recorded too"),
            Order::Outside(super::policy::NAME, DENIED),
            Order::Outside(super::rate_limit::NAME, "refusals are recorded too"),
            Order::Outside(super::preconditions::NAME, "previews are recorded too"),
            Order::OutsideDecisions(DENIED),
            TIMED,
        ];
        let with_decisions = if self.sink.is_required() {
            WITH_DECISIONS
        } else {
            WITH_DECISIONS.get(1..).unwrap_or_default()
        };
        // An audit that records only executed calls may stand inside of the layers that refuse calls.
        match (self.sink.records_decisions(), self.sink.is_required()) {
            (true, _) => with_decisions,
            (false, true) => &[REQUIRED, TIMED],
            (false, false) => &[TIMED],
        }
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        if !self.sink.records_readonly() && call.tool().tier() == Some(Tier::Readonly) {
            return next.call(cx, call).await;
        }
        let mut guard = Unfinished {
            event: Some(AuditEvent::begin(cx, &call)),
            started: Instant::now(),
            sink: &self.sink,
        };
        let outcome = next.call(cx, call).await;
        guard.finish(cx, &outcome).await;
        outcome
    }

    async fn result(&self, cx: &mut Context, call: &Call, outcome: Outcome) -> Outcome {
        if self.sink.records_readonly() || call.tool().tier() != Some(Tier::Readonly) {
            let event = Some(AuditEvent::begin(cx, call));
            let mut guard = Unfinished { event, started: Instant::now(), sink: &self.sink };
            guard.finish(cx, &outcome).await;
        }
        outcome
    }
}

/// A call that has not ended. If it is dropped before its end, because the client disconnects or the gateway cancels
/// the call, it is recorded as cancelled: every call has a record.
struct Unfinished<'a> {
    event: Option<Box<AuditEvent>>,
    started: Instant,
    sink: &'a AuditSink,
}

impl Unfinished<'_> {
    async fn finish(&mut self, cx: &Context, outcome: &Outcome) {
        if let Some(event) = &mut self.event {
            event.end(cx, outcome, self.started.elapsed());
        }
        // A sink that fails or is full does not change the outcome. It counts the lost record and reports the loss.
        self.sink.record(&mut self.event).await;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(mut event) = self.event.take() {
            if !event.has_ended() {
                event.abandon(Class::Cancelled, Executed::Maybe, self.started.elapsed());
            }
            self.sink.try_record(event);
        }
    }
}
