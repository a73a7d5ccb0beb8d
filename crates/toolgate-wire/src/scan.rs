//! One pass over JSON text: checks the grammar of RFC 8259 and says where values end.
//!
//! Nothing here recurses, so no input can exhaust the stack. Positions are offsets into the text
//! that the scanner was given.

mod nesting;
mod strings;

use bytes::Bytes;

use crate::error::{Reason, WireError};
use nesting::{Container, Nesting};
pub(crate) use strings::plain_run;

/// Stands for the end of the text. No token starts with a NUL, so the two need no telling apart.
const END: u8 = 0;

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

/// Where one member of an object stands. Both spans include the quotes of strings.
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
    let end = text
        .iter()
        .rposition(|b| !blank(b))
        .map_or(0, |last| last + 1);
    let start = text.iter().position(|b| !blank(b)).unwrap_or(0);
    Span { start, end }
}

/// Reads the text once, front to back.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    max_depth: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a [u8], at: usize, max_depth: usize) -> Self {
        Self {
            text,
            at,
            max_depth,
        }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Skips whitespace and shows the byte after it without taking it.
    #[inline]
    pub(crate) fn token(&mut self) -> u8 {
        while let Some(&byte) = self.text.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return byte;
            }
            self.at += 1;
        }
        END
    }

    /// Takes a `{`; `outer` containers are open around it.
    pub(crate) fn open_object(&mut self, outer: usize) -> Result<(), WireError> {
        if self.token() != b'{' {
            return Err(self.syntax("expected `{`"));
        }
        self.open(outer)
    }

    /// Takes a `[`; `outer` containers are open around it.
    pub(crate) fn open_array(&mut self, outer: usize) -> Result<(), WireError> {
        if self.token() != b'[' {
            return Err(self.syntax("expected `[`"));
        }
        self.open(outer)
    }

    /// The key of the next member, or `None` when the object closes. The value comes next.
    pub(crate) fn next_key(&mut self, first: &mut bool) -> Result<Option<Span>, WireError> {
        let token = self.token();
        if token == b'}' {
            self.at += 1;
            return Ok(None);
        }
        if !std::mem::take(first) {
            if token != b',' {
                return Err(self.syntax("expected `,` or `}`"));
            }
            self.at += 1;
        }
        self.key().map(Some)
    }

    /// The next element of an array, or `None` when the array closes.
    pub(crate) fn next_element(
        &mut self,
        first: &mut bool,
        outer: usize,
    ) -> Result<Option<Span>, WireError> {
        let token = self.token();
        let first = std::mem::take(first);
        if token == b']' {
            self.at += 1;
            return Ok(None);
        }
        if !first {
            if token != b',' {
                return Err(self.syntax("expected `,` or `]`"));
            }
            self.at += 1;
        }
        self.value(outer).map(Some)
    }

    /// One whole value with everything in it; `outer` containers are open around it.
    pub(crate) fn value(&mut self, outer: usize) -> Result<Span, WireError> {
        let mut token = self.token();
        let start = self.at;
        let mut open = Nesting::default();
        loop {
            match token {
                b'"' => self.string()?,
                b'{' => {
                    self.open(outer + open.depth())?;
                    open.push(Container::Object);
                    if self.token() != b'}' {
                        self.key()?;
                        token = self.token();
                        continue;
                    }
                }
                b'[' => {
                    self.open(outer + open.depth())?;
                    open.push(Container::Array);
                    token = self.token();
                    if token != b']' {
                        continue;
                    }
                }
                b'-' | b'0'..=b'9' => self.number()?,
                b't' => self.literal(b"true")?,
                b'f' => self.literal(b"false")?,
                b'n' => self.literal(b"null")?,
                _ => return Err(self.syntax("expected a value")),
            }
            if !self.goes_on(&mut open)? {
                return Ok(Span {
                    start,
                    end: self.at,
                });
            }
            token = self.token();
        }
    }

    /// Nothing but whitespace may be left.
    pub(crate) fn end(&mut self) -> Result<(), WireError> {
        self.token();
        if self.at < self.text.len() {
            return Err(self.syntax("expected the end of the text"));
        }
        Ok(())
    }

    pub(crate) fn syntax(&self, want: &'static str) -> WireError {
        WireError::new(self.at, Reason::Syntax(want))
    }

    /// After a value: closes what closes here. True when another value follows.
    #[inline]
    fn goes_on(&mut self, open: &mut Nesting) -> Result<bool, WireError> {
        while let Some(container) = open.innermost() {
            match (self.token(), container) {
                (b',', Container::Array) => {
                    self.at += 1;
                    return Ok(true);
                }
                (b',', Container::Object) => {
                    self.at += 1;
                    self.key()?;
                    return Ok(true);
                }
                (b'}', Container::Object) | (b']', Container::Array) => {
                    self.at += 1;
                    open.pop();
                }
                (_, Container::Array) => return Err(self.syntax("expected `,` or `]`")),
                (_, Container::Object) => return Err(self.syntax("expected `,` or `}`")),
            }
        }
        Ok(false)
    }

    fn open(&mut self, outer: usize) -> Result<(), WireError> {
        if outer >= self.max_depth {
            let limit = self.max_depth;
            return Err(WireError::new(self.at, Reason::TooDeep { limit }));
        }
        self.at += 1;
        Ok(())
    }

    fn key(&mut self) -> Result<Span, WireError> {
        if self.token() != b'"' {
            return Err(self.syntax("expected a key"));
        }
        let start = self.at;
        self.string()?;
        let end = self.at;
        if self.token() != b':' {
            return Err(self.syntax("expected `:`"));
        }
        self.at += 1;
        Ok(Span { start, end })
    }

    fn literal(&mut self, word: &'static [u8]) -> Result<(), WireError> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        if !rest.starts_with(word) {
            return Err(self.syntax("expected a value"));
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), WireError> {
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

    #[inline]
    fn take(&mut self, any_of: &[u8]) -> bool {
        let found = self.text.get(self.at).is_some_and(|b| any_of.contains(b));
        self.at += usize::from(found);
        found
    }

    #[inline]
    fn digits(&mut self) -> Result<(), WireError> {
        let start = self.at;
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.syntax("expected a digit"));
        }
        Ok(())
    }
}
