//! The two phases of a check separately, for the benchmark.

use toolgate_wire::Json;

use super::{
    arguments::{self, Arguments},
    schema::SchemaCache,
};
use crate::tool::Tool;

/// The phases of `validate`: parsing arguments and checking them. Not part of the API.
#[derive(Debug)]
pub struct ValidatePhases(SchemaCache);

/// Parsed arguments.
#[derive(Debug)]
pub struct ParsedArguments(Arguments);

impl ValidatePhases {
    /// Creates the check with published schemas.
    #[must_use]
    pub fn new() -> Self {
        Self(SchemaCache::new(super::INPUT_SCHEMA, true))
    }

    /// Parses arguments like the layer.
    #[must_use]
    pub fn read(arguments: &Json) -> Option<ParsedArguments> {
        arguments::read(Some(arguments)).ok().map(ParsedArguments)
    }

    /// Looks up the schema and checks arguments and their names like the layer.
    #[must_use]
    pub fn fits(&self, tool: &Tool, read: &ParsedArguments) -> bool {
        let Some(compiled) = self.0.of(tool) else { return false };
        let issues = compiled.schema.as_ref().and_then(|schema| schema.issues(&read.0, ""));
        let names = compiled.names.as_ref().map(|names| names.unexpected(&read.0.value));
        issues.is_some_and(|issues| issues.is_empty()) && names.is_some_and(|n| n.is_empty())
    }
}

impl Default for ValidatePhases {
    fn default() -> Self {
        Self::new()
    }
}
