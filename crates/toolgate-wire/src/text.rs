//! Converts between text and its spelling as a JSON string.

use std::borrow::Cow;

use crate::scan::plain_prefix;

/// The value of a string as bytes, from its spelling without quotes.
///
/// Lone surrogates (`"\ud800"`) are valid JSON but not valid Unicode text. They become the three bytes that UTF-8 would
/// use for them, so equal strings stay equal and `from_utf8` refuses them.
pub(crate) fn unescape(spelling: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', spelling).is_none() {
        return Cow::Borrowed(spelling);
    }
    let mut out = Vec::with_capacity(spelling.len());
    let mut rest = spelling;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (plain, escape) = rest.split_at(at);
        out.extend_from_slice(plain);
        rest = push_escape(&mut out, escape);
    }
    out.extend_from_slice(rest);
    Cow::Owned(out)
}

/// Decodes the escape at the start of `text` and returns the rest.
fn push_escape<'a>(out: &mut Vec<u8>, text: &'a [u8]) -> &'a [u8] {
    if let Some((high, after)) = unicode_escape(text) {
        return push_unicode(out, high, after);
    }
    let Some((_, [letter, after @ ..])) = text.split_first() else {
        return &[];
    };
    out.push(match letter {
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        other => *other,
    });
    after
}

fn push_unicode<'a>(out: &mut Vec<u8>, unit: u32, after: &'a [u8]) -> &'a [u8] {
    if (0xd800..0xdc00).contains(&unit)
        && let Some((low @ 0xdc00..0xe000, after_both)) = unicode_escape(after)
    {
        push_code_point(out, 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
        return after_both;
    }
    push_code_point(out, unit);
    after
}

/// The code unit of a `\uXXXX` at the start of the text, and the rest.
fn unicode_escape(text: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, after) = text.strip_prefix(b"\\u")?.split_first_chunk::<4>()?;
    let digits = std::str::from_utf8(digits).ok()?;
    Some((u32::from_str_radix(digits, 16).ok()?, after))
}

fn push_code_point(out: &mut Vec<u8>, point: u32) {
    if let Some(c) = char::from_u32(point) {
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        return;
    }
    // Only a lone surrogate gets here: U+D800 to U+DFFF, three bytes.
    let [.., high, low] = point.to_be_bytes();
    out.extend_from_slice(&[
        0xe0 | (high >> 4),
        0x80 | ((high & 0x0f) << 2) | (low >> 6),
        0x80 | (low & 0x3f),
    ]);
}

/// Writes text as a JSON string.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, special) = rest.split_at(plain_prefix(rest));
        out.extend_from_slice(plain);
        let Some((&byte, after)) = special.split_first() else {
            break;
        };
        write_escape(out, byte);
        rest = after;
    }
    out.push(b'"');
}

fn write_escape(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        control => out.extend_from_slice(format!("\\u{control:04x}").as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_every_escape() {
        let spelled = br#"a\"\\\/\b\f\n\r\t\u0041\u00e9\ud83d\ude00z"#;
        let decoded = "a\"\\/\u{8}\u{c}\n\r\tA\u{e9}\u{1f600}z";
        assert_eq!(&*unescape(spelled), decoded.as_bytes());
    }

    #[test]
    fn pairs_are_joined_at_every_edge() {
        for (spelled, decoded) in [
            ("\\ud800\\udc00", '\u{10000}'),
            ("\\uD800\\uDFFF", '\u{103ff}'),
            ("\\udbff\\udc00", '\u{10fc00}'),
            ("\\uDBFF\\udfff", '\u{10ffff}'),
            ("\\ud7ff", '\u{d7ff}'),
            ("\\ue000", '\u{e000}'),
            ("\\uffff", '\u{ffff}'),
        ] {
            assert_eq!(&*unescape(spelled.as_bytes()), decoded.to_string().as_bytes(), "{spelled}");
        }
    }

    #[test]
    fn lone_surrogates_are_no_text_but_stay_distinct() {
        for spelled in ["\\ud800", "\\udfff", "\\ud800x", "\\ud800\\ud800", "\\udc00\\ud800"] {
            assert!(std::str::from_utf8(&unescape(spelled.as_bytes())).is_err(), "{spelled}");
        }
        assert_eq!(unescape(b"\\ud800"), unescape(b"\\uD800"));
        assert_ne!(unescape(b"\\ud800"), unescape(b"\\ud801"));
    }

    #[test]
    fn writes_what_serde_json_reads() {
        let text: String = (0..300).filter_map(char::from_u32).chain("😀\"\\".chars()).collect();
        let mut out = Vec::new();
        write_string(&mut out, &text);
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
    }
}
