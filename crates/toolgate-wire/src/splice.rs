//! Changes parts of a text; all other bytes stay the same.

use bytes::Bytes;

use crate::json::Json;
use crate::scan::Span;

/// One change to the text.
#[derive(Clone)]
pub(crate) struct Edit {
    span: Span,
    /// The key to write before the value of a new member.
    key: Option<&'static str>,
    value: Json,
}

impl Edit {
    /// Replaces a value.
    pub(crate) fn replace(span: Span, value: Json) -> Self {
        Self { span, key: None, value }
    }

    /// Appends a member to the object that ends at `end`. The object must have a member already, since a comma is
    /// written.
    pub(crate) fn append(end: usize, key: &'static str, value: Json) -> Self {
        let brace = end.saturating_sub(1);
        Self { span: Span { start: brace, end: brace }, key: Some(key), value }
    }

    fn write(&self, out: &mut Vec<u8>) {
        if let Some(key) = self.key {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(b"\":");
        }
        out.extend_from_slice(self.value.as_bytes());
    }

    fn length(&self) -> usize {
        self.value.len() + self.key.map_or(0, |key| key.len() + 4)
    }
}

/// The part `text` of a line with both edits, which must not overlap.
pub(crate) fn splice(line: &Bytes, text: Span, edits: [Option<Edit>; 2]) -> Bytes {
    let mut edits = edits;
    edits.sort_by_key(|edit| edit.as_ref().map(|edit| edit.span.start));
    let grown: usize = edits.iter().flatten().map(Edit::length).sum();
    if grown == 0 {
        return text.slice(line);
    }
    let mut out = Vec::with_capacity(text.end - text.start + grown);
    let mut start = text.start;
    for edit in edits.iter().flatten() {
        let end = edit.span.start;
        out.extend_from_slice(Span { start, end }.of(line));
        edit.write(&mut out);
        start = edit.span.end;
    }
    let end = text.end;
    out.extend_from_slice(Span { start, end }.of(line));
    out.into()
}
