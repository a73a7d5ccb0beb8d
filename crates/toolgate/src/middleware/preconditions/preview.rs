//! Previews of calls that did not run: tool, arguments and missing confirmations.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use toolgate_wire::{Json, Kind, mcp::member};

use super::{ConfirmKey, Gate, NAME, Preview, confirm::ConfirmationRequest};
use crate::{
    call::Call,
    context::Context,
    failure::Failure,
    middleware::{
        audit::{Redactor, insert, secret_names},
        error_results,
    },
    outcome::{Outcome, ToolResult},
    printable,
    registry::Code,
};

/// Largest length of a text in a preview. The preview says how much is missing, so that the person who confirms knows.
const MAX_TEXT: usize = 2000;
/// Largest depth and number of values. Further ones are replaced by their type.
const MAX_DEPTH: usize = 12;
const MAX_VALUES: usize = 500;

/// The preview of a call in a dry run.
pub(super) fn dry(
    gate: &Gate,
    cx: &Context,
    call: &Call,
    preview: &Preview,
    rule: &str,
) -> Outcome {
    let mut missing = preview.missing.clone();
    if super::confirm::has_confirmation(gate, cx) && missing.len() > 1 {
        missing.retain(|key| *key != ConfirmKey::Caller);
    }
    let holders = missing.iter().map(|key| match key {
        ConfirmKey::Operator if rule.starts_with("dry_run") => {
            "the operator's key (a rule of `preconditions` keeps this tool dry)".to_owned()
        }
        ConfirmKey::Operator => {
            format!("the operator's key ({}; only the operator turns it off)", gate.operator)
        }
        ConfirmKey::Caller if preview.missing == [ConfirmKey::Caller] => {
            "the caller's (`toolgate/dry_run` of this request; leave it out to run the call)"
                .to_owned()
        }
        ConfirmKey::Caller => "the caller's key (a confirmation of this very call)".to_owned(),
    });
    let holders: Vec<String> = holders.collect();
    let next = if missing.contains(&ConfirmKey::Operator) {
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
    finish(gate, failure.with_fact("preview", facts))
}

/// The preview of a call that needs a token, or that cannot be confirmed.
pub(super) fn unconfirmed(request: ConfirmationRequest<'_>, token: Option<&str>) -> Outcome {
    let ConfirmationRequest { gate, call, rule, .. } = request;
    let why = &request.question.why;
    let mut facts = facts(gate, call, &[ConfirmKey::Caller]);
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
            "Tell the user: only a person can confirm this call, in a client that can ask (elicitation)."
                .to_owned(),
        ),
    };
    let why = if why.is_empty() { String::new() } else { format!(" {why}") };
    let text = format!("Nothing was run: this call needs {needs}.{why} {}", shown(gate, call));
    let failure = Failure::new(Code::ConfirmRequired, text).suggest(next).by(NAME, rule);
    finish(gate, failure.with_fact("preview", facts))
}

/// The preview of a call that waits for a person in another terminal.
pub(super) fn pending(
    request: ConfirmationRequest<'_>,
    id: &str,
    expires: jiff::Timestamp,
) -> Outcome {
    let ConfirmationRequest { gate, call, rule, .. } = request;
    let why = &request.question.why;
    let mut facts = facts(gate, call, &[ConfirmKey::Caller]);
    if let Some(facts) = facts.as_object_mut() {
        facts.insert("expires_at".to_owned(), format!("{expires:.0}").into());
    }
    let why = if why.is_empty() { String::new() } else { format!(" {why}") };
    let text = format!(
        "Pending approval `{id}`: nothing was run. A person has to approve this call, and this client cannot \
         ask one.{why} {}",
        shown(gate, call)
    );
    let next = format!(
        "Tell the user that a person approves it in a terminal of their own with `toolgate approve {id}`, or \
         denies it with `toolgate deny {id}`. Afterwards repeat this very call, with exactly the same arguments: \
         it runs once. The request expires at {expires:.0}. Do not try to approve it yourself."
    );
    let approval = json!({"id": id, "state": "pending", "expires_at": format!("{expires:.0}")});
    let failure = Failure::new(Code::ConfirmRequired, text).suggest(next).by(NAME, rule);
    finish(gate, failure.with_fact("approval", approval).with_fact("preview", facts))
}

/// The result for the client: with `isError` by the layer `error-results`, or without.
fn finish(gate: &Gate, failure: Failure) -> Outcome {
    if gate.config.preview_is_error {
        return failure.into();
    }
    let rendered = error_results::rendered(&failure);
    match rendered.json().object() {
        Some(mut result) => {
            result.set(member::IS_ERROR, Json::value(&false.into()));
            Outcome::shown(failure, ToolResult::known(result.finish(), false, None))
        }
        None => failure.into(),
    }
}

