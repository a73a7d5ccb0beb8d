//! Secrets on screens, masked by the library's detectors.
//!
//! A screen breaks what is too long for it: a row that is as long as the longest one is taken to go on in the next, so
//! that a secret that was broken is found too. Not found are secrets whose beginning has scrolled away, those that a
//! program breaks by itself (with a border, or an indent), and those on rows of wide characters.

use std::borrow::Cow;

use toolgate::middleware::sanitize::without_secrets;

/// Shorter rows are not broken by any screen.
const NARROWEST: usize = 20;

/// The text without secrets. Rows stay rows, except where a secret has several of its own, as a private key.
#[must_use]
pub fn masked(text: &str) -> Cow<'_, str> {
    let Some(whole) = unbroken(text) else { return without_secrets(text) };
    match without_secrets(&whole) {
        Cow::Owned(clean) => Cow::Owned(clean),
        Cow::Borrowed(_) => Cow::Owned(whole),
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

/// The text with those secrets masked that go on in a next row, if there are any.
fn unbroken(text: &str) -> Option<String> {
    let width =
        text.split('\n').map(|row| row.chars().count()).max().filter(|w| *w >= NARROWEST)?;
    let mut rows = text.split('\n').peekable();
    let mut out: Vec<Cow<'_, str>> = Vec::new();
    let mut found = false;
    while let Some(row) = rows.next() {
        let mut group = vec![row];
        while group.last().is_some_and(|last| last.chars().count() == width)
            && let Some(next) = rows.next_if(|next| !next.is_empty())
        {
            group.push(next);
        }
        let joined = group.concat();
        match without_secrets(&joined) {
            // A key with rows of its own is one in the whole text.
            Cow::Owned(clean) if group.len() > 1 && !joined.contains("-----BEGIN") => {
                found = true;
                out.extend(put(&group, &joined, &clean).into_iter().map(Cow::Owned));
            }
            _ => out.extend(group.into_iter().map(Cow::Borrowed)),
        }
    }
    found.then(|| out.join("\n"))
}

/// The rows with what changed put where it begins; the rest stays where it is.
fn put(rows: &[&str], before: &str, after: &str) -> Vec<String> {
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
    use super::{masked, masked_coloured};

    fn token() -> String {
        format!("ghp_{}", "a1B2".repeat(9))
    }

    #[test]
    fn what_a_screen_breaks_is_found() {
        let token = token();
        for width in [24, 40, 43, 80] {
            for before in 0..width {
                let line = format!("{}TOKEN={token} end", "x ".repeat(before / 2));
                let chars: Vec<char> = line.chars().collect();
                let rows: Vec<String> =
                    chars.chunks(width).map(|row| row.iter().collect()).collect();
                let screen = format!("$ env\n{}\n$ ", rows.join("\n"));
                let shown = masked(&screen);
                assert!(shown.contains("[redacted: github-token]"), "{width} {before}: {shown}");
                assert!(!shown.contains("a1B2a1"), "{width} {before}: {shown}");
                assert_eq!(shown.split('\n').count(), screen.split('\n').count(), "{shown}");
                assert!(shown.ends_with("\n$ "), "{width} {before}: {shown}");
            }
        }
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
    }

    #[test]
    fn what_is_harmless_stays_and_rows_that_only_meet_do_too() {
        let table = "aaaaaaaaaaaaaaaaaaaaaaaa\nbbbbbbbbbbbbbbbbbbbbbbbb\n\ncc";
        assert_eq!(masked(table), table);
        assert!(matches!(masked("short\nrows"), std::borrow::Cow::Borrowed(_)));
        // A secret at the start of a row, after a full row: joined it would not be seen for one.
        let screen = format!("{}\n{} x", "y".repeat(44), token());
        assert!(masked(&screen).contains("[redacted: github-token]"), "{}", masked(&screen));
        let key = "a\n-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\nb";
        assert_eq!(masked(key), "a\n[redacted: private-key]\nb");
    }
}
