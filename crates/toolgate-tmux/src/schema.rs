//! Schemas of arguments and results, made from their types. They are short, since models read all of them.

use rmcp::model::JsonObject;
use schemars::{JsonSchema, generate::SchemaSettings, transform::transform_subschemas};
use serde_json::{Value, json};

/// Arguments without a description: targets mean the same in all tools, and the server's instructions describe them;
/// the names of the others are clear.
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

/// The schema of a tool's arguments, with `additionalProperties: false`. serde cannot reject unknown arguments in types
/// that use `flatten`, so the chain rejects them by this schema.
pub(crate) fn input<A: JsonSchema>() -> JsonObject {
    let mut schema = schema::<A>(SchemaSettings::draft2020_12(), SchemaUse::Arguments);
    for name in UNDESCRIBED {
        let argument = schema.get_mut("properties").and_then(|all| all.get_mut(name));
        if let Some(Value::Object(argument)) = argument {
            argument.remove("description");
        }
    }
    schema.insert("additionalProperties".to_owned(), Value::Bool(false));
    // The description of the type is for readers of the code.
    schema.remove("description");
    schema
}

/// The schema of a result. It is kept small, because models read the schemas of all tools: it has no descriptions and no
/// list of required fields.
pub(crate) fn output<T: JsonSchema>() -> JsonObject {
    schema::<T>(SchemaSettings::draft2020_12().for_serialize(), SchemaUse::Result)
}

/// What a schema describes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaUse {
    Arguments,
    Result,
}

/// A schema without what models do not need.
fn schema<T: JsonSchema>(settings: SchemaSettings, of: SchemaUse) -> JsonObject {
    let settings = settings.with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let settings =
        settings.with_transform(move |schema: &mut schemars::Schema| shorten(schema, of));
    object(settings.into_generator().into_root_schema_for::<T>().to_value())
}

fn shorten(schema: &mut schemars::Schema, of: SchemaUse) {
    let described = of == SchemaUse::Arguments;
    schema.remove("title");
    schema.remove("format");
    if !described || schema.get("description") == Some(&Value::from("")) {
        schema.remove("description");
    }
    if !described {
        schema.remove("minimum");
        schema.remove("required");
        // Most fields of tmux are strings or null. Leaving that out saves two thousand bytes.
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
    transform_subschemas(&mut |schema: &mut schemars::Schema| shorten(schema, of), schema);
    // Clients on version 1 of the TypeScript SDK refuse the whole list if a property's schema is `true`.
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

/// Merges choices of different types into one schema: the keywords of one type do not affect another.
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

/// One choice without its description; a choice of choices is flattened.
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
