//! A problem in a file: its line and column, an excerpt without values, and the next step.

use std::{fmt, ops::Range};

use super::Notation;

/// A problem at a place of a file. The excerpt shows keys and structure; values and comments are blanked, because they may
/// be secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line, counted from 1.
    pub line: usize,
    /// The column, counted from 1 in characters.
    pub column: usize,
    /// What is wrong, and the next step.
    pub message: String,
    excerpt: String,
    width: usize,
}

impl Problem {
    pub(super) fn new(text: &str, notation: Notation, at: Range<usize>, message: String) -> Self {
        let (line, column) = position(text, at.start);
        let start = at.start.min(text.len());
        let begin = text.get(..start).and_then(|before| before.rfind('\n')).map_or(0, |n| n + 1);
        let rest = text.get(begin..).unwrap_or_default();
        let whole = rest.split('\n').next().unwrap_or_default().trim_end();
        let room = (begin + whole.len()).saturating_sub(start);
        let width = at.end.saturating_sub(at.start).clamp(1, room.max(1));
        let excerpt = match notation {
            Notation::Yaml => blanked_yaml(whole),
            Notation::Json | Notation::Toml => blanked(whole, notation),
        };
        Self { line, column, message, excerpt, width }
    }

    /// The problem in one line, for a table: `FILE:LINE: MESSAGE`.
    #[must_use]
    pub fn one_line(&self, file: &str) -> String {
        format!("{file}:{}: {}", self.line, self.message)
    }
}

/// In the form of the errors of toolgate.toml.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        let before = " ".repeat(self.column.saturating_sub(1));
        let marks = "^".repeat(self.width);
        writeln!(f, "line {}, column {}", self.line, self.column)?;
        // A minified file is one line: the excerpt is of no use there.
        if self.excerpt.len() <= 160 {
            writeln!(f, "{margin} |\n{number} | {}\n{margin} | {before}{marks}", self.excerpt)?;
        }
        write!(f, "{}", self.message)
    }
}

/// Line and column of a byte, counted from 1; columns count characters.
pub(super) fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at.min(text.len())).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |n| n + 1);
    let column = before.get(start..).unwrap_or_default().trim_start_matches('\u{feff}');
    (line, column.chars().count() + 1)
}

/// One line of JSON or TOML in which all strings that are not keys, all words and all comments are blanked.
pub(super) fn blanked(line: &str, notation: Notation) -> String {
    let (assigns, comment) = match notation {
        Notation::Toml => ('=', "#"),
        _ => (':', "//"),
    };
    let is_header = notation == Notation::Toml && line.trim_start().starts_with('[');
    let mut out = String::with_capacity(line.len());
    let mut rest = line.trim_start_matches('\u{feff}');
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '"' | '\'' => string_end(rest, first),
            _ if rest.starts_with(comment) || rest.starts_with("/*") => rest.len(),
            _ if first.is_alphanumeric() || !first.is_ascii() || "_$-+.".contains(first) => rest
                .find(|c: char| c.is_ascii() && !c.is_ascii_alphanumeric() && !"_$-+.".contains(c))
                .unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(end);
        let is_key = after.trim_start().starts_with(assigns) || is_header;
        let is_plain = matches!(token, "true" | "false" | "null")
            || (token.len() <= 12 && token.bytes().all(|b| b.is_ascii_digit() || b == b'.'));
        let is_sign = token.len() == 1 && !first.is_alphanumeric() && !"\"'".contains(first);
        if is_sign || (is_key && !token.starts_with(comment)) || is_plain {
            out.push_str(token);
        } else if token.starts_with(['"', '\'']) {
            let count = token.chars().count().saturating_sub(2);
            out.push(first);
            out.push_str(&"*".repeat(count));
            out.push(first);
        } else {
            out.push_str(&"*".repeat(token.chars().count()));
        }
        rest = after;
    }
    out
}

/// The end of the string that the text begins with; the end of the text if the string has none.
fn string_end(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if quote == '"' => is_escaped = true,
            _ if letter == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// One line of YAML: only the key is shown.
pub(super) fn blanked_yaml(line: &str) -> String {
    let start = line.len() - line.trim_start_matches([' ', '-', '\t']).len();
    let shown = match line.find(": ") {
        Some(at) if !line.get(..at).unwrap_or_default().contains(['"', '\'', '{', '#']) => at + 1,
        _ if line.ends_with(':') && !line.contains(['"', '\'', '{', '#']) => line.len(),
        _ => start,
    };
    let (kept, value) = line.split_at(shown);
    let hidden = value.chars().map(|c| if c.is_whitespace() { c } else { '*' });
    kept.chars().chain(hidden).collect()
}
