//! Keys that act on a shell's line: editing, recalling earlier commands, and history expansion.

use super::shell;

/// Stands for a key that edits the line, or whose effect is unknown.
const EDITS: &str = "\u{7f}";
/// Stands for a key that recalls an earlier command: the character of C-p.
const RECALLS: &str = "\u{10}";
/// C-c discards the line.
const GIVES_UP: char = '\u{3}';
/// C-u removes the text before the cursor. At the start of a line it changes nothing.
const EMPTIES: char = '\u{15}';
/// C-v and C-q insert the next key as a character.
const QUOTES: [char; 2] = ['\u{16}', '\u{11}'];
/// C-l redraws the screen.
const REDRAWS: char = '\u{c}';

/// Named tmux keys that type no text. <https://man.openbsd.org/tmux#KEY_BINDINGS>
const NAMED: &[&str] = &[
    "bspace", "btab", "dc", "delete", "end", "escape", "home", "ic", "insert", "left", "right",
    "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f11", "f12",
];
const RECALLING: &[&str] = &["up", "down", "npage", "pagedown", "pgdn", "ppage", "pageup", "pgup"];

/// The text that a key of `send_keys` types. A key name types no text.
pub(crate) fn typed(keys: &str) -> String {
    let lower = keys.to_ascii_lowercase();
    let (modifiers, key) = modifiers(&lower);
    let named = NAMED.contains(&key);
    let single = key.chars().count() == 1;
    if modifiers.is_empty() && single {
        return keys.to_owned();
    }
    match (modifiers.as_str(), key) {
        (_, key) if RECALLING.contains(&key) => RECALLS.to_owned(),
        ("c", "m" | "j" | "o") | ("", "enter" | "kpenter") => "\n".to_owned(),
        (_, "enter" | "kpenter") => format!("{EDITS}\n"),
        ("" | "c" | "s", "space") => " ".to_owned(),
        ("c", "c") => GIVES_UP.to_string(),
        ("c", "l") => REDRAWS.to_string(),
        ("c", "u") => EMPTIES.to_string(),
        ("c", "v") => QUOTES[0].to_string(),
        ("c", "q") => QUOTES[1].to_string(),
        ("c", "p" | "n" | "r" | "s") | ("m", "p" | "n" | "." | "_" | "<" | ">" | "r") => {
            RECALLS.to_owned()
        }
        (modifiers, _) if named || key == "tab" || (single && !modifiers.is_empty()) => {
            EDITS.to_owned()
        }
        // A tab completes to unknown text.
        _ => character(&lower).map_or_else(|| keys.replace('\t', EDITS), String::from),
    }
}

/// The modifiers of a key (`C-M-x`, `^x`), sorted, and the key.
fn modifiers(name: &str) -> (String, &str) {
    let (mut found, mut rest) = (Vec::new(), name);
    loop {
        let mut chars = rest.chars();
        match (chars.next(), chars.next(), chars.next()) {
            (Some(c @ ('c' | 'm' | 's')), Some('-'), Some(_)) => {
                found.push(c);
                rest = rest.get(2..).unwrap_or_default();
            }
            (Some('^'), Some(_), None) => {
                found.push('c');
                rest = rest.get(1..).unwrap_or_default();
            }
            _ => break,
        }
    }
    found.sort_unstable();
    found.dedup();
    (found.into_iter().collect(), rest)
}

/// The character of a key on the number pad, or of a key that is named by its code.
fn character(name: &str) -> Option<char> {
    let mut pad = name.strip_prefix("kp").unwrap_or_default().chars();
    match (pad.next(), pad.next()) {
        (Some(key), None) if key.is_ascii_digit() || "/*-+.".contains(key) => Some(key),
        _ => char::from_u32(u32::from_str_radix(name.strip_prefix("0x")?, 16).ok()?),
    }
}

/// Whether a character is a key that acts on the line instead of being inserted.
pub(crate) fn is_editing_key(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t')
}

/// The keys that acted on the entered lines of a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LineEdits {
    pub(crate) edited: bool,
    pub(crate) recalled: bool,
}

/// Reads each line that was entered. Text after the last Enter may still change.
pub(crate) fn of_entered(text: &str) -> LineEdits {
    let mut edits = LineEdits::default();
    let mut lines = text.split('\n').peekable();
    while let Some(line) = lines.next() {
        if lines.peek().is_none() {
            break;
        }
        let line = kept(line);
        let recalls = |(at, c): (usize, char)| {
            matches!(c, '\u{10}' | '\u{e}' | '\u{12}' | '\u{13}')
                || c == '\u{1b}' && line.get(at + 1..).is_some_and(is_arrow)
        };
        edits.recalled |= line.char_indices().any(recalls);
        edits.edited |= line.contains(is_editing_key);
    }
    edits
}

/// Whether the text after an Escape is the sequence of the up or down arrow.
fn is_arrow(rest: &str) -> bool {
    matches!(rest.as_bytes(), [b'[' | b'O', b'A' | b'B', ..])
}

