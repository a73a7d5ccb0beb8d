//! Removes values from the errors of a config file: the excerpt in an error shows keys and structure, and nothing that
//! may be a secret.

/// The text with all values and comments blanked, except booleans and short numbers. Length, lines, keys and brackets
/// stay.
pub(super) fn masked(text: &str) -> String {
    let mut mask = Mask { text: text.as_bytes(), out: text.as_bytes().to_vec(), at: 0 };
    mask.run();
    // Valid UTF-8: every byte of a blanked character was replaced.
    String::from_utf8(mask.out).unwrap_or_default()
}

/// An error message without the values that serde quotes in it.
pub(super) fn without_values(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    let mut rest = message;
    while let Some((before, after)) = rest.split_once("string \"") {
        out.push_str(before);
        out.push_str("a string");
        let mut is_escaped = false;
        let end = after.find(|c| {
            let ends = c == '"' && !is_escaped;
            is_escaped = c == '\\' && !is_escaped;
            ends
        });
        rest = end.and_then(|end| after.get(end + 1..)).unwrap_or_default();
    }
    out.push_str(rest);
    match out.split_once("unknown variant `").and_then(|(_, rest)| rest.split_once('`')) {
        Some((word, _)) if !is_word(word) => out.replacen(word, "…", 1),
        _ => out,
    }
}

/// Whether the text may be a misspelt word of the config. Any other text may be a secret.
fn is_word(text: &str) -> bool {
    text.len() <= 24 && text.bytes().all(|byte| byte.is_ascii_lowercase() || b"-_ ".contains(&byte))
}

/// Walks over TOML that may be invalid, and blanks everything that is not clearly a key.
struct Mask<'a> {
    text: &'a [u8],
    out: Vec<u8>,
    at: usize,
}

