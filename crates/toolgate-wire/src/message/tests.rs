//! Tests of messages: reading and editing.

use super::*;
use crate::error::WireErrorKind;
use crate::refused_message::RefusedMessage;

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

fn refusal(line: &str) -> WireErrorKind {
    match parse(line) {
        Ok(_) => panic!("accepted: {line:.200}"),
        Err(refused) => refused.error.kind(),
    }
}

const CALL: &str = concat!(
    r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":"#,
    r#"{"name":"read","arguments":{"n":0.10}, "_meta":{}},"x":[1]}"#
);

#[test]
fn reads_a_call() {
    let call = message(&format!("{CALL}\r\n"));
    assert_eq!(call.shape(), Shape::Request);
    assert_eq!(call.id(), Some(&Id::number(7)));
    assert_eq!(call.method(), "tools/call");
    assert_eq!(call.member("name").unwrap().text().unwrap(), "read");
    assert_eq!(call.member("arguments").unwrap().as_str(), r#"{"n":0.10}"#);
    assert_eq!(call.member("x"), None);
    assert_eq!(call.line(), CALL);
    assert_eq!((call.result(), call.error()), (None, None));
    assert_eq!(call.body().unwrap().len(), 3);
    let shown = format!("{call:?}");
    assert!(shown.contains("tools/call") && !shown.contains("0.10"), "{shown}");
}

#[test]
fn reads_every_shape() {
    for (members, shape, id) in [
        (r#""id":"a","method":"m""#, Shape::Request, Some(Id::string("a"))),
        (r#""id":1.5,"method":"m","params":[]"#, Shape::Request, parse_id("1.5")),
        (r#""method":"notifications/m","params":null"#, Shape::Notification, None),
        (r#""id":1,"result":null"#, Shape::Response, Some(Id::number(1))),
        (r#""id":1,"result":[1]"#, Shape::Response, Some(Id::number(1))),
        (r#""id":1,"error":{"code":-1,"message":"","x":1}"#, Shape::Error, Some(Id::number(1))),
        (r#""id":null,"error":{"message":"m","code":-32000.0}"#, Shape::Error, None),
        (r#""error":{"code":99999999999,"message":"m"}"#, Shape::Error, None),
    ] {
        let message = message(&with(members));
        assert_eq!(message.shape(), shape, "{members}");
        assert_eq!(message.id(), id.as_ref(), "{members}");
    }
}

fn parse_id(text: &str) -> Option<Id> {
    Id::from_json(Json::parse(text.to_owned(), &Limits::default()).unwrap())
}

#[test]
fn an_escaped_method_is_decoded() {
    assert_eq!(message(&with(r#""id":1,"method":"tools\/list""#)).method(), "tools/list");
    assert_eq!(message(&with(r#""method":"notifications\/x""#)).shape(), Shape::Notification);
    assert_eq!(message(&with(r#""id":1,"result":{}"#)).method(), "");
    let kind = refusal(&with(r#""id":1,"method":"\ud800""#));
    assert_eq!(kind, WireErrorKind::WrongType);
}

#[test]
fn a_message_over_several_lines_leaves_as_one() {
    let pretty = "\n{\r\n  \"jsonrpc\": \"2.0\",\r  \"id\":\n7,\n \"method\": \"tools/call\",\n \"params\": {\n  \"name\": \"a\\nb\",\n  \"arguments\": {\r\n }\n }\n}\n\r\n";
    let call = message(pretty);
    assert_eq!(call.member("name").unwrap().text().unwrap(), "a\nb");
    assert_eq!(call.id(), Some(&Id::number(7)));
    let mut params = call.body().unwrap();
    params.set("more", Json::parse("[\n1,\r2]", &Limits::default()).unwrap());
    let value: serde_json::Value = serde_json::from_str(pretty).unwrap();
    assert_eq!(serde_json::from_slice::<serde_json::Value>(call.line()).unwrap(), value);
    for line in [
        call.line().clone(),
        call.with_id(&Id::number(8)),
        call.with_body(params.clone().finish()),
        params.finish().into_bytes(),
        call.params().unwrap().into_bytes(),
        call.member("arguments").unwrap().into_bytes(),
    ] {
        assert!(!line.iter().any(|byte| matches!(byte, b'\n' | b'\r')), "{line:?}");
    }
    // Not valid in a string.
    assert_eq!(refusal(&with("\"id\":1,\"method\":\"a\nb\"")), WireErrorKind::Syntax);
    let raw = serde_json::value::RawValue::from_string("[1,\n2]".to_owned()).unwrap();
    assert_eq!(Json::serialize(&raw).unwrap().as_str(), "[1, 2]");
}

#[test]
fn edits_change_their_range_only() {
    let call = message(&format!("  {CALL}\n"));
    let (id, body) = (Id::string("g-1"), Json::parse("[ ]", &Limits::default()).unwrap());
    assert_eq!(call.with(None, None), CALL);
    assert_eq!(call.with_id(&id), CALL.replace("\"id\":7", "\"id\":\"g-1\""));
    let params = call.params().unwrap();
    let edited = CALL.replace(params.as_str(), "[ ]");
    assert_eq!(call.with_body(body.clone()), edited);
    assert_eq!(call.with(Some(&id), Some(body)), edited.replace("\"id\":7", "\"id\":\"g-1\""));
}

#[test]
fn edits_find_their_order_and_add_what_is_missing() {
    let (id, body) = (Id::number(8), Json::empty_object());
    let late = message(&with(r#""result":[1],"id":7"#));
    assert_eq!(late.with(Some(&id), Some(body.clone())), with(r#""result":{},"id":8"#));
    let bare = message(&with(r#""id":7,"method":"m" "#));
    assert_eq!(bare.with_body(body.clone()), with(r#""id":7,"method":"m" ,"params":{}"#));
    let note = message(&with(r#""method":"notifications/m""#));
    let noted = with(r#""method":"notifications/m","params":{}"#);
    assert_eq!(note.with(Some(&id), Some(body)), noted);
    let error = message(&with(r#""id":null,"error":{"code":1,"message":"m"}"#));
    assert_eq!(error.with_id(&id), with(r#""id":8,"error":{"code":1,"message":"m"}"#));
    let nameless = message(&with(r#""error":{"code":1,"message":"m"}"#));
    assert_eq!(nameless.with_id(&id), with(r#""error":{"code":1,"message":"m"},"id":8"#));
}

#[test]
fn a_body_of_more_members_than_are_recorded_is_whole() {
    let members: Vec<_> = (0..3000).map(|n| format!("\"k{n}\":{n}")).collect();
    let result = format!("{{{}}}", members.join(","));
    let big = message(&with(&format!("\"id\":1,\"result\":{result}")));
    assert_eq!(big.member("k2999").unwrap().u64(), Some(2999));
    assert_eq!(big.body().unwrap().len(), 3000);
    assert_eq!(big.body().unwrap().finish().as_str(), result);
    let twice = format!("\"id\":1,\"result\":{{{},\"tools\":1,\"tools\":2}}", members.join(","));
    assert_eq!(refusal(&with(&twice)), WireErrorKind::DuplicateKey);
    let late = format!(r#""id":1,"error":{{{},"code":1,"message":"late"}}"#, members.join(","));
    assert_eq!(message(&with(&late)).shape(), Shape::Error);
}
