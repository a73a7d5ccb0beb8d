//! Reads the end of an audit file that other processes may have written to: the chain's last record, and what a crash
//! left incomplete.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
};

use serde::Deserialize;

use super::seal::{ChainLine, Hash, Point, Seal};

/// Bytes that are read first. More are read only if they contain no complete record.
const WINDOW: u64 = 64 * 1024;
const WIDER: u64 = 16;

/// The end of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// The last record of the chain.
    pub(super) point: Option<Point>,
    /// Whether that record was written with the same key and not altered.
    pub(super) is_ours: bool,
    /// Whether the last line has no newline.
    pub(super) is_open: bool,
    /// Invalid bytes after the last record.
    pub(super) torn: Option<IncompleteRecord>,
}

/// An incomplete record, cut off by a crash or a full disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IncompleteRecord {
    pub(super) bytes: u64,
    pub(super) sha256: Hash,
}

/// Reads the end of a file of this size.
pub(super) fn read(mut file: &File, size: u64, seal: &Seal) -> io::Result<Tail> {
    let mut window = WINDOW;
    loop {
        let start = size.saturating_sub(window);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(size - start).read_to_end(&mut bytes)?;
        if let Some(tail) = examine(&bytes, start == 0, seal) {
            return Ok(tail);
        }
        window = window.saturating_mul(WIDER);
    }
}

/// One line and its start.
struct Line<'a> {
    start: usize,
    bytes: &'a [u8],
}

/// Reads the last bytes of a file; `None` if more are needed.
fn examine(bytes: &[u8], is_whole: bool, seal: &Seal) -> Option<Tail> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    let mut start = 0;
    for bytes in bytes.split_inclusive(|byte| *byte == b'\n') {
        lines.push(Line { start, bytes: bytes.strip_suffix(b"\n").unwrap_or(bytes) });
        start += bytes.len();
    }
    if !is_whole && !lines.is_empty() {
        // Its start may be missing.
        lines.remove(0);
    }
    let is_open = bytes.last().is_some_and(|byte| *byte != b'\n');
    let good = lines.iter().rposition(|line| is_record(line.bytes));
    if good.is_none() && !is_whole {
        return None;
    }
    let torn_from = match good {
        Some(at) => lines.get(at + 1).map(|line| line.start),
        None => Some(0).filter(|_| !bytes.is_empty()),
    };
    let torn = torn_from.and_then(|from| {
        let torn = bytes.get(from..)?;
        let torn = torn.strip_suffix(b"\n").unwrap_or(torn);
        Some(IncompleteRecord { bytes: torn.len() as u64, sha256: Hash::sha256(torn) })
    });
    let mut chain = lines.iter().take(good.map_or(0, |at| at + 1)).rev();
    let mut chain = chain.by_ref().filter_map(|line| Some((line, ChainLine::parse(line.bytes)?)));
    let Some((line, last)) = chain.next() else {
        // The file may contain only records without a chain. That is certain only after reading all of it.
        return is_whole.then_some(Tail { point: None, is_ours: false, is_open, torn });
    };
    let previous = match previous_hash(line.bytes) {
        Some(hash) => hash,
        None => match chain.next() {
            Some((_, before)) => before.point.hash,
            None if is_whole => Hash::ZERO,
            None => return None,
        },
    };
    let is_ours = last.follows(seal, &previous);
    Some(Tail { point: Some(last.point), is_ours, is_open, torn })
}

/// Whether a line is a record, with or without a chain.
fn is_record(line: &[u8]) -> bool {
    let is_object = line.first() == Some(&b'{');
    is_object && serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok()
}

/// The `previous_hash` of a `begin` record.
fn previous_hash(line: &[u8]) -> Option<Hash> {
    #[derive(Deserialize)]
    struct Begin {
        previous_hash: Option<String>,
    }
    let begin: Begin = serde_json::from_slice(line).ok()?;
    Hash::parse(begin.previous_hash?.as_bytes())
}
