//! Edits of an object change what they should, and no other byte.

use super::{Check, Dice, ensure};
use crate::{Json, Limits, Object};

/// How many keys of an object are tried.
const MAX_KEYS: usize = 12;

/// Sets and removes each key of an object, and one that it does not have.
pub fn check_splice(bytes: &[u8]) -> Result<(), String> {
    let Ok(json) = Json::parse(bytes.to_vec(), &Limits::default()) else {
        return Ok(());
    };
    let Some(object) = json.object() else {
        return ensure(json.get("a").is_none(), "only objects have members");
    };
    ensure(!object.is_changed(), "reading is no change")?;
    let untouched = object.clone().finish();
    ensure(untouched == json, "untouched: the same")?;
    let same_place = untouched.as_bytes().as_ptr() == json.as_bytes().as_ptr();
    ensure(same_place, "untouched: not a copy")?;
    let mut dice = Dice::of(bytes);
    // A key with a lone surrogate is shown with U+FFFD, which is not its value.
    let keys = object.keys().filter(|key| !key.contains('\u{fffd}'));
    for key in keys.take(MAX_KEYS) {
        ensure(object.contains(&key), "a key that is shown is there")?;
        ensure(object.get(&key) == json.get(&key), "one get as the other")?;
        let value = match dice.below(3) {
            0 => Json::null(),
            1 => Json::string("with \"quotes\"\n"),
            _ => json.clone(),
        };
        check_set(&object, &key, &value)?;
        check_remove(&object, &key)?;
    }
    let free = |n: usize| Some(format!("new \"{n}\"")).filter(|key| !object.contains(key));
    let Some(new) = (0..=object.len()).find_map(free) else {
        return Err("one of so many keys is free".to_owned());
    };
    check_set(&object, &new, &Json::null())?;
    let mut same = object.clone();
    ensure(same.remove(&new).is_none() && !same.is_changed(), "nothing to remove")
}

fn check_set(object: &Object, key: &str, value: &Json) -> Check {
    let mut edited = object.clone();
    edited.set(key, value.clone());
    ensure(edited.is_changed(), "a set is a change")?;
    ensure(edited.get(key).as_ref() == Some(value), "set, then get")?;
    let edited = finish(edited)?;
    ensure(edited.get(key).as_ref() == Some(value), "set, written, read")?;
    let count = edited.keys().filter(|found| found == key).count();
    ensure(count == 1, "a key that was set is there once")?;
    let place = |object: &Object| object.keys().position(|found| found == key);
    if let Some(before) = place(object) {
        ensure(place(&edited) == Some(before), "a set keeps the place")?;
    }
    others_stay(object, &edited, key)
}

fn check_remove(object: &Object, key: &str) -> Check {
    let mut edited = object.clone();
    let removed = edited.remove(key);
    ensure(removed == object.get(key), "what was removed was there")?;
    let edited = finish(edited)?;
    ensure(!edited.contains(key), "what was removed is gone")?;
    others_stay(object, &edited, key)
}

/// Writes the object and reads it again.
fn finish(object: Object) -> Result<Object, String> {
    let limits = Limits { max_depth: usize::MAX, ..Limits::default() };
    let json = Json::parse(object.finish().into_bytes(), &limits);
    let object = json.map_err(|error| error.to_string())?.object();
    object.ok_or_else(|| "an edited object is an object".to_owned())
}

fn others_stay(before: &Object, after: &Object, key: &str) -> Check {
    let before = before.iter().filter(|(name, _)| name != key);
    let after = after.iter().filter(|(name, _)| name != key);
    ensure(before.eq(after), "other members keep their bytes")
}