/// Whether the keys begin by discarding the line.
pub(crate) fn begins_anew(keys: &str, line: &str) -> bool {
    keys.starts_with(GIVES_UP) && !line.ends_with(QUOTES)
}

/// A line without what C-c discarded, and without keys that change nothing.
fn kept(line: &str) -> String {
    let line = line.get(given_up(line)..).unwrap_or_default();
    line.trim_start_matches([EMPTIES, REDRAWS]).replace(REDRAWS, "")
}

/// The start of the text that C-c did not discard.
fn given_up(text: &str) -> usize {
    let (mut from, mut before) = (0, ' ');
    for (at, c) in text.char_indices() {
        if c == GIVES_UP && !QUOTES.contains(&before) {
            from = at + 1;
        }
        before = c;
    }
    from
}

/// The text that remains on a shell's line: that after the last Enter, or all of a command that is still open.
pub(crate) fn rest(text: &str) -> String {
    let text = text.get(given_up(text)..).unwrap_or_default();
    let text = text.replace('\r', "\n");
    let continues = |at: usize| {
        let before = text.get(..at).unwrap_or_default();
        (before.len() - before.trim_end_matches('\\').len()) % 2 == 1
    };
    let entered = text.match_indices('\n').map(|(at, _)| at).rfind(|at| !continues(*at));
    let Some(entered) = entered else { return kept(&text) };
    let (before, after) = text.split_at_checked(entered + 1).unwrap_or_default();
    if shell::parse(&before.replace(is_editing_key, "")).open {
        return text;
    }
    kept(after)
}

/// Whether an interactive shell would insert an earlier command: `!!`, `!x`, `^a^b`.
pub(crate) fn expands_history(text: &str) -> bool {
    let (mut single, mut double) = (false, false);
    let mut before = '\n';
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if !single => {
                before = chars.next().unwrap_or_default();
                continue;
            }
            '\'' if !double => single = !single,
            '"' if !single => double = !double,
            '^' if before == '\n' && !single && !double => return true,
            '!' if !single && !matches!(before, '[' | '{' | '$') => {
                let next = chars.peek().copied().unwrap_or('\n');
                let plain = next.is_whitespace() || matches!(next, '=' | '(');
                let ends = double && next == '"';
                if !(plain || ends) {
                    return true;
                }
            }
            _ => {}
        }
        before = c;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_effect_that_tmux_gives_them() {
        for name in
            ["Home", "DC", "M-d", "C-a", "c-w", "^W", "C-Left", "M-BSpace", "C-M-e", "S-Tab"]
        {
            assert_eq!(typed(name), EDITS, "{name}");
        }
        for name in ["Up", "Down", "C-p", "^R", "M-.", "PPage", "S-Up"] {
            assert_eq!(typed(name), RECALLS, "{name}");
        }
        for name in ["Enter", "C-m", "^J", "KPEnter"] {
            assert_eq!(typed(name), "\n", "{name}");
        }
        for text in ["ls", "x", "^", "-", "C-", "homes", "a-b", "^a^b", "é"] {
            assert_eq!(typed(text), text);
        }
        assert_eq!((typed("0x41"), typed("KP5")), ("A".to_owned(), "5".to_owned()));
    }

    #[test]
    fn a_line_ends_with_enter_or_is_given_up() {
        for (text, left) in [
            ("ls\n", ""),
            ("ls\nrm -rf ", "rm -rf "),
            ("rm -rf \\\n", "rm -rf \\\n"),
            ("echo \\\\\n", ""),
            ("rm -rf \u{3}", ""),
            // A quoted key is only a character.
            ("rm -rf \u{16}\u{3}", "rm -rf \u{16}\u{3}"),
            ("é\r", ""),
            // A recalled line may follow, which Enter runs.
            ("\u{10}", "\u{10}"),
            ("\u{15}", ""),
            ("echo \"a\n", "echo \"a\n"),
            ("curl x |\n", "curl x |\n"),
            ("cd / &&\n", "cd / &&\n"),
            ("cat <<E\na\n", "cat <<E\na\n"),
            ("echo \"a\n\u{3}", ""),
            ("#x\u{7f}\u{3}", ""),
            // The shell reports an error and discards the line.
            ("ls )\n", ""),
        ] {
            assert_eq!(rest(text), left, "{text:?}");
        }
    }

    #[test]
    fn history_is_expanded_where_bash_does() {
        for text in ["!!", "ls; !x", "echo \"!a\"", "^a^b", "ls\n^a^b", "!-1", "echo !$", "a!b"] {
            assert!(expands_history(text), "{text}");
        }
        for text in [
            "! ls",
            "[ a != b ]",
            "echo 'x!y'",
            "echo \"hi!\"",
            "${!x}",
            "[!a]",
            "\\!x",
            "$!",
            "!(a)",
            "a^b",
        ] {
            assert!(!expands_history(text), "{text}");
        }
    }
}
