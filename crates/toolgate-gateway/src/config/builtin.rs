//! The table of a server that the program brings along: the gateway keeps it, the program says what it means.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, de::DeserializeOwned};

/// What the table `[tmux]` may say. The program hands it to [`Config::read`](super::Config::read), so that a wrong key
/// is refused with its place in the file, as everywhere else.
#[derive(Clone, Copy)]
pub struct BuiltinTable {
    check: fn(&str) -> Result<(), toml::de::Error>,
    schema: fn(&mut SchemaGenerator) -> Schema,
}

/// The file as it is read for this table only.
#[derive(Deserialize)]
struct Only<T> {
    #[serde(default = "Option::default", rename = "tmux")]
    _tmux: Option<T>,
}

impl BuiltinTable {
    /// The table as this type.
    #[must_use]
    pub fn of<T: DeserializeOwned + JsonSchema>() -> Self {
        Self {
            check: |text| toml::from_str::<Only<T>>(text).map(drop),
            schema: SchemaGenerator::subschema_for::<Option<T>>,
        }
    }

    /// Refuses a file whose table says something else.
    pub(super) fn check(self, text: &str) -> Result<(), toml::de::Error> {
        (self.check)(text)
    }

    /// What the table may say.
    pub(super) fn schema(self, generator: &mut SchemaGenerator) -> Schema {
        (self.schema)(generator)
    }
}

/// Anything may be said: for a config that was not read.
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
