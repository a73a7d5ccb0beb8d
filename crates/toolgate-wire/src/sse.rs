//! Splits a byte stream into server-sent events, without copying events with one line of data.

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::single_line::without_breaks;

/// The free capacity for the next read.
const READ_CAPACITY: usize = 16 * 1024;

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The data; several lines are joined by newlines.
    pub data: Bytes,
    /// The name; `message` if there is none.
    pub name: Option<Bytes>,
    /// The id after which a stream can be resumed.
    pub id: Option<Bytes>,
    /// The time to wait before reconnecting, in milliseconds.
    pub retry: Option<u64>,
}

/// An event is larger than the limit: the stream cannot be read any further.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event of more than {0} bytes")]
pub struct TooLong(pub usize);

/// Splits a stream into events. Read into [`buffer`](Events::buffer), then take events with [`next`](Events::next)
/// until it returns `None`.
#[derive(Debug)]
pub struct Events {
    buffer: BytesMut,
    max_bytes: usize,
    /// No line ends before this position of the buffer.
    searched: usize,
    /// The last line ended with a carriage return: a following newline belongs to it.
    after_return: bool,
    begun: bool,
    event: Event,
    has_data: bool,
    /// The data of several lines.
    joined: BytesMut,
}

impl Events {
    /// More than `max_bytes` of data in an event is an error.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            max_bytes,
            searched: 0,
            after_return: false,
            begun: false,
            event: Event::default(),
            has_data: false,
            joined: BytesMut::new(),
        }
    }

    /// Where to append received bytes: it has at least 16 KiB of free capacity.
    pub fn buffer(&mut self) -> &mut BytesMut {
        self.buffer.reserve(READ_CAPACITY);
        &mut self.buffer
    }

    /// The next complete event; `None` if more bytes are needed. An incomplete event at the end of the stream is
    /// dropped.
    #[expect(
        clippy::should_implement_trait,
        reason = "None means not yet, where an iterator would mean never"
    )]
    pub fn next(&mut self) -> Result<Option<Event>, TooLong> {
        while let Some(line) = self.line() {
            if line.is_empty() {
                let mut event = std::mem::take(&mut self.event);
                if !self.joined.is_empty() {
                    event.data = std::mem::take(&mut self.joined).freeze();
                }
                if std::mem::take(&mut self.has_data) {
                    return Ok(Some(event));
                }
                // An event without data is returned for its id or its retry time.
                if event.retry.is_some() || event.id.is_some() {
                    return Ok(Some(event));
                }
                continue;
            }
            self.field(&line);
            if self.event.data.len().max(self.joined.len()) > self.max_bytes {
                return Err(TooLong(self.max_bytes));
            }
        }
        if self.buffer.len() > self.max_bytes.saturating_add(READ_CAPACITY) {
            return Err(TooLong(self.max_bytes));
        }
        Ok(None)
    }

    fn line(&mut self) -> Option<Bytes> {
        if self.after_return && !self.buffer.is_empty() {
            self.after_return = false;
            if self.buffer.first() == Some(&b'\n') {
                let _ = self.buffer.split_to(1);
            }
        }
        let fresh = self.buffer.get(self.searched..).unwrap_or_default();
        let Some(found) = memchr::memchr2(b'\n', b'\r', fresh) else {
            self.searched = self.buffer.len();
            return None;
        };
        let end = self.searched + found;
        let mut line = self.buffer.split_to(end + 1);
        self.after_return = line.last() == Some(&b'\r');
        self.searched = 0;
        line.truncate(end);
        let mut line = line.freeze();
        if !std::mem::replace(&mut self.begun, true) && line.starts_with(b"\xEF\xBB\xBF") {
            line = line.slice(3..);
        }
        Some(line)
    }

    fn field(&mut self, line: &Bytes) {
        let colon = memchr::memchr(b':', line).unwrap_or(line.len());
        let mut value = line.slice((colon + 1).min(line.len())..);
        if value.first() == Some(&b' ') {
            value = value.slice(1..);
        }
        match line.get(..colon) {
            Some(b"data") => self.data(value),
            Some(b"event") => self.event.name = Some(value),
            Some(b"id") if !value.contains(&0) => self.event.id = Some(value),
            Some(b"retry") => {
                let digits = std::str::from_utf8(&value).ok();
                self.event.retry = digits.and_then(|digits| digits.parse().ok());
            }
            // A comment or an unknown field.
            _ => {}
        }
    }

    fn data(&mut self, value: Bytes) {
        if !std::mem::replace(&mut self.has_data, true) {
            self.event.data = value;
            return;
        }
        if self.joined.is_empty() {
            // With a newline, so that an empty first line is not lost.
            self.joined.put(std::mem::take(&mut self.event.data));
        }
        self.joined.put_u8(b'\n');
        self.joined.put(value);
    }
}

/// The bytes of an event whose data is one JSON message, on one line: a line break would end the data.
#[must_use]
pub fn event(message: &[u8], id: Option<&str>) -> Bytes {
    let mut out = BytesMut::with_capacity(message.len() + 32);
    if let Some(id) = id {
        out.put_slice(b"id: ");
        out.put_slice(id.as_bytes());
        out.put_u8(b'\n');
    }
    out.put_slice(b"data: ");
    out.put_slice(&without_breaks(message));
    out.put_slice(b"\n\n");
    out.freeze()
}

/// A comment without meaning, which keeps the connection open.
pub const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

#[cfg(test)]
mod tests;
