//! The redacted view of a call's arguments, result and error. Values that are hidden in the arguments are hidden
//! wherever the response repeats them.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};
use toolgate_wire::{Json, Kind, Limits, Object, mcp::member};

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
/// Bytes of a redacted result beside its contents, at a guess.
const SPARE_BYTES: usize = 256;

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
        // Servers usually repeat `structuredContent` as text, without the names that mark secrets: so the secret values
        // of `structuredContent` are collected first.
        if let Some(structured) = members.get(member::STRUCTURED_CONTENT) {
            self.hide(&structured);
        }
        if self.hidden.is_none() {
            return left_out(result).to_string();
        }
        let mut out = Vec::with_capacity(result.len().min(self.most) + SPARE_BYTES);
        self.write_members(&members, &mut out, |view, key, value, out| match key {
            "content" => view.write_blocks(value, out),
            _ => view.write_value(key, value, out),
        });
        String::from_utf8(out).unwrap_or_default()
    }

    /// A message, masked and shortened.
    pub(super) fn error(&self, message: &str) -> String {
        if self.hidden.is_none() {
            return String::new();
        }
        self.text_within(message, self.most).0.into_owned()
    }

    /// Writes an object, whose values `write` redacts. Writes to `out`, because a result in values would be a second
    /// copy of a text that may be large.
    fn write_members(
        &mut self,
        members: &Object,
        out: &mut Vec<u8>,
        mut write: impl FnMut(&mut Self, &str, &Json, &mut Vec<u8>),
    ) {
        let mut names: Vec<String> = Vec::new();
        out.push(b'{');
        for (key, value) in members.iter().take(MAX_BLOCKS) {
            let name = self.masked(&key).into_owned();
            // Names that are masked may be equal.
            if names.contains(&name) {
                continue;
            }
            if !names.is_empty() {
                out.push(b',');
            }
            write_json(&name, out);
            out.push(b':');
            write(self, &key, &value, out);
            names.push(name);
        }
        out.push(b'}');
    }

    fn write_blocks(&mut self, content: &Json, out: &mut Vec<u8>) {
        let blocks = content.array().unwrap_or_default();
        out.push(b'[');
        for (at, block) in blocks.iter().take(MAX_BLOCKS).enumerate() {
            if at > 0 {
                out.push(b',');
            }
            self.write_block(block, 0, out);
        }
        if blocks.len() > MAX_BLOCKS {
            out.push(b',');
            write_json(&format!("...<{} more>", blocks.len() - MAX_BLOCKS), out);
        }
        out.push(b']');
    }

    /// One content block: its text, never images or audio.
    fn write_block(&mut self, block: &Json, depth: usize, out: &mut Vec<u8>) {
        let Some(members) = block.object().filter(|_| depth < DEEPEST_BLOCK) else {
            return write_json(&left_out(block), out);
        };
        self.write_members(&members, out, |view, key, value, out| match (key, value.text()) {
            ("text", Some(text)) => view.write_text(&text, out),
            ("data" | "blob", Some(text)) => {
                write_json(&json!({"type": "string", "len": text.len()}), out);
            }
            ("resource", None) => view.write_block(value, depth + 1, out),
            _ => view.write_value(key, value, out),
        });
    }

    /// Any other member, redacted by name like arguments, or omitted if it exceeds the limit.
    fn write_value(&mut self, key: &str, value: &Json, out: &mut Vec<u8>) {
        if self.redactor.is_sensitive(key) {
            return write_json(&left_out(value), out);
        }
        let start = out.len();
        write_json(&self.summary(value), out);
        if let Some(left) = self.left.checked_sub(out.len() - start) {
            self.left = left;
        } else {
            out.truncate(start);
            write_json(&left_out(value), out);
        }
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

    fn write_text(&mut self, text: &str, out: &mut Vec<u8>) {
        let (redacted, size) = self.text_within(text, self.left);
        self.left -= size;
        write_json(&*redacted, out);
    }

    /// The text without secrets, shortened to `most` bytes of JSON, and its size.
    fn text_within<'t>(&self, text: &'t str, most: usize) -> (Cow<'t, str>, usize) {
        let redacted = match self.as_json(text) {
            Some(redacted) => Cow::Owned(redacted),
            None => self.masked_start(text, most),
        };
        cut(redacted, most)
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
fn cut(text: Cow<'_, str>, most: usize) -> (Cow<'_, str>, usize) {
    let size = text.len() + text.bytes().map(escape_bytes).sum::<usize>();
    if size <= most {
        return (text, size);
    }
    let mut size = 0;
    for (at, c) in text.char_indices() {
        size += c.len_utf8() + u8::try_from(c).map_or(0, escape_bytes);
        if size > most {
            let start = text.get(..at).unwrap_or_default();
            return (format!("{start}{CUT}").into(), most);
        }
    }
    (text, size)
}

/// How many bytes more than one a byte takes as JSON.
fn escape_bytes(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 1,
        ..b' ' => 5,
        _ => 0,
    }
}

fn write_json<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    // Writing to memory cannot fail, and values are plain data.
    let _ = serde_json::to_writer(out, value);
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
