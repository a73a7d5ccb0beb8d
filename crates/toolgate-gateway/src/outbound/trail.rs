//! The audit trail's way out: records in batches to an HTTP endpoint, tried again, and bounded.

use std::{collections::BTreeMap, sync::mpsc, thread, time::Duration};

use reqwest::{
    StatusCode, Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde::Deserialize;
use toolgate::{
    duration,
    middleware::{
        audit::{OnFull, Redactor},
        log::{LogConfig, LogQueue, LogSink, Record},
    },
};

use crate::config::Text;

/// `[trail]`: the record of each call goes to an HTTP endpoint.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrailConfig {
    /// Where records are posted to, as a JSON array.
    pub url: Text,
    /// Headers of each post.
    #[serde(default)]
    pub headers: BTreeMap<String, Text>,
    /// Whether results are sent too. Their sizes always are.
    #[serde(default)]
    pub results: bool,
    /// The most records in one post.
    #[serde(default = "default_batch")]
    pub batch: usize,
    /// How many records wait at most.
    #[serde(default = "default_queue")]
    pub queue: usize,
    /// What happens to a record that finds the queue full. The endpoint may be away for long.
    #[serde(default = "default_on_full")]
    pub on_full: OnFull,
    /// How often a post is tried, with growing waits.
    #[serde(default = "default_tries")]
    pub tries: u32,
    /// How long one try may take.
    #[serde(default = "default_timeout", with = "duration")]
    #[schemars(with = "String")]
    pub timeout: Duration,
}

fn default_batch() -> usize {
    100
}

fn default_queue() -> usize {
    8192
}

fn default_on_full() -> OnFull {
    OnFull::Drop
}

fn default_tries() -> u32 {
    5
}

fn default_timeout() -> Duration {
    Duration::from_secs(10)
}

/// The first wait after a failed try; each further one is twice as long.
const FIRST_WAIT: Duration = Duration::from_millis(200);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The thread that sends.
#[derive(Debug)]
pub(crate) struct Trail {
    done: mpsc::Receiver<()>,
}

impl Trail {
    /// Starts to send; gives the sink that the chain writes into. Refuses what could never be sent.
    pub(crate) fn start(
        config: &TrailConfig,
        redactor: Redactor,
    ) -> Result<(LogSink, Self), String> {
        let post = Post::new(config)?;
        let log = LogConfig {
            results: config.results,
            queue: config.queue.max(1),
            on_full: config.on_full,
            ..LogConfig::default()
        };
        let (sink, queue) = LogSink::channel(&log, redactor);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let (end, done) = mpsc::channel();
        let batch = config.batch.max(1);
        let thread = thread::Builder::new().name("trail".to_owned());
        let spawned = thread.spawn(move || {
            runtime.block_on(post.all(queue, batch));
            drop(end);
        });
        spawned.map_err(|error| error.to_string())?;
        Ok((sink, Self { done }))
    }

    /// Waits, for a while, until all is sent. Close the sink first. Blocks: for the end of a program.
    pub(crate) fn finish(self, patience: Duration) {
        if self.done.recv_timeout(patience) == Err(mpsc::RecvTimeoutError::Timeout) {
            tracing::error!("the audit trail did not finish in time: its last records are lost");
        }
    }
}

/// How records are posted.
struct Post {
    client: reqwest::Client,
    url: Url,
    headers: HeaderMap,
    tries: u32,
}

impl Post {
    fn new(config: &TrailConfig) -> Result<Self, String> {
        // The address may hold a secret: it is not repeated.
        let url = Url::parse(config.url.as_str())
            .map_err(|error| format!("`trail.url` is no address: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("`trail.url` must begin with http:// or https://".to_owned());
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &config.headers {
            let bad = || format!("`trail.headers.{name}` is no header");
            let mut value = HeaderValue::from_str(value.as_str()).map_err(|_| bad())?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?, value);
        }
        let client = reqwest::Client::builder()
            .timeout(config.timeout)
            // Headers with secrets go where they were meant to go, and nowhere else.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { client, url, headers, tries: config.tries.max(1) })
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

    async fn send(&self, records: &[Record]) -> Result<(), String> {
        let body = serde_json::to_vec(records).map_err(|error| error.to_string())?;
        let mut wait = FIRST_WAIT;
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
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    async fn once(&self, body: Vec<u8>) -> Result<StatusCode, String> {
        let post = self.client.post(self.url.clone()).headers(self.headers.clone());
        let post = post.header("content-type", "application/json").body(body);
        // Without its address, which may hold a secret.
        let answer = post.send().await.map_err(|error| error.without_url().to_string())?;
        Ok(answer.status())
    }
}

/// Whether the same post may be taken later.
fn is_passing(status: StatusCode) -> bool {
    status.is_server_error()
        || status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT
}
