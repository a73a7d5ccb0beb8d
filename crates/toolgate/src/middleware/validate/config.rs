//! Settings of validate: the table `[validate]`.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Deserialize;
use serde_json::Value;

/// `[validate]`: arguments are checked before a call goes any further.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ValidateConfig {
    /// Whether arguments are checked against the schema that each tool publishes (`inputSchema`).
    pub input_schema: bool,
    /// Whether a tool is refused whose published schema is missing or cannot be used. Otherwise its
    /// calls pass unchecked, and the log says so once.
    pub strict: bool,
    /// Schemas of your own, by `server/tool` glob. Arguments must fit each one that covers the tool.
    pub tools: BTreeMap<String, ToolSchema>,
}

impl ValidateConfig {
    /// Whether anything is checked.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.input_schema || !self.tools.is_empty()
    }
}

/// `[validate.tools."files/read"]`: a schema, here or in a file.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ToolSchema {
    /// A JSON Schema. Without `$schema` it is one of draft 2020-12.
    pub schema: Option<Value>,
    /// A file with a JSON Schema, beside the config file if the path is relative.
    pub schema_file: Option<PathBuf>,
}
