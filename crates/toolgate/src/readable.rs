//! Walks over the bytes of a message and replaces its readable strings.

use std::{borrow::Cow, ops::Range};

use toolgate_wire::{Json, Limits};

/// The position of a value in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    /// A result.
    Top,
    /// Blocks that people and models read: `content`, `contents`, `messages`.
    Blocks,
    /// Arbitrary data, of which every string is replaced.
    Data,
    /// The params of a server's notification or request.
    Params,
    /// A schema of a form or of a tool, of which titles and descriptions are replaced.
    Schema,
    /// Input requests by key.
    Inputs,
    /// One input request.
    Input,
    /// A task, without the result in it.
    Task,
    /// Values that must stay unchanged.
    Opaque,
}

impl Area {
    /// The area of a member.
    fn member(self, key: &str) -> Self {
        match (self, key) {
            // Unchanged are `requestState`, ids and cursors, which the client returns; in blocks the type and base64
            // data; in params values on which the client acts, such as the URL of a page to open; in schemas the
            // constraints.
            (
                Self::Top,
                "_meta" | "requestState" | "resultType" | "taskId" | "nextCursor" | "status",
            )
            | (Self::Blocks, "type" | "mimeType" | "data" | "blob" | "_meta")
            | (
                Self::Params,
                "_meta" | "progressToken" | "requestId" | "level" | "uri" | "url" | "mode"
                | "elicitationId" | "includeContext" | "modelPreferences" | "toolChoice",
            )
            | (
                Self::Schema,
                "type" | "format" | "pattern" | "required" | "enum" | "const" | "name" | "$ref"
                | "$schema" | "$id",
            )
            | (Self::Input, "method") => Self::Opaque,
            // Tasks: ids, states and times. The result in a task is replaced as a result.
            (
                Self::Task | Self::Params,
                "taskId" | "status" | "createdAt" | "lastUpdatedAt" | "resultType",
            )
            | (Self::Task, "_meta" | "result" | "error" | "nextCursor" | "requestState") => {
                Self::Opaque
            }
            (Self::Top | Self::Task | Self::Params, "inputRequests") => Self::Inputs,
            (Self::Top, "task") | (Self::Task, "tasks") => Self::Task,
            (Self::Top, "structuredContent") => Self::Data,
            (Self::Params, "messages") | (Self::Top, _) => Self::Blocks,
            (Self::Inputs, _) => Self::Input,
            (Self::Input, _) => Self::Params,
            (Self::Params, "requestedSchema" | "tools") => Self::Schema,
            (Self::Params, "result") => Self::Top,
            (Self::Params, _) => Self::Data,
            (same, _) => same,
        }
    }

    /// Whether strings in this area are replaced.
    fn is_readable(self) -> bool {
        matches!(self, Self::Blocks | Self::Data | Self::Schema | Self::Task | Self::Params)
    }
}

/// The value with all readable strings replaced for which `replacement` returns another text; `None` if there are none.
/// Keys, order, white space and all other spelling stay.
///
/// One pass without recursion. Of duplicate keys both values are replaced, because it is unknown which one a client
/// reads.
pub(crate) fn replace(
    json: &Json,
    area: Area,
    mut replacement: impl FnMut(&str) -> Option<String>,
) -> Option<Json> {
    let text = json.as_bytes();
    let mut edits: Vec<(Range<usize>, Json)> = Vec::new();
    // The area of each open object or array, and of the next value in the innermost.
    let (mut open, mut next) = (Vec::new(), area);
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                let end = end_of_string(text, at);
                let span = at..end;
                at = end;
                let here = open.last().copied().unwrap_or(area);
                if is_key(text, end) {
                    next = here.member(&decoded(text, span));
                    continue;
                }
                if next.is_readable()
                    && let Some(new) = replacement(&decoded(text, span.clone()))
                {
                    edits.push((span, Json::string(&new)));
                }
                next = here;
                continue;
            }
            b'{' | b'[' => open.push(next),
            b'}' | b']' => {
                open.pop();
                next = open.last().copied().unwrap_or(area);
            }
            b',' => next = open.last().copied().unwrap_or(area),
            _ => {}
        }
        at += 1;
    }
    if edits.is_empty() { None } else { put_together(text, &edits) }
}

/// The end of the string that begins at `start`, quotes included.
fn end_of_string(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', text.get(at..).unwrap_or_default()) {
        at += found;
        if text.get(at) == Some(&b'"') {
            return at + 1;
        }
        // Skip the escaped character.
        at += 2;
    }
    text.len()
}

/// A string is a key if a colon follows it.
fn is_key(text: &[u8], end: usize) -> bool {
    let rest = text.get(end..).unwrap_or_default();
    rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
}

/// The decoded text of a string. A lone surrogate becomes U+FFFD, so that the rest of the string is searched too.
fn decoded(text: &[u8], span: Range<usize>) -> Cow<'_, str> {
    let spelled = text.get(span).unwrap_or_default();
    let inside = spelled.get(1..spelled.len().saturating_sub(1)).unwrap_or_default();
    if memchr::memchr(b'\\', inside).is_none() {
        return String::from_utf8_lossy(inside);
    }
    let string = Json::parse(spelled.to_vec(), &UNLIMITED).ok();
    if let Some(text) = string.as_ref().and_then(Json::text) {
        return Cow::Owned(text.into_owned());
    }
    // Decode it as the key of an object, which replaces lone surrogates.
    let object = [b"{", spelled, b":0}"].concat();
    let object = Json::parse(object, &UNLIMITED).ok().and_then(|json| json.object());
    let key = object.as_ref().and_then(|object| object.keys().next());
    Cow::Owned(key.unwrap_or_default().into_owned())
}

const UNLIMITED: Limits = Limits { max_bytes: usize::MAX, max_depth: usize::MAX };

fn put_together(text: &[u8], edits: &[(Range<usize>, Json)]) -> Option<Json> {
    let mut out = Vec::with_capacity(text.len());
    let mut copied = 0;
    for (span, string) in edits {
        out.extend_from_slice(text.get(copied..span.start).unwrap_or_default());
        out.extend_from_slice(string.as_bytes());
        copied = span.end;
    }
    out.extend_from_slice(text.get(copied..).unwrap_or_default());
    Json::parse(out, &UNLIMITED).ok()
}
