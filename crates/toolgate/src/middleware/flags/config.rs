//! Settings of flags: the table `[flags]`.

use serde::Deserialize;

use crate::layer_spec::{LayerTable, contains_all};
use crate::selector::Selector;

/// `[flags]`: tools that are disabled for a while.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct FlagsConfig {
    /// The disabled tools.
    pub disabled: Vec<Selector>,
    /// Whether disabled tools stay in listings, so that clients see tools that they cannot call.
    pub listed: bool,
}

impl LayerTable for FlagsConfig {
    /// More tools may be disabled.
    fn narrows(old: Option<&Self>, new: Option<&Self>) -> bool {
        match (old, new) {
            (None, _) => true,
            (Some(old), Some(new)) => {
                contains_all(&new.disabled, &old.disabled) && (old.listed || !new.listed)
            }
            (Some(old), None) => old.disabled.is_empty(),
        }
    }

    fn selects_tools(&self) -> bool {
        true
    }
}
