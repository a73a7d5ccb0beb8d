//! Telemetry: each call is told once, in closed words, whatever becomes of it.

mod traces;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use opentelemetry::{
    KeyValue, Value,
    global::BoxedTracer,
    metrics::{
        Counter, Histogram, HistogramBuilder, InstrumentBuilder, InstrumentProvider, Meter,
        MeterProvider as _, noop::NoopMeterProvider,
    },
    trace::{SpanKind, Status, TracerProvider as _, noop::NoopTracer},
};
use opentelemetry_sdk::{
    metrics::{
        InMemoryMetricExporter, PeriodicReader, SdkMeterProvider,
        data::{AggregatedMetrics, MetricData, ScopeMetrics},
    },
    trace::{InMemorySpanExporter, SdkTracerProvider, SpanData},
};

use super::{
    super::{SCOPE, ending::MeasuredEnd, labels},
    *,
};
use crate::{
    Class, Code, Executed, Failure, Tier, TierRules, Tool, ToolId, ToolResult,
    middleware::audit::RedactConfig,
    testing::{self, HangingServer, answering, chain, context, failing, json, tool},
    trace::{Ingress, Transport},
};

/// Providers that keep everything in memory.
struct TelemetryRecorder {
    spans: InMemorySpanExporter,
    metrics: InMemoryMetricExporter,
    tracers: SdkTracerProvider,
    meters: SdkMeterProvider,
}

impl TelemetryRecorder {
    fn new() -> Self {
        let (spans, metrics) = (InMemorySpanExporter::default(), InMemoryMetricExporter::default());
        Self {
            tracers: SdkTracerProvider::builder().with_simple_exporter(spans.clone()).build(),
            meters: SdkMeterProvider::builder()
                .with_reader(PeriodicReader::builder(metrics.clone()).build())
                .build(),
            spans,
            metrics,
        }
    }

    fn instruments(&self) -> Instruments {
        let tracer = BoxedTracer::new(Box::new(self.tracers.tracer(SCOPE)));
        Instruments::new(tracer, &self.meters.meter(SCOPE))
    }

    fn layer(&self) -> Telemetry {
        Telemetry::new(self.instruments())
    }

    fn spans(&self) -> Vec<SpanData> {
        self.spans.get_finished_spans().unwrap()
    }

    /// The one span that there is.
    fn span(&self) -> SpanData {
        let mut spans = self.spans();
        assert_eq!(spans.len(), 1, "{spans:?}");
        spans.remove(0)
    }

    /// The points of a metric: their labels and how often something was measured.
    fn points(&self, name: &str) -> Vec<(Vec<KeyValue>, u64)> {
        self.meters.force_flush().unwrap();
        let exported = self.metrics.get_finished_metrics().unwrap();
        let Some(last) = exported.last() else { return Vec::new() };
        let metrics = last.scope_metrics().flat_map(ScopeMetrics::metrics);
        let mut points = Vec::new();
        for metric in metrics.filter(|metric| metric.name() == name) {
            match metric.data() {
                AggregatedMetrics::U64(MetricData::Sum(sum)) => points.extend(
                    sum.data_points().map(|p| (p.attributes().cloned().collect(), p.value())),
                ),
                AggregatedMetrics::F64(MetricData::Histogram(all)) => points.extend(
                    all.data_points().map(|p| (p.attributes().cloned().collect(), p.count())),
                ),
                other => panic!("{name}: {other:?}"),
            }
        }
        points
    }
}

fn label<'a>(labels: &'a [KeyValue], key: &str) -> Option<&'a Value> {
    labels.iter().find(|label| label.key.as_str() == key).map(|label| &label.value)
}

fn word(labels: &[KeyValue], key: &str) -> String {
    label(labels, key).map_or_else(|| "-".to_owned(), ToString::to_string)
}

fn over_stdio() -> Context {
    let protocol = Some("2025-11-25".into());
    let ingress = Ingress { transport: Some(Transport::Stdio), protocol, trace: None };
    let id = toolgate_wire::Id::string("req-7");
    context().with_ingress(ingress).with_request_id(Some(id))
}

fn text(text: &str) -> toolgate_wire::Json {
    ToolResult::text(text).json().clone()
}

