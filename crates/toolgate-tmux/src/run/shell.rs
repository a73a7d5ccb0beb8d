//! The shells that are known, and the text that is typed into them.
//!
//! First a short line, the *loader*, is typed at the prompt. It turns the terminal's echo off, prints a NUL, which
//! terminals ignore, and makes the shell read a script from its terminal. The script is sent only after the NUL, so
//! that it never appears on the screen. The script removes the loader from the screen and from the history, shows the
//! command in its place, and runs the command in a subshell between two marks that no terminal shows.
//!
//! The loader has no quotes: if a shell is waiting for the end of a quote, the loader becomes part of that quote and
//! nothing runs.

use std::fmt::Write as _;

use super::render::OSC;

/// The maximum length of a line of the script. A terminal's line buffer holds 4096 bytes.
const MAX_SCRIPT_LINE: usize = 1000;
/// How many characters of a command are shown on the screen.
const MAX_SHOWN_CHARS: usize = 2000;

/// A kind of shell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shell {
    Bash,
    Zsh,
    Fish,
    /// dash and similar shells, without line editor and history.
    Posix,
}

/// The parts of the script.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadedScript<'a> {
    pub(super) nonce: &'a str,
    /// The command; `None` for a script that only removes the loader.
    pub(super) command: Option<&'a str>,
    /// Escape sequences that remove the loader from the screen, in the notation of `printf %b`.
    pub(super) erase: &'a str,
    /// Whether the command goes into the history.
    pub(super) keep: bool,
    /// The text that was on the line before.
    pub(super) half: &'a str,
}

impl Shell {
    /// The shell with this program name.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "bash" => Some(Self::Bash),
            "zsh" => Some(Self::Zsh),
            "fish" => Some(Self::Fish),
            "dash" | "sh" | "ash" => Some(Self::Posix),
            _ => None,
        }
    }

    /// Whether the shell has a line editor, which turns off the terminal's own line editing while it reads a line.
    pub(super) fn edits(self) -> bool {
        self != Self::Posix
    }

    /// Whether the script can put text on the shell's next line.
    pub(super) fn prefills(self) -> bool {
        matches!(self, Self::Zsh | Self::Fish)
    }

    /// The line that is typed. It begins with a space, which keeps it out of many histories, and ends with a comment
    /// sign where possible, so that text that may remain on the line behind it does not run.
    pub(super) fn loader(self) -> &'static str {
        match self {
            Self::Fish => r" stty -echo;printf \\0;eval (cat|string collect) #",
            Self::Bash => r" stty -echo;printf \\0;. /dev/tty #",
            Self::Zsh | Self::Posix => r" stty -echo;printf \\0;. /dev/tty",
        }
    }

    /// The script that is sent after the loader has run.
    pub(super) fn script(self, script: LoadedScript<'_>) -> String {
        let body = match self {
            Self::Fish => fish(script),
            _ => self.posix(script),
        };
        // bash and fish read the script up to the end of the file before they run it.
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
        // The outer subshell survives when keys such as C-c end the inner one, and prints the exit status.
        let _ = writeln!(text, "( \\trap : INT QUIT\n( \\eval {} )", self.quoted(command));
        let _ = write!(text, "s=$?\n\\printf '{}' \"$s\"\n", mark(nonce, "%s"));
        text.push_str("\\exit \"$s\" )\n\\return\n}\n");
        text
    }

    /// Quotes a text as one word, in lines that are short enough for a terminal.
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
                // The terminal would interpret a control character.
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

/// bash: removes the loader from the history if it is the last entry.
const BASH_FORGET_LOADER: &str = r#"\builtin history -d "$(HISTTIMEFORMAT=; h=$(\builtin history 1)
case $h in *'tty -echo;printf \\0;. /dev/tty #'*) h=${h#"${h%%[0-9]*}"}; \echo "${h%%[!0-9]*}";; esac)" 2>/dev/null
"#;

/// fish has no subshells: the command runs in a fish of its own, started by a `sh` that reports its exit status. `fish
/// -c` alone would report 0 for a command that it cannot parse.
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

/// A mark in the notation of `printf`.
fn mark(nonce: &str, what: &str) -> String {
    format!("\\033]{OSC};{nonce};{what}\\007")
}

/// The command as it appears on the screen: shortened, without control characters.
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
