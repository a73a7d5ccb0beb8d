//! Settings of retry: the table `[retry]`.

use std::time::Duration;

use serde::Deserialize;

use crate::duration;

/// `[retry]`: readonly calls are tried again after a failure that passes by itself.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RetryConfig {
    /// How often a call is tried again, at most.
    pub times: u32,
    /// The wait before the first repetition; each further one waits twice as long.
    #[serde(with = "duration")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub base_delay: Duration,
    /// The longest wait.
    #[serde(with = "duration")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub max_delay: Duration,
    /// Codes of JSON-RPC errors with which servers say that a failure passes by itself, as `[-32000]`.
    pub codes: Vec<i64>,
    /// Messages with which servers say so, as `["*rate limit*", "timed out*"]`: of errors, and texts of results with
    /// `isError`. `*` stands for any text, `?` for one character; the whole text must fit, upper and lower case are the
    /// same.
    pub messages: Vec<String>,
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self {
            times: 1,
            base_delay: Duration::from_millis(100),
            max_delay: Duration::from_secs(1),
            codes: Vec::new(),
            messages: Vec::new(),
        }
    }
}
