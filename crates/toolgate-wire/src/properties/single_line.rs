//! Everything that is sent is one line.

use bytes::Bytes;

use super::{Check, ensure};
use crate::{Id, Json, Limits, Message, Object, Shape, error_response, notification};
use crate::{request, response, single_line, split_batch};

/// Makes every line that can be made of the bytes, and checks that none has a line break.
pub fn check_single_line(bytes: &[u8]) -> Result<(), String> {
    let limits = Limits::default();
    let given = Bytes::copy_from_slice(bytes);
    one(&single_line(given.clone()), "any text")?;
    if let Ok(json) = Json::parse(given.clone(), &limits) {
        same(bytes, json.as_bytes())?;
        values(&json)?;
    }
    if let Ok(message) = Message::parse(given.clone(), &limits) {
        same(bytes, message.line())?;
        messages(&message)?;
    }
    for one in split_batch(&given, &limits).and_then(Result::ok).unwrap_or_default() {
        if let Ok(message) = Message::parse(one, &limits) {
            messages(&message)?;
        }
    }
    #[cfg(feature = "http")]
    events(&given)?;
    Ok(())
}

fn one(line: &[u8], what: &str) -> Check {
    ensure(memchr::memchr2(b'\n', b'\r', line).is_none(), &format!("one line: {what}"))
}

/// Compares the meaning, if serde can represent it.
fn same(before: &[u8], after: &[u8]) -> Check {
    let read = |text| serde_json::from_slice::<serde_json::Value>(text).ok();
    ensure(read(before) == read(after), "one line means what several meant")
}

fn values(json: &Json) -> Check {
    let id = Id::string("a\nb");
    for (line, what) in [
        (json.clone().into_bytes(), "a value"),
        (json.owned().into_bytes(), "an owned value"),
        (Json::list([json, json]).into_bytes(), "a list"),
        (request(&id, "a\r\nb", Some(json)), "a request"),
        (notification("a\u{2028}\n", Some(json)), "a notification"),
        (response(&id, json), "a response"),
        (error_response(Some(&id), 1, "a\nb", Some(json)), "an error"),
    ] {
        one(&line, what)?;
    }
    let mut object = Object::new();
    object.set("a\r\nb", json.clone());
    one(object.finish().as_bytes(), "a new object")?;
    let Some(mut object) = json.object() else { return Ok(()) };
    one(object.clone().finish().as_bytes(), "an object")?;
    object.set("a\r\nb", json.clone());
    one(object.finish().as_bytes(), "a changed object")
}

fn messages(message: &Message) -> Check {
    one(message.line(), "a message")?;
    let parts = [message.params(), message.result(), message.error()];
    for part in parts.into_iter().flatten() {
        values(&part)?;
        one(&message.with_body(part), "a message with a body")?;
    }
    if let Some(id) = message.id() {
        values(id.as_json())?;
        one(&message.with_id(id), "a message with an id")?;
    }
    if let Some(body) = message.body() {
        for (key, value) in body.iter().take(12) {
            one(value.as_bytes(), "a member")?;
            one(message.member(&key).map_or(&b""[..], |_| value.as_bytes()), "a member by key")?;
        }
    }
    let is_named = message.method().starts_with("notifications/");
    ensure(
        message.method().is_empty() || is_named == (message.shape() == Shape::Notification),
        "only notifications go without an id",
    )
}

/// Data of several lines is one line after it was read as a message, and one of our events is read as one event.
#[cfg(feature = "http")]
fn events(bytes: &Bytes) -> Check {
    let mut events = crate::sse::Events::new(bytes.len() + 64);
    events.buffer().extend_from_slice(bytes);
    while let Ok(Some(event)) = events.next() {
        if let Ok(message) = Message::parse(event.data, &Limits::default()) {
            one(message.line(), "the data of an event")?;
        }
    }
    let event = crate::sse::event(bytes, Some("1"));
    let lines: Vec<&[u8]> = event.split(|byte| matches!(byte, b'\n' | b'\r')).collect();
    ensure(lines.len() == 4 && lines.get(2..) == Some(&[&b""[..], b""]), "one event")
}
