//! Writes the metrics of the SDK in the text format of Prometheus.
//!
//! toolgate does not use `opentelemetry-prometheus`, because that crate switches the logging of the SDK on, which logs
//! every batch that an unreachable collector does not accept. toolgate has only sums and histograms.

use std::{
    fmt::{Display, Write as _},
    sync::{Arc, Weak},
    time::Duration,
};

use opentelemetry::KeyValue;
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    metrics::{
        InstrumentKind, ManualReader, Pipeline, Temporality,
        data::{
            AggregatedMetrics, Histogram, Metric, MetricData, ResourceMetrics, ScopeMetrics, Sum,
        },
        reader::MetricReader,
    },
};

/// The content type of the text.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric reader that collects on each request.
#[derive(Clone, Debug, Default)]
pub(super) struct OnDemandReader(Arc<ManualReader>);

impl OnDemandReader {
    /// The current values of all metrics.
    pub(super) fn text(&self) -> String {
        let mut collected = ResourceMetrics::default();
        let mut text = String::new();
        if let Err(error) = self.0.collect(&mut collected) {
            tracing::debug!(%error, "metrics cannot be collected");
            return text;
        }
        write_target_info(&mut text, collected.resource());
        for metric in collected.scope_metrics().flat_map(ScopeMetrics::metrics) {
            write_metric(&mut text, metric);
        }
        text
    }
}

impl MetricReader for OnDemandReader {
    fn register_pipeline(&self, pipeline: Weak<Pipeline>) {
        self.0.register_pipeline(pipeline);
    }

    fn collect(&self, metrics: &mut ResourceMetrics) -> OTelSdkResult {
        self.0.collect(metrics)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn temporality(&self, _: InstrumentKind) -> Temporality {
        Temporality::Cumulative
    }
}

/// Writes the attributes of the resource as the labels of `target_info`, a metric that is always 1.
fn write_target_info(text: &mut String, resource: &Resource) {
    let labels = resource.iter().map(|(key, value)| (key.as_str(), value.to_string()));
    let labels = labels.map(|(key, value)| label(key, &value)).collect::<Vec<_>>().join(",");
    let _ = writeln!(text, "# TYPE target_info gauge\ntarget_info{{{labels}}} 1");
}

fn write_metric(text: &mut String, metric: &Metric) {
    let name = full_name(metric.name(), metric.unit());
    match metric.data() {
        AggregatedMetrics::U64(data) => write_data(text, metric, &name, data),
        AggregatedMetrics::F64(data) => write_data(text, metric, &name, data),
        AggregatedMetrics::I64(data) => write_data(text, metric, &name, data),
    }
}

fn write_data<T: Display + Copy>(
    text: &mut String,
    metric: &Metric,
    name: &str,
    data: &MetricData<T>,
) {
    match data {
        MetricData::Sum(sum) if sum.is_monotonic() => {
            let name = format!("{name}_total");
            head(text, metric, &name, "counter");
            write_sum(text, &name, sum);
        }
        MetricData::Histogram(histogram) => {
            head(text, metric, name, "histogram");
            write_histogram(text, name, histogram);
        }
        // toolgate has no metrics of these kinds.
        MetricData::Sum(_) | MetricData::Gauge(_) | MetricData::ExponentialHistogram(_) => {}
    }
}

fn head(text: &mut String, metric: &Metric, name: &str, kind: &str) {
    let help = metric.description().replace('\\', "\\\\").replace('\n', "\\n");
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn write_sum<T: Display + Copy>(text: &mut String, name: &str, sum: &Sum<T>) {
    for point in sum.data_points() {
        let _ = writeln!(text, "{name}{{{}}} {}", labels(point.attributes()), point.value());
    }
}

fn write_histogram<T: Display + Copy>(text: &mut String, name: &str, histogram: &Histogram<T>) {
    for point in histogram.data_points() {
        let labels = labels(point.attributes());
        let comma = if labels.is_empty() { "" } else { "," };
        let mut below = 0;
        // `zip` leaves out the last bucket, above every bound: `+Inf` below counts all values.
        for (bound, count) in point.bounds().zip(point.bucket_counts()) {
            below += count;
            let _ = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {below}");
        }
        let (sum, count) = (point.sum(), point.count());
        let _ = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {count}");
    }
}

fn labels<'a>(attributes: impl Iterator<Item = &'a KeyValue>) -> String {
    let labels = attributes.map(|pair| label(pair.key.as_str(), &pair.value.as_str()));
    labels.collect::<Vec<_>>().join(",")
}

fn label(key: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{}=\"{value}\"", plain(key))
}

/// A metric name with its unit, unless the name already ends with the unit.
fn full_name(name: &str, unit: &str) -> String {
    let name = plain(name);
    let written = match unit {
        "s" => "seconds",
        "ms" => "milliseconds",
        _ => "",
    };
    let has_unit = |unit: &str| name.ends_with(&format!("_{unit}"));
    if written.is_empty() || has_unit(unit) || has_unit(written) {
        return name;
    }
    format!("{name}_{written}")
}

fn plain(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    name.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use opentelemetry::metrics::MeterProvider as _;
    use opentelemetry_sdk::metrics::SdkMeterProvider;

    use super::*;

    #[test]
    fn sums_and_histograms_are_written_as_prometheus_reads_them() {
        let scraped = OnDemandReader::default();
        let resource = Resource::builder_empty().with_service_name("me").build();
        let meters = SdkMeterProvider::builder()
            .with_reader(scraped.clone())
            .with_resource(resource)
            .build();
        let meter = meters.meter("x");
        let calls = meter.u64_counter("mcp.tool.calls").with_description("How\nmany").build();
        calls.add(2, &[KeyValue::new("mcp.tool.name", "a\"b\\c\nd"), KeyValue::new("ok", true)]);
        let took = meter.f64_histogram("op.duration").with_unit("s");
        let took = took.with_boundaries(vec![0.5, 1.0]).build();
        for seconds in [0.1, 0.7, 0.8, 4.0] {
            took.record(seconds, &[]);
        }
        let text = scraped.text();
        for line in [
            "target_info{service_name=\"me\"} 1",
            "# HELP mcp_tool_calls_total How\\nmany",
            "# TYPE mcp_tool_calls_total counter",
            "# TYPE op_duration_seconds histogram",
            "op_duration_seconds_bucket{le=\"0.5\"} 1",
            "op_duration_seconds_bucket{le=\"1\"} 3",
            "op_duration_seconds_bucket{le=\"+Inf\"} 4",
            "op_duration_seconds_count{} 4",
        ] {
            assert!(text.lines().any(|have| have == line), "{line}\n{text}");
        }
        let calls = text.lines().find(|line| line.starts_with("mcp_tool_calls_total{")).unwrap();
        assert!(calls.contains(r#"mcp_tool_name="a\"b\\c\nd""#), "{calls}");
        assert!(calls.contains(r#"ok="true""#) && calls.ends_with("} 2"), "{calls}");
    }

    #[test]
    fn a_unit_is_added_once() {
        assert_eq!(full_name("mcp.tool.duration_ms", "ms"), "mcp_tool_duration_ms");
        assert_eq!(
            full_name("mcp.server.operation.duration", "s"),
            "mcp_server_operation_duration_seconds"
        );
        assert_eq!(full_name("mcp.tool.calls", ""), "mcp_tool_calls");
    }
}
