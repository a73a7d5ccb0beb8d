//! Strings: skipped in words and blocks, because most bytes of a message are inside of one.

use super::Scanner;
use crate::error::WireError;

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const HIGH: u64 = ONES << 7;

/// Words that are looked at one by one before whole blocks are tried: most strings are short.
const SHORT: usize = 4;

impl Scanner<'_> {
    /// A string, from its opening quote to after its closing one.
    #[inline]
    pub(super) fn string(&mut self) -> Result<(), WireError> {
        self.at += 1;
        loop {
            self.at = plain_run(self.text, self.at);
            match self.text.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(_) => return Err(self.syntax("control character in a string")),
                None => return Err(self.syntax("string without an end")),
            }
        }
    }

    #[inline]
    fn escape(&mut self) -> Result<(), WireError> {
        self.at += 1;
        match self.text.get(self.at) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                let digits = self.text.get(self.at + 1..self.at + 5);
                if !digits.is_some_and(|four| four.iter().all(u8::is_ascii_hexdigit)) {
                    return Err(self.syntax("expected four hex digits"));
                }
                self.at += 5;
            }
            _ => return Err(self.syntax("unknown escape")),
        }
        Ok(())
    }
}

/// The first place at or after `from` that holds a quote, a backslash or a control character; the
/// length of the text if there is none.
#[inline]
pub(crate) fn plain_run(text: &[u8], from: usize) -> usize {
    let mut at = from;
    for _ in 0..SHORT {
        match next_word(text, at) {
            Some(0) => at += 8,
            Some(hits) => return at + first_hit(hits),
            None => return plain_bytes(text, at),
        }
    }
    plain_blocks(text, at)
}

/// Long strings: blocks of 32 bytes, in a form that the compiler turns into vector instructions.
fn plain_blocks(text: &[u8], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    let (blocks, _) = rest.as_chunks::<32>();
    let clean = blocks
        .iter()
        .take_while(|block| {
            !block
                .iter()
                .fold(false, |hit, &byte| hit | is_special(byte))
        })
        .count();
    let mut at = from + clean * 32;
    loop {
        match next_word(text, at) {
            Some(0) => at += 8,
            Some(hits) => return at + first_hit(hits),
            None => return plain_bytes(text, at),
        }
    }
}

fn plain_bytes(text: &[u8], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    let run = rest.iter().position(|&byte| is_special(byte));
    from + run.unwrap_or(rest.len())
}

#[inline]
fn is_special(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

/// The special bytes of the eight at `at`, as in [`specials`]; `None` if fewer than eight are left.
#[inline]
fn next_word(text: &[u8], at: usize) -> Option<u64> {
    let word = text.get(at..)?.first_chunk::<8>()?;
    Some(specials(u64::from_le_bytes(*word)))
}

/// Marks special bytes by their high bit. The borrow of a subtraction can mark bytes after a real
/// hit by mistake, never before one: only the lowest mark is to be trusted.
#[inline]
fn specials(word: u64) -> u64 {
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let quote = quote.wrapping_sub(ONES) & !quote;
    let backslash = backslash.wrapping_sub(ONES) & !backslash;
    (control | quote | backslash) & HIGH
}

#[inline]
fn first_hit(hits: u64) -> usize {
    (hits.trailing_zeros() / 8) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_first_special_byte_at_every_place_and_length() {
        for special in [b'"', b'\\', 0, 0x1f, b'\n'] {
            for length in 0..150 {
                for at in 0..length {
                    for filler in [b'a', b' ', b'!', b'#', 0x7f, 0x80, 0xff, b'[', b']'] {
                        let mut text = vec![filler; length];
                        text[at] = special;
                        assert_eq!(plain_run(&text, 0), at);
                        assert_eq!(plain_run(&text, at + 1), length);
                    }
                }
            }
        }
    }
}
