//! The two halves of a check apart, for the benchmark.

use toolgate_wire::Json;

use super::{
    arguments::{self, Arguments},
    schema::Published,
};
use crate::tool::Tool;

/// What a call costs in `validate`: reading its arguments, and checking them. Not part of the API.
#[derive(Debug)]
pub struct ValidatePhases(Published);

/// Arguments that were read.
#[derive(Debug)]
pub struct ParsedArguments(Arguments);

impl ValidatePhases {
    /// For the published schemas of tools.
    #[must_use]
    pub fn new() -> Self {
        Self(Published::new(super::INPUT_SCHEMA, true))
    }

    /// Reads arguments, as the layer does.
    #[must_use]
    pub fn read(arguments: &Json) -> Option<ParsedArguments> {
        arguments::read(Some(arguments)).ok().map(ParsedArguments)
    }

    /// Looks the schema up and checks them, names included, as the layer does.
    #[must_use]
    pub fn fits(&self, tool: &Tool, read: &ParsedArguments) -> bool {
        let Some(learnt) = self.0.of(tool) else { return false };
        let issues = learnt.schema.as_ref().and_then(|schema| schema.issues(&read.0, ""));
        let names = learnt.names.as_ref().map(|names| names.unexpected(&read.0.value));
        issues.is_some_and(|issues| issues.is_empty()) && names.is_some_and(|n| n.is_empty())
    }
}

impl Default for ValidatePhases {
    fn default() -> Self {
        Self::new()
    }
}
