//! The tracer and the metric instruments, created once and shared by all chains of a program.

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use opentelemetry::{
    Context as Surroundings, KeyValue, SpanId, TraceFlags, TraceId,
    global::{BoxedSpan, BoxedTracer},
    metrics::{Counter, Histogram, Meter, MeterProvider as _, noop::NoopMeterProvider},
    trace::{
        Span as _, SpanBuilder, SpanContext, SpanKind, TraceContextExt as _, TraceState,
        Tracer as _,
    },
};

use super::{
    ending::MeasuredEnd,
    labels::{AllLabels, ToolLabels, operation},
};
use crate::{
    context::Context,
    trace::{Trace, Transport},
};

/// The instrumentation scope of spans and metrics.
pub const SCOPE: &str = "toolgate";

/// Buckets of `mcp.server.operation.duration` in seconds, from the semantic conventions for MCP.
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];

/// Buckets of `mcp.tool.duration_ms`.
const MILLISECONDS: [f64; 17] = [
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 1e4, 3e4, 6e4, 1.2e5, 3e5,
];

/// The tracer and the metric instruments. Cheap to clone; clones share the counts.
#[derive(Clone)]
pub struct Instruments(Arc<Inner>);

struct Inner {
    tracer: Option<BoxedTracer>,
    duration: Histogram<f64>,
    calls: Counter<u64>,
    errors: Counter<u64>,
    operation: Histogram<f64>,
    rejected: Counter<u64>,
    labels: AllLabels,
}

impl Instruments {
    /// Creates them with the program's providers.
    #[must_use]
    pub fn new(tracer: BoxedTracer, meter: &Meter) -> Self {
        Self::with(Some(tracer), meter)
    }

    /// Disables spans if none are exported. Trace contexts then pass unchanged.
    #[must_use]
    pub fn metrics_only(meter: &Meter) -> Self {
        Self::with(None, meter)
    }

    fn with(tracer: Option<BoxedTracer>, meter: &Meter) -> Self {
        let duration = meter.f64_histogram("mcp.tool.duration_ms").with_unit("ms");
        let duration = duration.with_description("How long calls of tools took");
        let operation = meter.f64_histogram("mcp.server.operation.duration").with_unit("s");
        let operation = operation.with_description("How long requests took");
        let calls = meter.u64_counter("mcp.tool.calls");
        let errors = meter.u64_counter("mcp.tool.errors");
        let rejected = meter.u64_counter("toolgate.http.rejected");
        Self(Arc::new(Inner {
            tracer,
            duration: duration.with_boundaries(MILLISECONDS.to_vec()).build(),
            calls: calls.with_description("Calls of tools, also those that were refused").build(),
            errors: errors.with_description("Calls of tools that did not end well").build(),
            operation: operation.with_boundaries(SECONDS.to_vec()).build(),
            rejected: rejected.with_description("HTTP requests that were rejected").build(),
            labels: AllLabels::default(),
        }))
    }

    /// Instruments without effect.
    #[must_use]
    pub fn silent() -> Self {
        Self::metrics_only(&NoopMeterProvider::new().meter(SCOPE))
    }

    pub(super) fn labels(&self) -> &AllLabels {
        &self.0.labels
    }

    /// Starts a span in the request's trace and sets it in the context. Collects no attributes if spans are disabled.
    pub(super) fn start(
        &self,
        cx: &mut Context,
        describe: impl FnOnce(&Context) -> (Cow<'static, str>, Vec<KeyValue>),
    ) -> Option<BoxedSpan> {
        let tracer = self.0.tracer.as_ref()?;
        let (name, attributes) = describe(cx);
        let mut builder = SpanBuilder::from_name(name).with_kind(SpanKind::Server);
        builder.attributes = Some(attributes);
        let mut parent = Surroundings::new();
        if let Some(trace) = &cx.ingress().trace {
            parent = parent.with_remote_span_context(remote(trace));
        }
        let span = tracer.build_with_context(builder, &parent);
        cx.set_span(ours(span.span_context()));
        Some(span)
    }

    /// Counts a call of a tool.
    pub(super) fn count_call(
        &self,
        labels: &ToolLabels,
        transport: Option<Transport>,
        ending: MeasuredEnd,
        took: Duration,
    ) {
        let measured = labels.measured(transport, ending);
        self.0.duration.record(took.as_secs_f64() * 1e3, &measured.tool);
        self.0.calls.add(1, &measured.tool);
        if ending.is_error() {
            self.0.errors.add(1, &measured.tool);
        }
        self.0.operation.record(took.as_secs_f64(), &measured.operation);
    }

    /// Counts an HTTP request that was rejected before any MCP request was read from it.
    pub fn count_rejected(&self, status: u16, reason: &'static str) {
        let labels = [
            KeyValue::new("http.response.status_code", i64::from(status)),
            KeyValue::new("reason", reason),
        ];
        self.0.rejected.add(1, &labels);
    }

    /// Counts a listing or any other request.
    pub(super) fn count_request(
        &self,
        method: &'static str,
        transport: Option<Transport>,
        ending: MeasuredEnd,
        took: Duration,
    ) {
        self.0.operation.record(took.as_secs_f64(), &operation(method, transport, ending));
    }
}

impl fmt::Debug for Instruments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Instruments")
    }
}

fn remote(trace: &Trace) -> SpanContext {
    // An invalid `tracestate` is dropped; the parent stays.
    let state: TraceState = trace.state().and_then(|text| text.parse().ok()).unwrap_or_default();
    SpanContext::new(
        TraceId::from_bytes(trace.trace_id().to_be_bytes()),
        SpanId::from_bytes(trace.span_id().to_be_bytes()),
        TraceFlags::new(trace.flags()),
        true,
        state,
    )
}

fn ours(span: &SpanContext) -> Option<Trace> {
    let state = Some(span.trace_state().header()).filter(|state| !state.is_empty());
    Trace::new(
        u128::from_be_bytes(span.trace_id().to_bytes()),
        u64::from_be_bytes(span.span_id().to_bytes()),
        span.trace_flags().to_u8(),
        state.map(Arc::from),
    )
}
