//! Which values the redactor hides, so that they can be hidden wherever else they turn up.

use toolgate_wire::{Json, Kind, Limits};

use super::{
    Redactor,
    redact::{BATCHES, is_batch},
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
            Kind::Object => json.object().unwrap_or_default().iter().all(|(key, value)| {
                let hidden = hidden
                    || self.is_sensitive(&key)
                    || BATCHES.contains(&&*key) && !is_batch(&value);
                self.look(&value, hidden, depth + 1, found)
            }),
            Kind::Array => {
                let mut elements = json.array().unwrap_or_default().into_iter();
                elements.all(|element| self.look(&element, hidden, depth + 1, found))
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
