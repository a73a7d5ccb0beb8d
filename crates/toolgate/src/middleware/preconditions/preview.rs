//! What a person or a model is shown of a call that did not run: which tool, with what, and what is missing.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use toolgate_wire::{Json, Kind};

use super::{Gate, Key, NAME, Preview};
use crate::{
    call::Call,
    context::Context,
    failure::Failure,
    middleware::{audit::Redactor, error_results},
    outcome::{Outcome, ToolResult},
    printable,
    registry::Code,
};

/// Longer texts are cut, and it is said by how much: whoever confirms should know what is not shown.
const LONGEST_TEXT: usize = 2000;
/// Deeper values, and more than so many, are told by their kind only.
const DEEPEST: usize = 12;
const MOST_VALUES: usize = 500;

/// A call that is only shown.
pub(super) fn dry(
    gate: &Gate,
    cx: &Context,
    call: &Call,
    preview: &Preview,
    rule: &str,
) -> Outcome {
    let mut missing = preview.missing.clone();
    if super::confirm::has_spoken(gate, cx) && missing.len() > 1 {
        missing.retain(|key| *key != Key::Caller);
    }
    let holders = missing.iter().map(|key| match key {
        Key::Operator if rule.starts_with("dry_run") => {
            "the operator's key (a rule of `preconditions` keeps this tool dry)".to_owned()
        }
        Key::Operator => {
            format!("the operator's key ({}; only the operator turns it off)", gate.operator)
        }
        Key::Caller if preview.missing == [Key::Caller] => {
            "the caller's (`toolgate/dry_run` of this request; leave it out to run the call)"
                .to_owned()
        }
        Key::Caller => "the caller's key (a confirmation of this very call)".to_owned(),
    });
    let holders: Vec<String> = holders.collect();
    let next = if missing.contains(&Key::Operator) {
        "Tell the user what would happen; only the operator can open this deployment."
    } else {
        "Call again without the dry run to run it."
    };
    let text = format!(
        "Nothing was run: this is a preview. {} {} Missing: {}.",
        preview.why,
        shown(gate, call),
        holders.join(" and ")
    );
    let facts = facts(gate, call, &missing);
    let failure = Failure::new(Code::DryRunPreview, text).suggest(next).by(NAME, rule);
    finish(gate, failure.tell("preview", facts))
}

/// A call that has to be confirmed with a token, or cannot be confirmed at all.
pub(super) fn unconfirmed(
    gate: &Gate,
    call: &Call,
    why: &str,
    rule: &str,
    token: Option<&str>,
) -> Outcome {
    let mut facts = facts(gate, call, &[Key::Caller]);
    let (needs, next) = match token {
        Some(token) => {
            let ttl = crate::duration::format(gate.config.ttl);
            let expires = jiff::Timestamp::now() + gate.config.ttl;
            if let Some(facts) = facts.as_object_mut() {
                facts.insert("confirm_token".to_owned(), token.into());
                facts.insert("expires_at".to_owned(), format!("{expires:.0}").into());
            }
            (
                "a confirmation",
                format!(
                    "Ask the user. If they agree, repeat the call within {ttl} with exactly the same \
                     arguments and `__confirm` set to `{token}` (or with it as `toolgate/confirm` in \
                     `_meta`). It works once."
                ),
            )
        }
        None => (
            "a confirmation by its user, whom this client cannot ask",
            "Use a client with elicitation, or ask the operator for `confirm.fallback = \"token\"`."
                .to_owned(),
        ),
    };
    let why = if why.is_empty() { String::new() } else { format!(" {why}") };
    let text = format!("Nothing was run: this call needs {needs}.{why} {}", shown(gate, call));
    let failure = Failure::new(Code::ConfirmRequired, text).suggest(next).by(NAME, rule);
    finish(gate, failure.tell("preview", facts))
}

/// What the client reads: with `isError`, by errors-to-results, or without.
fn finish(gate: &Gate, failure: Failure) -> Outcome {
    if gate.config.preview_is_error {
        return failure.into();
    }
    let rendered = error_results::rendered(&failure);
    match rendered.json().object() {
        Some(mut result) => {
            result.set("isError", Json::value(&false.into()));
            Outcome::shown(failure, ToolResult::known(result.finish(), false, None))
        }
        None => failure.into(),
    }
}

fn facts(gate: &Gate, call: &Call, missing: &[Key]) -> Value {
    json!({
        "tool": call.id().to_string(),
        "arguments": arguments(&gate.redactor, call),
        "missing": missing.iter().map(|key| key.name()).collect::<Vec<_>>(),
    })
}

/// The tool and its arguments, for people.
pub(super) fn shown(gate: &Gate, call: &Call) -> String {
    let arguments = arguments(&gate.redactor, call);
    let tool = plain(call.id().name());
    if arguments.as_object().is_some_and(Map::is_empty) {
        return format!("`{tool}` of `{}` would be called without arguments.", call.id().server());
    }
    // A value that could be read can be written.
    let pretty = serde_json::to_string_pretty(&arguments).unwrap_or_default();
    format!("`{tool}` of `{}` would be called with:\n{pretty}\n", call.id().server())
}

/// The arguments without secrets.
fn arguments(redactor: &Redactor, call: &Call) -> Value {
    let mut left = MOST_VALUES;
    call.arguments().map_or_else(|| json!({}), |json| tell(redactor, json, 0, &mut left))
}

fn tell(redactor: &Redactor, json: &Json, depth: usize, left: &mut usize) -> Value {
    let has_room = *left > 0 && depth < DEEPEST;
    *left = left.saturating_sub(1);
    match json.kind() {
        Kind::Object if has_room => {
            let members = json.object().unwrap_or_default();
            let members = members.iter().map(|(key, value)| {
                let told = if redactor.names_secret(&key) {
                    hidden(&value)
                } else {
                    tell(redactor, &value, depth + 1, left)
                };
                (plain(&key), told)
            });
            Value::Object(members.collect())
        }
        Kind::Array if has_room => {
            let elements = json.array().unwrap_or_default();
            elements.iter().map(|element| tell(redactor, element, depth + 1, left)).collect()
        }
        Kind::String => match json.text() {
            Some(text) if redactor.is_secret_json(&text) => hidden(json),
            Some(text) => plain(&without_secrets(&text)).into(),
            None => hidden(json),
        },
        Kind::Object => "[an object that is not shown]".into(),
        Kind::Array => "[a list that is not shown]".into(),
        Kind::Number | Kind::Bool | Kind::Null => {
            json.to_value().unwrap_or_else(|_| plain(json.as_str()).into())
        }
    }
}

#[cfg(feature = "sanitize")]
use crate::middleware::sanitize::without_secrets;

/// Without the detectors only names tell of secrets.
#[cfg(not(feature = "sanitize"))]
fn without_secrets(text: &str) -> std::borrow::Cow<'_, str> {
    text.into()
}

/// As the seed writes it.
fn hidden(json: &Json) -> Value {
    match json.text() {
        Some(text) => format!("[REDACTED:{}ch]", text.chars().count()).into(),
        None if json.kind() == Kind::Null => Value::Null,
        None => "[REDACTED:value]".into(),
    }
}

/// A text that looks like what it is: characters that reorder or hide others are spelt out, and what is cut
/// is counted.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len().min(LONGEST_TEXT));
    for (count, c) in text.chars().enumerate() {
        if count == LONGEST_TEXT {
            let _ = write!(plain, "...[{} more characters]", text.chars().count() - count);
            break;
        }
        if matches!(c, '\n' | '\t') {
            plain.push(c);
        } else {
            printable::push(&mut plain, c);
        }
    }
    plain
}
