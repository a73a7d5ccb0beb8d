//! Writes the redacted arguments of simple calls without values in between: objects of texts, numbers, booleans and
//! nulls, as most calls have. All others are left to [`Redactor::arguments`].

use std::{borrow::Cow, io::Write as _};

use sha2::{Digest as _, Sha256};
use toolgate_wire::{Json, Kind, Object};

use super::{
    Redactor,
    hidden::MIN_REPEAT,
    record::text,
    redact::{BATCHES, MAX_TEXT, PREFIX_BYTES},
    seal::Hash,
    secret_names,
};

/// Largest number of members of a simple object.
const MAX_MEMBERS: usize = 16;

/// Most digits of a number that is written as it was spelt.
const MAX_DIGITS: usize = 15;

/// The texts of an object that are hidden, and those that are shown and might repeat them.
#[derive(Default)]
struct Texts<'a> {
    hidden: Vec<Cow<'a, str>>,
    shown: Vec<Cow<'a, str>>,
}

impl Redactor {
    /// Writes the arguments as [`Redactor::arguments`] returns them, in the order in which they were sent. Writes
    /// nothing and returns false if they are not simple.
    pub(super) fn write_simple(&self, arguments: &Json, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let is_written = !self.is_keyed()
            && arguments.object().is_some_and(|object| self.write_members(&object, out));
        if !is_written {
            out.truncate(start);
        }
        is_written
    }

    fn write_members(&self, object: &Object, out: &mut Vec<u8>) -> bool {
        if object.len() > MAX_MEMBERS
            || secret_names::names_one(object, |name| self.names_secret(name))
        {
            return false;
        }
        let members: Vec<(Cow<'_, str>, Json)> = object.iter().collect();
        let mut texts = Texts::default();
        out.push(b'{');
        for (at, (key, value)) in members.iter().enumerate() {
            let is_repeated = members.iter().take(at).any(|(other, _)| other == key);
            if is_repeated || is_special(key) || !self.is_plain(key) {
                return false;
            }
            if at > 0 {
                out.push(b',');
            }
            text(key, out);
            out.push(b':');
            if !self.write_value(key, value, &mut texts, out) {
                return false;
            }
        }
        out.push(b'}');
        // A value that is hidden under one name is hidden under the others too.
        let mut hidden = texts.hidden.iter();
        !hidden.any(|hidden| texts.shown.iter().any(|shown| shown.contains(&**hidden)))
    }

    fn write_value<'a>(
        &self,
        key: &str,
        value: &'a Json,
        texts: &mut Texts<'a>,
        out: &mut Vec<u8>,
    ) -> bool {
        match value.kind() {
            Kind::String => {
                let text = value.text().filter(|text| !starts_like_json(text));
                text.is_some_and(|text| self.write_text(key, text, texts, out))
            }
            Kind::Null => {
                out.extend_from_slice(b"null");
                true
            }
            Kind::Bool | Kind::Number => {
                let is_plain = value.kind() == Kind::Bool || is_plain_number(value.as_bytes());
                let is_shown = is_plain && !self.is_sensitive(key);
                if is_shown {
                    out.extend_from_slice(value.as_bytes());
                }
                is_shown
            }
            Kind::Object | Kind::Array => false,
        }
    }

    fn write_text<'a>(
        &self,
        key: &str,
        value: Cow<'a, str>,
        texts: &mut Texts<'a>,
        out: &mut Vec<u8>,
    ) -> bool {
        let list = if self.is_sensitive(key) {
            let hash = Hash::of_bytes(&Sha256::digest(&*value));
            let prefix = hash.as_str().get(..2 * PREFIX_BYTES).unwrap_or_default();
            let length = value.chars().count();
            // Writing to memory cannot fail.
            let _ = write!(out, r#"{{"len":{length},"sha256_prefix":"{prefix}"}}"#);
            &mut texts.hidden
        } else if self.is_plain(&value) {
            text(&value, out);
            &mut texts.shown
        } else {
            return false;
        };
        if value.len() >= MIN_REPEAT {
            list.push(value);
        }
        true
    }

    /// Whether a text stands in a record as it is.
    fn is_plain(&self, text: &str) -> bool {
        text.len() <= MAX_TEXT && matches!(self.clean(text), Cow::Borrowed(_))
    }
}

/// Whether a name has rules of its own.
fn is_special(key: &str) -> bool {
    secret_names::is_confirmation(key) || BATCHES.contains(&key)
}

/// Whether a text may be JSON, with names of its own.
fn starts_like_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
}

/// Whether a number is spelt as it would be written: an integer of a few digits.
fn is_plain_number(number: &[u8]) -> bool {
    let digits = number.strip_prefix(b"-").unwrap_or(number);
    let is_negative_zero = digits.len() < number.len() && digits == b"0";
    digits.len() <= MAX_DIGITS && digits.iter().all(u8::is_ascii_digit) && !is_negative_zero
}
