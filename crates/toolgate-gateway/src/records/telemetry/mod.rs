//! Where spans and metrics go: a collector over OTLP, and Prometheus. Nothing of it runs unless it is asked for.

mod counted;
mod exposition;
mod logs;
mod plan;
mod post;
mod scrape;

use std::{
    fmt,
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use counted::{CountedExporter, SpanCounts};
use exposition::OnDemandReader;
use opentelemetry::{global::BoxedTracer, metrics::MeterProvider as _, trace::TracerProvider as _};
use opentelemetry_otlp::{
    MetricExporter, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::{
    logs::SdkLoggerProvider,
    metrics::{PeriodicReader, SdkMeterProvider},
    trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider},
};
use plan::{Otlp, Plan};
use post::{CollectorHealth, Post};
use scrape::MetricsServer;
use toolgate::middleware::{
    audit::{AuditConfig, AuditOutput},
    telemetry::{Instruments, SCOPE},
};

use crate::config::TelemetryConfig;

/// So many spans wait for the collector at most; what comes then is dropped and counted.
const QUEUE: usize = 4096;
/// The most spans in one post.
const BATCH: usize = 512;
/// A span waits this long for others at most.
const DELAY: Duration = Duration::from_secs(2);

/// The SDK and we give up after the same time, one of us a little earlier.
const MOMENT: Duration = Duration::from_millis(100);

/// `audit.otlp` without anywhere to send to.
pub(crate) const NO_COLLECTOR: &str =
    "`audit.otlp` needs a collector: set `telemetry.otlp`, as `otlp = \"http://127.0.0.1:4318\"`";

/// Exporters that run, to be finished at the end.
pub(crate) struct Exporters {
    tracers: Option<SdkTracerProvider>,
    loggers: Option<SdkLoggerProvider>,
    meters: SdkMeterProvider,
    spans: Arc<SpanCounts>,
    health: Arc<CollectorHealth>,
    _door: Option<MetricsServer>,
}

impl fmt::Debug for Exporters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exporters")
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// Instruments for those who only look: the settings are checked, and nothing is sent.
pub(crate) fn silent(config: &TelemetryConfig) -> Result<Instruments, String> {
    Plan::new(config, &variable)?;
    Ok(Instruments::silent())
}

/// What the chain gets: what spans and metrics are made with, and an output of the audit if it is wanted.
pub(crate) type StartedExporters = (Instruments, Option<Arc<dyn AuditOutput>>);

/// Starts the exporters. Gives what the chain needs of them.
pub(crate) fn start(
    config: &TelemetryConfig,
    audit: &AuditConfig,
) -> Result<(StartedExporters, Option<Exporters>), String> {
    let Some(plan) = Plan::new(config, &variable)? else {
        tracing::info!("telemetry is switched off by OTEL_SDK_DISABLED");
        return Ok(((Instruments::silent(), None), None));
    };
    let (spans, health) = (Arc::<SpanCounts>::default(), Arc::<CollectorHealth>::default());
    let mut meters = SdkMeterProvider::builder().with_resource(plan.resource.clone());
    let mut tracers = None;
    let (mut loggers, mut output) = (None, None::<Arc<dyn AuditOutput>>);
    let mut door = None;
    if let Some(address) = plan.prometheus {
        let scraped = OnDemandReader::default();
        meters = meters.with_reader(scraped.clone());
        door = Some(MetricsServer::open(address, scraped)?);
    }
    if let Some(otlp) = &plan.otlp {
        meters = meters.with_reader(metric_reader(&plan, otlp, &health)?);
        tracers = Some(tracer_provider(&plan, otlp, &health, &spans)?);
        if audit.otlp {
            let (provider, logs) = logs::start(&plan, otlp, &health)?;
            loggers = Some(provider);
            output = Some(Arc::new(logs));
        }
    } else if audit.otlp {
        return Err(NO_COLLECTOR.to_owned());
    }
    let meters = meters.build();
    let meter = meters.meter(SCOPE);
    let instruments = match &tracers {
        Some(tracers) => {
            Instruments::new(BoxedTracer::new(Box::new(tracers.tracer(SCOPE))), &meter)
        }
        None => Instruments::metrics_only(&meter),
    };
    let exporters = Exporters { tracers, loggers, meters, spans, health, _door: door };
    Ok(((instruments, output), Some(exporters)))
}

fn metric_reader(
    plan: &Plan,
    otlp: &Otlp,
    health: &Arc<CollectorHealth>,
) -> Result<PeriodicReader<MetricExporter>, String> {
    let exporter = MetricExporter::builder()
        .with_http()
        .with_http_client(Post::new(otlp, Arc::clone(health))?)
        .with_endpoint(otlp.address("/v1/metrics"));
    let exporter = exporter.build().map_err(|error| refused(&error))?;
    Ok(PeriodicReader::builder(exporter).with_interval(plan.interval).build())
}

fn tracer_provider(
    plan: &Plan,
    otlp: &Otlp,
    health: &Arc<CollectorHealth>,
    spans: &Arc<SpanCounts>,
) -> Result<SdkTracerProvider, String> {
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(Post::new(otlp, Arc::clone(health))?)
        .with_endpoint(otlp.address("/v1/traces"));
    let exporter = exporter.build().map_err(|error| refused(&error))?;
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUE)
        .with_max_export_batch_size(BATCH)
        .with_scheduled_delay(DELAY);
    let processor = BatchSpanProcessor::builder(CountedExporter(exporter, Arc::clone(spans)))
        .with_batch_config(batches.build())
        .build();
    Ok(SdkTracerProvider::builder()
        .with_span_processor(CountedExporter(processor, Arc::clone(spans)))
        .with_sampler(plan.sampler.clone())
        .with_resource(plan.resource.clone())
        .build())
}

/// An exporter that cannot be made: a variable of OpenTelemetry asks for what is not here.
fn refused(error: &dyn fmt::Display) -> String {
    format!("telemetry cannot be exported: {error}; check the variables that begin with OTEL_")
}

impl Exporters {
    /// Sends what is left, for a while. Blocks: for the end of a program.
    pub(crate) fn finish(self, patience: Duration) {
        let (done, all_done) = mpsc::channel();
        let Self { tracers, loggers, meters, spans, health, _door } = self;
        let (metrics_done, logs_done) = (done.clone(), done.clone());
        let ending = [
            thread::Builder::new().spawn(move || {
                let _ = tracers.map(|tracers| tracers.shutdown_with_timeout(patience));
                drop(done);
            }),
            thread::Builder::new().spawn(move || {
                let _ = meters.shutdown_with_timeout(patience);
                drop(metrics_done);
            }),
            thread::Builder::new().spawn(move || {
                let _ = loggers.map(|loggers| loggers.shutdown_with_timeout(patience));
                drop(logs_done);
            }),
        ];
        drop(ending);
        let asked = Instant::now();
        // Nobody says anything: it ends when all are done, or have given up, which takes them as long as us.
        let _: Result<(), _> = all_done.recv_timeout(patience);
        if asked.elapsed() + MOMENT >= patience {
            tracing::warn!("the collector did not take the last telemetry in time");
        }
        let (lost, failures) = (spans.lost(), health.failures());
        if lost > 0 || failures > 0 {
            tracing::warn!(lost_spans = lost, failed_posts = failures, "telemetry was lost");
        }
    }
}
