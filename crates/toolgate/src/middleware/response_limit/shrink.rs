//! Shrinks a result: first its texts and structured content, then its other blocks.

use std::borrow::Cow;

use toolgate_wire::{Json, Object, mcp::member};

use super::{Keep, cut, structured};

/// The result cannot be brought under the limit without breaking it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CannotShrink;

/// The member with a result's blocks, and the replacement of a block that cannot be cut.
pub(super) struct Blocks {
    member: &'static str,
    note: fn(&Json, &str) -> Json,
}

/// `content` of a `tools/call`.
pub(super) const CONTENT: Blocks = Blocks { member: "content", note: text_block };
/// `contents` of a `resources/read`.
pub(super) const CONTENTS: Blocks = Blocks { member: "contents", note: text_resource };

/// `messages` of a `prompts/get`.
pub(super) const MESSAGES: Blocks = Blocks { member: "messages", note: text_message };

/// The member of `_meta` that marks a shortened result.
pub(super) const FLAG: &str = "toolgate/truncated";

/// Size of [`FLAG`] and commas.
const FLAG_ROOM: usize = 200;

/// Largest number of values of a result that is parsed. Parsing takes a multiple of the result's size in memory.
const MAX_VALUES: usize = 1_000_000;

fn text_block(_: &Json, text: &str) -> Json {
    Json::value(&serde_json::json!({"type": "text", "text": text}))
}

fn text_message(block: &Json, text: &str) -> Json {
    let mut object = block.object().unwrap_or_default();
    if !object.contains("role") {
        object.set("role", Json::string("user"));
    }
    object.set("content", text_block(block, text));
    object.finish()
}

fn text_resource(block: &Json, text: &str) -> Json {
    let mut object = block.object().unwrap_or_default();
    if object.remove("blob").is_some() && object.contains("mimeType") {
        object.set("mimeType", Json::string("text/plain"));
    }
    object.set("text", Json::string(text));
    object.finish()
}

/// The result shortened to `limit` bytes, or [`CannotShrink`]. `optional`: structured content may be dropped.
pub(super) fn shrink(
    result: &Json,
    blocks: &Blocks,
    limit: usize,
    keep: Keep,
    optional: bool,
) -> Result<Json, CannotShrink> {
    if has_too_many_values(result.as_bytes()) {
        return Err(CannotShrink);
    }
    let mut object = result.object().ok_or(CannotShrink)?;
    let content = object.get(blocks.member).and_then(|json| json.array());
    let structured = object.get(member::STRUCTURED_CONTENT);
    let room = limit.checked_sub(fixed(&object, blocks)).ok_or(CannotShrink)?;

    let elastic = size(content.as_deref().unwrap_or_default());
    let (mut dropped, mut used) = (0, 0);
    if let Some(structured) = structured {
        let share = share(structured.len(), elastic, room);
        // If it does not fit in its share, it gets everything except one line for the content.
        let most = room.saturating_sub(elastic.min(FLAG_ROOM));
        let shrunk = structured::shrink(&structured, share, keep)
            .or_else(|CannotShrink| structured::shrink(&structured, most, keep));
        match shrunk {
            Ok((json, cut)) => {
                used = json.len();
                dropped += cut;
                object.set(member::STRUCTURED_CONTENT, json);
            }
            Err(CannotShrink) if optional => {
                dropped += structured.len();
                object.remove(member::STRUCTURED_CONTENT);
            }
            Err(CannotShrink) => return Err(CannotShrink),
        }
    }
    if let Some(content) = content {
        let (kept, cut) = fit(content, blocks, room.saturating_sub(used), keep);
        dropped += cut;
        object.set(blocks.member, Json::list(&kept));
    }
    flag(&mut object, dropped);
    let shrunk = object.finish();
    if shrunk.len() <= limit { Ok(shrunk) } else { Err(CannotShrink) }
}

/// The size of everything except blocks and structured content.
fn fixed(object: &Object, blocks: &Blocks) -> usize {
    let mut bare = object.clone();
    for member in [blocks.member, "structuredContent"] {
        if bare.contains(member) {
            bare.set(member, Json::list([]));
        }
    }
    bare.finish().len() + FLAG_ROOM
}

/// The share of the structured content. The smaller of content and structured content stays whole.
fn share(structure: usize, elastic: usize, room: usize) -> usize {
    if elastic <= room / 2 { room - elastic } else { structure.min(room / 2) }
}

/// Whether there are more than [`MAX_VALUES`] values, counted without parsing.
pub(super) fn has_too_many_values(text: &[u8]) -> bool {
    // A value takes at least two bytes.
    if text.len() / 2 <= MAX_VALUES {
        return false;
    }
    let (mut count, mut rest) = (0, text);
    while let Some((byte, after)) = rest.split_first() {
        rest = match byte {
            b'"' => after_string(after),
            b',' | b'[' | b'{' => {
                count += 1;
                after
            }
            _ => after,
        };
    }
    count > MAX_VALUES
}