#[tokio::test]
async fn a_call_has_a_span_and_is_measured_in_both_vocabularies() {
    let kept = TelemetryRecorder::new();
    let chain = chain(kept.layer());
    let call = Call::new(tool("show", Tier::Readonly), Some(json(r#"{"q":"s3cret"}"#)));
    let mut cx = over_stdio();
    chain.call(&mut cx, call, &answering(text("s3cret too"))).await;
    let span = kept.span();
    assert_eq!((span.name.as_ref(), &span.span_kind), ("tools/call show", &SpanKind::Server));
    assert_eq!(span.status, Status::Unset);
    for (key, expected) in [
        ("mcp.method.name", "tools/call"),
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "show"),
        ("mcp.tool.name", "show"),
        ("mcp.tool.category", "main"),
        ("mcp.tool.idempotent", "true"),
        ("mcp.transport", "stdio"),
        ("network.transport", "pipe"),
        ("mcp.session.id", "s-1"),
        ("mcp.protocol.version", "2025-11-25"),
        ("jsonrpc.request.id", "req-7"),
        ("toolgate.namespace", "default"),
        ("toolgate.outcome", "ok"),
        ("error.type", "-"),
        ("rpc.response.status_code", "-"),
        ("gen_ai.tool.call.arguments", "-"),
        ("toolgate.tool.asked", "-"),
    ] {
        assert_eq!(word(&span.attributes, key), expected, "{key}");
    }
    let id = cx.call_id().to_string();
    assert_eq!(word(&span.attributes, "toolgate.call_uuid"), id);
    assert_eq!(word(&span.attributes, "mcp.request_id"), id);
    assert!(!format!("{span:?}").contains("s3cret"));

    for name in ["mcp.tool.calls", "mcp.tool.duration_ms"] {
        let points = kept.points(name);
        let [(labels, 1)] = &*points else { panic!("{points:?}") };
        let mut keys: Vec<_> = labels.iter().map(|label| label.key.as_str()).collect();
        keys.sort_unstable();
        assert_eq!(
            keys,
            [
                "mcp.tool.category",
                "mcp.tool.idempotent",
                "mcp.tool.name",
                "mcp.transport",
                "outcome",
                "status"
            ]
        );
        assert_eq!((word(labels, "status"), word(labels, "outcome")), ("ok".into(), "ok".into()));
    }
    assert_eq!(kept.points("mcp.tool.errors"), []);
    let points = kept.points("mcp.server.operation.duration");
    let [(labels, 1)] = &*points else { panic!("{points:?}") };
    let words = ["mcp.method.name", "gen_ai.tool.name", "network.transport", "error.type"];
    let words = words.map(|key| word(labels, key));
    assert_eq!(words, ["tools/call", "show", "pipe", "-"]);
}

#[tokio::test]
async fn every_way_to_end_has_its_own_words() {
    let denied = Failure::new(Code::TierDenied, "no: s3cret").by("safety", "tier");
    let rejected = crate::RpcError { code: -7, message: "s3cret".into(), data: None };
    for (end, status, outcome, code, error_type, rpc, is_error) in [
        (Outcome::from(denied), "error", "denied", "TIER_DENIED", "TIER_DENIED", "403", true),
        (
            Failure::new(Code::TimedOut, "late").into(),
            "error",
            "timed_out",
            "TIMED_OUT",
            "TIMED_OUT",
            "408",
            true,
        ),
        (
            Failure::rejected(rejected).into(),
            "error",
            "upstream_failed",
            "SERVER_REJECTED",
            "SERVER_REJECTED",
            "-7",
            true,
        ),
        (
            Failure::internal("oh").into(),
            "error",
            "internal",
            "INTERNAL",
            "INTERNAL",
            "-32603",
            true,
        ),
        (
            ToolResult::new(json(r#"{"content":[],"isError":true}"#)).into(),
            "tool_error",
            "tool_error",
            "-",
            "tool_error",
            "-",
            true,
        ),
        (
            Failure::tool("NotFound", "s3cret").into(),
            "tool_error",
            "tool_error",
            "TOOL_FAILED",
            "tool_error",
            "-32603",
            true,
        ),
        (
            ToolResult::new(json(r#"{"resultType":"input_required"}"#)).into(),
            "input_required",
            "input_required",
            "-",
            "-",
            "-",
            false,
        ),
        (
            Failure::new(Code::Cancelled, "gone").with_executed(Executed::No).into(),
            "cancelled",
            "cancelled",
            "CANCELLED",
            "CANCELLED",
            "-",
            false,
        ),
    ] {
        let kept = TelemetryRecorder::new();
        let server = testing::ScriptedServer::new(move |_| end.clone());
        testing::call(&chain(kept.layer()), &tool("t", None), "{}", &server).await;
        let span = kept.span();
        assert_eq!(word(&span.attributes, "toolgate.outcome"), outcome);
        assert_eq!(word(&span.attributes, "error.type"), error_type, "{outcome}");
        assert_eq!(word(&span.attributes, "rpc.response.status_code"), rpc, "{outcome}");
        let expected = if is_error { Status::error(error_type) } else { Status::Unset };
        assert_eq!(span.status, expected, "{outcome}");
        let rule = if outcome == "denied" { "tier" } else { "-" };
        assert_eq!(word(&span.attributes, "toolgate.rule"), rule);
        let calls = kept.points("mcp.tool.calls");
        let [(labels, 1)] = &*calls else { panic!("{calls:?}") };
        let words = ["status", "outcome", "code"].map(|key| word(labels, key));
        assert_eq!(words, [status, outcome, code]);
        assert_eq!(kept.points("mcp.tool.errors").len(), usize::from(is_error), "{outcome}");
        assert!(!format!("{span:?}{calls:?}").contains("s3cret"), "{outcome}");
    }
}

#[test]
fn a_preview_is_no_error() {
    let preview = MeasuredEnd { class: Class::Preview, ..MeasuredEnd::OK };
    assert_eq!(
        (preview.status(), preview.is_error(), preview.error_type()),
        ("preview", false, None)
    );
}

#[test]
fn only_tool_errors_and_errors_are_errors_and_every_code_has_its_words() {
    for code in Code::ALL {
        let ending = MeasuredEnd::of_failure(&Failure::new(*code, "x"));
        let counts = matches!(ending.status(), "tool_error" | "error");
        assert_eq!(ending.is_error(), counts, "{code:?}");
        assert_eq!(ending.error_type().is_some(), ending.status() != "preview", "{code:?}");
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_ends_its_span_and_is_counted_once() {
    let kept = TelemetryRecorder::new();
    let chain = chain(kept.layer());
    let hanging = HangingServer::default();
    let mut cx = context();
    {
        let call = chain.call(&mut cx, Call::new(tool("t", None), None), &hanging);
        tokio::select! {
            biased;
            _ = call => panic!("it hangs"),
            () = hanging.called.notified() => {}
        }
    }
    let span = kept.span();
    assert_eq!(word(&span.attributes, "toolgate.outcome"), "cancelled");
    assert_eq!(span.status, Status::Unset);
    let calls = kept.points("mcp.tool.calls");
    let [(labels, 1)] = &*calls else { panic!("{calls:?}") };
    assert_eq!(word(labels, "status"), "cancelled");
}

#[tokio::test]
async fn names_that_nobody_listed_share_one_label() {
    let kept = TelemetryRecorder::new();
    let chain = chain(kept.layer());
    let unknown = failing(Failure::new(Code::UnknownTool, "no"));
    for n in 0..200 {
        let id = ToolId::new("main", format!("invented-{n}"));
        let made_up = Arc::new(Tool::unlisted(id, &TierRules::default()));
        testing::call(&chain, &made_up, "{}", &unknown).await;
    }
    for name in ["mcp.tool.calls", "mcp.tool.duration_ms", "mcp.tool.errors"] {
        let points = kept.points(name);
        let [(labels, 200)] = &*points else { panic!("{name}: {points:?}") };
        assert_eq!(word(labels, "mcp.tool.name"), "_other");
    }
    let spans = kept.spans();
    assert!(spans.iter().all(|span| span.name == "tools/call _other"));
    assert_eq!(word(&spans[7].attributes, "toolgate.tool.asked"), "invented-7");
}

#[tokio::test]
async fn a_server_with_too_many_tools_does_not_make_too_many_labels() {
    let kept = TelemetryRecorder::new();
    let chain = chain(kept.layer());
    let server = answering(text("x"));
    for n in 0..labels::MAX_TOOLS + 50 {
        testing::call(&chain, &tool(&format!("t{n}"), None), "{}", &server).await;
    }
    let points = kept.points("mcp.tool.calls");
    assert_eq!(points.len(), labels::MAX_TOOLS + 1);
    let other = points.iter().find(|(labels, _)| word(labels, "mcp.tool.name") == "_other");
    assert_eq!(other.unwrap().1, 50);
}

#[tokio::test]
async fn facts_that_change_change_the_labels() {
    let kept = TelemetryRecorder::new();
    let chain = chain(kept.layer());
    let server = answering(text("x"));
    for tier in [Tier::Readonly, Tier::Mutating] {
        testing::call(&chain, &tool("t", tier), "{}", &server).await;
    }
    let points = kept.points("mcp.tool.calls");
    let mut words: Vec<_> =
        points.iter().map(|(labels, _)| word(labels, "mcp.tool.idempotent")).collect();
    words.sort();
    assert_eq!(words, ["false", "true"]);
}

#[tokio::test]
async fn listings_and_requests_are_told_and_unknown_methods_share_one_label() {
    let kept = TelemetryRecorder::new();
    let chain = chain(kept.layer());
    let server = answering(text("x"));
    chain.list(&mut over_stdio(), Listing::default(), &server).await.unwrap();
    // A look of the door itself is no request.
    chain.list(&mut context(), Listing::default(), &server).await.unwrap();
    let request = |method: &str| Request { method: method.into(), params: None };
    for method in ["ping", "vendor/a", "vendor/b"] {
        chain.request(&mut context(), request(method), &server).await;
    }
    let names: Vec<_> = kept.spans().iter().map(|span| span.name.to_string()).collect();
    assert_eq!(names, ["tools/list", "ping", "_other", "_other"]);
    let mut told: Vec<_> = kept
        .points("mcp.server.operation.duration")
        .iter()
        .map(|(labels, count)| {
            (word(labels, "mcp.method.name"), word(labels, "error.type"), *count)
        })
        .collect();
    told.sort();
    let row = |method: &str, error: &str, count| (method.to_owned(), error.to_owned(), count);
    // The server answers a request without params with -32602.
    let rejected = "SERVER_REJECTED";
    assert_eq!(
        told,
        [row("_other", rejected, 2), row("ping", rejected, 1), row("tools/list", "-", 1)]
    );
    let rpc: Vec<_> = kept
        .spans()
        .iter()
        .map(|span| word(&span.attributes, "rpc.response.status_code"))
        .collect();
    assert_eq!(rpc, ["-", "-32602", "-32602", "-32602"]);
}

#[tokio::test]
async fn arguments_are_told_only_if_asked_for_and_never_in_clear() {
    let kept = TelemetryRecorder::new();
    let redactor = Redactor::new(&RedactConfig::default()).unwrap();
    let chain = chain(kept.layer().telling_arguments(redactor));
    let server = answering(text("x"));
    let deep = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let long = format!(r#"[{}"x"]"#, format!("{:?},", "é".repeat(190)).repeat(90));
    for arguments in [
        r#"{"path":"/tmp","password":"s3cret"}"#.to_owned(),
        format!(r#"{{"deep":{deep},"password":"s3cret"}}"#),
        format!(r#"{{"long":{long},"password":"s3cret"}}"#),
    ] {
        testing::call(&chain, &tool("t", None), &arguments, &server).await;
    }
    let spans = kept.spans();
    let told: Vec<_> =
        spans.iter().map(|s| word(&s.attributes, "gen_ai.tool.call.arguments")).collect();
    assert!(told[0].contains(r#""path":"/tmp""#), "{}", told[0]);
    assert!(told[1].contains("redacted"), "{}", told[1]);
    assert!(told[2].len() < 8300 && told[2].ends_with("...<truncated>"), "{}", told[2].len());
    assert!(!format!("{spans:?}").contains("s3cret"));
}

/// Counts the instruments that are made.
#[derive(Default)]
struct Counted(AtomicUsize);

impl InstrumentProvider for Counted {
    fn u64_counter(&self, _: InstrumentBuilder<'_, Counter<u64>>) -> Counter<u64> {
        self.0.fetch_add(1, Ordering::Relaxed);
        NoopMeterProvider::new().meter("").u64_counter("x").build()
    }

    fn f64_histogram(&self, _: HistogramBuilder<'_, Histogram<f64>>) -> Histogram<f64> {
        self.0.fetch_add(1, Ordering::Relaxed);
        NoopMeterProvider::new().meter("").f64_histogram("x").build()
    }
}

#[tokio::test]
async fn instruments_are_made_once_and_not_for_each_call() {
    let counted = Arc::new(Counted::default());
    let meter = Meter::new(Arc::<Counted>::clone(&counted));
    let tracer = BoxedTracer::new(Box::new(NoopTracer::new()));
    let chain = chain(Telemetry::new(Instruments::new(tracer, &meter)));
    for _ in 0..10 {
        testing::call(&chain, &tool("t", None), "{}", &answering(text("x"))).await;
    }
    assert_eq!(counted.0.load(Ordering::Relaxed), 5);
}

#[tokio::test]
async fn silent_instruments_change_nothing() {
    let chain = chain(Telemetry::new(Instruments::silent()));
    let mut cx = over_stdio();
    let outcome =
        chain.call(&mut cx, Call::new(tool("t", None), None), &answering(text("x"))).await;
    assert_eq!((outcome.class(), cx.span()), (Class::Ok, None));
}
