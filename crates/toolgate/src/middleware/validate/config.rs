//! Settings of validate: the table `[validate]`.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Deserialize;
use serde_json::Value;

/// `[validate]`: arguments are checked before a call goes any further, and results before anybody reads them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ValidateConfig {
    /// Whether arguments are checked against the schema that each tool publishes (`inputSchema`).
    pub input_schema: bool,
    /// Whether a tool is refused whose published schema is missing or cannot be used. Otherwise its
    /// calls pass unchecked, and the log says so once.
    pub strict: bool,
    /// What happens to arguments that a tool's published schema does not name.
    pub unknown: Unknown,
    /// Whether results are checked against the schema that their tool publishes (`outputSchema`).
    pub output: OutputMode,
    /// Settings of your own, by `server/tool` glob. Arguments must fit each schema that covers the tool.
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
    pub(super) fn asks_names(&self) -> bool {
        let tools = self.tools.values().filter_map(|tool| tool.unknown);
        tools.chain([self.unknown]).any(|unknown| unknown != Unknown::Pass)
    }
}

/// `[validate.tools."files/read"]`: a schema, here or in a file; what happens to unknown arguments; or both.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ToolSchema {
    /// A JSON Schema. Without `$schema` it is one of draft 2020-12.
    pub schema: Option<Value>,
    /// A file with a JSON Schema, beside the config file if the path is relative.
    pub schema_file: Option<PathBuf>,
    /// What happens to arguments that the tool's published schema does not name, also where it allows them.
    pub unknown: Option<Unknown>,
}

/// `unknown = "pass" | "strip" | "reject"`, from the mildest.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Unknown {
    /// They pass, if the schema lets them.
    #[default]
    Pass,
    /// They are removed, and the call goes on without them.
    Strip,
    /// The call is refused.
    Reject,
}

/// `output = "off" | "warn" | "enforce"`
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum OutputMode {
    /// Nobody looks at results.
    #[default]
    Off,
    /// The log tells of a tool whose result does not fit, once.
    Warn,
    /// A result that does not fit does not reach the client.
    Enforce,
}
