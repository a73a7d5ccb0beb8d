//! Tests of refusals: each rule, and what is known about a line that breaks it.

use super::*;
use crate::error::WireErrorKind::{
    self, DuplicateKey, Empty, KeySpelling, Missing, Syntax, TooDeep, TooLarge, Utf8, WrongType,
};
use crate::message::Message;

fn parse(line: &str) -> Result<Message, RefusedMessage> {
    Message::parse(Bytes::copy_from_slice(line.as_bytes()), &Limits::default())
}

fn message(line: &str) -> Message {
    parse(line).unwrap_or_else(|refused| panic!("{line:.200}: {refused}"))
}

/// A message with these members after `jsonrpc`.
fn with(members: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0",{members}}}"#)
}

fn refusal(line: &str) -> (WireErrorKind, Option<Id>, Option<Shape>) {
    match parse(line) {
        Ok(_) => panic!("accepted: {line:.200}"),
        Err(refused) => (refused.error.kind(), refused.id, refused.shape_hint),
    }
}

#[test]
fn refuses_by_the_rules_and_keeps_the_id() {
    let one = || Some(Id::number(1));
    let request = Some(Shape::Request);
    for (line, kind, id, hint) in [
        (r#"{"id":1,"method":"m"}"#, Missing, one(), request),
        (r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#, WrongType, one(), request),
        (r#"{"jsonrpc":2.0,"id":1,"method":"m"}"#, WrongType, one(), request),
        (r#"{"jsonrpc":"2.0","method":5,"id":1}"#, WrongType, one(), request),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":"x"}"#, WrongType, one(), request),
        (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, WrongType, None, request),
        (r#"{"jsonrpc":"2.0","id":{},"method":"m"}"#, WrongType, None, request),
        (r#"{"jsonrpc":"2.0","id":1}"#, Missing, one(), None),
        (r#"{"jsonrpc":"2.0","result":1}"#, Missing, None, Some(Shape::Response)),
        (r#"{"jsonrpc":"2.0","id":null,"result":1}"#, WrongType, None, Some(Shape::Response)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"m","result":1}"#, WrongType, one(), None),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":1,"params":{}}"#,
            WrongType,
            one(),
            Some(Shape::Response),
        ),
        (r#"{"jsonrpc":"2.0","id":1,"error":5}"#, WrongType, one(), Some(Shape::Error)),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#, Missing, one(), Some(Shape::Error)),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":1.5,"message":""}}"#,
            WrongType,
            one(),
            Some(Shape::Error),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":"1","message":""}}"#,
            WrongType,
            one(),
            Some(Shape::Error),
        ),
        ("[]", WrongType, None, None),
        ("7", WrongType, None, None),
        ("{}", Missing, None, None),
        (" \n", Empty, None, None),
    ] {
        assert_eq!(refusal(line), (kind, id, hint), "{line}");
    }
}

#[test]
fn keys_of_the_envelope_stand_once_and_are_spelled_as_they_are() {
    let one = || Some(Id::number(1));
    for (members, kind, id) in [
        (r#""id":1,"method":"a","method":"b""#, DuplicateKey, one()),
        (r#""id":1,"id":1,"method":"m""#, DuplicateKey, None),
        (r#""id":1,"method":"m","Method":"n""#, KeySpelling, one()),
        (r#""id":1,"method":"m","ID":2"#, KeySpelling, None),
        (r#""id":1,"m\u0065thod":"m""#, KeySpelling, one()),
        (r#""id":1,"method":"m","param\u017f":{}"#, KeySpelling, one()),
        ("\"id\":1,\"method\":\"m\",\"param\u{17f}\":{}", KeySpelling, one()),
        (r#""JSONRPC":"2.0","id":1,"method":"m""#, KeySpelling, one()),
    ] {
        let (found, found_id, _) = refusal(&with(members));
        assert_eq!((found, found_id), (kind, id), "{members}");
    }
    message(&with(r#""id":1,"method":"m","other":1,"other":2,"methods":3"#));
}

/// Checks that a key may occur here only once, and only in its exact spelling.
fn stands_once(key: &str, place: &str) {
    let members = |inside: &str| with(&place.replace('@', inside));
    message(&members(&format!(r#""{key}":null,"x":2"#)));
    let twice = members(&format!(r#""{key}":null,"a":2,"{key}":3"#));
    assert_eq!(refusal(&twice).0, DuplicateKey, "{twice}");
    let (first, rest) = key.split_at(1);
    let mut variants = vec![format!("\\u{:04x}{rest}", key.as_bytes()[0])];
    if first != "_" {
        variants.push(format!("{}{rest}", first.to_ascii_uppercase()));
    }
    if let Some(at) = key.find('s') {
        variants.push(format!("{}\u{17f}{}", &key[..at], &key[at + 1..]));
    }
    if let Some(at) = key.find('k') {
        variants.push(format!("{}\\u212a{}", &key[..at], &key[at + 1..]));
    }
    for variant in variants {
        let alone = members(&format!(r#""{variant}":1"#));
        assert_eq!(refusal(&alone).0, KeySpelling, "{alone}");
        let beside = members(&format!(r#""{key}":null,"{variant}":1"#));
        assert_eq!(refusal(&beside).0, KeySpelling, "{beside}");
    }
}

/// Walks through the tables, so that all keys are checked.
fn walk(watched: &'static crate::keys::GuardedKeys, place: &str) {
    for key in watched.names() {
        stands_once(key, place);
    }
    for (key, inner) in watched.nested() {
        walk(inner, &place.replace('@', &format!(r#""{key}":{{@}}"#)));
    }
}

#[test]
fn keys_that_decide_stand_once_and_are_spelled_as_they_are() {
    walk(&crate::keys::PARAMS, r#""id":1,"method":"m","params":{@}"#);
    walk(&crate::keys::PARAMS, r#""method":"notifications/m","params":{@}"#);
    walk(&crate::keys::RESULT, r#""id":1,"result":{@}"#);
    // Names that a peer has chosen may occur only once, too.
    let chosen = with(r#""id":1,"method":"m","params":{"inputResponses":{"a":1,"\u0061":2}}"#);
    assert_eq!(refusal(&chosen).0, DuplicateKey);
    // PHP escapes slashes.
    let slashes = r#""_meta":{"io.modelcontextprotocol\/protocolVersion":"2026-07-28"}"#;
    message(&with(&format!(r#""id":1,"method":"m","params":{{{slashes}}}"#)));
    let twice = r#""_meta":{"toolgate\/confirm":1,"toolgate/confirm":2}"#;
    let twice = with(&format!(r#""id":1,"method":"m","params":{{{twice}}}"#));
    assert_eq!(refusal(&twice).0, DuplicateKey);
    // Keys that affect no decision may occur twice, as may arguments.
    message(&with(r#""id":1,"method":"m","params":{"a":1,"a":2,"arguments":{"name":1,"name":2}}"#));
    message(&with(r#""id":1,"result":{"x":1,"x":2}"#));
}

#[test]
fn only_notifications_go_without_an_id() {
    for method in ["tools/call", "notification", "Notifications/x", "\\u0074ools/call"] {
        let refused = refusal(&with(&format!(r#""method":"{method}""#)));
        assert_eq!(refused, (Missing, None, Some(Shape::Request)), "{method}");
    }
    let noted = refusal(&with(r#""id":1,"method":"notifications/x""#));
    assert_eq!(noted, (WrongType, Some(Id::number(1)), Some(Shape::Request)));
}

#[test]
fn what_cannot_be_read_keeps_the_id_where_it_is_certain() {
    let id = || Some(Id::number(12));
    assert_eq!(
        refusal(r#"{"id":12,"method":"m","params":{"#),
        (Syntax, id(), Some(Shape::Request))
    );
    assert_eq!(refusal(r#"{"method":"m","id":12"#), (Syntax, None, Some(Shape::Request)));
    assert_eq!(refusal(r#"{"method":"m","id":12x}"#).1, None);
    assert_eq!(refusal(r#"{"method":"m",,"id":12}"#), (Syntax, None, None));
    let deep =
        format!(r#"{{"method":"m","params":{}1{},"id":12}}"#, "[".repeat(200), "]".repeat(200));
    assert_eq!(refusal(&deep), (TooDeep, id(), Some(Shape::Request)));

    let mut bad = br#"{"id":12,"result":{"text":"?"}}"#.to_vec();
    bad[27] = 0xff;
    let refused = Message::parse(bad.into(), &Limits::default()).unwrap_err();
    assert_eq!((refused.error.kind(), refused.error.position()), (Utf8, 27));
    assert_eq!((refused.id, refused.shape_hint), (id(), Some(Shape::Response)));

    let small = Limits { max_bytes: 50, ..Limits::default() };
    let long = format!(r#"{{"method":"m","params":["{}"],"id":12}}"#, "x".repeat(9000));
    let refused = Message::parse(long.into(), &small).unwrap_err();
    assert_eq!(refused.error.kind(), TooLarge);
    assert_eq!((refused.id, refused.shape_hint), (id(), Some(Shape::Request)));
}

#[test]
fn errors_speak_of_keys_and_places_only() {
    for (line, text) in [
        (r#"{"jsonrpc":"2.0","x" 1}"#, "invalid JSON at byte 21: expected `:`"),
        (r#"{"id":1,"id":2}"#, "duplicate key `id` at byte 8"),
        (r#"{"Method":1}"#, "key `Method` at byte 1: write it `method`"),
        (r#"{"jsonrpc":"2.0","method":7}"#, "`method` at byte 26 must be a string"),
        (r#"{"method":"m"}"#, "`jsonrpc` is missing"),
        (
            r#"{"jsonrpc":"2.0","method":"m","result":1}"#,
            "`result` at byte 39 cannot stand beside `method`",
        ),
        ("[]", "a message must be an object, at byte 0"),
        ("", "empty message"),
    ] {
        assert_eq!(parse(line).unwrap_err().to_string(), text, "{line}");
    }
}
