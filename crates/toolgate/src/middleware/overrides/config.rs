//! Settings of overrides: what one tool is called and how it is shown, by its identity.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

/// What is changed about one tool.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct OverrideConfig {
    /// The name that clients see and call: 1 to 128 of the characters `A-Z a-z 0-9 _ - . /`.
    pub name: Option<String>,
    /// The title that clients show.
    pub title: Option<String>,
    /// The description that models read. An empty one is shown empty.
    pub description: Option<String>,
    /// Annotations that override the tool's own. Clients see them; they do not change the tier.
    #[serde(deserialize_with = "values")]
    pub annotations: BTreeMap<String, Value>,
    /// Values of arguments that the caller leaves out.
    #[serde(deserialize_with = "values")]
    pub defaults: BTreeMap<String, Value>,
    /// Fixed values of arguments, which callers neither see nor may send.
    #[serde(deserialize_with = "values")]
    pub hidden: BTreeMap<String, Value>,
    /// What happens to the tool's own name if `name` is set.
    pub original: Original,
}

/// `original = "retired" | "callable"`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Original {
    /// It is unknown.
    #[default]
    Retired,
    /// It is not listed, and still works in calls.
    Callable,
}

/// TOML has dates and JSON has not. What serde makes of one is an object with this member, and no tool
/// means that.
const TOML_DATE: &str = "$__toml_private_datetime";

pub(crate) fn values<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Value>, D::Error> {
    let values = BTreeMap::<String, Value>::deserialize(deserializer)?;
    match values.iter().find(|(_, value)| has_date(value)) {
        Some((key, _)) => Err(D::Error::custom(format!(
            "`{key}` holds a date, which JSON does not have: write it in quotes"
        ))),
        None => Ok(values),
    }
}

fn has_date(value: &Value) -> bool {
    match value {
        Value::Array(elements) => elements.iter().any(has_date),
        Value::Object(members) => members.iter().any(|(key, v)| key == TOML_DATE || has_date(v)),
        _ => false,
    }
}
