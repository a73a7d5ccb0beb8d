//! The audit trail's way out: records in batches to an HTTP endpoint, tried again, and bounded.

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
    http_client::{Bounds, HttpClient, Target},
};

/// The first wait after a failed try; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const MAX_RETRY_WAIT: Duration = Duration::from_secs(30);

/// What an endpoint says is read up to here. Nobody looks at it.
const MAX_RESPONSE_BYTES: usize = 64 * 1024;

/// The thread that sends.
#[derive(Debug)]
pub(crate) struct TrailExporter(BackgroundWriter);

impl TrailExporter {
    /// Starts to send; gives the sink that the chain writes into. Refuses what could never be sent.
    pub(crate) fn start(
        config: &TrailConfig,
        redactor: Redactor,
    ) -> Result<(LogSink, Self), String> {
        let post = TrailPost::new(config)?;
        let log = LogConfig {
            results: config.results,
            queue: config.queue.max(1),
            on_full: config.on_full,
            ..LogConfig::default()
        };
        let (sink, queue) = LogSink::channel(&log, redactor);
        let writer = BackgroundWriter::start_async("trail", post.all(queue, config.batch.max(1)));
        Ok((sink, Self(writer.map_err(|error| error.to_string())?)))
    }

    /// Waits, for a while, until all is sent. Close the sink first. Blocks: for the end of a program.
    pub(crate) fn finish(self, patience: Duration) {
        self.0.finish(patience);
    }
}

/// How records are posted.
struct TrailPost {
    client: HttpClient,
    timeout: Duration,
    tries: u32,
}

impl TrailPost {
    fn new(config: &TrailConfig) -> Result<Self, String> {
        let headers = config.headers.iter();
        let headers = headers.map(|(name, value)| (name.clone(), value.as_str().to_owned()));
        let target = Target::endpoint(config.url.as_str(), headers, Bounds::default());
        // The address may hold a secret: it is not repeated.
        let target = target.map_err(|error| format!("`trail`: {error}"))?;
        let client = HttpClient::new(Arc::new(target));
        Ok(Self { client, timeout: config.timeout, tries: config.tries.max(1) })
    }

    async fn all(self, mut queue: LogQueue, batch: usize) {
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
            let why = match self.once(body.clone()).await {
                Ok(status) if status.is_success() => return Ok(()),
                Ok(status) if !is_passing(status) => return Err(format!("it answered {status}")),
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

    async fn once(&self, body: Bytes) -> Result<StatusCode, String> {
        let exchange = async {
            let answer = self.client.send(Method::POST, None, &[], body).await;
            let answer = answer.map_err(|error| error.to_string())?;
            let status = answer.status;
            // Read to its end, the connection serves the next post.
            let _ = answer.whole(MAX_RESPONSE_BYTES).await;
            Ok(status)
        };
        let answered = tokio::time::timeout(self.timeout, exchange).await;
        answered
            .unwrap_or_else(|_| Err(format!("no answer within {} s", self.timeout.as_secs_f32())))
    }
}

/// Whether the same post may be taken later.
fn is_passing(status: StatusCode) -> bool {
    status.is_server_error()
        || status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT
}
