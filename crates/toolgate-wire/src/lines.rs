//! Splits a byte stream into lines without copying.

use bytes::{Bytes, BytesMut};

use crate::scan::trimmed;

/// The free capacity for the next read.
const READ_CAPACITY: usize = 16 * 1024;

/// A buffer that grew beyond this is released after its long line.
const MAX_IDLE_CAPACITY: usize = 256 * 1024;

/// How many bytes of each end of an overlong line are kept.
const KEPT_BYTES: usize = 4096;

/// One line of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A line, with its newline if there was one.
    Whole(Bytes),
    /// A line beyond the limit. It is discarded while it is received; its ends are kept for
    /// [`salvage_id`](crate::salvage_id).
    TooLong {
        /// The first 4 KiB.
        head: Bytes,
        /// The last 4 KiB.
        tail: Bytes,
        /// Its length without the newline.
        length: u64,
    },
}

/// Splits a stream into lines. Read into [`buffer`](Lines::buffer), then take lines with [`next`](Lines::next) until it
/// returns `None`. Blank lines are skipped.
#[derive(Debug)]
pub struct Lines {
    buffer: BytesMut,
    max_bytes: usize,
    /// There is no newline before this position of the buffer.
    searched: usize,
    swollen: bool,
    skipped: Option<OverlongLine>,
}

/// An overlong line whose end was not received yet.
#[derive(Debug, Default)]
struct OverlongLine {
    head: Vec<u8>,
    tail: BytesMut,
    length: u64,
}

impl Lines {
    /// Lines longer than `max_bytes` (without their newline) are skipped.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self { buffer: BytesMut::new(), max_bytes, searched: 0, swollen: false, skipped: None }
    }

    /// Where to append received bytes: it has at least 16 KiB of free capacity.
    pub fn buffer(&mut self) -> &mut BytesMut {
        if self.swollen && self.buffer.len() <= READ_CAPACITY {
            let mut fresh = BytesMut::with_capacity(2 * READ_CAPACITY);
            fresh.extend_from_slice(&self.buffer);
            self.buffer = fresh;
            self.swollen = false;
        }
        self.buffer.reserve(READ_CAPACITY);
        self.swollen |= self.buffer.capacity() > MAX_IDLE_CAPACITY;
        &mut self.buffer
    }

    /// The next complete line.
    #[expect(
        clippy::should_implement_trait,
        reason = "None means not yet, where an iterator would mean never"
    )]
    pub fn next(&mut self) -> Option<Line> {
        loop {
            let fresh = self.buffer.get(self.searched..).unwrap_or_default();
            let Some(newline) = memchr::memchr(b'\n', fresh) else {
                self.searched = self.buffer.len();
                self.skip_if_too_long();
                return None;
            };
            let line = self.buffer.split_to(self.searched + newline + 1);
            self.searched = 0;
            if let Some(line) = self.ended(line) {
                return Some(line);
            }
        }
    }

    /// At the end of the stream: like [`next`](Lines::next), and finally a last line without a newline.
    pub fn finish(&mut self) -> Option<Line> {
        let line = self.next();
        if line.is_some() {
            return line;
        }
        let rest = self.buffer.split();
        self.searched = 0;
        self.ended(rest)
    }

    /// The line after its end was received; `None` if it is blank.
    fn ended(&mut self, line: BytesMut) -> Option<Line> {
        let length = line.strip_suffix(b"\n").unwrap_or(&line).len();
        let mut skipped = match self.skipped.take() {
            Some(skipped) => skipped,
            None if length > self.max_bytes => OverlongLine::default(),
            None if is_blank(&line) => return None,
            None => return Some(Line::Whole(line.freeze())),
        };
        skipped.add(line.get(..length).unwrap_or_default());
        Some(skipped.line())
    }

    /// Discards a line that is too long before its end was received.
    fn skip_if_too_long(&mut self) {
        if self.skipped.is_none() && self.buffer.len() > self.max_bytes {
            self.skipped = Some(OverlongLine::default());
        }
        if let Some(skipped) = &mut self.skipped {
            skipped.add(&self.buffer);
            self.buffer.clear();
            self.searched = 0;
        }
    }
}

impl OverlongLine {
    fn add(&mut self, part: &[u8]) {
        self.length += part.len() as u64;
        let missing = KEPT_BYTES - self.head.len();
        let first = part.get(..missing).unwrap_or(part);
        self.head.extend_from_slice(first);
        let last = part.get(part.len().saturating_sub(KEPT_BYTES)..).unwrap_or(part);
        let surplus = (self.tail.len() + last.len()).saturating_sub(KEPT_BYTES);
        let _ = self.tail.split_to(surplus);
        self.tail.extend_from_slice(last);
    }

    fn line(self) -> Line {
        Line::TooLong { head: self.head.into(), tail: self.tail.freeze(), length: self.length }
    }
}

fn is_blank(line: &[u8]) -> bool {
    trimmed(line).end == 0
}

#[cfg(test)]
mod tests;
