//! Lines are the same however the bytes are split into reads.

use bytes::Bytes;

use super::{Dice, ensure};
use crate::lines::{Line, Lines};

/// Feeds the bytes in pieces and compares the lines with a split of the whole.
pub fn check_lines(bytes: &[u8]) -> Result<(), String> {
    for max_bytes in [0, 7, 64, 5000] {
        let expected = split(bytes, max_bytes);
        let mut dice = Dice::of(bytes);
        // Byte by byte only for short inputs.
        let smallest = if bytes.len() < 512 { 1 } else { 128 };
        for most in [smallest, 3 * smallest, 10_000] {
            let lines = feed(bytes, max_bytes, || 1 + dice.below(most));
            ensure(lines == expected, "lines do not depend on the pieces")?;
        }
    }
    Ok(())
}

fn feed(bytes: &[u8], max_bytes: usize, mut size: impl FnMut() -> usize) -> Vec<Line> {
    let mut lines = Lines::new(max_bytes);
    let mut found = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(size().min(rest.len()));
        lines.buffer().extend_from_slice(piece);
        rest = after;
        found.extend(std::iter::from_fn(|| lines.next()));
    }
    found.extend(std::iter::from_fn(|| lines.finish()));
    found
}

fn split(bytes: &[u8], max_bytes: usize) -> Vec<Line> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines.filter_map(|line| judge(line, max_bytes)).collect()
}

fn judge(line: &[u8], max_bytes: usize) -> Option<Line> {
    let content = line.strip_suffix(b"\n").unwrap_or(line);
    if content.len() > max_bytes {
        let end = content.len().min(4096);
        return Some(Line::TooLong {
            head: Bytes::copy_from_slice(content.get(..end)?),
            tail: Bytes::copy_from_slice(content.get(content.len() - end..)?),
            length: content.len().try_into().ok()?,
        });
    }
    let blank = content.iter().all(|b| b" \t\r".contains(b));
    (!blank).then(|| Line::Whole(Bytes::copy_from_slice(line)))
}
