//! The redacted view of a call's arguments, result and error. Values that are hidden in the arguments are hidden
//! wherever the response repeats them.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use toolgate_wire::{Json, Kind, Limits, mcp::member};

use crate::{
    middleware::{
        audit::{Redactor, secret_names::unsealed},
        error_results::mask::Mask,
    },
    printable,
};

/// Largest number of hidden values. With more, the response is not recorded.
const MAX_HIDDEN: usize = 256;
/// Largest number of recorded content blocks.
const MAX_BLOCKS: usize = 100;
/// Largest depth of redacted results.
const DEEPEST_BLOCK: usize = 3;

const CUT: &str = "...<truncated>";

/// The redacted view of one call.
pub(super) struct RedactedView<'a> {
    redactor: &'a Redactor,
    /// The hidden values; `None` if there are too many.
    hidden: Option<Vec<String>>,
    most: usize,
    left: usize,
}

impl<'a> RedactedView<'a> {
    pub(super) fn new(redactor: &'a Redactor, most: usize) -> Self {
        Self { redactor, hidden: Some(Vec::new()), most, left: most }
    }

    /// Starts with the arguments, whose hidden values are hidden in result and error too.
    pub(super) fn arguments(&mut self, arguments: &Json) -> String {
        self.hide(arguments);
        self.redactor.arguments(arguments).to_string()
    }

    fn hide(&mut self, json: &Json) {
        let Some(known) = &mut self.hidden else { return };
        match self.redactor.hidden(json, MAX_HIDDEN) {
            Some(more) => known.extend(more),
            None => self.hidden = None,
        }
    }

    /// The result, redacted and shortened.
    pub(super) fn result(&mut self, result: &Json) -> String {
        let Some(members) = result.object() else {
            return left_out(result).to_string();
        };
        // The text content usually repeats `structuredContent`, without names.
        if let Some(structured) = members.get(member::STRUCTURED_CONTENT) {
            self.hide(&structured);
        }
        if self.hidden.is_none() {
            return left_out(result).to_string();
        }
        let mut redacted = Map::new();
        for (key, value) in members.iter().take(MAX_BLOCKS) {
            let value = match &*key {
                "content" => self.blocks(&value),
                _ => self.value(&key, &value),
            };
            redacted.insert(self.masked(&key).into_owned(), value);
        }
        Value::Object(redacted).to_string()
    }

    /// A message, masked and shortened.
    pub(super) fn error(&self, message: &str) -> String {
        if self.hidden.is_none() {
            return String::new();
        }
        let (text, _) = self.text_within(message, self.most);
        text
    }

    fn blocks(&mut self, content: &Json) -> Value {
        let blocks = content.array().unwrap_or_default();
        let redacted = blocks.iter().take(MAX_BLOCKS);
        let mut list: Vec<Value> = redacted.map(|block| self.block(block, 0)).collect();
        if blocks.len() > MAX_BLOCKS {
            list.push(json!(format!("...<{} more>", blocks.len() - MAX_BLOCKS)));
        }
        Value::Array(list)
    }

    /// One content block: its text, never images or audio.
    fn block(&mut self, block: &Json, depth: usize) -> Value {
        let Some(members) = block.object().filter(|_| depth < DEEPEST_BLOCK) else {
            return left_out(block);
        };
        let mut redacted = Map::new();
        for (key, value) in members.iter().take(MAX_BLOCKS) {
            let value = match (&*key, value.text()) {
                ("text", Some(text)) => self.text(&text),
                ("data" | "blob", Some(text)) => json!({"type": "string", "len": text.len()}),
                ("resource", None) => self.block(&value, depth + 1),
                _ => self.value(&key, &value),
            };
            redacted.insert(self.masked(&key).into_owned(), value);
        }
        Value::Object(redacted)
    }

    /// Any other member, redacted by name like arguments, or omitted if it exceeds the limit.
    fn value(&mut self, key: &str, value: &Json) -> Value {
        if self.redactor.is_sensitive(key) {
            return left_out(value);
        }
        let redacted = self.summary(value);
        let size = redacted.to_string().len();
        if size > self.left {
            return left_out(value);
        }
        self.left -= size;
        redacted
    }

    fn summary(&self, json: &Json) -> Value {
        if self.hidden.as_ref().is_some_and(Vec::is_empty) {
            return self.redactor.summary(json);
        }
        match json.to_value() {
            Ok(mut value) => {
                self.mask_value(&mut value);
                self.redactor.summary(&Json::value(&value))
            }
            Err(_) => left_out(json),
        }
    }

