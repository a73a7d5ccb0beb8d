//! The end of an audit file that somebody else may have written to: where its chain goes on, and what a
//! crash left half written.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
};

use serde::Deserialize;

use super::seal::{Chained, Hash, Point, Seal};

/// So much is read at first; more only where no record ends in it.
const WINDOW: u64 = 64 * 1024;
const WIDER: u64 = 16;

/// What the end of a file is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// The last record of the chain.
    pub(super) point: Option<Point>,
    /// Whether that record is one of ours: made with the same key, and not altered.
    pub(super) is_ours: bool,
    /// Whether the last line has no newline.
    pub(super) is_open: bool,
    /// What stands behind the last record and is none.
    pub(super) torn: Option<Torn>,
}

/// Something that is no record, because a crash or a full disk cut it off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Torn {
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

/// One line, and where it begins.
struct Line<'a> {
    start: usize,
    bytes: &'a [u8],
}

/// What these last bytes of a file say; `None` if more of them are needed.
fn examine(bytes: &[u8], is_whole: bool, seal: &Seal) -> Option<Tail> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    let mut start = 0;
    for bytes in bytes.split_inclusive(|byte| *byte == b'\n') {
        lines.push(Line { start, bytes: bytes.strip_suffix(b"\n").unwrap_or(bytes) });
        start += bytes.len();
    }
    if !is_whole && !lines.is_empty() {
        // It may have begun earlier.
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
        Some(Torn { bytes: torn.len() as u64, sha256: Hash::sha256(torn) })
    });
    let mut chain = lines.iter().take(good.map_or(0, |at| at + 1)).rev();
    let mut chain = chain.by_ref().filter_map(|line| Some((line, Chained::parse(line.bytes)?)));
    let Some((line, last)) = chain.next() else {
        // Records of a time without a chain, perhaps; all of it has to be seen to know.
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

/// Whether a line is a record, of a chain or not.
fn is_record(line: &[u8]) -> bool {
    let is_object = line.first() == Some(&b'{');
    is_object && serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok()
}

/// What the first record of a file says of the one before it.
fn previous_hash(line: &[u8]) -> Option<Hash> {
    #[derive(Deserialize)]
    struct Begin {
        previous_hash: Option<String>,
    }
    let begin: Begin = serde_json::from_slice(line).ok()?;
    Hash::parse(begin.previous_hash?.as_bytes())
}
