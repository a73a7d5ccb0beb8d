//! The command guard: what is typed into a pane is read as a shell would read it, and judged, before it is typed.
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

/// Where a command would run.
#[derive(Clone, Debug, Default)]
pub struct ShellContext {
    /// The folder of the pane, if it is known.
    pub folder: Option<PathBuf>,
    /// Folders in which files may be deleted and written.
    pub roots: Vec<PathBuf>,
    /// The home folder of whoever runs it.
    pub home: Option<PathBuf>,
    /// Whether what is only known when it runs counts as the worst.
    pub strict: bool,
    /// Whether it is typed into a line: keys act on that, an earlier command can be put in, and only what Enter ended
    /// has to be complete.
    pub interactive: bool,
}

impl ShellContext {
    fn home(&self) -> PathBuf {
        self.home.clone().unwrap_or_else(|| "/home/\u{e002}".into())
    }
}

/// Judges a text that a shell would get.
#[must_use]
pub fn judge(text: &str, place: &ShellContext) -> Judgement {
    let mut judge = judge::Judge::new(place);
    // A terminal takes both for Enter.
    let text = text.replace('\r', "\n");
    // Without a line editor, keys are characters.
    let acts = if place.interactive { keys::of_entered(&text) } else { keys::LineEdits::default() };
    if text.contains(keys::acts) {
        // Keys that edit the line, or run it: with and without a break there.
        judge.whole(&text.replace(keys::acts, "\n"));
        // A break may stand in a quote: only what is left without it has to be complete.
        judge.unclear = false;
        judge.whole(&text.replace(keys::acts, ""));
        judge.unclear |= acts.edited;
    } else {
        judge.whole(&text);
    }
    if place.interactive && !text.ends_with('\n') {
        // What is not entered yet is judged again with what follows.
        let entered = text.rsplit_once('\n').map_or("", |(entered, _)| entered);
        judge.unclear = acts.edited || judge.unclear && shell::parse(entered).unclear;
    }
    if acts.recalled || place.interactive && keys::expands_history(&text) {
        judge.find(Class::History, &[], "it runs an earlier command, which the guard does not see");
    }
    if judge.overlong {
        // Else anything could hide behind a lot of nothing.
        judge.find(Class::Overlong, &[], "it is too long or too deep to be read to its end");
    }
    if judge.unclear {
        let why = if acts.edited {
            "keys edited the line, so what Enter runs is not known"
        } else {
            "it cannot be read to its end"
        };
        judge.find(Class::Unparsed, &[], why);
    }
    judge.judgement
}
