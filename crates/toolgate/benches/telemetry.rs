//! What a call pays for telemetry: nothing without the layer, and what with it.
//!
//! `cargo bench -p toolgate --features telemetry --bench telemetry`. Exporters are not part of it: spans end in a
//! processor that drops them, as calls end where a queue takes them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a benchmark fails by panicking, also in the functions that its benchmarks share"
)]

use std::{
    hint::black_box,
    sync::{Arc, LazyLock},
    task::{Context as TaskContext, Poll, Waker},
    time::Duration,
};

use divan::{AllocProfiler, Bencher};
use opentelemetry::{
    Context as Surroundings, global::BoxedTracer, metrics::MeterProvider as _,
    trace::TracerProvider as _,
};
use opentelemetry_sdk::{
    error::OTelSdkResult,
    metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider},
    trace::{Sampler, SdkTracerProvider, Span, SpanData, SpanProcessor},
};
use toolgate::{
    Answer, Boxed, Call, Chain, Context, Endpoint, Failure, Ingress, Listing, Outcome, Principal,
    Request, Session, TierRules, Tool, ToolId, ToolList, ToolResult, Trace, Transport,
    middleware::telemetry::{Instruments, SCOPE, Telemetry},
};
use toolgate_wire::{Id, Json, Limits};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

static TOOL: LazyLock<Arc<Tool>> = LazyLock::new(|| {
    let definition = r#"{"name":"echo","annotations":{"readOnlyHint":true}}"#;
    let definition = Json::parse(definition, &Limits::default()).unwrap();
    Arc::new(Tool::listed(ToolId::new("main", "echo"), definition, &TierRules::default()))
});

static SESSION: LazyLock<Arc<Session>> = LazyLock::new(|| {
    Arc::new(Session {
        id: "bench".into(),
        namespace: "default".into(),
        principal: Principal::Local("bench".into()),
    })
});

/// Answers every call with the same result.
struct Echo(ToolResult);

impl Endpoint for Echo {
    fn call<'a>(&'a self, _: &'a mut Context, _: Call) -> Boxed<'a, Outcome> {
        Box::pin(async move { self.0.clone().into() })
    }

    fn list<'a>(&'a self, _: &'a mut Context, _: Listing) -> Boxed<'a, Result<ToolList, Failure>> {
        Box::pin(std::future::pending())
    }

    fn request<'a>(&'a self, _: &'a mut Context, _: Request) -> Boxed<'a, Answer> {
        Box::pin(std::future::pending())
    }
}

/// Takes spans and drops them.
#[derive(Debug)]
struct Dropping;

impl SpanProcessor for Dropping {
    fn on_start(&self, _: &mut Span, _: &Surroundings) {}

    fn on_end(&self, span: SpanData) {
        black_box(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

fn sdk(sampler: Sampler) -> Instruments {
    let tracers =
        SdkTracerProvider::builder().with_span_processor(Dropping).with_sampler(sampler).build();
    let reader = PeriodicReader::builder(InMemoryMetricExporter::default());
    let reader = reader.with_interval(Duration::from_secs(60 * 60)).build();
    let meters = SdkMeterProvider::builder().with_reader(reader).build();
    let tracer = BoxedTracer::new(Box::new(tracers.tracer(SCOPE)));
    let instruments = Instruments::new(tracer, &meters.meter(SCOPE));
    // They live as long as the program.
    std::mem::forget((tracers, meters));
    instruments
}

fn run(bencher: Bencher<'_, '_>, instruments: Option<Instruments>, trace: Option<&str>) {
    let mut chain = Chain::builder();
    if let Some(instruments) = instruments {
        chain = chain.layer(Telemetry::new(instruments));
    }
    let chain = chain.build().unwrap();
    let end = Echo(ToolResult::text("hello"));
    let ingress = Ingress {
        transport: Some(Transport::Stdio),
        protocol: Some("2025-11-25".into()),
        trace: trace.and_then(|parent| Trace::read(parent, None)),
    };
    bencher.bench(|| {
        let mut cx = Context::new(Arc::clone(&SESSION))
            .with_request_id(Some(Id::number(7)))
            .with_ingress(ingress.clone());
        let call = Call::new(Arc::clone(&TOOL), None);
        let mut running = chain.call(&mut cx, call, &end);
        match running.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => black_box(outcome),
            Poll::Pending => panic!("nothing here waits"),
        }
    });
}

/// The chain is empty: what the others are measured against.
#[divan::bench]
fn without_the_layer(bencher: Bencher<'_, '_>) {
    run(bencher, None, None);
}

/// The layer with instruments that make nothing.
#[divan::bench]
fn silent(bencher: Bencher<'_, '_>) {
    run(bencher, Some(Instruments::silent()), None);
}

/// Metrics alone, as with Prometheus only.
#[divan::bench]
fn metrics_only(bencher: Bencher<'_, '_>) {
    let reader = PeriodicReader::builder(InMemoryMetricExporter::default());
    let meters = SdkMeterProvider::builder().with_reader(reader.build()).build();
    run(bencher, Some(Instruments::metrics_only(&meters.meter(SCOPE))), None);
}

/// Spans that are not kept, and metrics.
#[divan::bench]
fn sdk_not_sampled(bencher: Bencher<'_, '_>) {
    run(bencher, Some(sdk(Sampler::AlwaysOff)), None);
}

/// Spans and metrics.
#[divan::bench]
fn sdk_sampled(bencher: Bencher<'_, '_>) {
    run(bencher, Some(sdk(Sampler::AlwaysOn)), None);
}

/// Spans and metrics, as part of the client's trace.
#[divan::bench]
fn sdk_sampled_with_parent(bencher: Bencher<'_, '_>) {
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    run(bencher, Some(sdk(Sampler::AlwaysOn)), Some(parent));
}
