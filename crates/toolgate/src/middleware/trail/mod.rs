//! Audit trail: sends a record of each call to an endpoint of the operator, such as an HTTP server.
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
        "records refused and executed calls; the recorded outcome tells them apart"
    }

    fn needed_for(&self, inputs: &LayerInputs) -> Option<&'static str> {
        inputs.get::<TrailSink>().map(|_| "`[trail]`")
    }

    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        let sink = inputs.get::<TrailSink>().cloned();
        Ok(BuiltLayer::if_some(sink.map(|sink| Trail::new(sink.0)), "there is no `[trail]`"))
    }
}

/// The sink of the audit trail. It is separate from the sink of the log.
#[derive(Clone, Debug)]
pub struct TrailSink(pub LogSink);

/// Sends the record of each call to the sink of the trail, as [`Log`] does with its own sink.
#[derive(Debug)]
pub struct Trail(Log);

impl Trail {
    /// Creates the layer with this sink. The program reads the queue of the sink and sends the records to the endpoint.
    #[must_use]
    pub fn new(sink: LogSink) -> Self {
        Self(Log::new(sink))
    }
}

impl Middleware for Trail {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decides(&self) -> bool {
        false
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
