//! Masks secrets on screens with the library's detectors.
//!
//! tmux wraps lines that are longer than the screen is wide, and knows which rows it wrapped: a capture with `-J` joins
//! them, one without has the rows. So a secret in a wrapped line is found whole, and the rows of other lines stay as
//! they are. Not found are secrets whose beginning has scrolled out of the capture, and those that a program wraps by
//! itself (with a border or an indent).

use std::borrow::Cow;

use toolgate::middleware::sanitize::without_secrets;

/// Replaces the secrets in a text. The number of lines stays, except where a secret spans lines, as a private key does.
#[must_use]
pub fn masked(text: &str) -> Cow<'_, str> {
    without_secrets(text)
}

/// The rows of a screen, with the places where tmux wrapped lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScreenRows {
    /// The rows with their trailing spaces.
    rows: Vec<String>,
    /// For each row, whether it continues the row above it.
    rest: Vec<bool>,
}

impl ScreenRows {
    /// From two captures of the same moment, one with `-N` and one with `-J`.
    pub(crate) fn new(rows: &str, joined: &str) -> Self {
        let rows: Vec<String> = rows.split('\n').map(str::to_owned).collect();
        let mut rest = Vec::with_capacity(rows.len());
        let mut lengths = rows.iter().map(String::len);
        for line in joined.split('\n') {
            let Some(mut length) = lengths.next() else { break };
            rest.push(false);
            // A line has as many rows as together contain its text.
            while length < line.len() {
                let Some(more) = lengths.next() else { break };
                length += more;
                rest.push(true);
            }
        }
        rest.resize(rows.len(), false);
        Self { rows, rest }
    }

    /// The rows from index `from`, as tmux prints them without `-N`.
    pub(crate) fn plain(&self, from: usize) -> String {
        let rows = self.rows.get(from..).unwrap_or_default().iter();
        let rows = rows.map(|row| row.trim_end_matches(' ')).collect::<Vec<_>>().join("\n");
        rows.trim_end_matches('\n').to_owned()
    }

    /// Like [`plain`](Self::plain), with secrets masked.
    pub(crate) fn masked(&self, from: usize) -> String {
        // The first row of the line that this row belongs to.
        let rest = self.rest.get(..=from.min(self.rest.len().saturating_sub(1)));
        let head = rest.and_then(|rest| rest.iter().rposition(|rest| !rest)).unwrap_or(0);
        let mut out = Vec::new();
        let mut at = head.min(from);
        while let Some(row) = self.rows.get(at) {
            let more = self.rest.get(at + 1..).unwrap_or_default().iter().take_while(|rest| **rest);
            let end = at + 1 + more.count();
            let group = self.rows.get(at..end).unwrap_or_default();
            let clean = if group.len() > 1 { unbroken(group) } else { vec![row.clone()] };
            out.extend(clean.into_iter().skip(from.saturating_sub(at)));
            at = end;
        }
        let out: Vec<&str> = out.iter().map(|row| row.trim_end_matches(' ')).collect();
        // A secret may span several lines.
        masked(out.join("\n").trim_end_matches('\n')).into_owned()
    }

    /// Masks a capture of the same rows with escape sequences. If it has a secret, the colours are removed.
    pub(crate) fn masked_coloured(&self, coloured: &str) -> String {
        match self.masked(0) {
            clean if clean == self.plain(0) => masked_coloured(coloured).into_owned(),
            clean => clean,
        }
    }
}

/// Masks text with escape sequences. A colour inside a secret would hide it (`grep` colours what it finds): if there is
/// a secret, the colours are removed.
#[must_use]
pub fn masked_coloured(text: &str) -> Cow<'_, str> {
    let plain = without_escapes(text);
    match masked(&plain) {
        clean if clean == plain => masked(text),
        clean => Cow::Owned(clean.into_owned()),
    }
}

/// The text that a terminal would show.
fn without_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\x0e' | '\x0f' => {}
            '\x1b' => match chars.next() {
                // The sequence ends with a byte from `@` to `~`.
                Some('[') => while chars.next().is_some_and(|c| !matches!(c, '@'..='~')) {},
                Some(']' | 'P' | '_' | '^' | 'X') => {
                    while chars.next_if(|c| !matches!(c, '\x07' | '\x1b')).is_some() {}
                    let _ = chars.next_if_eq(&'\x07');
                }
                Some(' '..='/') => drop(chars.next()),
                _ => {}
            },
            plain => out.push(plain),
        }
    }
    out
}

/// The rows of one line with its secrets masked.
fn unbroken(rows: &[String]) -> Vec<String> {
    let joined = rows.concat();
    match without_secrets(&joined) {
        Cow::Owned(clean) => put(rows, &joined, &clean),
        Cow::Borrowed(_) => rows.to_vec(),
    }
}

