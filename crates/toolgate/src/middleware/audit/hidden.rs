//! Collects the values that the redactor hides by name, so that they can be hidden wherever else they occur.

use serde_json::Value;
use toolgate_wire::{Json, Kind, Limits};

use super::{
    Redactor,
    redact::{BATCHES, is_batch},
    secret_names,
};

/// Largest depth that is searched.
const MAX_DEPTH: usize = 64;

impl Redactor {
    /// The texts and numbers that [`Redactor::summary`] hides by name; `None` if there are more than `most`.
    pub(in crate::middleware) fn hidden(&self, json: &Json, most: usize) -> Option<Vec<String>> {
        let mut found = HiddenValues { values: Vec::new(), most };
        self.look(json, false, 0, &mut found).then_some(found.values)
    }

    /// Collects all values under a sensitive name. Returns false if there are too many.
    fn look(&self, json: &Json, hidden: bool, depth: usize, found: &mut HiddenValues) -> bool {
        if depth > MAX_DEPTH {
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

    /// Looks into a text that is JSON.
    fn look_at_text(
        &self,
        text: &str,
        hidden: bool,
        depth: usize,
        found: &mut HiddenValues,
    ) -> bool {
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

/// Smallest length of a value that is searched for elsewhere. Shorter ones occur in other texts by chance.
pub(super) const MIN_REPEAT: usize = 6;
/// Largest number of hidden values that are searched for elsewhere.
const MAX_REPEATS: usize = 256;

impl Redactor {
    /// Hides a value that is hidden under one name under all other names too.
    pub(super) fn hide_repeats(&self, arguments: &Json, redacted: &mut Value) {
        match self.hidden(arguments, MAX_REPEATS) {
            Some(hidden) => {
                let long = |value: &String| value.len() >= MIN_REPEAT;
                let hidden: Vec<String> = hidden.into_iter().filter(long).collect();
                if !hidden.is_empty() {
                    replace(redacted, &|text| hidden.iter().any(|value| text.contains(value)));
                }
            }
            // Too many to search for: hide all texts.
            None => replace(redacted, &|_| true),
        }
    }
}

/// Replaces the texts for which `is_hidden` holds, except digests.
fn replace(redacted: &mut Value, is_hidden: &impl Fn(&str) -> bool) {
    match redacted {
        Value::String(text) if is_hidden(text) => {
            *redacted = serde_json::json!({"type": "string", "redacted": true});
        }
        Value::Array(elements) => {
            for element in elements {
                replace(element, is_hidden);
            }
        }
        Value::Object(members) => {
            let redacted = members.iter_mut().filter(|(key, _)| !key.ends_with("sha256_prefix"));
            redacted.for_each(|(_, member)| replace(member, is_hidden));
        }
        _ => {}
    }
}

struct HiddenValues {
    values: Vec<String>,
    most: usize,
}

impl HiddenValues {
    fn add(&mut self, value: &str) -> bool {
        if !self.values.iter().any(|known| known == value) {
            self.values.push(value.to_owned());
        }
        self.values.len() <= self.most
    }
}
