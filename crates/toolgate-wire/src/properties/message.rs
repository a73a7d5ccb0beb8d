//! Messages are accepted when they should be, and passed on byte for byte.

use bytes::Bytes;

use super::oracle::{self, Verdict};
use super::{Check, Dice, ensure};
use crate::{Id, Json, Limits, Message, RefusedMessage, WireErrorKind, salvage_id};

/// Compares the reader with `serde_json`.
pub fn check_message(bytes: &[u8]) -> Result<(), String> {
    let limits = Limits::default();
    let line = Bytes::copy_from_slice(bytes);
    let json = Json::parse(line.clone(), &limits);
    let valid = oracle::is_json(bytes) && oracle::depth(bytes) <= limits.max_depth;
    ensure(json.is_ok() == valid, "JSON is accepted when it is JSON")?;
    match (Message::parse(line, &limits), json) {
        (Ok(message), Ok(json)) => {
            check_accepted(&message, &json)?;
            check_edits(&message, &json)?;
            check_salvage(bytes, message.id())
        }
        (Ok(_), Err(_)) => Err("a message is JSON".to_owned()),
        (Err(refused), Ok(json)) => check_refused(&refused, &json),
        (Err(refused), Err(error)) => {
            ensure(refused.error == error, "a message that is no JSON is refused for that")
        }
    }
}

fn check_accepted(message: &Message, json: &Json) -> Check {
    let line = message.line();
    ensure(line.trim_ascii_start() == json.as_bytes(), "the line is kept")?;
    match oracle::judge(json.as_str()) {
        Verdict::Accept(shape) => ensure(shape == message.shape(), "the shape by the rules")?,
        Verdict::Refuse => return Err("what the rules refuse is refused".to_owned()),
        Verdict::Unknown => {}
    }
    let method = json.get("method");
    let method = method.as_ref().and_then(Json::text).unwrap_or_default();
    ensure(method == message.method(), "the method is the method")?;
    let id = json.get("id").and_then(Id::from_json);
    ensure(id.as_ref() == message.id(), "the id is the id")?;
    ensure(message.params() == json.get("params"), "params")?;
    ensure(message.result() == json.get("result"), "result")?;
    ensure(message.error() == json.get("error"), "error")?;
    let parts = [message.params(), message.result(), message.error()];
    let Some(part) = parts.into_iter().flatten().next() else {
        return ensure(message.body().is_none(), "no part, no body");
    };
    let (recorded, scanned) = (message.body(), part.object());
    ensure(recorded.is_some() == scanned.is_some(), "a body is an object")?;
    let (Some(recorded), Some(scanned)) = (recorded, scanned) else {
        return Ok(());
    };
    ensure(recorded.iter().eq(scanned.iter()), "the body's members")?;
    for (key, _) in scanned.iter() {
        ensure(message.member(&key) == part.get(&key), "member = get")?;
    }
    ensure(recorded.finish() == part, "an untouched body is the same")
}

fn check_edits(message: &Message, json: &Json) -> Check {
    let limits = Limits::default();
    ensure(message.with(None, None) == json.as_bytes(), "no edit")?;
    if let Some(id) = message.id() {
        ensure(message.with_id(id) == json.as_bytes(), "the same id")?;
    }
    let parts = [message.params(), message.result(), message.error()];
    if let Some(body) = parts.into_iter().flatten().next() {
        ensure(message.with_body(body) == json.as_bytes(), "the same body")?;
    }
    if message.error().is_some() {
        return Ok(());
    }
    let (id, body) = (Id::string("new \"id\""), Json::empty_object());
    let edited = message.with(Some(&id), Some(body.clone()));
    let Ok(edited) = Message::parse(edited, &limits) else {
        return Err("an edited message is a message".to_owned());
    };
    ensure(edited.shape() == message.shape(), "the shape stays")?;
    ensure(edited.method() == message.method(), "the method stays")?;
    let expected = message.id().map(|_| &id);
    ensure(edited.id() == expected, "the id is the new one")?;
    let part = edited.params().or(edited.result());
    ensure(part == Some(body), "the body is the new one")
}

/// Any two ends of a message give its id or none.
fn check_salvage(bytes: &[u8], id: Option<&Id>) -> Check {
    let mut dice = Dice::of(bytes);
    for _ in 0..8 {
        let head = dice.below(bytes.len() + 1);
        let tail = dice.below(bytes.len() + 1);
        let head = bytes.get(..head).unwrap_or_default();
        let tail = bytes.get(tail..).unwrap_or_default();
        let salvaged = salvage_id(head, tail);
        ensure(salvaged.is_none() || salvaged.as_ref() == id, "a salvaged id is the id")?;
    }
    Ok(())
}

fn check_refused(refused: &RefusedMessage, json: &Json) -> Check {
    let kind = refused.error.kind();
    let by_rule = matches!(
        kind,
        WireErrorKind::DuplicateKey
            | WireErrorKind::KeySpelling
            | WireErrorKind::WrongType
            | WireErrorKind::Missing
    );
    ensure(by_rule, "JSON is refused by a rule")?;
    if let Some(id) = &refused.id {
        let first = json.get("id").and_then(Id::from_json);
        ensure(first.as_ref() == Some(id), "the refused id is the id")?;
    }
    // The oracle compares keys by value: it does not see escaped spellings.
    let escaped = kind == WireErrorKind::KeySpelling && json.as_bytes().contains(&b'\\');
    let accepted = matches!(oracle::judge(json.as_str()), Verdict::Accept(_));
    ensure(!accepted || escaped, "what the rules accept is accepted")
}
