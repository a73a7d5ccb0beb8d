//! The exporter of the trail: posts batches of records to an HTTP endpoint, with retries and a bounded queue.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hyper::{Method, StatusCode};
use toolgate::{
    background::BackgroundWriter,
    middleware::{
        audit::Redactor,
        log::{CallRecord, LogConfig, LogQueue, LogSink},
    },
};

use crate::{
    backoff::Backoff,
    config::TrailConfig,
    http_client::{ConnectionLimits, HttpClient, Target},
};

/// The delay after the first failed try. It doubles after each further one, up to `MAX_RETRY_WAIT`.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const MAX_RETRY_WAIT: Duration = Duration::from_secs(30);

/// The most bytes of a response that are read. The content is ignored.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// The thread that posts the records.
#[derive(Debug)]
pub(crate) struct TrailExporter(BackgroundWriter);

impl TrailExporter {
    /// Starts the thread, and returns the sink that the chain writes to. Refuses an invalid URL or header.
    pub(crate) fn start(
        config: &TrailConfig,
        redactor: Redactor,
    ) -> Result<(LogSink, Self), String> {
        let post = TrailPost::new(config)?;
        let log = LogConfig::with(|log| {
            log.results = config.results;
            log.queue = config.queue.max(1);
            log.on_full = config.on_full;
        });
        let (sink, queue) = LogSink::channel(&log, redactor);
        let writer =
            BackgroundWriter::start_async("trail", post.send_all(queue, config.batch.max(1)));
        Ok((sink, Self(writer.map_err(|error| error.to_string())?)))
    }

    /// Waits until all records are sent, at most for `timeout`. Close the sink first. Blocks the thread: call it only
    /// at the end of the program.
    pub(crate) fn finish(self, timeout: Duration) {
        self.0.finish(timeout);
    }
}

/// Posts records to the endpoint.
struct TrailPost {
    client: HttpClient,
    timeout: Duration,
    tries: u32,
}

impl TrailPost {
    fn new(config: &TrailConfig) -> Result<Self, String> {
        let headers = config.headers.iter();
        let headers = headers.map(|(name, value)| (name.clone(), value.as_str().to_owned()));
        let target = Target::endpoint(config.url.as_str(), headers, ConnectionLimits::default());
        // The errors of `Target` do not repeat the URL, which may contain a secret.
        let target = target.map_err(|error| format!("`trail`: {error}"))?;
        let client = HttpClient::new(Arc::new(target));
        Ok(Self { client, timeout: config.timeout, tries: config.tries.max(1) })
    }

    async fn send_all(self, mut queue: LogQueue, batch: usize) {
        while let Some(records) = queue.next_batch(batch).await {
            match self.send(&records).await {
                Ok(()) => queue.wrote(records.len()),
                Err(why) => {
                    queue.lost(records.len());
                    let lost = queue.counts().lost();
                    tracing::error!(lost, "the audit trail's endpoint takes no records: {why}");
                }
            }
        }
    }

    async fn send(&self, records: &[CallRecord]) -> Result<(), String> {
        let body = Bytes::from(serde_json::to_vec(records).map_err(|error| error.to_string())?);
        let mut backoff = Backoff::between(FIRST_WAIT, MAX_RETRY_WAIT);
        let mut tried = 1;
        loop {
            let why = match self.send_once(body.clone()).await {
                Ok(status) if status.is_success() => return Ok(()),
                Ok(status) if !is_transient(status) => return Err(format!("it answered {status}")),
                Ok(status) => format!("it answered {status}"),
                Err(error) => error,
            };
            if tried >= self.tries {
                return Err(format!("{why}, after {tried} tries"));
            }
            tried += 1;
            tokio::time::sleep(backoff.wait()).await;
        }
    }

    async fn send_once(&self, body: Bytes) -> Result<StatusCode, String> {
        let exchange = async {
            let answer = self.client.send(Method::POST, None, &[], body).await;
            let answer = answer.map_err(|error| error.to_string())?;
            let status = answer.status;
            // After the end of the body the connection can be used for the next request.
            let _ = answer.whole(MAX_RESPONSE_BYTES).await;
            Ok(status)
        };
        let answered = tokio::time::timeout(self.timeout, exchange).await;
        answered
            .unwrap_or_else(|_| Err(format!("no answer within {} s", self.timeout.as_secs_f32())))
    }
}

/// Whether the endpoint may accept the same request later.
fn is_transient(status: StatusCode) -> bool {
    status.is_server_error()
        || status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT
}
