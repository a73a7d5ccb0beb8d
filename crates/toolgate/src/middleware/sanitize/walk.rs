//! Which strings of a message are cleaned, and how it is put together again byte by byte.

use std::{borrow::Cow, ops::Range};

use toolgate_wire::{Json, Limits};

/// Where in a message a value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Area {
    /// A result.
    Top,
    /// Blocks that people and models read: `content`, `contents`, `messages`.
    Blocks,
    /// Data of any shape: every string of it is cleaned.
    Data,
    /// What a server tells or asks a client: the params of a notification or of a request.
    Params,
    /// A schema of a form or of a tool: what people read in it.
    Schema,
    /// Requests for input by their keys.
    Inputs,
    /// One request for input.
    Input,
    /// A task, without the result in it: that is a result of its own.
    Task,
    /// What must stay as it is.
    Opaque,
}

impl Area {
    /// The area of a member.
    fn member(self, key: &str) -> Self {
        match (self, key) {
            // `requestState` has to come back exactly so, ids and cursors too. In blocks: what kind of block it
            // is, and what is no text but base64 of pictures, sounds and files. In params: what the client acts
            // on, as the address of a page to open. In schemas: what an answer has to fit.
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
            // Tasks: ids, states and times; the result in one is cleaned as a result.
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

    /// Whether strings in it are cleaned.
    fn is_readable(self) -> bool {
        matches!(self, Self::Blocks | Self::Data | Self::Schema | Self::Task | Self::Params)
    }
}

/// The value with every string in a readable place cleaned; `None` if none had to be. Keys, order,
/// whitespace and the spelling of everything else stay.
///
/// One pass without recursion, however deep the value is. Keys that stand there twice are both gone
/// over, since nobody knows which of them a client reads.
pub(super) fn clean(
    json: &Json,
    area: Area,
    mut clean: impl FnMut(&str) -> Option<String>,
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
                    next = here.member(&said(text, span));
                    continue;
                }
                if next.is_readable()
                    && let Some(cleaned) = clean(&said(text, span.clone()))
                {
                    edits.push((span, Json::string(&cleaned)));
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

/// Where the string that begins at `start` ends, quotes included.
fn end_of_string(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', text.get(at..).unwrap_or_default()) {
        at += found;
        if text.get(at) == Some(&b'"') {
            return at + 1;
        }
        // An escape takes whatever follows it along.
        at += 2;
    }
    text.len()
}

/// A string is a key if a colon follows it.
fn is_key(text: &[u8], end: usize) -> bool {
    let rest = text.get(end..).unwrap_or_default();
    rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
}

/// What a string says. A lone surrogate, which no text can hold, becomes U+FFFD: it must not shield
/// the rest of its string from being read.
fn said(text: &[u8], span: Range<usize>) -> Cow<'_, str> {
    let spelled = text.get(span).unwrap_or_default();
    let inside = spelled.get(1..spelled.len().saturating_sub(1)).unwrap_or_default();
    if memchr::memchr(b'\\', inside).is_none() {
        return String::from_utf8_lossy(inside);
    }
    let string = Json::parse(spelled.to_vec(), &UNLIMITED).ok();
    if let Some(text) = string.as_ref().and_then(Json::text) {
        return Cow::Owned(text.into_owned());
    }
    // Objects show their keys in the way that is wanted here.
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