    fn text(&mut self, text: &str) -> Value {
        let (redacted, size) = self.text_within(text, self.left);
        self.left -= size;
        Value::String(redacted)
    }

    /// The text without secrets, shortened to `most` bytes of JSON, and its size.
    fn text_within(&self, text: &str, most: usize) -> (String, usize) {
        let redacted = match self.as_json(text) {
            Some(redacted) => Cow::Owned(redacted),
            None => self.masked_start(text, most),
        };
        cut(&redacted, most)
    }

    /// If the text is itself JSON, redacts it by key. `None` if it is not JSON or contains no sensitive key.
    fn as_json(&self, text: &str) -> Option<String> {
        if !text.trim_start().starts_with(['{', '[']) {
            return None;
        }
        let is_sensitive = self.redactor.is_sensitive_json(text);
        let Ok(json) = Json::parse(text.to_owned(), &Limits::default()) else {
            return is_sensitive.then(|| self.redactor.digest(text).to_string());
        };
        if is_sensitive {
            return Some(self.summary(&json).to_string());
        }
        if self.hidden.as_ref().is_some_and(Vec::is_empty) {
            return None;
        }
        let Ok(mut value) = json.to_value() else { return Some(left_out(&json).to_string()) };
        self.mask_value(&mut value).then(|| value.to_string())
    }

    /// Masks the texts of a value. Returns whether it masked anything.
    fn mask_value(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => {
                let masked = self.masked(text).into_owned();
                std::mem::replace(text, masked) != *text
            }
            Value::Number(number) => {
                let text = number.to_string();
                let is_hidden = self.hidden.iter().flatten().any(|hidden| *hidden == text);
                if is_hidden {
                    *value = Value::String("[value]".to_owned());
                }
                is_hidden
            }
            Value::Array(list) => {
                list.iter_mut().fold(false, |any, value| self.mask_value(value) | any)
            }
            Value::Object(map) => {
                let mut any = false;
                let members = std::mem::take(map).into_iter();
                *map = members
                    .map(|(key, mut value)| {
                        any |= self.mask_value(&mut value);
                        let masked = self.masked(&key).into_owned();
                        any |= masked != key;
                        (masked, value)
                    })
                    .collect();
                any
            }
            Value::Bool(_) | Value::Null => false,
        }
    }

    fn masked<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match unsealed(text) {
            Cow::Borrowed(text) => self.masked_values(text),
            Cow::Owned(text) => Cow::Owned(self.masked_values(&text).into_owned()),
        }
    }

    fn masked_values<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let hidden = self.hidden.as_deref().unwrap_or_default();
        if hidden.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut mask = Mask::new(text);
        for value in hidden {
            mask.hide(value);
            // The value as it occurs in JSON text.
            let spelt = Json::string(value);
            let inside = spelt.as_str().get(1..spelt.len() - 1).unwrap_or_default();
            if inside != value {
                mask.hide(inside);
            }
        }
        Cow::Owned(mask.finish())
    }

    /// The masked start of a long text. The rest, which is cut off, is not searched.
    fn masked_start<'t>(&self, text: &'t str, most: usize) -> Cow<'t, str> {
        let longest = self.hidden.iter().flatten().map(String::len).max().unwrap_or(0);
        let end = most.saturating_add(longest.saturating_mul(2)).saturating_add(64);
        if text.len() <= end {
            return self.masked(text);
        }
        let start = text.get(..printable::floor_char_boundary(text, end)).unwrap_or_default();
        match self.masked(start) {
            Cow::Borrowed(start) => Cow::Borrowed(start),
            Cow::Owned(mut masked) => {
                // Its end may be the first half of a secret.
                let keep =
                    printable::floor_char_boundary(&masked, masked.len().saturating_sub(longest));
                masked.truncate(keep);
                masked.push_str(CUT);
                Cow::Owned(masked)
            }
        }
    }
}

/// The start of the text that takes at most `most` bytes as JSON, and its size.
fn cut(text: &str, most: usize) -> (String, usize) {
    let mut size = 0;
    for (at, c) in text.char_indices() {
        size += match c {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            c if c < ' ' => 6,
            c => c.len_utf8(),
        };
        if size > most {
            let start = text.get(..at).unwrap_or_default();
            return (format!("{start}{CUT}"), most);
        }
    }
    (text.to_owned(), size)
}

fn left_out(json: &Json) -> Value {
    let kind = match json.kind() {
        Kind::Object => "object",
        Kind::Array => "array",
        Kind::String => "string",
        Kind::Number => "number",
        Kind::Bool => "bool",
        Kind::Null => "null",
    };
    json!({"type": kind, "left_out": true, "bytes": json.len()})
}
