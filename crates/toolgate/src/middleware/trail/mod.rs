//! Audit trail: the record of each call, for a place of your own, as an HTTP endpoint.
#![doc = include_str!("README.md")]

use crate::{
    call::{Call, Listing, ToolList},
    context::Context,
    failure::Failure,
    layer::Next,
    layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec},
    middleware::{
        Hooks, Middleware, Order,
        log::{Log, LogSink},
    },
    outcome::Outcome,
};

/// The layer's name.
pub const NAME: &str = "audit-trail";

/// The declaration of the layer.
#[derive(Debug)]
pub struct TrailSpec;

impl LayerSpec for TrailSpec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn why(&self) -> &'static str {
        "sees denials and runs; the outcome tells which it was"
    }

    fn needed_for(&self, inputs: &LayerInputs) -> Option<&'static str> {
        inputs.get::<TrailSink>().map(|_| "`[trail]`")
    }

    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        let sink = inputs.get::<TrailSink>().cloned();
        Ok(BuiltLayer::if_some(sink.map(|sink| Trail::new(sink.0)), "there is no `[trail]`"))
    }
}

/// The sink of the audit trail, which is another one than that of the log.
#[derive(Clone, Debug)]
pub struct TrailSink(pub LogSink);

/// Hands the record of each call to a sink, as the log does to its own.
#[derive(Debug)]
pub struct Trail(Log);

impl Trail {
    /// Into this sink. Whoever empties its queue sends the records on.
    #[must_use]
    pub fn new(sink: LogSink) -> Self {
        Self(Log::new(sink))
    }
}

impl Middleware for Trail {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe(&self) -> String {
        "one record per call to the endpoint of `[trail]`, arguments redacted".to_owned()
    }

    fn hooks(&self) -> Hooks {
        self.0.hooks()
    }

    fn order(&self) -> &'static [Order] {
        self.0.order()
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        self.0.call(cx, call, next).await
    }

    async fn result(&self, cx: &mut Context, call: &Call, outcome: Outcome) -> Outcome {
        self.0.result(cx, call, outcome).await
    }

    async fn list(
        &self,
        cx: &mut Context,
        listing: Listing,
        next: Next<'_>,
    ) -> Result<ToolList, Failure> {
        self.0.list(cx, listing, next).await
    }
}
