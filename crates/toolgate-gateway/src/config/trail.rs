//! `[trail]`: the HTTP endpoint to which the gateway posts the record of each call.

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;
use toolgate::{duration, middleware::audit::OnFull};

use super::Text;

/// `[trail]`: sends the record of each call to an HTTP endpoint.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrailConfig {
    /// The endpoint, which gets JSON arrays of records by POST.
    pub url: Text,
    /// HTTP headers of the requests.
    #[serde(default)]
    pub headers: BTreeMap<String, Text>,
    /// Whether results are also sent. Their sizes always are.
    #[serde(default)]
    pub results: bool,
    /// The most records in one request.
    #[serde(default = "default_batch")]
    pub batch: usize,
    /// The most records that wait to be sent.
    #[serde(default = "default_queue")]
    pub queue: usize,
    /// What happens to a record if the queue is full.
    #[serde(default = "default_on_full")]
    pub on_full: OnFull,
    /// How often a request is tried, with increasing delays.
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