fn facts(gate: &Gate, call: &Call, missing: &[ConfirmKey]) -> Value {
    json!({
        "tool": call.id().to_string(),
        "arguments": arguments(&gate.redactor, call).0,
        "missing": missing.iter().map(|key| key.name()).collect::<Vec<_>>(),
    })
}

/// The tool and its arguments, for display.
pub(super) fn shown(gate: &Gate, call: &Call) -> String {
    let (arguments, is_whole) = arguments(&gate.redactor, call);
    let tool = plain(call.id().name());
    if arguments.as_object().is_some_and(Map::is_empty) {
        return format!("`{tool}` of `{}` would be called without arguments.", call.id().server());
    }
    // A parsed value can be serialized.
    let pretty = serde_json::to_string_pretty(&arguments).unwrap_or_default();
    let count = match arguments.as_object().map_or(1, Map::len) {
        1 => "1 argument".to_owned(),
        more => format!("{more} arguments"),
    };
    let rest = if is_whole { "" } else { ", of which not everything is shown" };
    let server = call.id().server();
    format!("`{tool}` of `{server}` would be called with:\n{pretty}\n({count}{rest})\n")
}

/// The arguments without secrets, and whether all values are displayed.
pub(super) fn arguments(redactor: &Redactor, call: &Call) -> (Value, bool) {
    let Some(json) = call.arguments() else { return (json!({}), true) };
    let mut left = MAX_VALUES;
    let shown = redacted_value(redactor, json, 0, &mut left);
    (shown, left > 0)
}

fn redacted_value(redactor: &Redactor, json: &Json, depth: usize, left: &mut usize) -> Value {
    let has_room = *left > 0 && depth < MAX_DEPTH;
    *left = left.saturating_sub(1);
    match json.kind() {
        Kind::Object if has_room => {
            let members = json.object().unwrap_or_default();
            let names_one = secret_names::names_one(&members, |name| redactor.names_secret(name));
            let mut shown = Map::new();
            for (key, value) in members.iter() {
                let is_secret = names_one && !secret_names::is_naming(&key);
                let redacted = if is_secret || redactor.names_secret(&key) {
                    hidden(&value)
                } else {
                    redacted_value(redactor, &value, depth + 1, left)
                };
                insert(&mut shown, name(redactor, &key), redacted);
            }
            Value::Object(shown)
        }
        Kind::Array if has_room => {
            let mut is_named = false;
            let elements = json.array().unwrap_or_default();
            let elements = elements.iter().map(|element| {
                let hides = std::mem::replace(&mut is_named, redactor.is_name(element));
                if hides {
                    hidden(element)
                } else {
                    redacted_value(redactor, element, depth + 1, left)
                }
            });
            elements.collect()
        }
        Kind::String => match json.text() {
            Some(text) if redactor.is_secret_json(&text) => hidden(json),
            Some(text) => shown_text(redactor, &text).into(),
            None => hidden(json),
        },
        Kind::Object => "[an object that is not shown]".into(),
        Kind::Array => "[a list that is not shown]".into(),
        Kind::Number | Kind::Bool | Kind::Null => {
            json.to_value().unwrap_or_else(|_| plain(json.as_str()).into())
        }
    }
}

/// A text without secrets. The part after the searched start is counted, not displayed.
pub(super) fn shown_text(redactor: &Redactor, text: &str) -> String {
    if text.chars().nth(MAX_TEXT).is_none() {
        return plain(&redactor.clean(text));
    }
    let end = text.char_indices().nth(MAX_TEXT).map_or(text.len(), |(at, _)| at);
    let mut shown = plain(&redactor.clean(text.get(..end).unwrap_or_default()));
    let more = text.get(end..).unwrap_or_default().chars().count();
    let _ = write!(shown, "...[{more} more characters]");
    shown
}

/// The name of an argument, with non-ASCII letters escaped, so that similar names can be distinguished.
fn name(redactor: &Redactor, key: &str) -> String {
    let mut name = String::new();
    for c in shown_text(redactor, key).chars() {
        if c.is_ascii() { name.push(c) } else { name.extend(c.escape_unicode()) }
    }
    name
}

/// In the format of mcp-core.
fn hidden(json: &Json) -> Value {
    match json.text() {
        Some(text) => format!("[REDACTED:{}ch]", text.chars().count()).into(),
        None if json.kind() == Kind::Null => Value::Null,
        None => "[REDACTED:value]".into(),
    }
}

/// A text for display: characters that hide or reorder others are escaped, and missing characters are counted.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len().min(MAX_TEXT));
    for (count, c) in text.chars().enumerate() {
        if count == MAX_TEXT {
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
