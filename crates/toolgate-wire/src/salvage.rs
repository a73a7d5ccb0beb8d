//! Finds the id of a line that is too long or invalid, so that its sender gets a response.

use crate::envelope::{Envelope, EnvelopePart};
use crate::id::Id;
use crate::json::{Json, Kind};
use crate::limits::Limits;
use crate::scan::{Scanner, Span, trimmed};
use crate::shape::Shape;

/// The id of a line, from its two ends (which may overlap, or both be the whole line).
///
/// The id is only read where it certainly belongs to the envelope: among the complete members at the start of the head,
/// or as the last member before the closing brace of the tail. If both differ, or `id` occurs twice or in another
/// spelling, this is `None`.
#[must_use]
pub fn salvage_id(head: &[u8], tail: &[u8]) -> Option<Id> {
    let start = envelope_of(head);
    if start.unclear_id {
        return None;
    }
    let Some(span) = start.span(EnvelopePart::Id) else {
        return tail_id(tail);
    };
    let first = scalar(span.of(head))?;
    match tail_id(tail) {
        Some(last) if last != first => None,
        _ => Some(first),
    }
}

/// The shape of the message, as far as the keys at its start show. `None` for a `method` if an `id` may follow.
#[must_use]
pub fn salvage_shape(head: &[u8]) -> Option<Shape> {
    shape_hint(&envelope_of(head), false)
}

fn envelope_of(head: &[u8]) -> Envelope {
    let start = trimmed(head).start;
    let end = head.len();
    Envelope::read(head, Span { start, end }, &Limits::default())
}

/// The shape that the keys show.
pub(crate) fn shape_hint(found: &Envelope, id_known: bool) -> Option<Shape> {
    match [EnvelopePart::Method, EnvelopePart::Result, EnvelopePart::Error]
        .map(|part| found.has(part))
    {
        [true, false, false] if id_known || found.has(EnvelopePart::Id) => Some(Shape::Request),
        [true, false, false] if found.complete => Some(Shape::Notification),
        [false, true, false] => Some(Shape::Response),
        [false, false, true] => Some(Shape::Error),
        _ => None,
    }
}

/// The id at the end of a line: `,"id":7}`.
///
/// In a line that is valid except for its length, the last brace closes the envelope, and a string cannot end in
/// `"id":7}`: so the id is a member of the envelope.
pub(crate) fn tail_id(tail: &[u8]) -> Option<Id> {
    let text = trim_end(trim_end(tail).strip_suffix(b"}")?);
    let (before, id) = text.split_at(last_scalar(text)?);
    let before = trim_end(trim_end(before).strip_suffix(b":")?);
    let before = trim_end(before.strip_suffix(b"\"id\"")?);
    before.strip_suffix(b",")?;
    scalar(id)
}

fn trim_end(text: &[u8]) -> &[u8] {
    text.get(..trimmed(text).end).unwrap_or_default()
}

/// The start of the string or number at the end of the text.
fn last_scalar(text: &[u8]) -> Option<usize> {
    let Some(inner) = text.strip_suffix(b"\"") else {
        let part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        return Some(text.iter().rposition(|byte| !part(byte))? + 1);
    };
    let mut rest = inner;
    loop {
        let quote = memchr::memrchr(b'"', rest)?;
        rest = rest.get(..quote)?;
        let escapes = rest.iter().rev().take_while(|byte| **byte == b'\\').count();
        if escapes.is_multiple_of(2) {
            return Some(quote);
        }
    }
}

/// The id, if the text is exactly one.
fn scalar(text: &[u8]) -> Option<Id> {
    std::str::from_utf8(text).ok()?;
    let mut scanner = Scanner::new(text, 0, 0);
    scanner.value().ok()?;
    scanner.end().ok()?;
    let is_id = matches!(Kind::of(text), Kind::Number | Kind::String);
    let id = is_id.then(|| Json::composed(text.to_vec()))?;
    Id::from_json(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(line: &str) -> Option<Id> {
        salvage_id(line.as_bytes(), line.as_bytes())
    }

    #[test]
    fn finds_the_id_at_the_start() {
        let head = br#" {"jsonrpc":"2.0","x":[{"id":1}],"id":"a\"b","method":"m","params":{"a":"#;
        assert_eq!(salvage_id(head, b"xxxx"), Some(Id::string("a\"b")));
        assert_eq!(salvage_shape(head), Some(Shape::Request));
    }

    #[test]
    fn finds_the_id_at_the_end() {
        for (tail, id) in [
            (r#"xx","id":7}"#, Id::number(7)),
            ("xx\" , \"id\" : -7.0 } \r\n", Id::number(-7)),
            (r#"]],"id":"a\\"}"#, Id::string("a\\")),
            (r#"]],"id":"\"id\":7}"}"#, Id::string("\"id\":7}")),
        ] {
            assert_eq!(salvage_id(b"{\"a\":[", tail.as_bytes()), Some(id), "{tail}");
        }
    }

    #[test]
    fn takes_no_id_from_inside() {
        for tail in [
            r#","id":7}}"#,
            r#"{"id":7}"#,
            r#""a\",\"id":7}"#,
            r#","id":}"#,
            r#","id":null}"#,
            r#","id":07}"#,
            r#","id":"7\"}"#,
            r#","Id":7}"#,
            r#","id":7"#,
            r#"id":7}"#,
            "",
        ] {
            assert_eq!(salvage_id(b"{\"a\":[", tail.as_bytes()), None, "{tail}");
        }
    }

    #[test]
    fn a_number_that_may_go_on_is_no_id() {
        assert_eq!(salvage_id(br#"{"id":12"#, b""), None);
        assert_eq!(salvage_id(br#"{"id":12,"#, b""), Some(Id::number(12)));
        assert_eq!(salvage_id(br#"{"id":12 }"#, b""), Some(Id::number(12)));
    }

    #[test]
    fn doubt_is_none() {
        assert_eq!(both(r#"{"id":1,"id":1,"a":["#), None);
        assert_eq!(both(r#"{"ID":1,"id":1,"a":["#), None);
        assert_eq!(both(r#"{"id":null,"a":[,"id":2}"#), None);
        assert_eq!(both(r#"{"id":1,"a":[,"id":2}"#), None);
        assert_eq!(both(r#"{"id":1,"a":[,"id":1.0}"#), Some(Id::number(1)));
        assert_eq!(salvage_id(b"{\"id\":\"\xff\",", b""), None);
    }

    #[test]
    fn shapes_by_the_keys_at_the_start() {
        for (head, shape) in [
            (r#"{"id":1,"result":{"a"#, Some(Shape::Response)),
            (r#"{"error":{"#, Some(Shape::Error)),
            (r#"{"method":"m","params":{"#, None),
            (r#"{"method":"m","id":1,"params":{"#, Some(Shape::Request)),
            (r#"{"method":"m","params":{}}"#, Some(Shape::Notification)),
            (r#"{"method":"m","result":{"#, None),
            ("", None),
        ] {
            assert_eq!(salvage_shape(head.as_bytes()), shape, "{head}");
        }
    }
}
