//! The argument `filters` of the list tools: `{"field__op": "value"}`, as an object or as JSON text.

use std::collections::BTreeMap;

use regex::RegexBuilder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate::Failure;

use crate::tool::invalid_arguments;

/// An object, or the JSON text of one: some clients can only send strings.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Filters {
    /// Values by `field` or `field__op`.
    Map(BTreeMap<String, String>),
    /// The same as JSON text. An empty text means no filter.
    Text(String),
}

const OPERATORS: &[&str] = &[
    "contains",
    "endswith",
    "eq",
    "exact",
    "icontains",
    "iendswith",
    "iexact",
    "in",
    "iregex",
    "istartswith",
    "nin",
    "regex",
    "startswith",
];
/// The maximum memory of a compiled pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

struct Filter {
    field: String,
    test: Box<dyn Fn(&str) -> bool + Send>,
}

/// The items that pass all filters. An unknown field or operator is an error.
pub fn filtered<T: Serialize>(
    items: Vec<T>,
    filters: Option<&Filters>,
    fields: &[&str],
) -> Result<Vec<T>, Failure> {
    Ok(ParsedFilters::parse(filters, fields)?.passing(items))
}

/// Filters whose fields and operators exist.
pub(crate) struct ParsedFilters(Vec<Filter>);

impl ParsedFilters {
    /// Reads the argument. An unknown field or operator is an error.
    pub(crate) fn parse(filters: Option<&Filters>, fields: &[&str]) -> Result<Self, Failure> {
        parse(filters, fields).map(Self)
    }

    /// Whether a filter looks at this field.
    pub(crate) fn needs(&self, field: &str) -> bool {
        self.0.iter().any(|filter| filter.field == field)
    }

    /// The items that pass all filters.
    pub(crate) fn passing<T: Serialize>(&self, mut items: Vec<T>) -> Vec<T> {
        if !self.0.is_empty() {
            items.retain(|item| {
                serde_json::to_value(item).is_ok_and(|item| self.0.iter().all(|f| f.passes(&item)))
            });
        }
        items
    }
}

impl Filter {
    fn passes(&self, item: &Value) -> bool {
        match item.get(&self.field) {
            Some(Value::String(text)) => (self.test)(text),
            Some(Value::Null) | None => (self.test)(""),
            Some(other) => (self.test)(&other.to_string()),
        }
    }
}

fn parse(filters: Option<&Filters>, fields: &[&str]) -> Result<Vec<Filter>, Failure> {
    let map = match filters {
        None => return Ok(Vec::new()),
        Some(Filters::Text(text)) if text.trim().is_empty() => return Ok(Vec::new()),
        Some(Filters::Map(map)) => map.clone(),
        Some(Filters::Text(text)) => {
            let value: Value = serde_json::from_str(text)
                .map_err(|error| invalid_arguments(format!("Invalid filters JSON: {error}")))?;
            serde_json::from_value(value).map_err(|_| {
                invalid_arguments("filters must be a JSON object of texts".to_owned())
            })?
        }
    };
    map.into_iter().map(|(key, value)| filter(&key, value, fields)).collect()
}

fn filter(key: &str, value: String, fields: &[&str]) -> Result<Filter, Failure> {
    let (field, operator) = key.split_once("__").unwrap_or((key, "eq"));
    if !OPERATORS.contains(&operator) {
        return Err(invalid_arguments(format!(
            "Invalid filter operator '{operator}' in '{key}'. Valid operators: {}",
            OPERATORS.join(", ")
        )));
    }
    if !fields.contains(&field) {
        return Err(invalid_arguments(format!(
            "Invalid filter field '{field}' in '{key}'. Valid fields: {}",
            fields.join(", ")
        )));
    }
    let folded = value.to_lowercase();
    let test: Box<dyn Fn(&str) -> bool + Send> = match operator {
        "regex" | "iregex" => {
            let regex = RegexBuilder::new(&value)
                .case_insensitive(operator == "iregex")
                .size_limit(MAX_PATTERN_BYTES)
                .build()
                .map_err(|error| invalid_arguments(format!("Invalid regex pattern: {error}")))?;
            Box::new(move |text| regex.is_match(text))
        }
        "contains" | "in" => Box::new(move |text| text.contains(&value)),
        "nin" => Box::new(move |text| !text.contains(&value)),
        "startswith" => Box::new(move |text| text.starts_with(&value)),
        "endswith" => Box::new(move |text| text.ends_with(&value)),
        "icontains" => Box::new(move |text| text.to_lowercase().contains(&folded)),
        "istartswith" => Box::new(move |text| text.to_lowercase().starts_with(&folded)),
        "iendswith" => Box::new(move |text| text.to_lowercase().ends_with(&folded)),
        "iexact" => Box::new(move |text| text.to_lowercase() == folded),
        _ => Box::new(move |text| text == value),
    };
    Ok(Filter { field: field.to_owned(), test })
}
