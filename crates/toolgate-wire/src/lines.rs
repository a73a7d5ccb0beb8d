//! Framing by newlines: splits what arrives into lines without a copy.

use bytes::{Bytes, BytesMut};

use crate::scan::trimmed;

/// Room that is kept free for the next read.
const SPARE: usize = 16 * 1024;

/// A buffer that grew beyond this is given back once its long line is gone.
const SWOLLEN: usize = 256 * 1024;

/// How much of either end of an over-long line is kept.
const END: usize = 4096;

/// One line of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A line, with its newline if there was one.
    Whole(Bytes),
    /// A line beyond the limit. It was dropped as it came in; its ends are kept for
    /// [`salvage_id`](crate::salvage_id).
    TooLong {
        /// The first 4 KiB.
        head: Bytes,
        /// The last 4 KiB.
        tail: Bytes,
        /// How long it was, its newline not counted.
        length: u64,
    },
}

/// Splits a stream into lines. Read into [`buffer`](Lines::buffer), then take lines with
/// [`next`](Lines::next) until there are no more. Blank lines are left out.
#[derive(Debug)]
pub struct Lines {
    buffer: BytesMut,
    max_bytes: usize,
    /// No newline stands before this place of the buffer.
    searched: usize,
    swollen: bool,
    skipped: Option<Skipped>,
}

/// An over-long line of which the end has not come yet.
#[derive(Debug, Default)]
struct Skipped {
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

    /// Where to append what was read: with 16 KiB of room or more.
    pub fn buffer(&mut self) -> &mut BytesMut {
        if self.swollen && self.buffer.len() <= SPARE {
            let mut fresh = BytesMut::with_capacity(2 * SPARE);
            fresh.extend_from_slice(&self.buffer);
            self.buffer = fresh;
            self.swollen = false;
        }
        self.buffer.reserve(SPARE);
        self.swollen |= self.buffer.capacity() > SWOLLEN;
        &mut self.buffer
    }

    /// The next line that has come in whole.
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

    /// At the end of the stream: what [`next`](Lines::next) would give, then a last line without a
    /// newline.
    pub fn finish(&mut self) -> Option<Line> {
        let line = self.next();
        if line.is_some() {
            return line;
        }
        let rest = self.buffer.split();
        self.searched = 0;
        self.ended(rest)
    }

    /// What a line is once all of it has come; `None` if it is blank.
    fn ended(&mut self, line: BytesMut) -> Option<Line> {
        let length = line.strip_suffix(b"\n").unwrap_or(&line).len();
        let mut skipped = match self.skipped.take() {
            Some(skipped) => skipped,
            None if length > self.max_bytes => Skipped::default(),
            None if is_blank(&line) => return None,
            None => return Some(Line::Whole(line.freeze())),
        };
        skipped.add(line.get(..length).unwrap_or_default());
        Some(skipped.line())
    }

    /// Lets go of a line that is too long already, though its end has not come.
    fn skip_if_too_long(&mut self) {
        if self.skipped.is_none() && self.buffer.len() > self.max_bytes {
            self.skipped = Some(Skipped::default());
        }
        if let Some(skipped) = &mut self.skipped {
            skipped.add(&self.buffer);
            self.buffer.clear();
            self.searched = 0;
        }
    }
}

impl Skipped {
    fn add(&mut self, part: &[u8]) {
        self.length += part.len() as u64;
        let missing = END - self.head.len();
        let first = part.get(..missing).unwrap_or(part);
        self.head.extend_from_slice(first);
        let last = part.get(part.len().saturating_sub(END)..).unwrap_or(part);
        let surplus = (self.tail.len() + last.len()).saturating_sub(END);
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