/// Distributes a changed line over its rows: the replacement starts where the change starts, the rest stays in place.
fn put(rows: &[String], before: &str, after: &str) -> Vec<String> {
    let same = |(one, two): &(char, char)| one == two;
    let start: usize =
        before.chars().zip(after.chars()).take_while(same).map(|(c, _)| c.len_utf8()).sum();
    let (old, new) =
        (before.get(start..).unwrap_or_default(), after.get(start..).unwrap_or_default());
    let tail: usize =
        old.chars().rev().zip(new.chars().rev()).take_while(same).map(|(c, _)| c.len_utf8()).sum();
    let end = before.len() - tail;
    let mut change = new.get(..new.len() - tail);
    let mut at = 0;
    let mut out = Vec::new();
    for row in rows {
        let (from, to) = (at, at + row.len());
        at = to;
        let mut shown = before.get(from..start.clamp(from, to)).unwrap_or_default().to_owned();
        if start < to {
            shown.push_str(change.take().unwrap_or_default());
        }
        shown.push_str(before.get(end.clamp(from, to)..to).unwrap_or_default());
        out.push(shown);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{ScreenRows, masked, masked_coloured};

    fn token() -> String {
        format!("ghp_{}", "a1B2".repeat(9))
    }

    /// A screen of this width, as tmux captures it.
    fn screen(lines: &[&str], width: usize) -> ScreenRows {
        let broken = |line: &&str| {
            let chars: Vec<char> = line.chars().collect();
            let rows: Vec<String> = chars.chunks(width).map(|row| row.iter().collect()).collect();
            if rows.is_empty() { String::new() } else { rows.join("\n") }
        };
        ScreenRows::new(&lines.iter().map(broken).collect::<Vec<_>>().join("\n"), &lines.join("\n"))
    }

    #[test]
    fn what_a_screen_breaks_is_found_and_the_next_line_stays() {
        let token = token();
        for width in [10, 24, 40, 43, 80] {
            for before in 0..width {
                let line = format!("{}TOKEN={token}", "x ".repeat(before / 2));
                let rows = screen(&["$ env", &line, "12 tests passed", "", "$"], width);
                let shown = rows.masked(0);
                assert!(shown.contains("[redacted: github-token]"), "{width} {before}: {shown}");
                assert!(!shown.contains("a1B2a1"), "{width} {before}: {shown}");
                assert_eq!(shown.split('\n').count(), rows.plain(0).split('\n').count(), "{shown}");
                let next = if width == 10 { "12 tests p\nassed" } else { "12 tests passed" };
                assert!(shown.ends_with(&format!("\n{next}\n\n$")), "{width} {before}: {shown}");
                // Also if only the end of the line is new.
                assert!(!rows.masked(2).contains("a1B2a1B2"), "{width} {before}");
            }
        }
    }

    #[test]
    fn a_full_row_that_tmux_did_not_break_ends_there() {
        let token = token();
        let rows = screen(&[&token, "hello", "exit_code=0"], token.len());
        assert_eq!(rows.masked(0), "[redacted: github-token]\nhello\nexit_code=0");
        let rows = screen(&[&"y".repeat(44), &format!("{token} x")], 44);
        assert!(rows.masked(0).ends_with("[redacted: github-token] x"), "{}", rows.masked(0));
    }

    #[test]
    fn colours_do_not_hide_a_secret() {
        let (start, rest) = (&token()[..4], &token()[4..]);
        for text in [
            format!("\x1b[1ma\x1b[0m \x1b[01;31m\x1b[K{start}\x1b[m\x1b[K{rest}\n\nb"),
            format!("\x1b[1ma \x1b(B{start}\x1b]8;;x\x1b\\{rest}\n\nb"),
        ] {
            assert_eq!(masked_coloured(&text), "a [redacted: github-token]\n\nb");
        }
        let link = format!("\x1b]8;;https://x/{}\x07a\x1b[0m", token());
        assert!(!masked_coloured(&link).contains(rest), "{link:?}");
        let harmless = "\x1b[31mred\x1b[0m";
        assert_eq!(masked_coloured(harmless), harmless);
        let rows = screen(&[&format!("a {}", token()), "b"], 20);
        assert!(!rows.masked_coloured("\x1b[31ma\x1b[0m").contains('\x1b'));
    }

    #[test]
    fn what_is_harmless_stays_and_a_key_is_one_text() {
        let table = ["aaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbb", "", "cc"];
        assert_eq!(screen(&table, 24).masked(0), table.join("\n"));
        assert!(matches!(masked("short\nrows"), std::borrow::Cow::Borrowed(_)));
        let key = ["a", "-----BEGIN PRIVATE KEY-----", "abc", "-----END PRIVATE KEY-----", "b"];
        assert_eq!(screen(&key, 80).masked(0), "a\n[redacted: private-key]\nb");
        assert_eq!(ScreenRows::new("", "").masked(0), "");
        assert_eq!(ScreenRows::new("a\nb", "a\nb").masked(7), "");
    }
}
