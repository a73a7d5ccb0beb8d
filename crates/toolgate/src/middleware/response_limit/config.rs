//! Settings of the response limit: `limits.response_bytes`, `limits.keep`, and the same for one tool.

use serde::{Deserialize, Serialize};

use crate::selector::Selector;

/// Which end of a shortened text is kept.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// The end, with the prompt of a terminal or the error of a build.
    #[default]
    Tail,
    /// The start.
    Head,
}

/// What the layer is set to, gathered from `[limits]` and the settings of single tools.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResponseLimitConfig {
    /// The most bytes of one result, as JSON.
    pub bytes: usize,
    /// Which end of a shortened text is kept.
    pub keep: Keep,
    /// Other limits for the tools that a selector covers.
    pub tools: Vec<ToolLimit>,
}

/// The limit of the tools that a selector covers. `None`: as for all tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolLimit {
    /// The tools.
    pub tools: Selector,
    /// The most bytes of one result.
    pub bytes: Option<usize>,
    /// Which end of a shortened text is kept.
    pub keep: Option<Keep>,
}

impl ResponseLimitConfig {
    /// Whether a tool has a limit of its own.
    pub(super) fn limits_single_tools(&self) -> bool {
        self.tools.iter().any(|limit| limit.bytes.is_some())
    }
}

impl Default for ResponseLimitConfig {
    fn default() -> Self {
        Self { bytes: super::DEFAULT_BYTES, keep: Keep::Tail, tools: Vec::new() }
    }
}

/// Below this a result could not even say that it was shortened.
pub(crate) const SMALLEST: usize = 1000;
