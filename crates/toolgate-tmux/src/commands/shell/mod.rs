//! Reads shell text for judging it: it never fails, takes linear time, and reports which text it could not read.
//!
//! Crates that were considered: `brush-parser` is the best maintained, but it writes every word that it reads to the debug
//! log, caches words in the process, and depends on a test framework; `tree-sitter-bash` is ten megabytes of C that would
//! read untrusted text, and does not split words; `yash-syntax` and `flash` are GPL; `conch-parser` is not maintained;
//! `shell-words` only splits words.

mod compound;
mod parser;
mod redirects;
mod words;

pub(super) use parser::parse;

/// The maximum nesting.
pub(super) const MAX_DEPTH: usize = 64;
/// The maximum length of a text in bytes.
pub(super) const MAX_TEXT_BYTES: usize = 64 * 1024;

/// The result of reading a text.
#[derive(Debug, Default)]
pub(super) struct ParsedScript {
    pub(super) script: ShellScript,
    /// The here-documents, by the number in their redirect.
    pub(super) docs: Vec<HereDocument>,
    /// Whether something could not be read, as a missing end.
    pub(super) unclear: bool,
    /// Whether a shell would wait for more lines: a quote, a list or a here-document is open.
    pub(super) open: bool,
    /// Whether the text is too long or too deeply nested.
    pub(super) overlong: bool,
}

/// The pipelines of a script, in order, without the operators between them.
#[derive(Clone, Debug, Default)]
pub(super) struct ShellScript(pub(super) Vec<Pipeline>);

/// The commands of a pipeline. Each reads what the one before it writes.
#[derive(Clone, Debug, Default)]
pub(super) struct Pipeline(pub(super) Vec<ShellCommand>);

#[derive(Clone, Debug)]
pub(super) enum ShellCommand {
    Simple(SimpleCommand),
    /// `( … )`, `{ … }`, `if`, `while`, `case`: all commands that may run, in order.
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
pub(super) struct SimpleCommand {
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
    /// Text that is only known when it runs, with what is nested in it.
    Unknown(Word),
}

impl Word {
    /// The text of a word, if it is only unquoted text.
    pub(super) fn bare(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Piece::Text { text, quoted: false }] => Some(text),
            _ => None,
        }
    }
}
