//! Objects: edits and what they leave alone.

use super::*;
use crate::limits::Limits;

fn object(text: &'static str) -> Object {
    let json = Json::parse(text, &Limits::default()).unwrap();
    json.object().unwrap()
}

fn number(n: i64) -> Json {
    Json::value(&n.into())
}

#[test]
fn untouched_is_the_same_memory() {
    let source = Json::parse(r#"{ "a" : 1 , "b":[ ] }"#, &Limits::default()).unwrap();
    let object = source.object().unwrap();
    assert!(!object.is_changed());
    let finished = object.finish();
    assert_eq!(finished.as_bytes().as_ptr(), source.as_bytes().as_ptr());
    assert_eq!(finished, source);
}

#[test]
fn set_keeps_the_place_and_the_other_bytes() {
    let mut object = object(r#"{"a" : 0.10, "b":1,"c" :1e400}"#);
    object.set("b", number(7));
    assert!(object.is_changed());
    assert_eq!(object.finish().as_str(), r#"{"a" : 0.10,"b":7,"c" :1e400}"#);
}

#[test]
fn set_appends_what_is_new_and_writes_its_key() {
    let mut built = Object::new();
    built.set("a\"b", number(1));
    built.set("c", number(2));
    built.set("c", number(3));
    assert_eq!(built.len(), 2);
    assert_eq!(built.get("c"), Some(number(3)));
    assert_eq!(built.finish().as_str(), r#"{"a\"b":1,"c":3}"#);
    assert_eq!(Object::default().finish(), Json::empty_object());
}

#[test]
fn remove_takes_the_comma_along() {
    for (key, left) in
        [("a", "{\"b\":2,\"c\":3}"), ("b", "{\"a\":1,\"c\":3}"), ("c", "{\"a\":1,\"b\":2}")]
    {
        let mut object = object(r#"{"a":1,"b":2,"c":3}"#);
        assert!(object.remove(key).is_some());
        assert_eq!(object.finish().as_str(), left);
    }
    let mut only = object(r#"{ "a":1 }"#);
    assert_eq!(only.remove("x"), None);
    assert!(!only.is_changed());
    only.remove("a");
    assert!(only.is_empty());
    assert_eq!(only.finish(), Json::empty_object());
}

#[test]
fn no_duplicate_survives_an_edit_of_its_key() {
    let twice = object(r#"{"a":1,"b":2,"\u0061":3,"a":4}"#);
    assert_eq!(twice.get("a"), Some(number(1)));
    assert_eq!(twice.len(), 4);
    let mut set = twice.clone();
    set.set("a", number(9));
    assert_eq!(set.finish().as_str(), r#"{"a":9,"b":2}"#);
    let mut removed = twice.clone();
    assert_eq!(removed.remove("a"), Some(number(1)));
    assert_eq!(removed.finish().as_str(), r#"{"b":2}"#);
    let mut other = twice;
    other.remove("b");
    assert_eq!(other.finish().as_str(), r#"{"a":1,"\u0061":3,"a":4}"#);
}

#[test]
fn a_removed_key_can_be_set_again() {
    let mut object = object(r#"{"a":1,"b":2}"#);
    object.remove("a");
    object.set("a", number(3));
    assert_eq!(object.finish().as_str(), r#"{"b":2,"a":3}"#);
}

#[test]
fn keys_are_shown_decoded() {
    let object = object(r#"{"a\/b":1,"\ud800":2}"#);
    let keys: Vec<_> = object.keys().collect();
    assert_eq!(keys[0], "a/b");
    assert!(keys[1].contains('\u{fffd}'));
    assert!(object.contains("a/b") && !object.contains("a\\/b"));
    let members: Vec<_> = object.iter().map(|(_, value)| value).collect();
    assert_eq!(members, [number(1), number(2)]);
}
