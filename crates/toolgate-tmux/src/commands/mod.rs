//! The command guard's judgement: reads text for a shell as the shell would, and reports what should not run.
//!
//! [`judge`] is the entry. The files, from text to findings:
//!
//! | file | what it does |
//! |---|---|
//! | `keys`, `pending_input`, `reader` | what is on a pane's line, after keys and earlier calls, and which program reads it |
//! | `shell/` | reads the text into scripts, pipelines, commands and words, without judging |
//! | `judge` | walks through a script as a shell would, and collects the findings |
//! | `arg`, `expand`, `paths` | expands words to arguments, and finds out where paths lead |
//! | `programs`, `shell_programs`, `shell_hooks`, `argv`, `printf` | judges one program: what it runs and prints |
//! | `rules/` | the findings, one file for each kind of harm |
//! | `class`, `config` | kinds of findings, and `[tmux.commands]` |
//!
//! Only `pending_input` depends on the engine, for the socket of a pane.
//!
#![doc = include_str!("README.md")]

mod arg;
mod argv;
mod class;
mod config;
mod expand;
mod judge;
pub(crate) mod keys;
#[cfg(test)]
mod measure;
mod paths;
pub(crate) mod pending_input;
mod printf;
mod programs;
pub(crate) mod reader;
mod rules;
mod shell;
mod shell_hooks;
mod shell_programs;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub use class::{Class, Finding, Judgement};
pub use config::CommandsConfig;
pub(crate) use pending_input::PendingInput;

/// The context in which a command would run.
#[derive(Clone, Debug, Default)]
pub struct ShellContext {
    /// The folder of the pane, if it is known.
    pub folder: Option<PathBuf>,
    /// Folders in which files may be deleted and written.
    pub roots: Vec<PathBuf>,
    /// The user's home folder.
    pub home: Option<PathBuf>,
    /// Whether text that is only known when the command runs counts as dangerous.
    pub strict: bool,
    /// Whether the text is typed into a shell's line: keys edit the line, history expansion inserts earlier commands, and
    /// only entered lines must be complete.
    pub interactive: bool,
}

impl ShellContext {
    fn home(&self) -> PathBuf {
        self.home.clone().unwrap_or_else(|| "/home/\u{e002}".into())
    }
}

/// Judges a text that a shell would run.
#[must_use]
pub fn judge(text: &str, place: &ShellContext) -> Judgement {
    let mut judge = judge::Judge::new(place);
    // A terminal reads CR as Enter, too.
    let text = text.replace('\r', "\n");
    // Without a line editor, keys are characters.
    let edits =
        if place.interactive { keys::of_entered(&text) } else { keys::LineEdits::default() };
    if text.contains(keys::is_editing_key) {
        // A key may edit the line or run it: the text is judged with and without a line break in its place.
        judge.whole(&text.replace(keys::is_editing_key, "\n"));
        // The line break may be inside a quote, so only the text without it must be complete.
        judge.unclear = false;
        judge.whole(&text.replace(keys::is_editing_key, ""));
        judge.unclear |= edits.edited;
    } else {
        judge.whole(&text);
    }
    if place.interactive && !text.ends_with('\n') {
        // Text that is not entered is judged again with the text that follows.
        let entered = text.rsplit_once('\n').map_or("", |(entered, _)| entered);
        judge.unclear = edits.edited || judge.unclear && shell::parse(entered).unclear;
    }
    if edits.recalled || place.interactive && keys::expands_history(&text) {
        judge.find(Class::History, &[], "it runs an earlier command, which the guard does not see");
    }
    if judge.overlong {
        // Otherwise a command could be hidden behind a long harmless text.
        judge.find(Class::Overlong, &[], "it is too long or too deep to be read to its end");
    }
    if judge.unclear {
        let why = if edits.edited {
            "keys edited the line, so what Enter runs is not known"
        } else {
            "it cannot be read to its end"
        };
        judge.find(Class::Unparsed, &[], why);
    }
    judge.judgement
}
