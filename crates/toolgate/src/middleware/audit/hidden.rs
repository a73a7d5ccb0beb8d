//! Which values the redactor hides, so that they can be hidden wherever else they turn up.

use serde_json::Value;
use toolgate_wire::{Json, Kind, Limits};

use super::{
    Redactor,
    redact::{BATCHES, is_batch},
    secret_names,
};

/// Nothing that a person would call a secret is deeper.
const DEEPEST: usize = 64;

impl Redactor {
    /// The texts and numbers that [`Redactor::summary`] hides by their names; `None` if they are more
    /// than `most`.
    pub(in crate::middleware) fn hidden(&self, json: &Json, most: usize) -> Option<Vec<String>> {
        let mut found = Found { values: Vec::new(), most };
        self.look(json, false, 0, &mut found).then_some(found.values)
    }

    /// Walks over the value; everything under a sensitive name is hidden. False when there is too much.
    fn look(&self, json: &Json, hidden: bool, depth: usize, found: &mut Found) -> bool {
        if depth > DEEPEST {
            return false;
        }
        match json.kind() {
            Kind::Object => {
                let object = json.object().unwrap_or_default();
                let names_one = secret_names::names_one(&object, |name| self.names_secret(name));
                object.iter().all(|(key, value)| {
                    let hidden = hidden
                        || self.is_sensitive(&key)
                        || names_one && !secret_names::is_naming(&key)
                        || BATCHES.contains(&&*key) && !is_batch(&value);
                    self.look(&value, hidden, depth + 1, found)
                })
            }
            Kind::Array => {
                let mut is_named = false;
                json.array().unwrap_or_default().into_iter().all(|element| {
                    let behind = std::mem::replace(&mut is_named, self.is_name(&element));
                    self.look(&element, hidden || behind, depth + 1, found)
                })
            }
            Kind::String => match json.text() {
                Some(text) => self.look_at_text(&text, hidden, depth, found),
                None => true,
            },
            Kind::Number if hidden => found.add(json.as_str()),
            Kind::Number | Kind::Bool | Kind::Null => true,
        }
    }

    /// A text may be JSON itself, with names of its own.
    fn look_at_text(&self, text: &str, hidden: bool, depth: usize, found: &mut Found) -> bool {
        if hidden && !found.add(text) {
            return false;
        }
        if !text.trim_start().starts_with(['{', '[']) {
            return true;
        }
        match Json::parse(text.to_owned(), &Limits::default()) {
            Ok(inner) => self.look(&inner, hidden, depth + 1, found),
            Err(_) => !self.is_sensitive_json(text) || found.add(text),
        }
    }
}

/// Shorter values stand in innocent texts by chance.
const SHORTEST_REPEAT: usize = 6;
/// More hidden values than this are not looked for one by one.
const MOST_REPEATS: usize = 256;

impl Redactor {
    /// A value that is hidden under one name is hidden under every other, too.
    pub(super) fn hide_repeats(&self, arguments: &Json, told: &mut Value) {
        match self.hidden(arguments, MOST_REPEATS) {
            Some(hidden) => {
                let long = |value: &String| value.len() >= SHORTEST_REPEAT;
                let hidden: Vec<String> = hidden.into_iter().filter(long).collect();
                if !hidden.is_empty() {
                    replace(told, &|text| hidden.iter().any(|value| text.contains(value)));
                }
            }
            // Too many to look for: no text is told.
            None => replace(told, &|_| true),
        }
    }
}

/// Replaces the texts for which `is_hidden` holds, except the digits of digests.
fn replace(told: &mut Value, is_hidden: &impl Fn(&str) -> bool) {
    match told {
        Value::String(text) if is_hidden(text) => {
            *told = serde_json::json!({"type": "string", "redacted": true});
        }
        Value::Array(elements) => {
            for element in elements {
                replace(element, is_hidden);
            }
        }
        Value::Object(members) => {
            let told = members.iter_mut().filter(|(key, _)| !key.ends_with("sha256_prefix"));
            told.for_each(|(_, member)| replace(member, is_hidden));
        }
        _ => {}
    }
}

struct Found {
    values: Vec<String>,
    most: usize,
}

impl Found {
    fn add(&mut self, value: &str) -> bool {
        if !self.values.iter().any(|known| known == value) {
            self.values.push(value.to_owned());
        }
        self.values.len() <= self.most
    }
}
