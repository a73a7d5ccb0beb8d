//! Strings: skipped in words and blocks, because most bytes of a message are inside of one.

use super::fault::Fault;

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const HIGH: u64 = ONES << 7;
const LOW: u64 = !HIGH;

/// Strings up to this length are met in every message: keys, names, numbers in quotes.
const SHORT: usize = 16;

/// After this many words without a special byte, whole blocks are tried.
const CLEAN: usize = 2;

/// The place behind a string whose opening quote is at `quote`, or the place of its fault.
///
/// Both come back in registers: the scanner's position never goes through memory.
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
        if at > quote + SHORT {
            break;
        }
    }
    long_string_end(text, at)
}

/// The same for strings with escapes or of some length, from any place in it on.
///
/// It goes on by eight bytes whatever they hold: where the next word starts does not depend on
/// what was found in this one, so the processor can look at both at once.
fn long_string_end(text: &[u8], start: usize) -> Result<usize, usize> {
    let mut at = start;
    let mut clean = 0;
    while let Some(word) = word_at(text, at) {
        let hits = specials(word);
        if hits == 0 {
            at += 8;
            clean += 1;
            if clean == CLEAN {
                at = skip_blocks(text, at);
                clean = 0;
            }
            continue;
        }
        clean = 0;
        match in_word(text, at, word, hits) {
            Step::On(next) => at = next,
            Step::End(end) => return Ok(end),
            Step::Fault(place) => return Err(place),
        }
    }
    end_by_bytes(text, at)
}

enum Step {
    On(usize),
    End(usize),
    Fault(usize),
}

/// Goes over the special bytes of one word.
#[inline]
fn in_word(text: &[u8], at: usize, word: u64, mut hits: u64) -> Step {
    while hits != 0 {
        let place = first_hit(hits);
        match byte_of(word, place) {
            b'"' => return Step::End(at + place + 1),
            b'\\' => match escape_end(text, at + place) {
                Ok(end) if end < at + 8 => hits &= u64::MAX << ((end - at) * 8),
                Ok(end) => return Step::On(end),
                Err(fault) => return Step::Fault(fault),
            },
            _ => return Step::Fault(at + place),
        }
    }
    Step::On(at + 8)
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

/// The place behind an escape, or the place of its fault.
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

/// What is wrong with a string at the place that [`string_end`] gave.
#[cold]
pub(super) fn string_fault(text: &[u8], at: usize) -> Fault {
    match text.get(at) {
        None => Fault::StringEnd,
        Some(b'u') => Fault::HexDigits,
        Some(_) if at > 0 && text.get(at - 1) == Some(&b'\\') => Fault::Escape,
        Some(_) => Fault::ControlCharacter,
    }
}

/// How many bytes at the start of the text need no escape in a string: not a quote, a backslash or
/// a control character.
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

/// The place behind all blocks of 32 bytes from `from` on that hold no special byte, in a form
/// that the compiler turns into vector instructions.
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

/// Marks special bytes by their high bits. The borrow of a subtraction can mark bytes behind a real
/// hit by mistake, never before one: only the lowest mark is to be trusted. It takes fewer steps
/// than [`specials`].
#[inline]
fn first_special(word: u64) -> u64 {
    let quote = word ^ (ONES * u64::from(b'"'));
    let backslash = word ^ (ONES * u64::from(b'\\'));
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let quote = quote.wrapping_sub(ONES) & !quote;
    let backslash = backslash.wrapping_sub(ONES) & !backslash;
    (control | quote | backslash) & HIGH
}

/// Marks each special byte by its high bit: no byte too many, none too few.
#[inline]
fn specials(word: u64) -> u64 {
    let quote = nonzero(word ^ (ONES * u64::from(b'"')));
    let backslash = nonzero(word ^ (ONES * u64::from(b'\\')));
    let printable = nonzero(word & (ONES * 0xe0));
    !(quote & backslash & printable) & HIGH
}

/// The high bit of each byte that is not zero; the other bits mean nothing.
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
