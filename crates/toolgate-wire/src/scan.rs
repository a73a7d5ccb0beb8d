//! Scans JSON text in one pass: checks the grammar of RFC 8259 and finds the ends of values.
//!
//! Nothing recurses, so no input can exhaust the stack. Positions are offsets into the given text.

mod cursor;
mod fault;
mod nesting;
mod strings;

use bytes::Bytes;

use crate::error::WireError;
use cursor::Cursor;
use fault::Fault;
use nesting::{Container, Nesting};
pub(crate) use strings::plain_prefix;

/// A range of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    pub(crate) fn of(self, text: &[u8]) -> &[u8] {
        text.get(self.start..self.end).unwrap_or_default()
    }

    pub(crate) fn slice(self, text: &Bytes) -> Bytes {
        text.slice(self.start..self.end)
    }
}

/// The position of a member of an object. Both spans include the quotes of strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) key: Span,
    pub(crate) value: Span,
}

impl Member {
    /// The key's spelling, without its quotes.
    pub(crate) fn key_text(self, text: &[u8]) -> &[u8] {
        inside_quotes(self.key.of(text))
    }
}

/// A string without its quotes; anything else as it is.
pub(crate) fn inside_quotes(string: &[u8]) -> &[u8] {
    match string {
        [b'"', inner @ .., b'"'] => inner,
        other => other,
    }
}

/// The range of the text without JSON whitespace around it.
pub(crate) fn trimmed(text: &[u8]) -> Span {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    let end = text.iter().rposition(|b| !blank(b)).map_or(0, |last| last + 1);
    let start = text.iter().position(|b| !blank(b)).unwrap_or(0);
    Span { start, end }
}

/// Reads the text once, from start to end.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    max_depth: usize,
    open: Nesting,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a [u8], at: usize, max_depth: usize) -> Self {
        Self { text, at, max_depth, open: Nesting::default() }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Skips whitespace and returns the next byte without consuming it.
    #[inline]
    pub(crate) fn token(&mut self) -> u8 {
        let mut cursor = Cursor::new(self.text, self.at);
        let token = cursor.token();
        self.at = cursor.at();
        token
    }

    /// Enters an object; [`Self::next_key`] reads its members.
    pub(crate) fn open_object(&mut self) -> Result<(), WireError> {
        let opened = match self.token() {
            b'{' => self.open(Container::Object),
            _ => Err(Fault::Object),
        };
        opened.map_err(|fault| self.error(fault))
    }

    /// Enters an array; [`Self::next_element`] reads its elements.
    pub(crate) fn open_array(&mut self) -> Result<(), WireError> {
        let opened = match self.token() {
            b'[' => self.open(Container::Array),
            _ => Err(Fault::Array),
        };
        opened.map_err(|fault| self.error(fault))
    }

    /// The key of the next member, or `None` at the end of the object. Read the value next.
    #[inline]
    pub(crate) fn next_key(&mut self, first: &mut bool) -> Result<Option<Span>, WireError> {
        let first = std::mem::take(first);
        match self.token() {
            b'}' => {
                self.close();
                return Ok(None);
            }
            b',' if !first => self.at += 1,
            _ if first => {}
            _ => return Err(self.error(Fault::MemberEnd)),
        }
        self.key().map(Some)
    }

    /// The next element of an array, or `None` at its end.
    pub(crate) fn next_element(&mut self, first: &mut bool) -> Result<Option<Span>, WireError> {
        let first = std::mem::take(first);
        match self.token() {
            b']' => {
                self.close();
                return Ok(None);
            }
            b',' if !first => self.at += 1,
            _ if first => {}
            _ => return Err(self.error(Fault::ElementEnd)),
        }
        self.value().map(Some)
    }

    /// Checks that the last member ends here, by a comma or a brace.
    #[inline]
    pub(crate) fn member_ends(&mut self) -> Result<(), WireError> {
        match self.token() {
            b',' | b'}' => Ok(()),
            _ => Err(self.error(Fault::MemberEnd)),
        }
    }

    /// Skips one value.
    #[inline]
    pub(crate) fn value(&mut self) -> Result<Span, WireError> {
        self.token();
        let start = self.at;
        let room = self.max_depth.saturating_sub(self.open.depth());
        let mut cursor = Cursor::new(self.text, start);
        let skipped = cursor.value(room);
        let end = cursor.at();
        self.at = end;
        match skipped {
            Ok(()) => Ok(Span { start, end }),
            Err(fault) => Err(self.error(fault)),
        }
    }

    /// Checks that only whitespace is left.
    pub(crate) fn end(&mut self) -> Result<(), WireError> {
        self.token();
        if self.at < self.text.len() {
            return Err(self.error(Fault::TextEnd));
        }
        Ok(())
    }

    #[cold]
    fn error(&self, fault: Fault) -> WireError {
        fault.at(self.at, self.max_depth)
    }

    #[inline]
    fn open(&mut self, container: Container) -> Result<(), Fault> {
        if self.open.depth() >= self.max_depth {
            return Err(Fault::Depth);
        }
        self.at += 1;
        self.open.push(container);
        Ok(())
    }

    #[inline]
    fn close(&mut self) {
        self.at += 1;
        self.open.pop();
    }

    #[inline]
    fn key(&mut self) -> Result<Span, WireError> {
        let mut cursor = Cursor::new(self.text, self.at);
        let key = cursor.key();
        self.at = cursor.at();
        key.map_err(|fault| self.error(fault))
    }
}
