//! Schemas, compiled: the operator's when the layer is built, published ones when a tool is first called.

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
    issues::{Issue, MOST_ISSUES},
    names::PropertyNames,
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
pub(super) fn compile(schema: &Value, formats: bool) -> Result<Validator, String> {
    let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES);
    jsonschema::options()
        .with_pattern_options(patterns)
        .should_validate_formats(formats)
        .build(schema)
        .map_err(|error| error.to_string())
}

impl Schema {
    /// A schema of the operator's: formats are checked. `None` where the entry has none.
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
                let told = |error: String| bad(format!("`{}`: {error}", path.display()));
                let text = std::fs::read(&path).map_err(|error| told(error.to_string()))?;
                from_file =
                    serde_json::from_slice(&text).map_err(|error| told(error.to_string()))?;
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
        // An object with one argument. Where even that takes too long, no caller is to blame.
        if !cost.allows(2, 1) {
            return Err("checking even a small call would take too long".to_owned());
        }
        Ok(Self { validator: compile(schema, false)?, cost: Some(cost) })
    }

    /// What is wrong with the arguments, or with what else stands at `root`: at most one issue more than
    /// is told; `None` if nobody can tell in a time that one can wait for.
    pub(super) fn issues(&self, arguments: &Arguments, root: &str) -> Option<Vec<Issue>> {
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
        Some(errors.flat_map(|error| Issue::of(&error, root)).take(MOST_ISSUES + 1).collect())
    }
}

/// Whether content fits a schema that a tool published; `None` if nobody can tell in a time that one can wait for.
pub(crate) fn fits(schema: &Json, content: &Json) -> Option<bool> {
    let schema = Schema::of_tool(&value(schema).ok()?).ok()?;
    let content = arguments::read(Some(content)).ok()?;
    Some(schema.issues(&content, "")?.is_empty())
}

/// What one definition of a tool says.
#[derive(Debug, Default)]
pub(super) struct Learnt {
    /// Whether it has a schema at all.
    pub(super) is_published: bool,
    /// The schema, if it can be used.
    pub(super) schema: Option<Schema>,
    /// The names that it knows, if they are asked for and can be told.
    pub(super) names: Option<PropertyNames>,
    /// Whether the log has told of a result that does not fit.
    pub(super) is_told: AtomicBool,
}

impl Learnt {
    fn of(tool: &Tool, definition: &Json, member: &'static str, with_names: bool) -> Self {
        let tool = tool.id();
        let mut learnt = Self::default();
        let text = definition.get(member);
        learnt.is_published = text.is_some();
        let schema = match text.as_ref().map(value) {
            Some(Ok(schema)) => schema,
            Some(Err(why)) => {
                tracing::warn!(%tool, why, "the published {member} cannot be used");
                return learnt;
            }
            // A tool need not say what it answers.
            None if member != super::INPUT_SCHEMA => return learnt,
            None => {
                tracing::warn!(%tool, "the tool publishes no {member}");
                return learnt;
            }
        };
        match Schema::of_tool(&schema) {
            Ok(schema) => learnt.schema = Some(schema),
            Err(why) => tracing::warn!(%tool, why, "the published {member} cannot be used"),
        }
        if with_names {
            match PropertyNames::of(&schema) {
                Ok(names) => learnt.names = Some(names),
                Err(why) => {
                    tracing::warn!(%tool, why, "nobody can tell which arguments the tool knows");
                }
            }
        }
        learnt
    }
}

fn value(schema: &Json) -> Result<Value, String> {
    if schema.len() > LONGEST_SCHEMA {
        return Err(format!("it is longer than {LONGEST_SCHEMA} bytes"));
    }
    schema.to_value().map_err(|_| "it cannot be read".to_owned())
}

/// The schemas that tools published, by identity, each with the definition that it is of. A definition
/// that changed is compiled again.
#[derive(Debug)]
pub(super) struct Published {
    member: &'static str,
    with_names: bool,
    known: RwLock<HashMap<ToolId, (Json, Arc<Learnt>)>>,
}

impl Published {
    /// Those under this member of a definition, with the names that they know if somebody asks.
    pub(super) fn new(member: &'static str, with_names: bool) -> Self {
        Self { member, with_names, known: RwLock::default() }
    }

    /// What the definition of a tool says; `None` if it was never listed.
    pub(super) fn of(&self, tool: &Tool) -> Option<Arc<Learnt>> {
        let definition = tool.definition()?;
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, learnt)) = known.get(tool.id())
            && of == definition
        {
            return Some(Arc::clone(learnt));
        }
        drop(known);
        // Two calls at once may both compile it, which is better than one that waits for the other.
        let learnt = Arc::new(Learnt::of(tool, definition, self.member, self.with_names));
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_SCHEMAS {
            known.clear();
        }
        known.insert(tool.id().clone(), (definition.clone(), Arc::clone(&learnt)));
        Some(learnt)
    }
}
