//! A body that comes in chunks.
//!
//! Strict, so that nobody can disagree about where it ends: lines end in CRLF, sizes are hexadecimal digits and
//! nothing else, and there is an end to what may be said beside the data.

use bytes::{Buf as _, Bytes, BytesMut};
use memchr::memchr;

/// The most digits of a size: what 64 bits can hold.
const DIGITS: usize = 16;

/// The most bytes of chunk extensions and trailers, all together. Nobody reads them.
const ASIDE: usize = 16 * 1024;

/// Where the decoder stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// Data comes, or is there.
    Data,
    /// Within what frames it: more is needed to go on.
    Framing,
    End,
}

#[derive(Debug)]
enum State {
    /// A line with a size, or one more after that of the data's end.
    Size,
    Data(u64),
    /// The end of a line after the data.
    DataEnd,
    Trailers,
    End,
}

/// Takes a body out of its chunks.
#[derive(Debug)]
pub(super) struct Chunked {
    state: State,
    /// How much of an unfinished line was looked at.
    scanned: usize,
    aside: usize,
}

impl Chunked {
    pub(super) fn new() -> Self {
        Self { state: State::Size, scanned: 0, aside: 0 }
    }

    /// Goes over what frames the data, as far as it is there. What is wrong stays, and is told again.
    pub(super) fn advance(&mut self, input: &mut BytesMut) -> Result<At, &'static str> {
        loop {
            match self.state {
                State::End => return Ok(At::End),
                State::Data(0) => self.state = State::DataEnd,
                State::Data(_) => return Ok(At::Data),
                State::DataEnd => match input.get(..2) {
                    Some(b"\r\n") => {
                        input.advance(2);
                        self.state = State::Size;
                    }
                    None if matches!(&**input, [] | [b'\r']) => return Ok(At::Framing),
                    _ => return Err("a chunk is longer than it says"),
                },
                State::Size => {
                    let Some(length) = self.line(input)? else { return Ok(At::Framing) };
                    let line = input.get(..length).unwrap_or_default();
                    let (size, aside) = size(line)?;
                    self.note(aside)?;
                    input.advance(length + 2);
                    self.state = if size == 0 { State::Trailers } else { State::Data(size) };
                }
                State::Trailers => {
                    let Some(length) = self.line(input)? else { return Ok(At::Framing) };
                    self.note(length)?;
                    input.advance(length + 2);
                    if length == 0 {
                        self.state = State::End;
                    }
                }
            }
        }
    }

    /// What is there of the data where the decoder stands.
    pub(super) fn data(&mut self, input: &mut BytesMut) -> Bytes {
        let State::Data(left) = &mut self.state else { return Bytes::new() };
        let length = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
        *left -= length as u64;
        input.split_to(length).freeze()
    }

    /// How long the line is that begins here, without its end; `None` if that has not come.
    fn line(&mut self, input: &BytesMut) -> Result<Option<usize>, &'static str> {
        let new = input.get(self.scanned..).unwrap_or_default();
        let Some(end) = memchr(b'\n', new) else {
            self.scanned = input.len();
            if input.len() > ASIDE {
                return Err("a line between its chunks has no end");
            }
            return Ok(None);
        };
        let end = self.scanned + end;
        let line = input.get(..end).unwrap_or_default().split_last();
        let Some((b'\r', line)) = line.filter(|(_, line)| memchr(b'\r', line).is_none()) else {
            return Err("a line between its chunks does not end as lines do");
        };
        self.scanned = 0;
        Ok(Some(line.len()))
    }

    fn note(&mut self, aside: usize) -> Result<(), &'static str> {
        self.aside += aside;
        if self.aside > ASIDE { Err("it says too much beside its chunks") } else { Ok(()) }
    }
}

/// The size in a line, and how much else stands there.
fn size(line: &[u8]) -> Result<(u64, usize), &'static str> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    if !(1..=DIGITS).contains(&digits) {
        return Err("a chunk without a size");
    }
    let (digits, rest) = line.split_at_checked(digits).unwrap_or_default();
    let value = |byte: &u8| u64::from(char::from(*byte).to_digit(16).unwrap_or_default());
    let size = digits.iter().fold(0, |size, digit| (size << 4) | value(digit));
    match rest.trim_ascii_start() {
        [] if rest.is_empty() => Ok((size, 0)),
        [b';', extension @ ..] if extension.iter().all(|byte| *byte >= b' ' || *byte == b'\t') => {
            Ok((size, rest.len()))
        }
        _ => Err("a chunk with a size that is none"),
    }
}
