//! Shrinking a result: its texts, its structured content, and only then its other blocks.

use toolgate_wire::{Json, Object};

use super::{Keep, cut, structured};

/// The result cannot be brought under the limit without breaking it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rigid;

/// Where a result keeps its blocks, and what stands in for one that cannot be cut.
pub(super) struct Blocks {
    member: &'static str,
    note: fn(&Json, String) -> Json,
}

/// `content` of a `tools/call`.
pub(super) const CONTENT: Blocks = Blocks {
    member: "content",
    note: text_block,
};
/// `contents` of a `resources/read`.
pub(super) const CONTENTS: Blocks = Blocks {
    member: "contents",
    note: text_resource,
};

/// The member of `_meta` that says that something is missing.
pub(super) const FLAG: &str = "toolgate/truncated";

/// Room for [`FLAG`] and commas.
const FLAG_ROOM: usize = 200;

fn text_block(_: &Json, text: String) -> Json {
    Json::value(&serde_json::json!({"type": "text", "text": text}))
}

fn text_resource(block: &Json, text: String) -> Json {
    let mut object = block.object().unwrap_or_default();
    object.remove("blob");
    object.set("text", Json::string(&text));
    object.finish()
}

/// The result, not longer than `limit`, or [`Rigid`]. `optional`: structured content may go.
pub(super) fn shrink(
    result: &Json,
    blocks: &Blocks,
    limit: usize,
    keep: Keep,
    optional: bool,
) -> Result<Json, Rigid> {
    let mut object = result.object().ok_or(Rigid)?;
    let content = object
        .get(blocks.member)
        .and_then(|json| json.array())
        .unwrap_or_default();
    let structured = object.get("structuredContent");
    let elastic = content.iter().map(Json::len).sum::<usize>() + content.len();
    let structure = structured.as_ref().map_or(0, Json::len);
    let fixed = result.len().saturating_sub(elastic + structure) + FLAG_ROOM;
    let room = limit.checked_sub(fixed).ok_or(Rigid)?;

    let mut dropped = 0;
    let mut used = 0;
    if let Some(structured) = structured {
        // Each of the two gets room in proportion to what it has.
        let share = room / 1000 * (structure * 1000 / (structure + elastic).max(1));
        match structured::shrink(&structured, share, keep) {
            Ok((json, cut)) => {
                used = json.len();
                dropped += cut;
                object.set("structuredContent", json);
            }
            Err(Rigid) if optional => {
                dropped += structured.len();
                object.remove("structuredContent");
            }
            Err(Rigid) => return Err(Rigid),
        }
    }
    let (kept, cut) = fit(content, blocks, room.saturating_sub(used), keep);
    dropped += cut;
    object.set(blocks.member, Json::list(&kept));
    flag(&mut object, dropped);
    let shrunk = object.finish();
    if shrunk.len() <= limit {
        Ok(shrunk)
    } else {
        Err(Rigid)
    }
}

fn flag(object: &mut Object, dropped: usize) {
    let mut meta = object
        .get("_meta")
        .and_then(|json| json.object())
        .unwrap_or_default();
    meta.set(FLAG, Json::value(&serde_json::json!({"bytes": dropped})));
    object.set("_meta", meta.finish());
}

/// Keeps blocks from the end that matters until the room is used up; the one at the edge is cut, and
/// those beyond it go. One header tells of all of it.
fn fit(content: Vec<Json>, blocks: &Blocks, room: usize, keep: Keep) -> (Vec<Json>, usize) {
    let mut left = room.saturating_sub(cut::HEADER_ROOM);
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
        } else if let Some(text) = text_of(block) {
            let mut part = "";
            if !full {
                let frame = block.len().saturating_sub(encoded(&text));
                part = cut::part(&text, left.saturating_sub(frame), keep);
                kept.push((at, with_text(block, part)));
                full = true;
            }
            dropped += text.len() - part.len();
        } else {
            // A picture cannot be cut: it goes whole, and the texts around it may still fit.
            dropped += block.len();
        }
    }
    kept.sort_by_key(|(at, _)| *at);
    let mut kept: Vec<Json> = kept.into_iter().map(|(_, block)| block).collect();
    if dropped > 0 {
        put_header(&mut kept, &content, blocks, dropped, keep);
    }
    (kept, dropped)
}

/// Puts the header into the text at the edge, or into a block of its own.
fn put_header(kept: &mut Vec<Json>, all: &[Json], blocks: &Blocks, dropped: usize, keep: Keep) {
    let header = cut::header(dropped);
    let edge = match keep {
        Keep::Tail => kept.first_mut(),
        Keep::Head => kept.last_mut(),
    };
    if let Some(block) = edge
        && let Some(text) = text_of(block)
    {
        let text = match keep {
            Keep::Tail => format!("{header}\n{text}"),
            Keep::Head => format!("{text}\n{header}"),
        };
        *block = with_text(block, &text);
        return;
    }
    let model = match keep {
        Keep::Tail => all.first(),
        Keep::Head => all.last(),
    };
    let note = (blocks.note)(model.unwrap_or(&Json::null()), header);
    match keep {
        Keep::Tail => kept.insert(0, note),
        Keep::Head => kept.push(note),
    }
}

fn encoded(text: &str) -> usize {
    Json::string(text).len() - 2
}

/// The text of a block: its own, or that of the resource embedded in it.
fn text_of(block: &Json) -> Option<String> {
    let direct = block
        .get("text")
        .and_then(|json| json.text().map(|text| text.into_owned()));
    direct.or_else(|| {
        block
            .get("resource")?
            .get("text")
            .and_then(|json| json.text().map(|text| text.into_owned()))
    })
}

fn with_text(block: &Json, text: &str) -> Json {
    let mut object = block.object().unwrap_or_default();
    if object.contains("text") {
        object.set("text", Json::string(text));
    } else if let Some(mut resource) = object.get("resource").and_then(|json| json.object()) {
        resource.set("text", Json::string(text));
        object.set("resource", resource.finish());
    }
    object.finish()
}
