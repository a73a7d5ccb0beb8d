//! Schemas of arguments and results, from their types: short, since models read all of them.

use rmcp::model::JsonObject;
use schemars::{JsonSchema, generate::SchemaSettings, transform::transform_subschemas};
use serde_json::{Value, json};

/// Arguments of which nothing is said: targets mean the same in all tools, which the server's instructions tell once;
/// the others have names that tell it.
const UNDESCRIBED: [&str; 13] = [
    "pane_id",
    "window_id",
    "window_index",
    "session_id",
    "session_name",
    "socket_name",
    "buffer_name",
    "window_name",
    "new_name",
    "regex",
    "match_case",
    "on_error",
    "scope",
];

/// Nothing but what is named may be given. Argument types share parts of theirs (`#[serde(flatten)]`), so that the
/// types themselves cannot say so: the chain refuses the rest by this schema.
pub(crate) fn input<A: JsonSchema>() -> JsonObject {
    let mut schema = schema::<A>(SchemaSettings::draft2020_12(), true);
    for name in UNDESCRIBED {
        let argument = schema.get_mut("properties").and_then(|all| all.get_mut(name));
        if let Some(Value::Object(argument)) = argument {
            argument.remove("description");
        }
    }
    schema.insert("additionalProperties".to_owned(), Value::Bool(false));
    // What is said of the type is for those who read the code.
    schema.remove("description");
    schema
}

/// No field is ever left out, and nothing is gained by saying so.
pub(crate) fn output<T: JsonSchema>() -> JsonObject {
    schema::<T>(SchemaSettings::draft2020_12().for_serialize(), false)
}

/// Short: nothing is said that a model does not need.
fn schema<T: JsonSchema>(settings: SchemaSettings, described: bool) -> JsonObject {
    let settings = settings.with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let settings =
        settings.with_transform(move |schema: &mut schemars::Schema| shorten(schema, described));
    object(settings.into_generator().into_root_schema_for::<T>().to_value())
}

fn shorten(schema: &mut schemars::Schema, described: bool) {
    schema.remove("title");
    schema.remove("format");
    if !described || schema.get("description") == Some(&Value::from("")) {
        schema.remove("description");
    }
    if !described {
        schema.remove("minimum");
        schema.remove("required");
        // Most fields of tmux are texts, or nothing: two thousand bytes to say so.
        if schema.get("type") == Some(&json!(["string", "null"])) {
            schema.remove("type");
        }
    }
    if schema.get("additionalProperties") == Some(&Value::Bool(true)) {
        schema.remove("additionalProperties");
    }
    if schema.get("default") == Some(&Value::Null) {
        schema.remove("default");
    }
    transform_subschemas(&mut |schema: &mut schemars::Schema| shorten(schema, described), schema);
    // Clients on the TypeScript SDK of the 1.x line refuse the whole list if a property's schema is `true`.
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut().filter(|property| **property == Value::Bool(true)) {
            *property = json!({});
        }
    }
    if let Some(Value::Array(choices)) = schema.remove("anyOf") {
        let choices: Vec<Value> = choices.into_iter().flat_map(choice).collect();
        match one_of_types(&choices) {
            Some(merged) => merged.into_iter().for_each(|(key, value)| {
                schema.insert(key, value);
            }),
            None => drop(schema.insert("anyOf".to_owned(), choices.into())),
        }
    }
}

/// Choices of different types as one schema: what is said of one type says nothing of another.
fn one_of_types(choices: &[Value]) -> Option<JsonObject> {
    let (mut types, mut merged) = (Vec::new(), JsonObject::default());
    for choice in choices {
        let choice = choice.as_object()?;
        let kinds = match choice.get("type")? {
            Value::Array(kinds) => kinds.clone(),
            kind => vec![kind.clone()],
        };
        if kinds.iter().any(|kind| types.contains(kind)) {
            return None;
        }
        types.extend(kinds);
        for (key, value) in choice.iter().filter(|(key, _)| *key != "type") {
            if key == "enum" || merged.insert(key.clone(), value.clone()).is_some() {
                return None;
            }
        }
    }
    merged.insert("type".to_owned(), types.into());
    Some(merged)
}

/// One choice of several, without what is said of it, or the choices that it consists of.
fn choice(mut schema: Value) -> Vec<Value> {
    if let Value::Object(object) = &mut schema {
        object.remove("description");
        if let (1, Some(Value::Array(choices))) = (object.len(), object.get_mut("anyOf")) {
            return std::mem::take(choices);
        }
    }
    vec![schema]
}

pub(crate) fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::default(),
    }
}
