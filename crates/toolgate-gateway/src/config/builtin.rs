//! The table `[tmux]` of the built-in server: the gateway stores the table, and the program supplies its type.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, de::DeserializeOwned};
use toolgate::settings::from_toml;

/// The check and the schema of the table `[tmux]`. The program passes them to [`Config::read`](super::Config::read),
/// which then reports a wrong key with its line, as for all other tables.
#[derive(Clone, Copy)]
pub struct BuiltinTable {
    check: fn(&str) -> Vec<String>,
    schema: fn(&mut SchemaGenerator) -> Schema,
}

/// The file, of which only the table `[tmux]` is read.
#[derive(Deserialize)]
struct TmuxTableOfFile<T> {
    #[serde(default = "Option::default", rename = "tmux")]
    _tmux: Option<T>,
}

impl BuiltinTable {
    /// A table that is checked by the type `T`.
    #[must_use]
    pub fn of<T: DeserializeOwned + JsonSchema>() -> Self {
        Self {
            check: |text| from_toml::read_all::<TmuxTableOfFile<T>>(text).errors,
            schema: SchemaGenerator::subschema_for::<Option<T>>,
        }
    }

    /// The errors of the table in this file.
    pub(super) fn errors(self, text: &str) -> Vec<String> {
        (self.check)(text)
    }

    /// The schema of the table.
    pub(super) fn schema(self, generator: &mut SchemaGenerator) -> Schema {
        (self.schema)(generator)
    }
}

/// Accepts any table: for a config that was not read from a file.
impl Default for BuiltinTable {
    fn default() -> Self {
        Self { check: |_| Vec::new(), schema: |_| true.into() }
    }
}

impl fmt::Debug for BuiltinTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BuiltinTable")
    }
}
