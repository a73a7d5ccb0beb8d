//! Settings of the filter: which tools are switched off, and what happens to new ones.

use serde::{Deserialize, Serialize};

use crate::selector::Selector;

/// What the filter is set to, for one namespace.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct FilterConfig {
    /// Tools that are switched off: those with `status = "inactive"`.
    pub inactive: Vec<Selector>,
    /// Tools that are switched on by name: those with `status = "active"`. They pass also while new
    /// tools are quarantined.
    pub active: Vec<Selector>,
    /// What a caller of an inactive tool reads, instead of the default; `{name}` stands for the name
    /// under which it was called.
    pub message: Option<String>,
    /// What happens to tools that the operator has not approved.
    pub new_tools: NewTools,
}

/// `new_tools = "allow" | "quarantine"`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum NewTools {
    /// They are allowed.
    #[default]
    Allow,
    /// They are hidden and refused until their `status` is `active`.
    Quarantine,
}

/// `status = "active" | "inactive"` of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Yes, also while new tools are quarantined.
    Active,
    /// No: it is hidden and refused.
    Inactive,
}
