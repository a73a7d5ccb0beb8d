//! Settings of sanitize: the table `[sanitize]`.

use serde::Deserialize;

use crate::layer_spec::LayerTable;
use crate::selector::Selector;

/// `[sanitize]`: replaces secrets in the messages of servers, before the model, the log or the audit sees them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct SanitizeConfig {
    /// Patterns of your own, applied in this order.
    pub patterns: Vec<PatternConfig>,
    /// Whether `api_key=…` and `password=…` become `api_key=***` and `password=***`; case does not matter.
    pub defaults: bool,
    /// Whether secrets of well-known kinds (tokens, keys, passwords in URLs) become
    /// `[redacted: KIND]`.
    pub secrets: bool,
    /// The tools whose results are sanitized; default: all. All other messages of servers are always sanitized.
    pub tools: Vec<Selector>,
}

impl SanitizeConfig {
    /// Whether anything would be cleaned.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.defaults || self.secrets || !self.patterns.is_empty()
    }
}

/// One pattern: `{ pattern = "token=(\\w{4})\\w+", replace = "token=$1***" }`.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PatternConfig {
    /// A regular expression in the syntax of the crate `regex`: no look-around, no back-references.
    /// `(?i)` at its start ignores case.
    pub pattern: String,
    /// The replacement; `$1` or `${name}` is the text of a group, `$$` a dollar sign.
    #[serde(default = "stars")]
    pub replace: String,
}

fn stars() -> String {
    "***".to_owned()
}

impl LayerTable for SanitizeConfig {
    fn narrows(old: Option<&Self>, new: Option<&Self>) -> bool {
        old == new || old.is_none()
    }

    fn selects_tools(&self) -> bool {
        true
    }
}
