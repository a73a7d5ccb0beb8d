//! Messages for invalid arguments, which name the fault and never repeat a value.

use std::fmt::Write as _;

use toolgate_wire::{Json, Kind, Object};

use super::mask::Mask;
use crate::{context::ClientInfo, tool::Tool};

/// A flag that some clients add to the arguments when they batch calls. The message names it, so that the model can
/// remove it. toolgate does not remove it, so that misspelt arguments are reported.
const SCHEDULING_FLAG: &str = "wait_for_previous";

/// Largest number of unknown names in a message. Further ones are counted.
const MAX_NAMES: usize = 10;
/// Largest number of a tool's arguments in a message.
const MAX_LISTED: usize = 30;
/// Largest length of a name in a message.
const MAX_NAME: usize = 64;

/// Largest product of values and message bytes that are compared. Beyond it the message is replaced.
const MAX_COMPARISONS: usize = 64 << 20;
/// The replacement of such a message.
const WITHHELD: &str = "The arguments do not fit the tool's schema (the server's message is withheld: it is too long to be cleaned of values)";

/// The names of the call's arguments that the tool does not have.
pub(super) fn unexpected(tool: &Tool, arguments: &Json) -> Vec<String> {
    let Some(object) = arguments.object() else {
        return Vec::new();
    };
    let names = object.keys().map(std::borrow::Cow::into_owned);
    match tool.closed_argument_names() {
        Some(known) => names.filter(|name| !known.contains(name)).collect(),
        None => names.filter(|name| name == SCHEDULING_FLAG).collect(),
    }
}

/// The suggestion for names that the tool does not have.
pub(super) fn suggestion(
    tool: &Tool,
    unexpected: &[String],
    client: Option<&ClientInfo>,
) -> Option<String> {
    if unexpected.is_empty() {
        return None;
    }
    let names = unexpected.iter().take(MAX_NAMES);
    let names: Vec<String> = names.map(|name| cut(name)).collect();
    let mut text = format!("Remove or correct the unrecognized argument(s): {}", names.join(", "));
    match unexpected.len().saturating_sub(MAX_NAMES) {
        0 => text.push('.'),
        more => {
            let _ = write!(text, " and {more} more.");
        }
    }
    let known = tool.closed_argument_names().unwrap_or_default();
    let meant = |name: &&String| *name != SCHEDULING_FLAG;
    if let Some(close) = unexpected.iter().filter(meant).find_map(|name| closest(name, &known)) {
        let _ = write!(text, " Did you mean `{}`?", cut(close));
    }
    if unexpected.iter().any(|name| name != SCHEDULING_FLAG) && !known.is_empty() {
        let names: Vec<String> = known.iter().take(MAX_LISTED).map(|name| cut(name)).collect();
        let more = if known.len() > MAX_LISTED { ", …" } else { "" };
        let _ = write!(text, " The tool takes: {}{more}.", names.join(", "));
    }
    if unexpected.iter().any(|name| name == SCHEDULING_FLAG) {
        let who = client.map_or_else(
            || "some clients (e.g. Gemini CLI)".to_owned(),
            |client| format!("your client ({})", cut(&client.to_string())),
        );
        let _ = write!(
            text,
            " {SCHEDULING_FLAG} is a scheduling flag {who} can leak into batched tool calls; retry \
             the call without it."
        );
    }
    Some(text)
}

/// The argument that a name probably means: one contains the other, or they have a similar start and length.
fn closest<'a>(name: &str, known: &'a [String]) -> Option<&'a String> {
    let alike = |one: &&String| {
        let same = one.chars().zip(name.chars()).take_while(|(a, b)| a == b).count();
        let shorter = one.len().min(name.len());
        let within = one.contains(name) || name.contains(one.as_str());
        shorter > 2 && (within || same > 2 && one.len().abs_diff(name.len()) < 3)
    };
    known.iter().filter(alike).min_by_key(|one| one.len().abs_diff(name.len()))
}

fn cut(name: &str) -> String {
    match name.char_indices().nth(MAX_NAME) {
        Some((end, _)) => format!("{}...", name.get(..end).unwrap_or_default()),
        None => name.to_owned(),
    }
}

/// The message with all values of the arguments masked.
pub(super) fn without_values(message: &str, arguments: &Json) -> String {
    let mut values = Vec::new();
    collect(arguments, &mut values, 0);
    values.sort_unstable();
    values.dedup();
    if values.len().saturating_mul(message.len()) > MAX_COMPARISONS {
        return WITHHELD.to_owned();
    }
    let mut mask = Mask::new(message);
    for value in &values {
        mask.hide(value);
    }
    mask.finish()
}

fn collect(json: &Json, values: &mut Vec<String>, depth: usize) {
    match json.kind() {
        // Too deep to parse: mask it as one text.
        Kind::Object | Kind::Array if depth > 128 => values.push(json.as_str().to_owned()),
        Kind::Object => {
            for (_, member) in json.object().iter().flat_map(Object::iter) {
                collect(&member, values, depth + 1);
            }
        }
        Kind::Array => {
            for element in json.array().unwrap_or_default() {
                collect(&element, values, depth + 1);
            }
        }
        Kind::String => {
            // Servers quote a value decoded, as the client's JSON, or as their own JSON.
            values.push(inside_quotes(json));
            if let Some(text) = json.text() {
                values.push(inside_quotes(&Json::string(&text)));
                values.push(text.into_owned());
            }
        }
        Kind::Number => values.push(json.as_str().to_owned()),
        Kind::Bool | Kind::Null => {}
    }
}

fn inside_quotes(json: &Json) -> String {
    let text = json.as_str();
    let inner = text.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
    inner.unwrap_or(text).to_owned()
}
