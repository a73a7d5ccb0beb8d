//! The argument names that a published schema has, and a call's arguments that it does not have.

use std::{collections::HashSet, ptr};

use jsonschema::{Validator, error::ValidationErrorKind as Kind};
use serde_json::{Map, Value};

use super::{cost, schema::compile};

/// Largest number of subschemas of a schema.
const MAX_SCHEMAS: usize = 5_000;

/// The names of a schema's top-level properties.
#[derive(Debug)]
pub(super) struct PropertyNames {
    /// Accepts objects that have only these names.
    validator: Validator,
    is_open: bool,
}

impl PropertyNames {
    /// The names of a schema, or why they cannot be determined.
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        let mut found = NameScan::default();
        found.gather(schema)?;
        let is_open = found.is_open || !found.names_any;
        let closed = serde_json::json!({
            "properties": found.properties,
            "patternProperties": found.patterns,
            "additionalProperties": false,
        });
        Ok(Self { validator: compile(&closed, false)?, is_open })
    }

    /// Whether the schema allows other names or lists none.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// The arguments that the schema does not have, sorted, because the order of an object's members has no meaning.
    pub(super) fn unexpected(&self, arguments: &Value) -> Vec<String> {
        if self.validator.is_valid(arguments) {
            return Vec::new();
        }
        let errors = self.validator.iter_errors(arguments);
        let names = errors.filter_map(|error| match error.kind() {
            Kind::AdditionalProperties { unexpected } => Some(unexpected.clone()),
            _ => None,
        });
        let mut names: Vec<String> = names.flatten().collect();
        if names.is_empty() {
            // For a schema without names the validator reports another error: then all are unexpected.
            names.extend(arguments.as_object().into_iter().flat_map(|o| o.keys().cloned()));
        }
        names.sort_unstable();
        names
    }
}

#[derive(Default)]
struct NameScan {
    properties: Map<String, Value>,
    patterns: Map<String, Value>,
    is_open: bool,
    names_any: bool,
}

impl NameScan {
    /// Collects the names of a schema and of all schemas that apply to the same value.
    fn gather(&mut self, root: &Value) -> Result<(), String> {
        let mut seen: HashSet<*const Value> = HashSet::new();
        let mut left = vec![root];
        while let Some(schema) = left.pop() {
            if !seen.insert(ptr::from_ref(schema)) {
                continue;
            }
            if seen.len() > MAX_SCHEMAS {
                return Err("it is too large".to_owned());
            }
            for (keyword, value) in schema.as_object().into_iter().flatten() {
                let map = || value.as_object().into_iter().flatten();
                match keyword.as_str() {
                    "properties" | "patternProperties" => {
                        self.names_any = true;
                        let names = map().map(|(name, _)| (name.clone(), Value::Bool(true)));
                        if keyword == "properties" {
                            self.properties.extend(names);
                        } else {
                            self.patterns.extend(names);
                        }
                    }
                    "additionalProperties" | "unevaluatedProperties" => {
                        let is_closed = *value == Value::Bool(false);
                        self.names_any |= is_closed;
                        self.is_open |= !is_closed;
                    }
                    "allOf" | "anyOf" | "oneOf" => {
                        left.extend(value.as_array().into_iter().flatten());
                    }
                    "if" | "then" | "else" => left.push(value),
                    "dependentSchemas" | "dependencies" => left.extend(map().map(|(_, s)| s)),
                    "$ref" | "$dynamicRef" | "$recursiveRef" => {
                        left.push(cost::resolve(root, value).map_err(|error| error.to_string())?);
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}
