//! The bytes of parts of messages: what passes must pass as it was written, not only as it was meant.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

/// The members of an object, each with the bytes of its value.
pub fn members(raw: &str) -> BTreeMap<String, String> {
    let members: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(raw).unwrap_or_else(|e| panic!("{e}: {raw}"));
    members.into_iter().map(|(key, value)| (key, value.get().to_owned())).collect()
}

/// The bytes of a member, found by its path.
pub fn member(raw: &str, path: &[&str]) -> Option<String> {
    let Some((first, rest)) = path.split_first() else { return Some(raw.to_owned()) };
    member(&members(raw).remove(*first)?, rest)
}

/// The bytes of each element of an array.
pub fn elements(raw: &str) -> Vec<String> {
    let elements: Vec<Box<RawValue>> =
        serde_json::from_str(raw).unwrap_or_else(|e| panic!("{e}: {raw}"));
    elements.into_iter().map(|value| value.get().to_owned()).collect()
}
