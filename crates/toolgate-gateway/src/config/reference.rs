//! The reference page of `toolgate.toml`, written from the schema, so that it cannot be out of date.

use std::{collections::VecDeque, fmt::Write as _};

use serde_json::{Map, Value};

use super::BuiltinTable;

/// The page, as Markdown: a table for each table of the file.
#[must_use]
pub fn reference(builtin: BuiltinTable) -> String {
    let schema = super::schema(builtin);
    let mut page = String::from(
        "# toolgate.toml\n\nMade by `toolgate config reference` from the types that read the file.\n",
    );
    // Outer tables first, so that a table which stands in two places is described at the outer one.
    let mut tables = VecDeque::from([(String::new(), schema.clone())]);
    let mut described: Vec<(Value, String)> = Vec::new();
    while let Some((path, table)) = tables.pop_front() {
        let resolved = resolve(&schema, &table).clone();
        if let Some((_, place)) = described.iter().find(|(known, _)| *known == resolved) {
            let _ = write!(page, "\n## `[{path}]`\n\nAs `[{place}]`, for this one only.\n");
            continue;
        }
        tables.extend(write_table(&mut page, &schema, &path, &resolved));
        described.push((resolved, path));
    }
    page
}

/// Writes one table and gives those inside of it.
fn write_table(page: &mut String, root: &Value, path: &str, table: &Value) -> Vec<(String, Value)> {
    let table = resolve(root, table);
    let mut inner = Vec::new();
    let mut rows = String::new();
    for (key, property) in properties(table) {
        let target = resolve(root, property);
        let child = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        if target.get("properties").is_some() {
            inner.push((child, target.clone()));
        } else if let Some(entry) = target.get("additionalProperties").filter(|e| is_table(root, e))
        {
            inner.push((format!("{child}.NAME"), entry.clone()));
        } else {
            let meaning = text(property, "description").or_else(|| text(target, "description"));
            let default = property.get("default").filter(|value| !value.is_null());
            let default = default.map(|value| format!("`{value}`")).unwrap_or_default();
            let kind = kind(root, property);
            let _ = writeln!(
                rows,
                "| `{key}` | {kind} | {default} | {} |",
                meaning.unwrap_or_default()
            );
        }
    }
    if !rows.is_empty() {
        let title = if path.is_empty() { "At the top".to_owned() } else { format!("`[{path}]`") };
        let about = text(table, "description").unwrap_or_default();
        let _ = write!(
            page,
            "\n## {title}\n\n{about}\n\n| key | value | default | meaning |\n|---|---|---|---|\n{rows}"
        );
    }
    inner
}

fn properties(table: &Value) -> impl Iterator<Item = (&String, &Value)> {
    table.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

fn is_table(root: &Value, entry: &Value) -> bool {
    resolve(root, entry).get("properties").is_some()
}

/// Follows `$ref`, and the one table in a choice between it and nothing.
fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    if let Some(pointer) = schema.get("$ref").and_then(Value::as_str) {
        let found = pointer.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return found.map_or(schema, |found| resolve(root, found));
    }
    let choices = schema.get("anyOf").and_then(Value::as_array);
    let tables = choices.into_iter().flatten().filter(|choice| choice.get("$ref").is_some());
    let mut tables = tables.map(|choice| resolve(root, choice));
    match (tables.next(), tables.next()) {
        (Some(only), None) => only,
        _ => schema,
    }
}

fn text(schema: &Value, key: &str) -> Option<String> {
    let text = schema.get(key)?.as_str()?;
    // A table cell is one line.
    Some(text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|"))
}

/// What may be written, in a few words.
fn kind(root: &Value, schema: &Value) -> String {
    let schema = resolve(root, schema);
    let word = |value: &Value| format!("`{value}`");
    if let Some(value) = schema.get("const") {
        return word(value);
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values.iter().map(word).collect::<Vec<_>>().join(", ");
    }
    for choice in ["oneOf", "anyOf"] {
        if let Some(choices) = schema.get(choice).and_then(Value::as_array) {
            let choices = choices.iter().filter(|c| c.get("type") != Some(&"null".into()));
            return choices.map(|c| kind(root, c)).collect::<Vec<_>>().join(" or ");
        }
    }
    let name = |kind: &Value| match kind.as_str() {
        Some("array") => {
            let items = schema.get("items").map(|items| kind_of_items(root, items));
            format!("list of {}", items.unwrap_or_else(|| "anything".to_owned()))
        }
        Some("object") => "table".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some("integer") => "number".to_owned(),
        Some("string") => "text".to_owned(),
        Some(other) => other.to_owned(),
        None => String::new(),
    };
    match schema.get("type") {
        Some(Value::Array(kinds)) => {
            let kinds = kinds.iter().filter(|kind| *kind != "null");
            kinds.map(name).collect::<Vec<_>>().join(" or ")
        }
        Some(kind) => name(kind),
        None => "anything".to_owned(),
    }
}

fn kind_of_items(root: &Value, items: &Value) -> String {
    match kind(root, items).as_str() {
        "text" => "texts".to_owned(),
        "table" => "tables".to_owned(),
        other => other.to_owned(),
    }
}
