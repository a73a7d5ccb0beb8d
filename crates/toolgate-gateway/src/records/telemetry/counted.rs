//! Counts the spans that end and the spans that the collector accepts. The difference is the number of lost spans.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use opentelemetry::Context;
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{Span, SpanData, SpanExporter, SpanProcessor},
};

/// How many sampled spans ended, and how many of them the collector accepted.
#[derive(Debug, Default)]
pub(super) struct SpanCounts {
    ended: AtomicU64,
    exported: AtomicU64,
}

impl SpanCounts {
    /// How many spans were dropped because the queue was full or because the export failed.
    pub(super) fn lost(&self) -> u64 {
        self.ended.load(Ordering::Relaxed).saturating_sub(self.exported.load(Ordering::Relaxed))
    }
}

/// Wraps an exporter or a processor and counts its spans.
#[derive(Debug)]
pub(super) struct CountedExporter<T>(pub(super) T, pub(super) Arc<SpanCounts>);

impl<E: SpanExporter> SpanExporter for CountedExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let result = self.0.export(batch).await;
        if result.is_ok() {
            self.1.exported.fetch_add(count, Ordering::Relaxed);
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}

impl<P: SpanProcessor> SpanProcessor for CountedExporter<P> {
    fn on_start(&self, span: &mut Span, cx: &Context) {
        self.0.on_start(span, cx);
    }

    fn on_end(&self, span: SpanData) {
        if span.span_context.is_sampled() {
            self.1.ended.fetch_add(1, Ordering::Relaxed);
        }
        self.0.on_end(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}
