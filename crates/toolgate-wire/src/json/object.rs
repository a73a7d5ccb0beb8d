//! One level of an object: reads members as slices of the source, changes them by splices.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

use crate::json::Json;
use crate::keys;
use crate::scan::{Member, Scanner, Span, inside_quotes};
use crate::text::unescape;

/// The members of one object, in order. Unchanged members keep their exact bytes.
///
/// Keys are compared by value, so `"a"` and `"\u0061"` are the same key. If a key occurs twice, [`get`](Object::get)
/// returns the first; [`set`](Object::set) and [`remove`](Object::remove) also remove the others, so that no receiver
/// can find one.
#[derive(Clone)]
pub struct Object {
    source: Bytes,
    /// The object in `source`, with its braces.
    span: Span,
    slots: Vec<Slot>,
    changed: bool,
}

#[derive(Clone)]
enum Slot {
    Original(Member),
    Replaced(Member, Json),
    Added(Json, Json),
}

impl Object {
    /// An empty object.
    #[must_use]
    pub fn new() -> Self {
        let source = Bytes::from_static(b"{}");
        let span = Span { start: 0, end: 2 };
        Self::recorded(source, span, &[])
    }

    /// Members that a scanner has found in `source`.
    pub(crate) fn recorded(source: Bytes, span: Span, members: &[Member]) -> Self {
        Self {
            source,
            span,
            slots: members.iter().copied().map(Slot::Original).collect(),
            changed: false,
        }
    }

    /// Finds the members of a value; `None` if it is no object.
    pub(crate) fn scan(source: &Bytes) -> Option<Self> {
        let span = Span { start: 0, end: source.len() };
        let mut slots = Vec::new();
        let mut scanner = Scanner::new(source, 0, usize::MAX);
        scanner.open_object().ok()?;
        let mut first = true;
        while let Some(key) = scanner.next_key(&mut first).ok()? {
            let value = scanner.value().ok()?;
            slots.push(Slot::Original(Member { key, value }));
        }
        Some(Self { source: source.clone(), span, slots, changed: false })
    }

    /// The first member with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Json> {
        let slot = self.slots.get(self.position(key)?)?;
        Some(slot.value(&self.source))
    }

    /// Whether there is a member with this key.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// Keys and values in order. A lone surrogate in a key becomes U+FFFD.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'_, str>, Json)> {
        let values = self.slots.iter().map(|slot| slot.value(&self.source));
        self.keys().zip(values)
    }

    /// Keys in order. A lone surrogate becomes U+FFFD.
    pub fn keys(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let slots = self.slots.iter();
        slots.map(|slot| match unescape(slot.spelling(&self.source)) {
            Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        })
    }

    /// The number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Replaces the value of a key in place, or appends the member. The value is a [`Json`], or anything that has one
    /// form in JSON: a text, a number, a [`serde_json::Value`], an object.
    ///
    /// ```
    /// use toolgate_wire::Object;
    ///
    /// let mut point = Object::new();
    /// point.set("x", 1);
    /// point.set("name", "origin");
    /// assert_eq!(point.finish().as_str(), r#"{"x":1,"name":"origin"}"#);
    /// ```
    pub fn set(&mut self, key: &str, value: impl Into<Json>) {
        self.set_json(key, value.into());
    }

    fn set_json(&mut self, key: &str, value: Json) {
        self.changed = true;
        let Some(at) = self.position(key) else {
            self.slots.push(Slot::Added(Json::string(key), value));
            return;
        };
        self.drop_after(at, key);
        if let Some(slot) = self.slots.get_mut(at) {
            match slot {
                Slot::Original(member) => *slot = Slot::Replaced(*member, value),
                Slot::Replaced(_, old) | Slot::Added(_, old) => *old = value,
            }
        }
    }

    /// Removes a key and returns the value that [`get`](Object::get) would have returned.
    pub fn remove(&mut self, key: &str) -> Option<Json> {
        let at = self.position(key)?;
        self.changed = true;
        self.drop_after(at, key);
        let slot = self.slots.remove(at);
        Some(slot.value(&self.source))
    }

    /// Whether anything was set or removed.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// The object as text: the original bytes if nothing was changed. After a change, whitespace between members is
    /// removed.
    #[must_use]
    pub fn finish(self) -> Json {
        if !self.changed {
            return Json::scanned(&self.source, self.span);
        }
        let added: usize = self.slots.iter().map(Slot::added_bytes).sum();
        let mut out = Vec::with_capacity(self.span.end - self.span.start + added);
        out.push(b'{');
        for (index, slot) in self.slots.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            slot.write(&mut out, &self.source);
        }
        out.push(b'}');
        Json::composed(out)
    }

    fn position(&self, key: &str) -> Option<usize> {
        self.slots.iter().position(|slot| slot.is(&self.source, key))
    }

    /// Removes all later members with the key of the member at `at`.
    fn drop_after(&mut self, at: usize, key: &str) {
        let mut index = 0;
        self.slots.retain(|slot| {
            index += 1;
            index <= at + 1 || !slot.is(&self.source, key)
        });
    }
}

impl Slot {
    fn is(&self, source: &[u8], key: &str) -> bool {
        keys::says(self.spelling(source), key)
    }

    /// The key without its quotes.
    fn spelling<'a>(&'a self, source: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Original(member) | Self::Replaced(member, _) => member.key_text(source),
            Self::Added(key, _) => inside_quotes(key.as_bytes()),
        }
    }

    fn value(&self, source: &Bytes) -> Json {
        match self {
            Self::Original(member) => Json::scanned(source, member.value),
            Self::Replaced(_, value) | Self::Added(_, value) => value.clone(),
        }
    }

    /// Writes the member, with the whitespace inside it.
    fn write(&self, out: &mut Vec<u8>, source: &[u8]) {
        let (head, value) = match self {
            Self::Original(member) => (member.key.start..member.value.end, None),
            Self::Replaced(member, value) => (member.key.start..member.value.start, Some(value)),
            Self::Added(key, value) => {
                out.extend_from_slice(key.as_bytes());
                out.push(b':');
                (0..0, Some(value))
            }
        };
        out.extend_from_slice(source.get(head).unwrap_or_default());
        out.extend_from_slice(value.map_or(&[], Json::as_bytes));
    }

    /// The maximum number of bytes that this member adds to the text.
    fn added_bytes(&self) -> usize {
        match self {
            Self::Original(_) => 0,
            Self::Replaced(_, value) => value.len(),
            Self::Added(key, value) => key.len() + value.len() + 2,
        }
    }
}

impl Default for Object {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({} members)", self.len())
    }
}

#[cfg(test)]
mod tests;