impl Mask<'_> {
    fn run(&mut self) {
        let mut open: Vec<u8> = Vec::new();
        let (mut is_value, mut is_header, mut begins_line) = (false, false, true);
        while let Some(&byte) = self.text.get(self.at) {
            let starts_header = begins_line && byte == b'[' && open.is_empty() && !is_value;
            begins_line = byte == b'\n' || (begins_line && byte.is_ascii_whitespace());
            match byte {
                b'\n' => {
                    is_header = false;
                    is_value &= !open.is_empty();
                    self.at += 1;
                }
                b'#' => self.blank(self.line_end()),
                b'"' | b'\'' => {
                    let end = self.string_end(byte);
                    if is_header || (!is_value && self.names_a_key(end)) {
                        self.at = end;
                    } else {
                        self.blank_inside(end);
                    }
                }
                b'[' | b'{' | b']' | b'}' | b',' | b'=' => {
                    match byte {
                        b'[' if starts_header => is_header = true,
                        b'[' | b'{' if !is_header => open.push(byte),
                        b']' | b'}' if !is_header => drop(open.pop()),
                        _ => {}
                    }
                    is_value = match byte {
                        b'{' => false,
                        b',' => open.last() != Some(&b'{'),
                        _ => !is_header,
                    };
                    self.at += 1;
                }
                _ if byte.is_ascii_whitespace() => self.at += 1,
                _ => {
                    let end = self.bare_end();
                    let is_key = is_header || (!is_value && self.names_a_key(end));
                    if is_key || self.is_plain(end) {
                        self.at = end;
                    } else {
                        self.blank(end);
                    }
                }
            }
        }
    }

    fn blank(&mut self, end: usize) {
        for byte in self.out.get_mut(self.at..end).into_iter().flatten() {
            if !byte.is_ascii_whitespace() {
                *byte = b'*';
            }
        }
        self.at = end;
    }

    /// Blanks the content of a string, but not its quotes.
    fn blank_inside(&mut self, end: usize) {
        let quote = self.text.get(self.at).copied();
        let start = self.at;
        self.blank(end);
        if let (Some(first), Some(quote)) = (self.out.get_mut(start), quote) {
            *first = quote;
        }
        if let Some(last) = end.checked_sub(1).filter(|last| *last > start)
            && let (Some(out), Some(&was)) = (self.out.get_mut(last), self.text.get(last))
            && Some(was) == quote
        {
            *out = was;
        }
    }

    fn line_end(&self) -> usize {
        let rest = self.text.get(self.at..).unwrap_or_default();
        rest.iter().position(|byte| *byte == b'\n').map_or(self.text.len(), |n| self.at + n)
    }

    /// The position after the string that begins here. A string without an end ends with its line; a multi-line string
    /// without an end, with the text.
    fn string_end(&self, quote: u8) -> usize {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let long = [quote; 3];
        let is_long = rest.starts_with(&long);
        let mut at = if is_long { 3 } else { 1 };
        while let Some(&byte) = rest.get(at) {
            match byte {
                b'\\' if quote == b'"' => at += 1,
                b'\n' if !is_long => break,
                _ if is_long && rest.get(at..).is_some_and(|rest| rest.starts_with(&long)) => {
                    return (self.at + at + 3).min(self.text.len());
                }
                _ if !is_long && byte == quote => return self.at + at + 1,
                _ => {}
            }
            at += 1;
        }
        (self.at + at).min(self.text.len())
    }

    fn bare_end(&self) -> usize {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let ends = |byte: &u8| byte.is_ascii_whitespace() || b"[]{},=#\"'".contains(byte);
        rest.iter().position(ends).map_or(self.text.len(), |n| self.at + n)
    }

    fn names_a_key(&self, end: usize) -> bool {
        let rest = self.text.get(end..).unwrap_or_default();
        let next = rest.iter().find(|byte| !matches!(byte, b' ' | b'\t'));
        matches!(next, Some(b'=' | b'.'))
    }

    /// Whether the word is a number or a boolean.
    fn is_plain(&self, end: usize) -> bool {
        let word = self.text.get(self.at..end).unwrap_or_default();
        let is_number = |byte: &u8| byte.is_ascii_digit() || b"_.+-".contains(byte);
        word == b"true" || word == b"false" || (word.len() <= 12 && word.iter().all(is_number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_blanked_and_keys_stay() {
        for (text, expected) in [
            (r#"a = "secret""#, r#"a = "******""#),
            ("a = 's\u{e4}c'", "a = '****'"),
            ("a = 12 # secret", "a = 12 * ******"),
            ("a = secret", "a = ******"),
            ("a = c2VjcmV0==", "a = ********=="),
            (r#"t = { ci = "secret", x = true }"#, r#"t = { ci = "******", x = true }"#),
            (r#"t = { "a b" = "secret" }"#, r#"t = { "a b" = "******" }"#),
            (r#"l = ["secret", "b"]"#, r#"l = ["******", "*"]"#),
            ("l = [\n  \"secret\",\n  other ]", "l = [\n  \"******\",\n  ***** ]"),
            ("a = \"secret", "a = \"******"),
            ("a = \"\"\"se\ncret\"\"\"\nb = 1", "a = \"****\n******\"\nb = 1"),
            (r#"a = "x\"secret" b"#, r#"a = "*********" *"#),
            (r#"[tools."m/x"] # secret"#, r#"[tools."m/x"] * ******"#),
            ("a.b = \"s\"\n[x]\nc = 1", "a.b = \"*\"\n[x]\nc = 1"),
            ("secret", "******"),
        ] {
            assert_eq!(masked(text), expected, "{text}");
            assert_eq!(masked(text).len(), text.len());
        }
    }

    #[test]
    fn messages_quote_no_values() {
        for (message, expected) in [
            (
                r#"invalid type: string "a\"b", expected a map"#,
                "invalid type: a string, expected a map",
            ),
            ("unknown variant `readonl`, expected `x`", "unknown variant `readonl`, expected `x`"),
            ("unknown variant `S3cret`, expected `x`", "unknown variant `…`, expected `x`"),
            ("unknown field `saftey`", "unknown field `saftey`"),
        ] {
            assert_eq!(without_values(message), expected);
        }
    }
}
