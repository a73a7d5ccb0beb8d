//! The shells that are known, and what is written to them.
//!
//! A short line is typed at the prompt, the *knock*: it turns the terminal's echo off, says that it did with a NUL, which
//! terminals pass over, and makes the shell read a script from its terminal. The script is sent only then, so that it is
//! never on the screen. It takes the knock back from the screen and from the history, shows the command in its place, and
//! runs it in a subshell between two marks that no terminal shows.
//!
//! The knock has no quotes: where a shell waits for the end of a quote, it stays part of that quote and nothing runs.

use std::fmt::Write as _;

use super::render::OSC;

/// Lines of a terminal end at 4096 bytes; ours are far from that.
const MAX_SCRIPT_LINE: usize = 1000;
/// How much of a command is shown on the screen.
const MAX_SHOWN_CHARS: usize = 2000;

/// A kind of shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shell {
    Bash,
    Zsh,
    Fish,
    /// dash and its like: no line editor that we know of, no history.
    Posix,
}

/// What the script is to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadedScript<'a> {
    pub(super) nonce: &'a str,
    /// `None` takes the knock back and does nothing else.
    pub(super) command: Option<&'a str>,
    /// Escape sequences that take the knock from the screen, as `printf %b` reads them.
    pub(super) erase: &'a str,
    /// Whether the command goes into the history.
    pub(super) keep: bool,
    /// What was on the line before.
    pub(super) half: &'a str,
}

impl Shell {
    /// By the name of its program.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "bash" => Some(Self::Bash),
            "zsh" => Some(Self::Zsh),
            "fish" => Some(Self::Fish),
            "dash" | "sh" | "ash" => Some(Self::Posix),
            _ => None,
        }
    }

    /// Whether it has a line editor, which turns the terminal's own one off while it waits for a line.
    pub(super) fn edits(self) -> bool {
        self != Self::Posix
    }

    /// Whether it can put text on its next line by itself.
    pub(super) fn prefills(self) -> bool {
        matches!(self, Self::Zsh | Self::Fish)
    }

    /// The line that is typed. It begins with a space, which keeps it out of many histories, and ends with a comment
    /// where it can, so that nothing runs that may still be on the line behind it.
    pub(super) fn loader(self) -> &'static str {
        match self {
            Self::Fish => r" stty -echo;printf \\0;eval (cat|string collect) #",
            Self::Bash => r" stty -echo;printf \\0;. /dev/tty #",
            Self::Zsh | Self::Posix => r" stty -echo;printf \\0;. /dev/tty",
        }
    }

    /// What is sent once the knock was answered.
    pub(super) fn script(self, script: LoadedScript<'_>) -> String {
        let body = match self {
            Self::Fish => fish(script),
            _ => self.posix(script),
        };
        // These two read all of it before they run any of it, up to the end of the file.
        let end = if matches!(self, Self::Bash | Self::Fish) { "\x04" } else { "" };
        format!("{body}{end}")
    }

    fn posix(self, script: LoadedScript<'_>) -> String {
        let LoadedScript { nonce, erase, keep, half, .. } = script;
        let mut text = String::from("{ \\stty echo\n");
        if self == Self::Bash {
            text.push_str(BASH_FORGET_LOADER);
        }
        if self == Self::Zsh && !half.is_empty() {
            let _ = writeln!(text, "\\print -rz -- {}", self.quoted(half));
        }
        let Some(command) = script.command else {
            let _ = write!(text, "\\printf '%b' '{erase}'\n\\return\n}}\n");
            return text;
        };
        match self {
            Self::Bash if keep => {
                let _ = writeln!(text, "\\builtin history -s -- {}", self.quoted(command));
            }
            Self::Zsh if keep => {
                let _ = writeln!(text, "\\print -rs -- {}", self.quoted(command));
            }
            _ => {}
        }
        let shown = self.quoted(&shown(command));
        let _ = writeln!(text, "\\printf '%b%s\\n%b' '{erase}' {shown} '{}'", mark(nonce, "B"));
        // The outer subshell lives on when keys end the inner one, and tells.
        let _ = writeln!(text, "( \\trap : INT QUIT\n( \\eval {} )", self.quoted(command));
        let _ = write!(text, "s=$?\n\\printf '{}' \"$s\"\n", mark(nonce, "%s"));
        text.push_str("\\exit \"$s\" )\n\\return\n}\n");
        text
    }

    /// One word, whatever it holds, in lines that a terminal takes.
    fn quoted(self, text: &str) -> String {
        let mut out = String::from("'");
        let mut length = 0;
        for char in text.chars() {
            match char {
                '\'' if self == Self::Fish => out.push_str("\\'"),
                '\\' if self == Self::Fish => out.push_str("\\\\"),
                '\'' => out.push_str("'\\''"),
                '\n' => {
                    out.push('\n');
                    length = 0;
                }
                // The terminal would act on it.
                '\0'..='\x08' | '\x0b'..='\x1f' | '\x7f' => {
                    let code = u32::from(char);
                    let _ = match self {
                        Self::Fish => write!(out, "'\\x{code:02x}'"),
                        _ => write!(out, "'\"$(\\printf '\\{code:03o}')\"'"),
                    };
                    length += 16;
                }
                plain => out.push(plain),
            }
            length += 4;
            if length > MAX_SCRIPT_LINE {
                out.push_str("'\\\n'");
                length = 0;
            }
        }
        out.push('\'');
        out
    }
}

/// bash: our line goes from the history, if it is there. Nothing else in it is looked at.
const BASH_FORGET_LOADER: &str = r#"\builtin history -d "$(HISTTIMEFORMAT=; h=$(\builtin history 1)
case $h in *'tty -echo;printf \\0;. /dev/tty #'*) h=${h#"${h%%[0-9]*}"}; \echo "${h%%[!0-9]*}";; esac)" 2>/dev/null
"#;

/// fish has no subshells: the command has a fish of its own, and `sh` to look after it. `fish -c` alone would give 0
/// for what it cannot parse.
fn fish(script: LoadedScript<'_>) -> String {
    let LoadedScript { nonce, erase, half, .. } = script;
    let quoted = |text: &str| Shell::Fish.quoted(text);
    let mut text = String::from("begin\ncommand stty echo\n");
    if !half.is_empty() {
        let _ = writeln!(text, "commandline -- {}", quoted(half));
    }
    let Some(command) = script.command else {
        let _ = write!(text, "printf '%b' '{erase}'\nend\n");
        return text;
    };
    let shown = quoted(&shown(command));
    let _ = writeln!(text, "printf '%b%s\\n%b' '{erase}' {shown} '{}'", mark(nonce, "B"));
    let _ = writeln!(
        text,
        "command sh -c 'trap : INT QUIT; \"$1\" -c \"eval \\$argv[1]\" \"$2\"; s=$?; printf \"{}\" \"$s\"; exit \"$s\"' \\\n\
         sh (status fish-path) {}\nend",
        mark(nonce, "%s"),
        quoted(command)
    );
    text
}

/// As `printf` reads it.
fn mark(nonce: &str, what: &str) -> String {
    format!("\\033]{OSC};{nonce};{what}\\007")
}

/// The command as it would have been seen had it been typed: no control characters, and not without end.
fn shown(command: &str) -> String {
    let seen =
        |char: char| if char.is_control() && char != '\n' && char != '\t' { '?' } else { char };
    let mut text: String =
        command.trim_end_matches('\n').chars().take(MAX_SHOWN_CHARS).map(seen).collect();
    if command.chars().nth(MAX_SHOWN_CHARS).is_some() {
        text.push_str(" ...");
    }
    text
}
