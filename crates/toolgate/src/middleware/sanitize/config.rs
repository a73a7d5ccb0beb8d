//! Settings of sanitize: the table `[sanitize]`.

use serde::Deserialize;

use crate::selector::Selector;

/// `[sanitize]`: what must not stand in what servers answer, tell and ask is replaced before anything else sees it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct SanitizeConfig {
    /// Patterns of your own, applied in this order.
    pub patterns: Vec<PatternConfig>,
    /// Whether `api_key=…` and `password=…` become `api_key=***` and `password=***`, whatever their case.
    pub defaults: bool,
    /// Whether secrets of well-known kinds (tokens, keys, passwords in URLs) become
    /// `[redacted: KIND]`.
    pub secrets: bool,
    /// Whose results are cleaned, as `server/tool` globs; all tools if there is none. Everything else that servers
    /// say is always cleaned.
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
    /// What stands there instead; `$1` or `${name}` is what a group matched, `$$` a dollar.
    #[serde(default = "stars")]
    pub replace: String,
}

fn stars() -> String {
    "***".to_owned()
}
