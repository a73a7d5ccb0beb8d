//! Invalid arguments: name what is wrong without ever repeating a value.

use std::fmt::Write as _;

use toolgate_wire::{Json, Kind};

use crate::{context::ClientInfo, tool::Tool};

/// A flag that some clients leak into the arguments when they batch calls. It is named so that the
/// model can drop it; it is never stripped, so that misspelt arguments stay loud.
const SCHEDULING_FLAG: &str = "wait_for_previous";

/// Shorter values are too common in prose to be masked: `on`, `5`, `id`.
const SHORTEST_MASKED: usize = 4;

/// The names among the arguments that the tool does not know.
pub(super) fn unexpected(tool: &Tool, arguments: &Json) -> Vec<String> {
    let Some(object) = arguments.object() else { return Vec::new() };
    let names = object.iter().map(|(name, _)| name.into_owned());
    match tool.closed_argument_names() {
        Some(known) => names.filter(|name| !known.contains(name)).collect(),
        None => names.filter(|name| name == SCHEDULING_FLAG).collect(),
    }
}

/// What to do about names that the tool does not know.
pub(super) fn suggestion(unexpected: &[String], client: Option<&ClientInfo>) -> Option<String> {
    if unexpected.is_empty() {
        return None;
    }
    let mut text =
        format!("Remove or correct the unrecognized argument(s): {}.", unexpected.join(", "));
    if unexpected.iter().any(|name| name == SCHEDULING_FLAG) {
        let who = client.map_or_else(
            || "some clients (e.g. Gemini CLI)".to_owned(),
            |client| format!("your client ({client})"),
        );
        let _ = write!(
            text,
            " {SCHEDULING_FLAG} is a scheduling flag {who} can leak into batched tool calls; retry \
             the call without it."
        );
    }
    Some(text)
}

/// The message with every value of the arguments masked, wherever a server quoted it.
pub(super) fn without_values(message: &str, arguments: &Json) -> String {
    let mut values = Vec::new();
    collect(arguments, &mut values, 0);
    // Longest first: a value may contain another.
    values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    let mut clean = message.to_owned();
    for value in values {
        if clean.contains(&value) {
            clean = clean.replace(&value, "[value]");
        }
    }
    clean
}

fn collect(json: &Json, values: &mut Vec<String>, depth: usize) {
    // As deep as servers quote; deeper values are part of a longer one that is collected whole.
    if depth > 16 {
        return;
    }
    match json.kind() {
        Kind::Object => {
            for (_, member) in json.object().iter().flat_map(|object| object.iter()) {
                collect(&member, values, depth + 1);
            }
        }
        Kind::Array => {
            for element in json.array().unwrap_or_default() {
                collect(&element, values, depth + 1);
            }
        }
        Kind::String => {
            // Servers quote a value decoded, or as the JSON it came in.
            if let Some(text) = json.text() {
                keep(&text, values);
                if text.len() > 40 {
                    // Validators cut long values in the middle: mask both ends too.
                    keep(text.get(..20).unwrap_or_default(), values);
                    keep(text.get(text.len() - 20..).unwrap_or_default(), values);
                }
            }
            keep(json.as_str().trim_matches('"'), values);
        }
        Kind::Number => keep(json.as_str(), values),
        Kind::Bool | Kind::Null => {}
    }
}

fn keep(value: &str, values: &mut Vec<String>) {
    if value.chars().count() >= SHORTEST_MASKED {
        values.push(value.to_owned());
    }
}
