//! Schemas, compiled: the operator's when the layer is built, published ones when a tool is first called.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, PoisonError, RwLock},
};

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use toolgate_wire::Json;

use super::{
    BadValidate,
    arguments::Arguments,
    config::ToolSchema,
    cost::Cost,
    issues::{Issue, MOST_ISSUES},
};
use crate::{identity::ToolId, tool::Tool};

/// The most memory that one compiled pattern of a schema may take.
const PATTERN_BYTES: usize = 1 << 20;
/// Longer published schemas are not compiled.
const LONGEST_SCHEMA: usize = 256 * 1024;
/// More published schemas than these are forgotten, all at once.
const MOST_SCHEMAS: usize = 10_000;

/// A schema that can be asked.
#[derive(Debug)]
pub(super) struct Schema {
    validator: Validator,
    /// Known for schemas that nobody vouches for.
    cost: Option<Cost>,
}

/// No `$ref` leaves the schema (the crate's features for that are off), and patterns run in linear time:
/// neither can make toolgate read a file, open a connection or hang.
fn compile(schema: &Value, formats: bool) -> Result<Validator, String> {
    let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES);
    jsonschema::options()
        .with_pattern_options(patterns)
        .should_validate_formats(formats)
        .build(schema)
        .map_err(|error| error.to_string())
}

impl Schema {
    /// A schema of the operator's: formats are checked.
    pub(super) fn of_config(
        tools: &str,
        config: &ToolSchema,
        base: &Path,
    ) -> Result<Self, BadValidate> {
        let bad = |why: String| BadValidate::Schema { tools: tools.to_owned(), why };
        let from_file;
        let schema = match (&config.schema, &config.schema_file) {
            (Some(schema), None) => schema,
            (None, Some(file)) => {
                let path = base.join(file);
                let told = |error: String| bad(format!("`{}`: {error}", path.display()));
                let text = std::fs::read(&path).map_err(|error| told(error.to_string()))?;
                from_file =
                    serde_json::from_slice(&text).map_err(|error| told(error.to_string()))?;
                &from_file
            }
            _ => return Err(BadValidate::OneOf(tools.to_owned())),
        };
        let validator = compile(schema, true).map_err(bad)?;
        Ok(Self { validator, cost: None })
    }

    /// A schema that a tool published, or why it cannot be used.
    fn of_tool(definition: &Json) -> Result<Self, String> {
        let schema = definition.get("inputSchema").ok_or("it has none")?;
        if schema.len() > LONGEST_SCHEMA {
            return Err(format!("it is longer than {LONGEST_SCHEMA} bytes"));
        }
        let schema = schema.to_value().map_err(|_| "it cannot be read".to_owned())?;
        let cost = Cost::of(&schema).map_err(|error| error.to_string())?;
        Ok(Self { validator: compile(&schema, false)?, cost: Some(cost) })
    }

    /// What is wrong with the arguments, at most one more than is told; `None` if nobody can tell in
    /// a time that one can wait for.
    pub(super) fn issues(&self, arguments: &Arguments) -> Option<Vec<Issue>> {
        if let Some(cost) = &self.cost
            && !cost.allows(arguments.count, arguments.depth)
        {
            return None;
        }
        // Most calls are right, and finding that out is several times cheaper.
        if self.validator.is_valid(&arguments.value) {
            return Some(Vec::new());
        }
        let errors = self.validator.iter_errors(&arguments.value);
        Some(errors.flat_map(|error| Issue::of(&error)).take(MOST_ISSUES + 1).collect())
    }
}

/// The schemas that tools published, by identity, each with the definition that it is of. A definition
/// that changed is compiled again.
#[derive(Debug, Default)]
pub(super) struct Published(RwLock<HashMap<ToolId, Compiled>>);

/// A definition, and what its schema became: nothing, if it cannot be used.
type Compiled = (Json, Option<Arc<Schema>>);

impl Published {
    /// The schema of a tool; `None` if it has none that can be used.
    pub(super) fn of(&self, tool: &Tool) -> Option<Arc<Schema>> {
        let definition = tool.definition()?;
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, schema)) = known.get(tool.id())
            && of == definition
        {
            return schema.clone();
        }
        drop(known);
        // Two calls at once may both compile it, which is better than one that waits for the other.
        let schema = match Schema::of_tool(definition) {
            Ok(schema) => Some(Arc::new(schema)),
            Err(why) => {
                let tool = tool.id();
                tracing::warn!(%tool, why, "the published input schema cannot be used");
                None
            }
        };
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_SCHEMAS {
            known.clear();
        }
        known.insert(tool.id().clone(), (definition.clone(), schema.clone()));
        schema
    }
}
