//! The table `[tmux]` of the built-in server: the gateway stores the table, and the program supplies its type.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, de::DeserializeOwned};

/// The check and the schema of the table `[tmux]`. The program passes them to [`Config::read`](super::Config::read),
/// which then reports a wrong key with its line, as for all other tables.
#[derive(Clone, Copy)]
pub struct BuiltinTable {
    check: fn(&str) -> Result<(), toml::de::Error>,
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
            check: |text| toml::from_str::<TmuxTableOfFile<T>>(text).map(drop),
            schema: SchemaGenerator::subschema_for::<Option<T>>,
        }
    }

    /// Refuses a file in which the table is not valid.
    pub(super) fn check(self, text: &str) -> Result<(), toml::de::Error> {
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
        Self { check: |_| Ok(()), schema: |_| true.into() }
    }
}

impl fmt::Debug for BuiltinTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BuiltinTable")
    }
}
