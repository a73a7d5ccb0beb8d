//! Settings of the call log: the table `[log]`.

use serde::{Deserialize, Deserializer};

use crate::middleware::audit::OnFull;

/// `[log]`: what is kept of each call, and for how long.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// Whether results and the messages of errors are kept. Their sizes always are.
    pub results: bool,
    /// The most bytes that are kept of one result, and of one error.
    pub result_bytes: usize,
    /// Whether listings of tools are recorded too.
    pub listings: bool,
    /// How many records wait for the writer at most.
    #[serde(deserialize_with = "at_least_one")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub queue: usize,
    /// How many bytes of arguments and results wait for the writer at most.
    pub queue_bytes: usize,
    /// What happens to a record that finds the queue full. With `drop` a record that only finds too many
    /// bytes waiting is kept without its arguments and result.
    pub on_full: OnFull,
    /// Records are removed after so many days; `0` keeps them without end.
    pub keep_days: u32,
    /// The oldest records are removed when all together are larger than this, in bytes; `0` lets them grow.
    pub keep_bytes: u64,
    /// The oldest records are removed when there are more than this; `0` lets them grow.
    pub keep_records: u64,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            results: true,
            result_bytes: 16 * 1024,
            listings: false,
            queue: 8192,
            queue_bytes: 64 * 1024 * 1024,
            on_full: OnFull::Wait,
            keep_days: 30,
            keep_bytes: 1024 * 1024 * 1024,
            keep_records: 0,
        }
    }
}

fn at_least_one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    match usize::deserialize(deserializer)? {
        0 => Err(serde::de::Error::custom("`0` would let no record pass: write at least 1")),
        number => Ok(number),
    }
}
