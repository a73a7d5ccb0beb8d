//! Traces: where a span's parent comes from, and what is passed on.

use opentelemetry_sdk::trace::Sampler;

use super::*;
use crate::{Boxed, Endpoint, trace::Trace};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Keeps the span that it is told as its parent.
#[derive(Default)]
struct TraceRecorder(std::sync::Mutex<Vec<Option<Trace>>>);

impl Endpoint for TraceRecorder {
    fn call<'a>(&'a self, cx: &'a mut Context, _: Call) -> Boxed<'a, Outcome> {
        self.0.lock().unwrap().extend([cx.span().cloned(), cx.nested().ingress().trace.clone()]);
        Box::pin(async { ToolResult::text("x").into() })
    }

    fn list<'a>(&'a self, _: &'a mut Context, _: Listing) -> Boxed<'a, Result<ToolList, Failure>> {
        Box::pin(std::future::pending())
    }

    fn request<'a>(&'a self, _: &'a mut Context, _: Request) -> Boxed<'a, Answer> {
        Box::pin(std::future::pending())
    }
}

/// Calls as part of a trace, and gives what the server is told.
async fn called(layer: Telemetry, trace: Option<Trace>) -> Option<Trace> {
    let told = TraceRecorder::default();
    let mut cx = context().with_ingress(Ingress { trace, ..Ingress::default() });
    chain(layer).call(&mut cx, Call::new(tool("t", None), None), &told).await;
    let told = told.0.into_inner().unwrap();
    assert_eq!(told[0], told[1], "a nested call has our span as its parent");
    told[0].clone()
}

#[tokio::test]
async fn the_parent_is_the_one_that_the_request_names_and_the_server_gets_ours() {
    let kept = TelemetryRecorder::new();
    let incoming = Trace::read(PARENT, Some("vendor=1,other=2")).unwrap();
    let told = called(kept.layer(), Some(incoming.clone())).await.unwrap();
    let span = kept.span();
    assert!(span.parent_span_is_remote);
    assert_eq!(span.parent_span_id.to_string(), "b7ad6b7169203331");
    assert_eq!(span.span_context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(told.trace_id(), incoming.trace_id());
    assert_eq!(format!("{:016x}", told.span_id()), span.span_context.span_id().to_string());
    assert_ne!(told.span_id(), incoming.span_id());
    assert_eq!((told.flags(), told.state()), (1, Some("vendor=1,other=2")));
}

#[tokio::test]
async fn without_a_parent_a_trace_begins_here() {
    let kept = TelemetryRecorder::new();
    let told = called(kept.layer(), None).await.unwrap();
    let span = kept.span();
    assert_eq!(span.parent_span_id, opentelemetry::SpanId::INVALID);
    assert_eq!(format!("{:032x}", told.trace_id()), span.span_context.trace_id().to_string());
    assert_eq!(told.state(), None);
}

#[tokio::test]
async fn a_state_that_is_not_valid_is_dropped_and_the_parent_stays() {
    let kept = TelemetryRecorder::new();
    let told = called(kept.layer(), Trace::read(PARENT, Some("no equals sign"))).await.unwrap();
    assert_eq!(told.state(), None);
    assert_eq!(kept.span().parent_span_id.to_string(), "b7ad6b7169203331");
}

#[tokio::test]
async fn a_trace_that_is_not_kept_is_passed_on_as_such_and_still_counted() {
    let kept = TelemetryRecorder::new();
    let tracers = SdkTracerProvider::builder()
        .with_simple_exporter(kept.spans.clone())
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOff)))
        .build();
    let tracer = BoxedTracer::new(Box::new(tracers.tracer(SCOPE)));
    let layer = Telemetry::new(Instruments::new(tracer, &kept.meters.meter(SCOPE)));
    let told = called(layer, None).await.unwrap();
    assert_eq!((told.flags(), kept.spans().len()), (0, 0));
    let calls = kept.points("mcp.tool.calls");
    assert!(matches!(&*calls, [(_, 1)]), "{calls:?}");
}
