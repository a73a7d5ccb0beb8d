//! The program that reads what is typed: a shell, a program for another language, or one with a full screen.

use super::Class;

/// Programs that use the whole screen and read keys instead of lines.
const SCREEN: &[&str] = &[
    "vi",
    "vim",
    "nvim",
    "view",
    "vimdiff",
    "nano",
    "pico",
    "emacs",
    "emacsclient",
    "hx",
    "helix",
    "kak",
    "micro",
    "joe",
    "less",
    "more",
    "most",
    "man",
    "info",
    "top",
    "htop",
    "btop",
    "atop",
    "glances",
    "nethogs",
    "iotop",
    "watch",
    "tig",
    "lazygit",
    "lazydocker",
    "gitui",
    "k9s",
    "ranger",
    "nnn",
    "lf",
    "mc",
    "vifm",
    "yazi",
    "fzf",
    "sk",
    "ncdu",
    "dust",
    "mutt",
    "neomutt",
    "aerc",
    "weechat",
    "irssi",
    "tmuxinator",
    "dialog",
    "whiptail",
    "alsamixer",
    "nmtui",
    "bat",
    "delta",
    "git",
    "journalctl",
    "systemctl",
];

/// Programs that read lines of another language, which the shell reader cannot read.
const LANGUAGES: &[&str] = &[
    "python",
    "ipython",
    "ptpython",
    "bpython",
    "node",
    "deno",
    "bun",
    "irb",
    "ruby",
    "pry",
    "perl",
    "php",
    "psysh",
    "lua",
    "luajit",
    "ghci",
    "scala",
    "sbt",
    "clojure",
    "clj",
    "iex",
    "erl",
    "julia",
    "R",
    "octave",
    "psql",
    "mysql",
    "mariadb",
    "sqlite",
    "sqlite3",
    "duckdb",
    "mongosh",
    "redis-cli",
    "gdb",
    "lldb",
    "pdb",
    "jshell",
    "swift",
    "racket",
    "guile",
    "ocaml",
    "utop",
    "bc",
    "dc",
    "maxima",
    "gp",
];

/// What reads the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// A shell, or a program that may start one or may leave its input to the shell that started it.
    Shell,
    /// A program that reads lines of another language.
    Language,
    /// A program that reads keys on the whole screen.
    Screen,
}

/// The kind of a pane's program. A full-screen program also needs to show the alternate screen.
pub(crate) fn reader(program: &str, has_screen: bool) -> Reader {
    let name = program.rsplit('/').next().unwrap_or_default();
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    if has_screen && SCREEN.contains(&name) {
        Reader::Screen
    } else if LANGUAGES.contains(&name) || LANGUAGES.contains(&plain) {
        Reader::Language
    } else {
        Reader::Shell
    }
}

impl Reader {
    /// Whether a finding of this kind applies to text for this program.
    pub(crate) fn reports(self, class: Class, edited: bool) -> bool {
        match self {
            Self::Shell => true,
            // Keys may still recall or edit a line of a shell behind it.
            Self::Language => edited || class != Class::Unparsed,
            Self::Screen => !matches!(class, Class::Unparsed | Class::History),
        }
    }
}
