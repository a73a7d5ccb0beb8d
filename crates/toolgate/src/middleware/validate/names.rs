//! The names of arguments that a published schema knows, and those of a call that it does not.

use std::{collections::HashSet, ptr};

use jsonschema::{Validator, error::ValidationErrorKind as Kind};
use serde_json::{Map, Value};

use super::{cost, schema::compile};

/// Larger schemas are not looked at.
const MOST_SCHEMAS: usize = 5_000;

/// What a schema says about names at the top.
#[derive(Debug)]
pub(super) struct PropertyNames {
    /// Lets objects pass that have no other names than these.
    validator: Validator,
    is_open: bool,
}

impl PropertyNames {
    /// The names that a schema knows, or why nobody can tell them.
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

    /// Whether the schema says that others are welcome, or nothing about names at all.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// The names among the arguments that the schema does not know, sorted: in which order an object keeps
    /// its members is nobody's business.
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
            // Where it knows none, the validator may say so in other words: then all are unexpected.
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
    /// Looks at a schema, and at all that apply to the same value: a name in one of them is a name.
    fn gather(&mut self, root: &Value) -> Result<(), String> {
        let mut seen: HashSet<*const Value> = HashSet::new();
        let mut left = vec![root];
        while let Some(schema) = left.pop() {
            if !seen.insert(ptr::from_ref(schema)) {
                continue;
            }
            if seen.len() > MOST_SCHEMAS {
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
