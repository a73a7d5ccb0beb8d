//! Skips strings in words and blocks, since most bytes of a message are in strings.

use super::fault::Fault;

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const HIGH: u64 = ONES << 7;
const LOW: u64 = !HIGH;

/// The length of short strings, which occur in every message: keys, names, quoted numbers.
const MAX_SHORT_LENGTH: usize = 16;

/// After this many words without a special byte, whole blocks are tried.
const WORDS_BEFORE_BLOCKS: usize = 2;

/// The position after a string whose opening quote is at `quote`, or the position of its error.
///
/// Both are returned in registers: the scanner's position is never stored in memory.
#[inline]
pub(super) fn string_end(text: &[u8], quote: usize) -> Result<usize, usize> {
    let mut at = quote + 1;
    while let Some(word) = word_at(text, at) {
        let hits = first_special(word);
        if hits != 0 {
            let place = first_hit(hits);
            if byte_of(word, place) == b'"' {
                return Ok(at + place + 1);
            }
            break;
        }
        at += 8;
        if at > quote + MAX_SHORT_LENGTH {
            break;
        }
    }
    long_string_end(text, at)
}

/// Like [`string_end`] for strings with escapes or of some length, from any position in it.
///
/// It advances by eight bytes whatever they contain: the position of the next word does not depend on this one, so the
/// processor can read both at the same time.
fn long_string_end(text: &[u8], start: usize) -> Result<usize, usize> {
    let mut at = start;
    let mut clean = 0;
    while let Some(word) = word_at(text, at) {
        let hits = specials(word);
        if hits == 0 {
            at += 8;
            clean += 1;
            if clean == WORDS_BEFORE_BLOCKS {
                at = skip_blocks(text, at);
                clean = 0;
            }
            continue;
        }
        clean = 0;
        match in_word(text, at, word, hits) {
            WordResult::On(next) => at = next,
            WordResult::End(end) => return Ok(end),
            WordResult::Fault(place) => return Err(place),
        }
    }
    end_by_bytes(text, at)
}

enum WordResult {
    On(usize),
    End(usize),
    Fault(usize),
}

/// Handles the special bytes of one word.
#[inline]
fn in_word(text: &[u8], at: usize, word: u64, mut hits: u64) -> WordResult {
    while hits != 0 {
        let place = first_hit(hits);
        match byte_of(word, place) {
            b'"' => return WordResult::End(at + place + 1),
            b'\\' => match escape_end(text, at + place) {
                Ok(end) if end < at + 8 => hits &= u64::MAX << ((end - at) * 8),
                Ok(end) => return WordResult::On(end),
                Err(fault) => return WordResult::Fault(fault),
            },
            _ => return WordResult::Fault(at + place),
        }
    }
    WordResult::On(at + 8)
}

/// The end of a string in the last bytes of the text, too few for a word.
fn end_by_bytes(text: &[u8], start: usize) -> Result<usize, usize> {
    let mut at = start;
    loop {
        match text.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at = escape_end(text, at)?,
            Some(0x20..) => at += 1,
            Some(_) | None => return Err(at),
        }
    }
}

/// The position after an escape, or the position of its error.
#[inline]
fn escape_end(text: &[u8], backslash: usize) -> Result<usize, usize> {
    let at = backslash + 1;
    match text.get(at) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 1),
        Some(b'u') => match text.get(at + 1..at + 5) {
            Some(four) if four.iter().all(u8::is_ascii_hexdigit) => Ok(at + 5),
            _ => Err(at),
        },
        _ => Err(at),
    }
}

/// The error of a string at the position that [`string_end`] returned.
#[cold]
pub(super) fn string_fault(text: &[u8], at: usize) -> Fault {
    match text.get(at) {
        None => Fault::StringEnd,
        Some(b'u') => Fault::HexDigits,
        Some(_) if at > 0 && text.get(at - 1) == Some(&b'\\') => Fault::Escape,
        Some(_) => Fault::ControlCharacter,
    }
}

/// How many bytes at the start of the text need no escape in a string: no quote, backslash or control character.
pub(crate) fn plain_prefix(text: &[u8]) -> usize {
    let mut at = skip_blocks(text, 0);
    while let Some(word) = word_at(text, at) {
        match specials(word) {
            0 => at += 8,
            hits => return at + first_hit(hits),
        }
    }
    let rest = text.get(at..).unwrap_or_default();
    let run = rest.iter().position(|&byte| is_special(byte));
    at + run.unwrap_or(rest.len())
}

