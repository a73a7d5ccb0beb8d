//! Removes line breaks: a message, and every value that can be part of one, is one line.

use std::borrow::Cow;

use bytes::Bytes;

/// The text without line breaks: each CR and LF in it becomes a space, those at its end are removed.
///
/// JSON allows both characters only between tokens, so the meaning of a valid message does not change. The meaning of
/// invalid JSON may change, but it never becomes two lines.
#[must_use]
pub fn single_line(mut text: Bytes) -> Bytes {
    let end = text.iter().rposition(|byte| !is_break(*byte)).map_or(0, |last| last + 1);
    text.truncate(end);
    if let Cow::Owned(single) = without_breaks(&text) {
        text = single.into();
    }
    text
}

/// The text with a space for each CR and LF. All offsets stay the same.
pub(crate) fn without_breaks(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr2(b'\n', b'\r', text).is_none() {
        return Cow::Borrowed(text);
    }
    text.iter().map(|byte| if is_break(*byte) { b' ' } else { *byte }).collect::<Vec<_>>().into()
}

fn is_break(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_one_line() {
        for (text, line) in [
            ("{}", "{}"),
            ("{}\n", "{}"),
            ("{}\r\n\n", "{}"),
            ("{\r\n\"a\":\r1\n}\n", "{  \"a\": 1 }"),
            ("\n{}", " {}"),
            ("\r\n", ""),
            ("", ""),
        ] {
            assert_eq!(single_line(Bytes::from(text)), line, "{text:?}");
        }
    }

    #[test]
    fn a_text_without_line_breaks_is_not_copied() {
        let text = Bytes::from(vec![b'x'; 100]);
        assert_eq!(single_line(text.clone()).as_ptr(), text.as_ptr());
    }
}
