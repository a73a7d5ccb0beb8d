//! The innermost loop: skips and checks one value.
//!
//! A cursor lives in the registers of the function that created it, so every function that takes its address must be
//! inlined.

use super::Span;
use super::fault::Fault;
use super::nesting::{Container, Nesting};
use super::strings::{string_end, string_fault};

/// Stands for the end of the text. No token starts with a NUL, so the two need not be told apart.
const END_OF_TEXT: u8 = 0;

#[derive(Debug)]
pub(super) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

#[expect(
    clippy::inline_always,
    reason = "a call by reference would put the cursor into memory: 15 % of the time, measured"
)]
impl<'a> Cursor<'a> {
    #[inline]
    pub(super) fn new(text: &'a [u8], at: usize) -> Self {
        Self { text, at }
    }

    #[inline]
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Skips whitespace and returns the next byte without consuming it.
    #[inline(always)]
    pub(super) fn token(&mut self) -> u8 {
        while let Some(&byte) = self.text.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return byte;
            }
            self.at += 1;
        }
        END_OF_TEXT
    }

    /// Skips a key with its colon. Returns the position of the key.
    #[inline(always)]
    pub(super) fn key(&mut self) -> Result<Span, Fault> {
        if self.token() != b'"' {
            return Err(Fault::Key);
        }
        let start = self.at;
        self.string()?;
        let end = self.at;
        if self.token() != b':' {
            return Err(Fault::Colon);
        }
        self.at += 1;
        Ok(Span { start, end })
    }

    /// Skips a value with at most `room` levels of nesting.
    #[inline]
    pub(super) fn value(&mut self, room: usize) -> Result<(), Fault> {
        let mut open = Nesting::default();
        loop {
            if self.begin(&mut open, room)? && !self.goes_on(&mut open)? {
                return Ok(());
            }
        }
    }

    /// Skips a scalar, or enters a container up to its first value. True if a value is complete.
    #[inline(always)]
    fn begin(&mut self, open: &mut Nesting, room: usize) -> Result<bool, Fault> {
        match self.token() {
            b'"' => self.string()?,
            b'{' => {
                self.open(open, Container::Object, room)?;
                if self.token() != b'}' {
                    self.key()?;
                    return Ok(false);
                }
                self.close(open);
            }
            b'[' => {
                self.open(open, Container::Array, room)?;
                if self.token() != b']' {
                    return Ok(false);
                }
                self.close(open);
            }
            b'-' | b'0'..=b'9' => self.number()?,
            b't' => self.literal(b"true")?,
            b'f' => self.literal(b"false")?,
            b'n' => self.literal(b"null")?,
            _ => return Err(Fault::Value),
        }
        Ok(true)
    }

    /// After a value: closes the containers that end here. True if another value follows.
    #[inline(always)]
    fn goes_on(&mut self, open: &mut Nesting) -> Result<bool, Fault> {
        while open.depth() > 0 {
            match (self.token(), open.innermost()) {
                (b',', Container::Array) => {
                    self.at += 1;
                    return Ok(true);
                }
                (b',', Container::Object) => {
                    self.at += 1;
                    self.key()?;
                    return Ok(true);
                }
                (b'}', Container::Object) | (b']', Container::Array) => self.close(open),
                (_, Container::Array) => return Err(Fault::ElementEnd),
                (_, Container::Object) => return Err(Fault::MemberEnd),
            }
        }
        Ok(false)
    }

    #[inline]
    fn open(&mut self, open: &mut Nesting, what: Container, room: usize) -> Result<(), Fault> {
        if open.depth() >= room {
            return Err(Fault::Depth);
        }
        self.at += 1;
        open.push(what);
        Ok(())
    }

    #[inline]
    fn close(&mut self, open: &mut Nesting) {
        self.at += 1;
        open.pop();
    }

    #[inline(always)]
    fn string(&mut self) -> Result<(), Fault> {
        match string_end(self.text, self.at) {
            Ok(end) => {
                self.at = end;
                Ok(())
            }
            Err(at) => {
                self.at = at;
                Err(string_fault(self.text, at))
            }
        }
    }

    #[inline]
    fn literal(&mut self, word: &'static [u8]) -> Result<(), Fault> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        if !rest.starts_with(word) {
            return Err(Fault::Value);
        }
        self.at += word.len();
        Ok(())
    }

    #[inline(always)]
    fn number(&mut self) -> Result<(), Fault> {
        self.take(b"-");
        if !self.take(b"0") {
            self.digits()?;
        }
        if self.take(b".") {
            self.digits()?;
        }
        if self.take(b"eE") {
            self.take(b"+-");
            self.digits()?;
        }
        Ok(())
    }

    #[inline(always)]
    fn take(&mut self, any_of: &'static [u8]) -> bool {
        let found = self.text.get(self.at).is_some_and(|b| any_of.contains(b));
        self.at += usize::from(found);
        found
    }

    #[inline(always)]
    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start {
            return Err(Fault::Digit);
        }
        Ok(())
    }
}
