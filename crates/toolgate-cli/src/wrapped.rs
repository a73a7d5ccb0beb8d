//! Lines that fit a screen.

use toolgate::printable;

/// Lines of at most `width` characters, broken at spaces. Lines of the text itself stay lines, with their indentation if they fit; a
/// longer word is not cut.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for whole in text.lines() {
        let whole = printable::line(whole);
        if whole.chars().count() <= width {
            lines.push(whole.trim_end().to_owned());
            continue;
        }
        let mut line = String::new();
        for word in whole.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                lines.push(std::mem::take(&mut line));
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrapped("one two three\nfour", 8), ["one two", "three", "four"]);
        assert_eq!(wrapped("longer-than-that ok", 8), ["longer-than-that", "ok"]);
        assert_eq!(wrapped("a = b\n    ^", 8), ["a = b", "    ^"], "an excerpt keeps its mark");
    }
}
