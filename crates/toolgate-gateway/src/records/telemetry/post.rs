//! Posts telemetry to the collector. A request blocks the thread of its exporter, and the first failure is logged.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use hyper::{
    Method,
    header::{CONTENT_TYPE, HeaderValue},
};
use opentelemetry_http::{
    Bytes, HttpClient as OtlpClient, HttpError, Request, Response, ResponseBodyTooLarge,
};
use parking_lot::Mutex;
use tokio::{runtime::Runtime, time::timeout};

use super::plan::Otlp;
use crate::http_client::{BodyError, ConnectionLimits, HttpClient, Target};

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The most bytes of a response. Collectors usually send a few bytes.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// Whether the collector accepts telemetry. Only a change of this state is logged.
#[derive(Debug, Default)]
pub(super) struct CollectorHealth {
    is_failing: AtomicBool,
    failures: AtomicU64,
}

impl CollectorHealth {
    fn record_success(&self) {
        if self.is_failing.swap(false, Ordering::Relaxed) {
            tracing::info!("the collector takes telemetry again");
        }
    }

    fn record_failure(&self, why: &str) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        if !self.is_failing.swap(true, Ordering::Relaxed) {
            tracing::warn!("the collector takes no telemetry: {why}; calls are not affected");
        }
    }

    /// How many requests failed.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

/// The HTTP client of an exporter. It blocks, so it must be called on the exporter's own thread and not in a runtime.
#[derive(Debug)]
pub(super) struct Post {
    client: HttpClient,
    runtime: Mutex<Option<Runtime>>,
    health: Arc<CollectorHealth>,
}

impl Post {
    pub(super) fn new(otlp: &Otlp, health: Arc<CollectorHealth>) -> Result<Self, String> {
        // No idle connections: the runtime does not run between two requests, so no sweep would close them.
        let bounds = ConnectionLimits { max_idle: 0, ..ConnectionLimits::default() };
        let target = Target::endpoint(&otlp.base, otlp.headers.clone(), bounds);
        let target = target.map_err(|error| format!("telemetry cannot be exported: {error}"))?;
        let client = HttpClient::new(Arc::new(target));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = Mutex::new(Some(runtime.map_err(|error| error.to_string())?));
        Ok(Self { client, runtime, health })
    }

    /// Sends a request and waits for the response.
    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let runtime = self.runtime.lock();
        let runtime = runtime.as_ref().ok_or("the exporter is closed")?;
        let answer = runtime.block_on(self.exchange(request));
        match &answer {
            Ok(answer) if answer.status().is_success() => self.health.record_success(),
            Ok(answer) => self.health.record_failure(&format!("it answered {}", answer.status())),
            Err(error) => self.health.record_failure(&error.to_string()),
        }
        answer
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        // The SDK also adds headers from the environment. They are left out, because `Otlp` has the headers to send.
        let content_type = parts.headers.get(CONTENT_TYPE).cloned();
        let content_type =
            content_type.unwrap_or_else(|| HeaderValue::from_static("application/x-protobuf"));
        let extra = [(CONTENT_TYPE, content_type)];
        let exchange = async {
            let mut answer =
                self.client.send(Method::POST, Some(parts.uri.path()), &extra, body).await?;
            let mut response = Response::new(Bytes::new());
            *response.status_mut() = answer.status;
            *response.headers_mut() = std::mem::take(&mut answer.headers.0);
            *response.body_mut() = answer.whole(MAX_RESPONSE_BYTES).await.map_err(refused)?;
            Ok(response)
        };
        let answered = timeout(TIMEOUT, exchange).await;
        answered.unwrap_or_else(|_| Err(format!("no answer within {} s", TIMEOUT.as_secs()).into()))
    }
}

fn refused(error: BodyError) -> HttpError {
    match error {
        BodyError::TooLarge(_) => Box::new(ResponseBodyTooLarge::new()),
        BodyError::Broken(_) => Box::new(error),
    }
}

impl OtlpClient for Post {
    // The signature that `async_trait` generates for the trait.
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(std::future::ready(self.send(request)))
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        // tokio panics if a runtime is dropped within another one; `shutdown_background` does not wait.
        let runtime = self.runtime.lock().take();
        if let Some(runtime) = runtime {
            runtime.shutdown_background();
        }
    }
}
