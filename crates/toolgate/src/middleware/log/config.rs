//! Settings of the call log: the table `[log]`.

use serde::{Deserialize, Deserializer};

use crate::layer_spec::LayerTable;
use crate::middleware::audit::OnFull;

/// `[log]`: what the call log records, and how long it keeps it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct LogConfig {
    /// Whether results and error messages are recorded. Their sizes always are.
    pub results: bool,
    /// The most bytes of a result or an error that are recorded.
    #[serde(deserialize_with = "crate::byte_size::deserialize")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::byte_size::schema"))]
    pub result_bytes: usize,
    /// Whether listings of tools are also recorded.
    pub listings: bool,
    /// The most records that wait to be written.
    #[serde(deserialize_with = "at_least_one")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1)))]
    pub queue: usize,
    /// The most bytes of arguments and results that wait to be written.
    #[serde(deserialize_with = "crate::byte_size::deserialize")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::byte_size::schema"))]
    pub queue_bytes: usize,
    /// What happens to a record if the queue is full. If only `queue_bytes` is exceeded, `drop` keeps the record
    /// without its arguments and result.
    pub on_full: OnFull,
    /// The number of days after which records are removed; `0`: never.
    pub keep_days: u32,
    /// The total size in bytes above which the oldest records are removed; `0`: no limit.
    #[serde(deserialize_with = "crate::byte_size::deserialize")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "crate::byte_size::schema"))]
    pub keep_bytes: u64,
    /// The number of records above which the oldest are removed; `0`: no limit.
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

impl LayerTable for LogConfig {
    fn narrows(old: Option<&Self>, new: Option<&Self>) -> bool {
        old == new || old.is_none()
    }
}
