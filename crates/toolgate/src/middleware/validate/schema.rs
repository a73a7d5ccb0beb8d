//! Compiled schemas: the operator's are compiled at startup, published ones at the first call of a tool.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, PoisonError, RwLock, atomic::AtomicBool},
};

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;
use toolgate_wire::Json;

use super::{
    BadValidate,
    arguments::{self, Arguments},
    config::ToolSchema,
    cost::Cost,
    issues::{Issue, MAX_ISSUES},
    names::PropertyNames,
};
use crate::{identity::ToolId, tool::Tool};

/// Largest memory of one compiled pattern of a schema, in bytes.
const PATTERN_BYTES: usize = 1 << 20;
/// Largest length of a published schema, in bytes.
const MAX_SCHEMA_BYTES: usize = 256 * 1024;
/// Largest number of cached published schemas. When it is reached, the cache is cleared.
const MAX_SCHEMAS: usize = 10_000;

/// A compiled schema.
#[derive(Debug)]
pub(super) struct Schema {
    validator: Validator,
    /// The cost, for schemas of servers.
    cost: Option<Cost>,
}

/// References outside the schema are disabled (by crate features), and patterns run in linear time, so that a schema
/// cannot make toolgate read a file, open a connection or hang.
pub(super) fn compile(schema: &Value, formats: bool) -> Result<Validator, String> {
    let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES);
    jsonschema::options()
        .with_pattern_options(patterns)
        .should_validate_formats(formats)
        .build(schema)
        .map_err(|error| error.to_string())
}

impl Schema {
    /// A schema of the operator, with format checks. `None` if the entry has none.
    pub(super) fn of_config(
        tools: &str,
        config: &ToolSchema,
        base: &Path,
    ) -> Result<Option<Self>, BadValidate> {
        let bad = |why: String| BadValidate::Schema { tools: tools.to_owned(), why };
        let from_file;
        let schema = match (&config.schema, &config.schema_file) {
            (Some(schema), None) => schema,
            (None, Some(file)) => {
                let path = base.join(file);
                let failed = |error: String| bad(format!("`{}`: {error}", path.display()));
                let text = std::fs::read(&path).map_err(|error| failed(error.to_string()))?;
                from_file =
                    serde_json::from_slice(&text).map_err(|error| failed(error.to_string()))?;
                &from_file
            }
            (None, None) if config.unknown.is_some() => return Ok(None),
            _ => return Err(BadValidate::OneOf(tools.to_owned())),
        };
        let validator = compile(schema, true).map_err(bad)?;
        Ok(Some(Self { validator, cost: None }))
    }

    /// A schema that a tool published, or why it cannot be used.
    fn of_tool(schema: &Value) -> Result<Self, String> {
        let cost = Cost::of(schema).map_err(|error| error.to_string())?;
        // An object with one argument. If that takes too long, the schema is at fault and not the caller.
        if !cost.allows(2, 1) {
            return Err("checking even a small call would take too long".to_owned());
        }
        Ok(Self { validator: compile(schema, false)?, cost: Some(cost) })
    }

    /// The issues of the value at `root`: at most one more than is reported. `None` if the check would take too long.
    pub(super) fn issues(&self, arguments: &Arguments, root: &str) -> Option<Vec<Issue>> {
        if let Some(cost) = &self.cost
            && !cost.allows(arguments.count, arguments.depth)
        {
            return None;
        }
        // Most calls are valid, and `is_valid` is several times cheaper.
        if self.validator.is_valid(&arguments.value) {
            return Some(Vec::new());
        }
        let errors = self.validator.iter_errors(&arguments.value);
        Some(errors.flat_map(|error| Issue::of(&error, root)).take(MAX_ISSUES + 1).collect())
    }
}

/// Whether content fits a published schema. `None` if the check would take too long.
pub(crate) fn fits(schema: &Json, content: &Json) -> Option<bool> {
    let schema = Schema::of_tool(&value(schema).ok()?).ok()?;
    let content = arguments::read(Some(content)).ok()?;
    Some(schema.issues(&content, "")?.is_empty())
}

/// The schema of one definition of a tool.
#[derive(Debug, Default)]
pub(super) struct DefinitionSchema {
    /// Whether the definition has a schema.
    pub(super) is_published: bool,
    /// The schema, if it can be used.
    pub(super) schema: Option<Schema>,
    /// Its property names, if they are needed and can be determined.
    pub(super) names: Option<PropertyNames>,
    /// Whether an unfitting result was logged.
    pub(super) is_told: AtomicBool,
}

impl DefinitionSchema {
    fn of(tool: &Tool, definition: &Json, member: &'static str, with_names: bool) -> Self {
        let tool = tool.id();
        let mut compiled = Self::default();
        let text = definition.get(member);
        compiled.is_published = text.is_some();
        let schema = match text.as_ref().map(value) {
            Some(Ok(schema)) => schema,
            Some(Err(why)) => {
                tracing::warn!(%tool, why, "the published {member} cannot be used");
                return compiled;
            }
            // An output schema is optional.
            None if member != super::INPUT_SCHEMA => return compiled,
            None => {
                tracing::warn!(%tool, "the tool publishes no {member}");
                return compiled;
            }
        };
        match Schema::of_tool(&schema) {
            Ok(schema) => compiled.schema = Some(schema),
            Err(why) => tracing::warn!(%tool, why, "the published {member} cannot be used"),
        }
        if with_names {
            match PropertyNames::of(&schema) {
                Ok(names) => compiled.names = Some(names),
                Err(why) => {
                    tracing::warn!(%tool, why, "the published inputSchema does not tell which arguments the tool knows");
                }
            }
        }
        compiled
    }
}

fn value(schema: &Json) -> Result<Value, String> {
    if schema.len() > MAX_SCHEMA_BYTES {
        return Err(format!("it is longer than {MAX_SCHEMA_BYTES} bytes"));
    }
    schema.to_value().map_err(|_| "it cannot be read".to_owned())
}

/// The cache of published schemas by tool. A changed definition is compiled again.
#[derive(Debug)]
pub(super) struct SchemaCache {
    member: &'static str,
    with_names: bool,
    known: RwLock<HashMap<ToolId, (Json, Arc<DefinitionSchema>)>>,
}

impl SchemaCache {
    /// A cache for this member of definitions, with or without property names.
    pub(super) fn new(member: &'static str, with_names: bool) -> Self {
        Self { member, with_names, known: RwLock::default() }
    }

    /// The schema of a tool; `None` if the server never listed the tool.
    pub(super) fn of(&self, tool: &Tool) -> Option<Arc<DefinitionSchema>> {
        let definition = tool.definition()?;
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, compiled)) = known.get(tool.id())
            && of == definition
        {
            return Some(Arc::clone(compiled));
        }
        drop(known);
        // Two concurrent calls may both compile it, so that neither waits.
        let compiled =
            Arc::new(DefinitionSchema::of(tool, definition, self.member, self.with_names));
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_SCHEMAS {
            known.clear();
        }
        known.insert(tool.id().clone(), (definition.clone(), Arc::clone(&compiled)));
        Some(compiled)
    }
}
