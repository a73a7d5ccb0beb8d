//! A valid JSON value, kept as its original text.

mod convert;
mod object;

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Reason, WireError};
use crate::limits::Limits;
use crate::number::Number;
use crate::scan::{Scanner, Span, inside_quotes, trimmed};
use crate::single_line::single_line;
use crate::{keys, text};

pub use object::Object;

/// A valid JSON value as reference-counted text. Cloning and slicing copy no text.
///
/// `Debug` shows only kind and length, so that arguments and results do not get into logs. Equality compares the text:
/// `1` and `1.0` differ.
#[derive(Clone, PartialEq, Eq)]
pub struct Json(
    // INVARIANT: one JSON value in valid UTF-8 with no whitespace around it, and no CR and no LF in it.
    Bytes,
);

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    String,
    /// `-1.5e3`
    Number,
    /// `true` or `false`
    Bool,
    /// `null`
    Null,
}

impl Kind {
    /// The kind of a valid value, by its first byte.
    pub(crate) fn of(text: &[u8]) -> Self {
        match text.first() {
            Some(b'{') => Self::Object,
            Some(b'[') => Self::Array,
            Some(b'"') => Self::String,
            Some(b't' | b'f') => Self::Bool,
            Some(b'n') | None => Self::Null,
            Some(_) => Self::Number,
        }
    }
}

impl Json {
    /// Reads one value, strictly by RFC 8259. Whitespace around it is removed, and line breaks in it become spaces.
    pub fn parse(text: impl Into<Bytes>, limits: &Limits) -> Result<Self, WireError> {
        let text = text.into();
        let span = check_text(&text, limits)?;
        let inner = text.get(..span.end).unwrap_or_default();
        let mut scanner = Scanner::new(inner, span.start, limits.max_depth);
        scanner.value()?;
        scanner.end()?;
        Ok(Self(single_line(span.slice(&text))))
    }

    /// Serializes a value with serde.
    pub fn serialize<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        // A `RawValue` in it may contain line breaks.
        Ok(Self(single_line(serde_json::to_vec(value)?.into())))
    }

    /// Serializes a [`serde_json::Value`].
    #[must_use]
    pub fn value(value: &serde_json::Value) -> Self {
        Self(value.to_string().into())
    }

    /// A JSON string with this text.
    #[must_use]
    pub fn string(text: &str) -> Self {
        let mut out = Vec::with_capacity(text.len() + 2);
        text::write_string(&mut out, text);
        Self(out.into())
    }

    /// `null`
    #[must_use]
    pub fn null() -> Self {
        Self(Bytes::from_static(b"null"))
    }

    /// `{}`
    #[must_use]
    pub fn empty_object() -> Self {
        Self(Bytes::from_static(b"{}"))
    }

    /// An array of values, each with its exact text.
    #[must_use]
    pub fn list<'a>(elements: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut text = vec![b'['];
        for (at, element) in elements.into_iter().enumerate() {
            if at > 0 {
                text.push(b',');
            }
            text.extend_from_slice(&element.0);
        }
        text.push(b']');
        Self(text.into())
    }

    /// A range of text that a scanner has checked.
    pub(crate) fn scanned(text: &Bytes, span: Span) -> Self {
        Self(span.slice(text))
    }

    /// Text that was composed of valid values.
    pub(crate) fn composed(text: Vec<u8>) -> Self {
        Self(text.into())
    }

    /// The text.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text. Checks its UTF-8 at each call (`unsafe` is forbidden here), so prefer [`Self::as_bytes`] for large
    /// values.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// The text, without a copy.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// A copy with memory of its own: a small value may otherwise keep a large message in memory.
    #[must_use]
    pub fn owned(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }

    /// Length of the text in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Always false: the shortest value has one byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The kind of the value.
    #[must_use]
    pub fn kind(&self) -> Kind {
        Kind::of(&self.0)
    }

    /// The members of an object. Their values are not read.
    #[must_use]
    pub fn object(&self) -> Option<Object> {
        Object::scan(&self.0)
    }

    /// The elements of an array.
    #[must_use]
    pub fn array(&self) -> Option<Vec<Self>> {
        let mut scanner = Scanner::new(&self.0, 0, usize::MAX);
        scanner.open_array().ok()?;
        let mut elements = Vec::new();
        let mut first = true;
        while let Some(span) = scanner.next_element(&mut first).ok()? {
            elements.push(Self::scanned(&self.0, span));
        }
        Some(elements)
    }

    /// The first member of an object with this key, in any spelling.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Self> {
        let mut scanner = Scanner::new(&self.0, 0, usize::MAX);
        scanner.open_object().ok()?;
        let mut first = true;
        while let Some(found) = scanner.next_key(&mut first).ok()? {
            let value = scanner.value().ok()?;
            if keys::says(inside_quotes(found.of(&self.0)), key) {
                return Some(Self::scanned(&self.0, value));
            }
        }
        None
    }

    /// The text of a string; borrowed if it has no escapes. `None` for other kinds, and for strings with a lone
    /// surrogate, which Rust text cannot contain.
    #[must_use]
    pub fn text(&self) -> Option<Cow<'_, str>> {
        if self.kind() != Kind::String {
            return None;
        }
        match text::unescape(inside_quotes(&self.0)) {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
            Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
        }
    }

    /// The value of `true` or `false`.
    #[must_use]
    pub fn bool(&self) -> Option<bool> {
        match &*self.0 {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }

    /// The value of an integral number (`5`, also `5.0`) that fits.
    #[must_use]
    pub fn u64(&self) -> Option<u64> {
        self.integer().and_then(|value| value.try_into().ok())
    }

    /// The value of an integral number (`-5`, also `-5.0`) that fits.
    #[must_use]
    pub fn i64(&self) -> Option<i64> {
        self.integer().and_then(|value| value.try_into().ok())
    }

    fn integer(&self) -> Option<i128> {
        if self.kind() != Kind::Number {
            return None;
        }
        match Number::of(&self.0) {
            Number::Integer(value) => Some(value),
            Number::Other(_) => None,
        }
    }

    /// Deserializes the value with serde.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_slice(&self.0)
    }

    /// The value as a [`serde_json::Value`]. Fails on values that this type cannot represent: `1e400`, lone surrogates,
    /// 128 levels or more.
    pub fn to_value(&self) -> Result<serde_json::Value, serde_json::Error> {
        self.decode()
    }
}

/// Checks length and UTF-8, before the grammar is checked. Returns the text without whitespace around it.
pub(crate) fn check_text(text: &[u8], limits: &Limits) -> Result<Span, WireError> {
    let span = trimmed(text);
    if span.start == span.end {
        return Err(WireError::new(0, Reason::Empty));
    }
    let limit = limits.max_bytes;
    if span.end - span.start > limit {
        return Err(WireError::new(span.start + limit, Reason::TooLarge { limit }));
    }
    match std::str::from_utf8(text) {
        Ok(_) => Ok(span),
        Err(error) => Err(WireError::new(error.valid_up_to(), Reason::Utf8)),
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Json({:?}, {} bytes)", self.kind(), self.len())
    }
}

#[cfg(test)]
mod tests;
