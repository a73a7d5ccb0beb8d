//! Exports the records of the audit to the collector, as OpenTelemetry log records.

use std::{error::Error, fmt, sync::Arc, time::SystemTime};

use opentelemetry::{
    SpanId, TraceId,
    logs::{AnyValue, LogRecord as _, Logger as _, LoggerProvider as _, Severity},
};
use opentelemetry_otlp::{LogExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::logs::{
    BatchConfigBuilder, BatchLogProcessor, SdkLogger, SdkLoggerProvider,
};
use toolgate::middleware::{
    audit::{AuditConfig, AuditLine, AuditOutput},
    telemetry::SCOPE,
};
use toolgate_wire::{Json, Limits};

use super::{
    BATCH_DELAY, MAX_BATCH, MAX_QUEUED,
    plan::{Otlp, Plan},
    post::{CollectorHealth, Post},
    refused,
};

/// An output of the audit that passes each line to the SDK. A thread of the SDK sends it.
pub(super) struct AuditLogs(SdkLogger);

impl fmt::Debug for AuditLogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditLogs")
    }
}

pub(super) fn start(
    plan: &Plan,
    otlp: &Otlp,
    health: &Arc<CollectorHealth>,
) -> Result<(SdkLoggerProvider, AuditLogs), String> {
    let exporter = LogExporter::builder()
        .with_http()
        .with_http_client(Post::new(otlp, Arc::clone(health))?)
        .with_endpoint(otlp.address("/v1/logs"));
    let exporter = exporter.build().map_err(|error| refused(&error))?;
    let batches = BatchConfigBuilder::default()
        .with_max_queue_size(MAX_QUEUED)
        .with_max_export_batch_size(MAX_BATCH)
        .with_scheduled_delay(BATCH_DELAY);
    let processor = BatchLogProcessor::builder(exporter).with_batch_config(batches.build()).build();
    let provider = SdkLoggerProvider::builder()
        .with_log_processor(processor)
        .with_resource(plan.resource.clone())
        .build();
    let logs = AuditLogs(provider.logger(SCOPE));
    Ok((provider, logs))
}

/// The name of an event. The SDK accepts only static names.
fn event_name(event: &str) -> &'static str {
    match event {
        "call" => "toolgate.audit.call",
        "intent" => "toolgate.audit.intent",
        "lost" => "toolgate.audit.lost",
        "begin" => "toolgate.audit.begin",
        "torn" => "toolgate.audit.torn",
        _ => "toolgate.audit",
    }
}

impl AuditOutput for AuditLogs {
    fn name(&self) -> &'static str {
        "collector"
    }

    fn is_wanted(&self, config: &AuditConfig) -> bool {
        config.otlp
    }

    fn write(&self, lines: &[AuditLine<'_>]) -> Result<(), Box<dyn Error + Send + Sync>> {
        for line in lines {
            let mut record = self.0.create_log_record();
            record.set_event_name(event_name(line.about.event));
            record.set_timestamp(SystemTime::from(line.about.at));
            record.set_severity_number(Severity::Info);
            record.set_body(AnyValue::from(line.json.to_owned()));
            if let Some(call) = line.about.call_id {
                record.add_attribute("toolgate.call_uuid", call.to_string());
            }
            if let Some(outcome) = line.about.outcome {
                record.add_attribute("toolgate.outcome", outcome);
            }
            if let Some((trace, span)) = span_of(line.json) {
                record.set_trace_context(trace, span, None);
            }
            self.0.emit(record);
        }
        Ok(())
    }
}

/// The trace and the span of a record, if it names them.
fn span_of(line: &str) -> Option<(TraceId, SpanId)> {
    let record = Json::parse(line.to_owned(), &Limits::default()).ok()?;
    let text = |key| record.get(key).and_then(|json| json.text().map(String::from));
    let trace = TraceId::from_hex(&text("trace_id")?).ok()?;
    Some((trace, SpanId::from_hex(&text("span_id")?).ok()?))
}
