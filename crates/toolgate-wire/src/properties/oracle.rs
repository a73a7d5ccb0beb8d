//! The expected results, computed in another way: by `serde_json` and by hand.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::keys::{self, GuardedKeys};
use crate::number::Number;
use crate::shape::Shape;

/// Whether the bytes are JSON in UTF-8, to any depth.
pub(super) fn is_json(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok() && serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

/// The nesting of valid JSON.
pub(super) fn depth(bytes: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// The members of an object in order, with duplicates.
struct Pairs(Vec<(String, Box<RawValue>)>);

impl Pairs {
    /// `None` for anything but an object, and for keys that a `String` cannot contain.
    fn of(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    fn one(&self, key: &str) -> Option<&str> {
        let mut found = self.0.iter().filter(|(name, _)| name == key);
        found.next().map(|(_, value)| value.get())
    }

    fn count(&self, key: &str) -> usize {
        self.0.iter().filter(|(name, _)| name == key).count()
    }

    /// Whether a key is one of these in another case.
    fn misspells(&self, names: &[&str]) -> bool {
        let fold = |c: char| match c {
            'ſ' => 's',
            '\u{212a}' => 'k',
            'İ' | 'ı' => 'i',
            c => c.to_ascii_lowercase(),
        };
        let folded = |key: &String| key.chars().map(fold).collect::<String>();
        let mut keys = self.0.iter().map(|(key, _)| key);
        let lower: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        keys.any(|key| lower.contains(&folded(key)) && !names.contains(&&**key))
    }

    fn repeats(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.count(name) > 1)
    }
}

const ENVELOPE: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// The expected result for valid JSON.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Accept(Shape),
    Refuse,
    /// Unknown: serde does not decode lone surrogates.
    Unknown,
}

pub(super) fn judge(json: &str) -> Verdict {
    if json.contains("\\ud") || json.contains("\\uD") {
        return Verdict::Unknown;
    }
    let shape = Pairs::of(json).and_then(|message| shape(&message));
    shape.map_or(Verdict::Refuse, Verdict::Accept)
}

/// The rules, implemented a second time. Escaped spellings of keys are not seen here.
fn shape(message: &Pairs) -> Option<Shape> {
    if message.repeats(&ENVELOPE) || message.misspells(&ENVELOPE) {
        return None;
    }
    if message.one("jsonrpc")? != "\"2.0\"" {
        return None;
    }
    let id = message.one("id");
    let id_fits = id.is_none_or(|id| id.starts_with('"') || id.starts_with(number));
    match ENVELOPE.map(|key| message.one(key)) {
        [_, _, Some(method), params, None, None] => {
            let method: String = serde_json::from_str(method).ok()?;
            let shape = id.map_or(Shape::Notification, |_| Shape::Request);
            let named = method.starts_with("notifications/") == (shape == Shape::Notification);
            let is_list = |text: &str| text == "null" || text.starts_with(['{', '[']);
            let fit = params.is_none_or(is_list) && fits(params, &keys::PARAMS);
            (id_fits && named && fit).then_some(shape)
        }
        [_, Some(_), None, None, Some(result), None] => {
            (id_fits && fits(Some(result), &keys::RESULT)).then_some(Shape::Response)
        }
        [_, id, None, None, None, Some(error)] => {
            ((id_fits || id == Some("null")) && error_fits(error)).then_some(Shape::Error)
        }
        _ => None,
    }
}

fn number(c: char) -> bool {
    c.is_ascii_digit() || c == '-'
}

/// Whether no watched key occurs twice or in another spelling, on any level.
fn fits(text: Option<&str>, watched: &GuardedKeys) -> bool {
    let Some(pairs) = text.and_then(Pairs::of) else { return true };
    let names = watched.names();
    let are_distinct = || {
        let mut keys: Vec<_> = pairs.0.iter().map(|(key, _)| key).collect();
        keys.sort();
        keys.windows(2).all(|two| two.first() != two.last())
    };
    !pairs.repeats(names)
        && !pairs.misspells(names)
        && (!watched.is_distinct() || are_distinct())
        && watched.nested().iter().all(|(key, inner)| fits(pairs.one(key), inner))
}

fn error_fits(error: &str) -> bool {
    let Some(error) = Pairs::of(error) else {
        return false;
    };
    let is_integer = |code: &str| matches!(Number::of(code.as_bytes()), Number::Integer(_));
    !error.misspells(&["code", "message", "data"])
        && error.count("data") <= 1
        && error.count("code") == 1
        && error.count("message") == 1
        && error.one("code").is_some_and(|code| code.starts_with(number) && is_integer(code))
        && error.one("message").is_some_and(|text| text.starts_with('"'))
}

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(Pairs(pairs))
    }
}