/// The position after all blocks of 32 bytes from `from` without a special byte, in a form that the compiler
/// vectorizes.
fn skip_blocks(text: &[u8], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    let (blocks, _) = rest.as_chunks::<32>();
    let is_clean = |block: &&[u8; 32]| {
        let hit = |seen, &byte: &u8| seen | is_special(byte);
        !block.iter().fold(false, hit)
    };
    from + 32 * blocks.iter().take_while(is_clean).count()
}

#[inline]
#[expect(
    clippy::needless_bitwise_bool,
    reason = "lazy operators are branches, and branches cannot be vectorised"
)]
fn is_special(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

#[inline]
fn word_at(text: &[u8], at: usize) -> Option<u64> {
    let word = text.get(at..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*word))
}

/// Marks special bytes by their high bits. The borrow of a subtraction can wrongly mark bytes after a real one, never
/// before: only the lowest mark is reliable. It takes fewer steps than [`specials`].
#[inline]
fn first_special(word: u64) -> u64 {
    let quote = word ^ (ONES * u64::from(b'"'));
    let backslash = word ^ (ONES * u64::from(b'\\'));
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let quote = quote.wrapping_sub(ONES) & !quote;
    let backslash = backslash.wrapping_sub(ONES) & !backslash;
    (control | quote | backslash) & HIGH
}

/// Marks each special byte by its high bit, exactly.
#[inline]
fn specials(word: u64) -> u64 {
    let quote = nonzero(word ^ (ONES * u64::from(b'"')));
    let backslash = nonzero(word ^ (ONES * u64::from(b'\\')));
    let printable = nonzero(word & (ONES * 0xe0));
    !(quote & backslash & printable) & HIGH
}

/// The high bit of each byte that is not zero; the other bits are arbitrary.
#[inline]
fn nonzero(word: u64) -> u64 {
    ((word & LOW) + LOW) | word
}

#[inline]
fn first_hit(hits: u64) -> usize {
    (hits.trailing_zeros() / 8) as usize
}

#[inline]
fn byte_of(word: u64, place: usize) -> u8 {
    (word >> (place * 8)).to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_judged_alike_by_word_and_alone() {
        for byte in 0..=255 {
            for place in 0..8 {
                for filler in [0x00, 0x1f, 0x20, b'"', b'#', b'\\', 0x7f, 0x80, 0xff] {
                    let mut bytes = [filler; 8];
                    bytes[place] = byte;
                    let word = u64::from_le_bytes(bytes);
                    let hits = specials(word);
                    assert_eq!(first_hit(hits), first_hit(first_special(word)));
                    let hits = hits.to_le_bytes();
                    for (hit, byte) in hits.into_iter().zip(bytes) {
                        assert_eq!(hit, if is_special(byte) { 0x80 } else { 0 }, "{bytes:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn finds_the_end_at_every_length_and_place() {
        for length in 0..150 {
            let plain = format!("..\"{}\" tail", "x".repeat(length));
            assert_eq!(string_end(plain.as_bytes(), 2), Ok(length + 4));
            assert_eq!(plain_prefix(plain.get(3..).unwrap().as_bytes()), length);
            for at in 0..length {
                for escape in ["\\n", "\\\"", "\\\\", "\\u0041", "\\ud800", "\\\\\\\""] {
                    let inner = format!("{}{escape}{}", "x".repeat(at), "y".repeat(length - at));
                    for behind in ["", "z", "\",\"more\"", "\\\"........"] {
                        let text = format!("\"{inner}\"{behind}");
                        let end = inner.len() + 2;
                        assert_eq!(string_end(text.as_bytes(), 0), Ok(end), "{text}");
                    }
                }
            }
        }
    }

    #[test]
    fn finds_the_fault_at_every_place() {
        let cases = [
            ("\n", 0, Fault::ControlCharacter),
            ("\u{1f}", 0, Fault::ControlCharacter),
            ("\\x", 1, Fault::Escape),
            ("\\u00g0", 1, Fault::HexDigits),
        ];
        for at in 0..100 {
            for (bad, offset, fault) in cases {
                for behind in [0, 3, 40] {
                    let text = format!("\"{}{bad}{}\"", "x".repeat(at), "y".repeat(behind));
                    let place = 1 + at + offset;
                    assert_eq!(string_end(text.as_bytes(), 0), Err(place), "{text}");
                    assert_eq!(string_fault(text.as_bytes(), place), fault, "{text}");
                }
            }
            let open = format!("\"{}", "x".repeat(at));
            assert_eq!(string_end(open.as_bytes(), 0), Err(open.len()));
            let open = format!("\"{}\\", "x".repeat(at));
            assert_eq!(string_end(open.as_bytes(), 0), Err(open.len()));
            assert_eq!(string_fault(open.as_bytes(), open.len()), Fault::StringEnd);
        }
    }
}
