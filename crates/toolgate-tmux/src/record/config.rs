//! `[tmux.record]`

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// `[tmux.record]`: what happens in panes that tools write into is kept, to be played back.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct RecordConfig {
    /// Where recordings go; without it there are none.
    pub folder: Option<PathBuf>,
    /// Whether a call is refused if its pane cannot be recorded.
    pub required: bool,
    /// The most bytes of one file; then the next one begins.
    #[schemars(range(min = 10_000))]
    pub max_bytes: u64,
}

impl Default for RecordConfig {
    fn default() -> Self {
        Self { folder: None, required: false, max_bytes: 50_000_000 }
    }
}
