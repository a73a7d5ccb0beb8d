//! A reader of shell text, made for judging it: it never fails, it is linear, and it says where it guessed.
//!
//! No crate was taken. `brush-parser` is the best kept one, but it writes every word that it reads to the debug log,
//! keeps words in a cache of the process, and brings a test framework along; `tree-sitter-bash` is ten megabytes of C
//! for text that is not trusted, and leaves words to its user; `yash-syntax` and `flash` are GPL; `conch-parser` is no
//! longer kept; `shell-words` knows words only.

mod compound;
mod parser;
mod redirects;
mod words;

pub(super) use parser::parse;

/// Deeper nesting is not read.
pub(super) const MAX_DEPTH: usize = 64;
/// Longer text is not read.
pub(super) const MAX_TEXT_BYTES: usize = 64 * 1024;

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub(super) script: ShellScript,
    /// Here-documents, by the number that their redirect has.
    pub(super) docs: Vec<HereDocument>,
    /// Something was not understood: an end was missing.
    pub(super) unclear: bool,
    /// A shell would wait for more lines: a quote, a list or a here-document is open.
    pub(super) open: bool,
    /// It was too deep or too long.
    pub(super) overlong: bool,
}

/// Pipelines, one after the other, whatever stands between them.
#[derive(Clone, Debug, Default)]
pub(super) struct ShellScript(pub(super) Vec<Pipeline>);

/// Commands, each reading what the one before it writes.
#[derive(Clone, Debug, Default)]
pub(super) struct Pipeline(pub(super) Vec<ShellCommand>);

#[derive(Clone, Debug)]
pub(super) enum ShellCommand {
    Simple(Simple),
    /// `( … )`, `{ … }`, `if`, `while`, `case`: all that may run of it, in order.
    Group {
        body: ShellScript,
        redirects: Vec<Redirect>,
        subshell: bool,
    },
    /// `for name in values; do … done`
    For {
        name: String,
        values: Vec<Word>,
        body: ShellScript,
    },
    Function {
        name: String,
        body: ShellScript,
    },
}

#[derive(Clone, Debug, Default)]
pub(super) struct Simple {
    pub(super) assigned: Vec<(String, Word)>,
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<Redirect>,
}

#[derive(Clone, Debug)]
pub(super) enum Redirect {
    /// `< file`
    Read(Word),
    /// `> file`, `>| file`, `&> file`
    Write(Word),
    /// `>> file`, `<> file`
    Append(Word),
    /// `<<< word`
    Text(Word),
    /// `<< END`
    HereDocument(usize),
    /// `2>&1`
    Copied,
}

/// The text of a here-document.
#[derive(Clone, Debug)]
pub(super) struct HereDocument {
    pub(super) body: Word,
}

/// A word before expansion.
#[derive(Clone, Debug, Default)]
pub(super) struct Word(pub(super) Vec<Piece>);

#[derive(Clone, Debug)]
pub(super) enum Piece {
    Text {
        text: String,
        quoted: bool,
    },
    /// `~` at the start.
    Home,
    /// `$name`, `${name}`, `${name:-or}`
    Variable {
        name: String,
        or: Option<Word>,
        quoted: bool,
    },
    /// `$( … )` and backticks.
    Command {
        script: ShellScript,
        quoted: bool,
    },
    /// `<( … )`, `>( … )`
    Process {
        script: ShellScript,
        reads: bool,
    },
    /// Whatever is only known when it runs, with what is nested in it.
    Unknown(Word),
}

impl Word {
    /// The text of a word that is nothing but unquoted text.
    pub(super) fn bare(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Piece::Text { text, quoted: false }] => Some(text),
            _ => None,
        }
    }
}
