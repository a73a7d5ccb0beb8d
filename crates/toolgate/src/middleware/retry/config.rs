//! Settings of retry: the table `[retry]`.

use std::time::Duration;

use serde::Deserialize;

use crate::duration;
use crate::layer_spec::LayerTable;

/// `[retry]`: retries of read-only calls after transient errors. The table switches them on.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct RetryConfig {
    /// The most retries of a call.
    pub times: u32,
    /// The delay before the first retry; doubles with each further one.
    #[serde(with = "duration")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub base_delay: Duration,
    /// The longest delay.
    #[serde(with = "duration")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub max_delay: Duration,
    /// Codes of JSON-RPC errors of servers that are transient, for example `[-32000]`.
    pub codes: Vec<i64>,
    /// Messages of servers that are transient, for example `["*rate limit*", "timed out*"]`: of errors, and texts of
    /// results with `isError`. `*` stands for any text, `?` for one character. The pattern must match the whole
    /// message; case does not matter.
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

impl LayerTable for RetryConfig {
    fn narrows(old: Option<&Self>, new: Option<&Self>) -> bool {
        old == new || new.is_none()
    }
}
