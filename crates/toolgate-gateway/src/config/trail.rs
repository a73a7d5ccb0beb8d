//! The table `[trail]`: where the record of each call is posted.

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;
use toolgate::{duration, middleware::audit::OnFull};

use super::Text;

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
