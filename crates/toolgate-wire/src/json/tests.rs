//! Tests of values: which are accepted, and what is read from them.

use std::borrow::Cow;

use super::*;
use crate::error::WireErrorKind;

fn json(text: &str) -> Json {
    Json::parse(text.to_owned(), &Limits::default()).unwrap()
}

fn fault(text: &[u8]) -> (WireErrorKind, usize) {
    let error = Json::parse(text.to_vec(), &Limits::default()).unwrap_err();
    (error.kind(), error.position())
}

#[test]
fn accepts_every_kind_and_trims() {
    for (text, kind) in [
        (" {\"a\" : 1}\n", Kind::Object),
        ("\t[ ]\r\n", Kind::Array),
        ("\"\"", Kind::String),
        ("-0.0e-0", Kind::Number),
        ("true", Kind::Bool),
        ("false", Kind::Bool),
        ("null", Kind::Null),
        ("\"\\ud800\"", Kind::String),
        ("1e400", Kind::Number),
    ] {
        let json = json(text);
        assert_eq!(json.kind(), kind, "{text}");
        assert_eq!(json.as_str(), text.trim());
        assert_eq!(json.len(), text.trim().len());
    }
}

#[test]
fn refuses_what_is_not_json_and_says_where() {
    use WireErrorKind::{Empty, Syntax, Utf8};
    for (text, kind, at) in [
        (&b""[..], Empty, 0),
        (b" \n", Empty, 0),
        (b"[1,]", Syntax, 3),
        (b"[,1]", Syntax, 1),
        (b"[1 2]", Syntax, 3),
        (b"[1}", Syntax, 2),
        (b"{\"a\":1]", Syntax, 6),
        (b"{\"a\" 1}", Syntax, 5),
        (b"{\"a\":1,}", Syntax, 7),
        (b"{a:1}", Syntax, 1),
        (b"{\"a\":}", Syntax, 5),
        (b"01", Syntax, 1),
        (b"-", Syntax, 1),
        (b"+1", Syntax, 0),
        (b"1.", Syntax, 2),
        (b".5", Syntax, 0),
        (b"1e", Syntax, 2),
        (b"1e+", Syntax, 3),
        (b"NaN", Syntax, 0),
        (b"nul", Syntax, 0),
        (b"truex", Syntax, 4),
        (b"1 1", Syntax, 2),
        (b"\"a", Syntax, 2),
        (b"\"a\nb\"", Syntax, 2),
        (b"\"\\x\"", Syntax, 2),
        (b"\"\\u12g4\"", Syntax, 2),
        (b"\"\\u12", Syntax, 2),
        (b"'a'", Syntax, 0),
        (b"1\x00", Syntax, 1),
        (b"\xef\xbb\xbf1", Syntax, 0),
        (b"\xc2\xa01", Syntax, 0),
        (b"\"\xff\"", Utf8, 1),
        (b"\"\xed\xa0\x80\"", Utf8, 1),
        (b"\"\xc0\x80\"", Utf8, 1),
    ] {
        assert_eq!(fault(text), (kind, at), "{}", text.escape_ascii());
    }
}

#[test]
fn depth_and_size_are_bounded() {
    let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(json(&nested(128)).kind(), Kind::Array);
    assert_eq!(fault(nested(129).as_bytes()), (WireErrorKind::TooDeep, 128));
    let small = Limits { max_bytes: 4, max_depth: 0 };
    assert!(Json::parse("  1234  ", &small).is_ok());
    let error = Json::parse(" 12345", &small).unwrap_err();
    assert_eq!((error.kind(), error.position()), (WireErrorKind::TooLarge, 5));
    let error = Json::parse("[]", &small).unwrap_err();
    assert_eq!(error.kind(), WireErrorKind::TooDeep);
}

#[test]
fn depth_takes_no_stack() {
    let limits = Limits { max_depth: usize::MAX, ..Limits::default() };
    let depth = 1_000_000;
    let text = format!("{}1{}", "[{\"a\":".repeat(depth), "}]".repeat(depth));
    let json = Json::parse(text, &limits).unwrap();
    assert_eq!(json.array().unwrap().len(), 1);
}

#[test]
fn text_is_borrowed_unless_it_has_escapes() {
    assert!(matches!(json("\"plain é\"").text(), Some(Cow::Borrowed("plain é"))));
    assert!(matches!(json(r#""a\nb""#).text(), Some(Cow::Owned(text)) if text == "a\nb"));
    assert_eq!(json(r#""\ud83d\ude00""#).text().unwrap(), "😀");
    assert_eq!(json(r#""\ud800""#).text(), None);
    assert_eq!(json("5").text(), None);
}

#[test]
fn scalars_by_value() {
    assert_eq!(json("true").bool(), Some(true));
    assert_eq!(json("\"true\"").bool(), None);
    assert_eq!(json("18446744073709551615").u64(), Some(u64::MAX));
    assert_eq!(json("18446744073709551616").u64(), None);
    assert_eq!(json("-1").u64(), None);
    assert_eq!(json("-9223372036854775808").i64(), Some(i64::MIN));
    assert_eq!(json("5.0").i64(), Some(5));
    assert_eq!(json("5.5").i64(), None);
    assert_eq!(json("\"5\"").i64(), None);
}

#[test]
fn members_and_elements_are_slices() {
    let source = json(r#"{"a" : [1, {"b":2}] , "\u0061":3, "c":null}"#);
    assert_eq!(source.get("a").unwrap().as_str(), r#"[1, {"b":2}]"#);
    assert_eq!(source.get("c").unwrap(), Json::null());
    assert_eq!(source.get("b"), None);
    let elements = source.get("a").unwrap().array().unwrap();
    let texts: Vec<_> = elements.iter().map(Json::as_str).collect();
    assert_eq!(texts, ["1", r#"{"b":2}"#]);
    assert_eq!(json("[]").array(), Some(Vec::new()));
    assert!(json("1").array().is_none() && json("[]").object().is_none());
    let inside = source.as_bytes().as_ptr_range();
    assert!(inside.contains(&elements[1].as_bytes().as_ptr()));
}

#[test]
fn a_key_with_a_backslash_is_not_its_escape() {
    let source = json(r#"{"a\nb":1,"a\\nb":2}"#);
    assert_eq!(source.get("a\nb").unwrap().u64(), Some(1));
    assert_eq!(source.get("a\\nb").unwrap().u64(), Some(2));
}

#[test]
fn writes_values() {
    let value = serde_json::json!({"a": [1, "x\ny", null]});
    assert_eq!(Json::value(&value).as_str(), r#"{"a":[1,"x\ny",null]}"#);
    assert_eq!(Json::value(&value).to_value().unwrap(), value);
    assert_eq!(Json::serialize(&value).unwrap(), Json::value(&value));
    assert_eq!(Json::serialize("x").unwrap(), Json::string("x"));
    assert_eq!(json("[1,2]").decode::<Vec<u8>>().unwrap(), [1, 2]);
    assert_eq!(Json::empty_object().as_str(), "{}");
    assert_eq!(json(" 1 ").into_bytes(), "1");
}

#[test]
fn debug_shows_no_payload() {
    let secret = json(r#"{"token":"hunter2"}"#);
    assert_eq!(format!("{secret:?}"), "Json(Object, 19 bytes)");
    assert_eq!(format!("{:?}", secret.object().unwrap()), "Object(1 members)");
}