/// The rest after a string whose first quote was consumed.
fn after_string(mut text: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', text) {
        let is_end = text.get(at) == Some(&b'"');
        // An escape takes whatever follows it along.
        text = text.get(at + if is_end { 1 } else { 2 }..).unwrap_or_default();
        if is_end {
            break;
        }
    }
    text
}

fn flag(object: &mut Object, dropped: usize) {
    let meta = object.get(member::META).and_then(|json| json.object());
    let mut meta = meta.unwrap_or_default();
    meta.set(FLAG, Json::value(&serde_json::json!({"bytes": dropped})));
    object.set(member::META, meta.finish());
}

fn size(blocks: &[Json]) -> usize {
    blocks.iter().map(|block| block.len() + 1).sum()
}

/// Keeps blocks from the end that matters until the budget is used up. The next block is cut, further ones are
/// dropped. One header counts the missing bytes of texts and the whole size of blocks that cannot be cut.
fn fit(content: Vec<Json>, blocks: &Blocks, room: usize, keep: Keep) -> (Vec<Json>, usize) {
    if size(&content) <= room {
        return (content, 0);
    }
    let model = match keep {
        Keep::Tail => content.first(),
        Keep::Head => content.last(),
    };
    let note = |header: &str| (blocks.note)(model.unwrap_or(&Json::null()), header);
    let mut left = room.saturating_sub(note(&cut::header(usize::MAX)).len() + 1);
    let mut order: Vec<usize> = (0..content.len()).collect();
    if keep == Keep::Tail {
        order.reverse();
    }
    let mut kept: Vec<(usize, Json)> = Vec::new();
    let mut dropped = 0;
    let mut full = false;
    for at in order {
        let Some(block) = content.get(at) else {
            continue;
        };
        if !full && block.len() < left {
            left -= block.len() + 1;
            kept.push((at, block.clone()));
        } else if let Some(text) = Text::of(block) {
            let mut part = "";
            if !full {
                full = true;
                let frame = text.replaced("").len() + 1;
                part = cut::part(&text.content, left.saturating_sub(frame), keep);
                if !part.is_empty() {
                    kept.push((at, text.replaced(part)));
                }
            }
            dropped += text.content.len() - part.len();
        } else {
            // An image cannot be cut: drop it, since the texts around it may still fit.
            dropped += block.len();
        }
    }
    kept.sort_by_key(|(at, _)| *at);
    let mut kept: Vec<Json> = kept.into_iter().map(|(_, block)| block).collect();
    if dropped > 0 {
        put_header(&mut kept, &cut::header(dropped), note, keep);
    }
    (kept, dropped)
}

/// Adds the header to the text that was cut, or as a block of its own.
fn put_header(kept: &mut Vec<Json>, header: &str, note: impl Fn(&str) -> Json, keep: Keep) {
    let edge = match keep {
        Keep::Tail => kept.first_mut(),
        Keep::Head => kept.last_mut(),
    };
    if let Some(block) = edge
        && let Some(found) = Text::of(block)
    {
        let text = &found.content;
        let marked = match keep {
            Keep::Tail => format!("{header}\n{text}"),
            Keep::Head => format!("{text}\n{header}"),
        };
        *block = found.replaced(&marked);
        return;
    }
    match keep {
        Keep::Tail => kept.insert(0, note(header)),
        Keep::Head => kept.push(note(header)),
    }
}

/// A block with a text: its own, that of an embedded resource, or that of a message's content.
struct Text {
    block: Object,
    /// The member that contains the text, if it is not the block itself.
    inner: Option<(&'static str, Object)>,
    content: String,
}

impl Text {
    fn of(block: &Json) -> Option<Self> {
        let block = block.object()?;
        let text = |object: &Object| object.get("text")?.text().map(Cow::into_owned);
        if let Some(content) = text(&block) {
            return Some(Self { block, inner: None, content });
        }
        ["resource", "content"].into_iter().find_map(|member| {
            let inner = block.get(member)?.object()?;
            let content = text(&inner)?;
            Some(Self { block: block.clone(), inner: Some((member, inner)), content })
        })
    }

    /// The block with another text.
    fn replaced(&self, text: &str) -> Json {
        let mut block = self.block.clone();
        match self.inner.clone() {
            Some((member, mut inner)) => {
                inner.set("text", Json::string(text));
                block.set(member, inner.finish());
            }
            None => block.set("text", Json::string(text)),
        }
        block.finish()
    }
}
