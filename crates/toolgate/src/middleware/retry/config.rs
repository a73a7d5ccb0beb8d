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
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self { times: 1, base_delay: Duration::from_millis(100), max_delay: Duration::from_secs(1) }
    }
}
