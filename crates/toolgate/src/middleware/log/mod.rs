//! Log: writes a record of each call to the store, which people can search.
#![doc = include_str!("README.md")]

mod config;
mod event;
mod record;
mod redacted_view;
mod sink;
#[cfg(test)]
mod tests;

use std::time::Instant;

pub use config::LogConfig;
pub use record::{CallRecord, RecordKind};
pub use sink::{LogCounts, LogQueue, LogSink};

use self::event::LogEvent;
use crate::{
    call::{Call, Listing, ToolList},
    context::Context,
    failure::Failure,
    layer::Next,
    layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec},
    middleware::{Hooks, Middleware, Order},
    outcome::Outcome,
};

/// The layer's name.
pub const NAME: &str = "log";

/// The declaration of the layer.
#[derive(Debug)]
pub struct LogSpec;

impl LayerSpec for LogSpec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn why(&self) -> &'static str {
        "records refused and executed calls; the recorded outcome tells them apart"
    }

    fn needed_for(&self, inputs: &LayerInputs) -> Option<&'static str> {
        inputs.get::<LogSink>().map(|_| "`store`")
    }

    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        let sink = inputs.get::<LogSink>().cloned();
        Ok(BuiltLayer::if_some(sink.map(Log::new), "there is no `store` for the log"))
    }
}

/// Records each call, and each listing if the settings of the sink ask for it.
#[derive(Clone, Debug)]
pub struct Log {
    sink: LogSink,
}

impl Log {
    /// Creates a layer that sends its records to this sink.
    #[must_use]
    pub fn new(sink: LogSink) -> Self {
        Self { sink }
    }

    fn begin(&self, event: LogEvent) -> Unfinished<'_> {
        Unfinished { event: Some(event), started: Instant::now(), sink: &self.sink }
    }
}

impl Middleware for Log {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decides(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        let what = if self.sink.wants_listings() { "call and listing" } else { "call" };
        let results = if self.sink.wants_results() { "with its result" } else { "without results" };
        format!("one record per {what} in the store, {results}, redacted")
    }

    fn hooks(&self) -> Hooks {
        Hooks { list: self.sink.wants_listings(), ..Hooks::RESULTS }
    }

    fn order(&self) -> &'static [Order] {
        const DENIED: &str = "calls that are refused are logged too";
        &[
            Order::Inside(
                super::error_results::NAME,
                "it records how the call ended, not the result that the client receives",
            ),
            Order::Outside(super::overrides::NAME, DENIED),
            Order::Outside(super::validate::NAME, DENIED),
            Order::Outside(super::rate_limit::NAME, DENIED),
            Order::Outside(super::filter::NAME, DENIED),
            Order::Outside(super::flags::NAME, DENIED),
            Order::Outside(super::policy::NAME, DENIED),
            Order::Outside(super::safety::NAME, DENIED),
            Order::Outside(super::retry::NAME, "a call is logged once, however often it is tried"),
            Order::Outside(super::timeout::NAME, "calls that took too long are logged too"),
        ]
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        let mut unfinished = self.begin(LogEvent::call(cx, &call));
        let outcome = next.call(cx, call).await;
        let duration = unfinished.started.elapsed();
        if let Some(event) = &mut unfinished.event {
            event.end_call(cx, &outcome, duration, self.sink.wants_results());
        }
        unfinished.record().await;
        outcome
    }

    async fn result(&self, cx: &mut Context, call: &Call, outcome: Outcome) -> Outcome {
        let mut unfinished = self.begin(LogEvent::call(cx, call));
        let duration = unfinished.started.elapsed();
        if let Some(event) = &mut unfinished.event {
            event.end_call(cx, &outcome, duration, self.sink.wants_results());
        }
        unfinished.record().await;
        outcome
    }

    async fn list(
        &self,
        cx: &mut Context,
        listing: Listing,
        next: Next<'_>,
    ) -> Result<ToolList, Failure> {
        let mut unfinished = self.begin(LogEvent::listing(cx));
        let answer = next.list(cx, listing).await;
        let duration = unfinished.started.elapsed();
        if let Some(event) = &mut unfinished.event {
            event.end_listing(&answer, duration);
        }
        unfinished.record().await;
        answer
    }
}

/// A call or listing that has not ended. If it is dropped before its end, because the client disconnects or the gateway
/// cancels the call, it is recorded as cancelled.
struct Unfinished<'a> {
    event: Option<LogEvent>,
    started: Instant,
    sink: &'a LogSink,
}

impl Unfinished<'_> {
    async fn record(&mut self) {
        self.sink.record(&mut self.event).await;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(mut event) = self.event.take() {
            event.abandon(self.started.elapsed());
            self.sink.try_record(event);
        }
    }
}
