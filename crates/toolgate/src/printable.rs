//! Makes text of clients, servers, files and settings safe for terminals, logs and questions.
//!
//! All places use one table of characters: those that control a terminal, start a line, or hide or reorder other
//! characters become `\u{…}`.

use std::{borrow::Cow, fmt::Write as _};

/// Largest length of a log message, in bytes. Longer ones are cut, with a note of how much is missing.
pub const MAX_MESSAGE_BYTES: usize = 4096;

/// Whether a character controls a terminal (C0, DEL, C1), ends a line, is invisible or reorders others (bidirectional
/// marks, zero-width characters, tags).
#[must_use]
pub fn is_deceptive(c: char) -> bool {
    // Fast path: nearly all text is ASCII.
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}')
}

/// The text on one line: line breaks and tabs become spaces, other deceptive characters are escaped.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_deceptive) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => shown.push(' '),
            c => push(&mut shown, c),
        }
    }
    Cow::Owned(shown)
}

/// Like [`line()`], for a text of several lines: line breaks and tabs stay.
#[must_use]
pub fn lines(text: &str) -> Cow<'_, str> {
    let stays = |c: char| matches!(c, '\n' | '\t') || !is_deceptive(c);
    if text.chars().all(stays) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if stays(c) { shown.push(c) } else { push(&mut shown, c) }
    }
    Cow::Owned(shown)
}

/// A message for the log: one line, at most [`MAX_MESSAGE_BYTES`] bytes of the text, and how much is missing.
#[must_use]
pub fn message(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_MESSAGE_BYTES {
        return line(text);
    }
    let start = text.get(..floor_char_boundary(text, MAX_MESSAGE_BYTES)).unwrap_or_default();
    let mut shown = line(start).into_owned();
    let _ = write!(shown, "… [{} more bytes]", text.len() - start.len());
    Cow::Owned(shown)
}

/// The end of the last character that ends at `at` or before. As [`str::floor_char_boundary`], which the oldest supported
/// compiler does not have.
#[must_use]
pub(crate) fn floor_char_boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
}

/// JSON text with every deceptive character as a JSON escape, so that its meaning is the same. Line breaks and tabs
/// stay: in JSON they occur only between tokens.
#[must_use]
pub fn json(text: &str) -> Cow<'_, str> {
    let stays = |c: char| matches!(c, '\n' | '\r' | '\t') || !is_deceptive(c);
    if text.chars().all(stays) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut units = [0; 2];
    for c in text.chars() {
        if stays(c) {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut units) {
            let _ = write!(shown, "\\u{unit:04x}");
        }
    }
    Cow::Owned(shown)
}

/// Appends a character, escaped if it is deceptive.
pub(crate) fn push(shown: &mut String, c: char) {
    if is_deceptive(c) {
        shown.extend(c.escape_unicode());
    } else {
        shown.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_or_hides_text_is_spelled_out() {
        assert_eq!(line("plain – text ü 中"), "plain – text ü 中");
        assert_eq!(line("\u{1b}[2Jx\ny\r\u{7}\u{7f}\u{9b}"), "\\u{1b}[2Jx y \\u{7}\\u{7f}\\u{9b}");
        assert_eq!(
            line("a\u{202e}b\u{2066}\u{200b}\u{feff}"),
            "a\\u{202e}b\\u{2066}\\u{200b}\\u{feff}"
        );
        assert_eq!(lines("a\n\tb\u{1b}\r"), "a\n\tb\\u{1b}\\u{d}");
        assert_eq!(line("\u{e0041}\u{2028}"), "\\u{e0041}\\u{2028}");
    }

    #[test]
    fn a_long_message_says_how_much_is_missing() {
        let long = "ü".repeat(4000);
        let shown = message(&long);
        assert!(shown.ends_with("… [3904 more bytes]"), "{}", &shown[shown.len() - 40..]);
        assert!(shown.len() < MAX_MESSAGE_BYTES + 40);
    }

    #[test]
    fn json_stays_json() {
        let text =
            serde_json::to_string(&serde_json::json!({"a\u{9b}": "\u{202e}\u{e0041}x"})).unwrap();
        let shown = json(&text);
        assert!(!shown.chars().any(is_deceptive));
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(&shown), read(&text));
    }
}
