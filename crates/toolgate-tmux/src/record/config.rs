//! `[tmux.record]`

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// `[tmux.record]`: recordings of the panes that tools write into. `toolgate replay` plays them.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct RecordConfig {
    /// The folder for recordings; default: no recordings.
    pub folder: Option<PathBuf>,
    /// Whether a call is refused if its pane cannot be recorded.
    pub required: bool,
    /// The size in bytes at which the next file begins.
    #[serde(deserialize_with = "toolgate::byte_size::deserialize")]
    #[schemars(schema_with = "toolgate::byte_size::schema")]
    pub max_bytes: u64,
}

impl Default for RecordConfig {
    fn default() -> Self {
        Self { folder: None, required: false, max_bytes: 50_000_000 }
    }
}
