//! Exports spans and metrics to a collector over OTLP, and metrics to Prometheus. Only configured exporters run.

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

/// The most spans or log records that wait for the collector. Further ones are dropped; dropped spans are counted.
const MAX_QUEUED: usize = 4096;
/// The most spans or log records in one request.
const MAX_BATCH: usize = 512;
/// How long a span or log record waits for others before a request is sent.
const BATCH_DELAY: Duration = Duration::from_secs(2);

/// The SDK and `Exporters::finish` wait for the same time. A shutdown that ends less than this before the timeout
/// counts as timed out.
const TIMEOUT_TOLERANCE: Duration = Duration::from_millis(100);

/// The error for `audit.otlp` without a collector.
pub(crate) const NO_COLLECTOR: &str =
    "`audit.otlp` needs a collector: set `telemetry.otlp`, as `otlp = \"http://127.0.0.1:4318\"`";

/// The running exporters. Call [`finish`](Self::finish) at the end of the program.
pub(crate) struct Exporters {
    tracers: Option<SdkTracerProvider>,
    loggers: Option<SdkLoggerProvider>,
    meters: SdkMeterProvider,
    spans: Arc<SpanCounts>,
    health: Arc<CollectorHealth>,
    _metrics_server: Option<MetricsServer>,
}

impl fmt::Debug for Exporters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exporters")
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// Instruments for a command that only inspects the config: checks the settings, and exports nothing.
pub(crate) fn silent(config: &TelemetryConfig) -> Result<Instruments, String> {
    Plan::new(config, &variable)?;
    Ok(Instruments::silent())
}

/// The parts of the exporters that the chain needs: the instruments, and the audit output if `audit.otlp` is set.
pub(crate) type StartedExporters = (Instruments, Option<Arc<dyn AuditOutput>>);

/// Starts the configured exporters.
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
    let mut metrics_server = None;
    if let Some(address) = plan.prometheus {
        let scraped = OnDemandReader::default();
        meters = meters.with_reader(scraped.clone());
        metrics_server = Some(MetricsServer::start(address, scraped)?);
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
    let exporters =
        Exporters { tracers, loggers, meters, spans, health, _metrics_server: metrics_server };
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
        .with_max_queue_size(MAX_QUEUED)
        .with_max_export_batch_size(MAX_BATCH)
        .with_scheduled_delay(BATCH_DELAY);
    let processor = BatchSpanProcessor::builder(CountedExporter(exporter, Arc::clone(spans)))
        .with_batch_config(batches.build())
        .build();
    Ok(SdkTracerProvider::builder()
        .with_span_processor(CountedExporter(processor, Arc::clone(spans)))
        .with_sampler(plan.sampler.clone())
        .with_resource(plan.resource.clone())
        .build())
}

/// The message for an exporter that the SDK cannot build, usually because of a variable of OpenTelemetry.
fn refused(error: &dyn fmt::Display) -> String {
    format!("telemetry cannot be exported: {error}; check the variables that begin with OTEL_")
}

impl Exporters {
    /// Sends what is left, at most for `timeout`. Blocks the thread: call it only at the end of the program.
    pub(crate) fn finish(self, timeout: Duration) {
        let (done, all_done) = mpsc::channel();
        let Self { tracers, loggers, meters, spans, health, _metrics_server } = self;
        let (metrics_done, logs_done) = (done.clone(), done.clone());
        let ending = [
            thread::Builder::new().spawn(move || {
                let _ = tracers.map(|tracers| tracers.shutdown_with_timeout(timeout));
                drop(done);
            }),
            thread::Builder::new().spawn(move || {
                let _ = meters.shutdown_with_timeout(timeout);
                drop(metrics_done);
            }),
            thread::Builder::new().spawn(move || {
                let _ = loggers.map(|loggers| loggers.shutdown_with_timeout(timeout));
                drop(logs_done);
            }),
        ];
        drop(ending);
        let start = Instant::now();
        // No thread sends a value: the channel closes when all threads have dropped their sender.
        let _: Result<(), _> = all_done.recv_timeout(timeout);
        if start.elapsed() + TIMEOUT_TOLERANCE >= timeout {
            tracing::warn!("the collector did not take the last telemetry in time");
        }
        let (lost, failures) = (spans.lost(), health.failures());
        if lost > 0 || failures > 0 {
            tracing::warn!(lost_spans = lost, failed_posts = failures, "telemetry was lost");
        }
    }
}
