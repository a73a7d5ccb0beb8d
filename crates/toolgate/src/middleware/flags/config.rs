//! Settings of flags: the table `[flags]`.

use serde::Deserialize;

use crate::selector::Selector;

/// `[flags]`: tools that are disabled for a while.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct FlagsConfig {
    /// The disabled tools.
    pub disabled: Vec<Selector>,
    /// Whether disabled tools stay in listings, so that clients see tools that they cannot call.
    pub listed: bool,
}
