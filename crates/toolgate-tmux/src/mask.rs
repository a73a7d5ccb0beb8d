//! Secrets on screens, masked by the library's detectors.
//!
//! A screen breaks lines that are too long for it. tmux knows which rows it broke: a capture with `-J` has them as one
//! line, one without has the rows. A secret in such a line is found whole, and the rows of other lines stay as they are.
//! Not found are secrets whose beginning has scrolled away, and those that a program breaks by itself (with a border, or
//! an indent).

use std::borrow::Cow;

use toolgate::middleware::sanitize::without_secrets;

/// The text without secrets. Lines stay lines, except where a secret has several of its own, as a private key.
#[must_use]
pub fn masked(text: &str) -> Cow<'_, str> {
    without_secrets(text)
}

/// Rows of a screen, with what tmux says about where it broke lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScreenRows {
    /// With the spaces at their ends.
    rows: Vec<String>,
    /// Whether a row is the rest of the one above it.
    rest: Vec<bool>,
}

impl ScreenRows {
    /// From two captures of the same moment: one with `-N`, one with `-J`.
    pub(crate) fn new(rows: &str, joined: &str) -> Self {
        let rows: Vec<String> = rows.split('\n').map(str::to_owned).collect();
        let mut rest = Vec::with_capacity(rows.len());
        let mut lengths = rows.iter().map(String::len);
        for line in joined.split('\n') {
            let Some(mut length) = lengths.next() else { break };
            rest.push(false);
            // A line has as many rows as have its text together.
            while length < line.len() {
                let Some(more) = lengths.next() else { break };
                length += more;
                rest.push(true);
            }
        }
        rest.resize(rows.len(), false);
        Self { rows, rest }
    }

    /// The rows as tmux prints them without `-N`, from this one on.
    pub(crate) fn plain(&self, from: usize) -> String {
        let rows = self.rows.get(from..).unwrap_or_default().iter();
        let rows = rows.map(|row| row.trim_end_matches(' ')).collect::<Vec<_>>().join("\n");
        rows.trim_end_matches('\n').to_owned()
    }

    /// The same without secrets.
    pub(crate) fn masked(&self, from: usize) -> String {
        // The line that this row is a part of.
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
        // A secret may have several lines.
        masked(out.join("\n").trim_end_matches('\n')).into_owned()
    }

    /// The same for a capture with escape sequences of the same rows. Where there is a secret, the colours go.
    pub(crate) fn masked_coloured(&self, coloured: &str) -> String {
        match self.masked(0) {
            clean if clean == self.plain(0) => masked_coloured(coloured).into_owned(),
            clean => clean,
        }
    }
}

/// The same for text with escape sequences. A colour may stand inside of a secret and hide it (as `grep` colours what it
/// finds): where there is one, the colours go.
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
                // It ends with the first letter or the like.
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

/// Rows of one line, without the secrets in it.
fn unbroken(rows: &[String]) -> Vec<String> {
    let joined = rows.concat();
    match without_secrets(&joined) {
        Cow::Owned(clean) => put(rows, &joined, &clean),
        Cow::Borrowed(_) => rows.to_vec(),
    }
}

/// The rows with what changed put where it begins; the rest stays where it is.
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
