//! Settings of validate: the table `[validate]`.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::layer_spec::LayerTable;

/// `[validate]`: checks of arguments and results against JSON Schemas.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ValidateConfig {
    /// Whether arguments are checked against the schema that each tool publishes (`inputSchema`).
    pub input_schema: bool,
    /// Whether calls of a tool are refused if its published schema is missing or unusable. Otherwise they pass
    /// unchecked, and the log says so once.
    pub strict: bool,
    /// What happens to arguments that a tool's published schema does not name.
    pub unknown: Unknown,
    /// Whether results are checked against the schema that their tool publishes (`outputSchema`).
    pub output: OutputMode,
    /// Schemas of your own, by selector. Arguments must match all schemas for the tool.
    pub tools: BTreeMap<String, ToolSchema>,
}

impl ValidateConfig {
    /// Whether anything is checked.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.input_schema
            || !self.tools.is_empty()
            || self.unknown != Unknown::Pass
            || self.output != OutputMode::Off
    }

    /// Whether arguments without a name may be refused or removed anywhere.
    #[cfg(feature = "validate")]
    pub(super) fn asks_names(&self) -> bool {
        let tools = self.tools.values().filter_map(|tool| tool.unknown);
        tools.chain([self.unknown]).any(|unknown| unknown != Unknown::Pass)
    }
}

/// `[validate.tools."files/read"]`: a schema for the tools that a selector matches, what happens to unknown
/// arguments, or both.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ToolSchema {
    /// A JSON Schema; draft 2020-12 without `$schema`.
    pub schema: Option<Value>,
    /// A file with a JSON Schema, relative to the config file.
    pub schema_file: Option<PathBuf>,
    /// What happens to arguments that the tool's published schema does not name, even if it allows them.
    pub unknown: Option<Unknown>,
}

/// `unknown = "pass" | "strip" | "reject"`, from the mildest.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Unknown {
    /// They pass, if the schema allows them.
    #[default]
    Pass,
    /// They are removed, and the call goes on without them.
    Strip,
    /// The call is refused.
    Reject,
}

/// `output = "off" | "warn" | "enforce"`
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum OutputMode {
    /// No.
    #[default]
    Off,
    /// The log reports a tool whose result does not match, once.
    Warn,
    /// A result that does not match is withheld from the client.
    Enforce,
}

impl LayerTable for ValidateConfig {
    fn narrows(old: Option<&Self>, new: Option<&Self>) -> bool {
        old == new || old.is_none()
    }

    fn selects_tools(&self) -> bool {
        true
    }

    fn rule_files(&self) -> Vec<PathBuf> {
        self.tools.values().filter_map(|schema| schema.schema_file.clone()).collect()
    }
}
