//! The command guard: what is typed into a pane is read as a shell would read it, and judged, before it is typed.
#![doc = include_str!("README.md")]

mod argv;
mod class;
mod config;
mod expand;
mod install;
mod paths;
mod pending;
mod precondition;
mod printf;
mod programs;
mod rules;
mod shell;
mod shells;
#[cfg(test)]
mod tests;
mod walk;

use std::path::PathBuf;

pub use class::{Class, Finding, Judgement};
pub use config::CommandsConfig;
pub(crate) use install::install;
pub(crate) use pending::Pending;
pub use precondition::{CommandGuard, ID, TOOLS};

/// Where a command would run.
#[derive(Clone, Debug, Default)]
pub struct Place {
    /// The folder of the pane, if it is known.
    pub folder: Option<PathBuf>,
    /// Folders in which things may be deleted.
    pub roots: Vec<PathBuf>,
    /// The home folder of whoever runs it.
    pub home: Option<PathBuf>,
    /// Whether what is only known when it runs counts as the worst.
    pub strict: bool,
}

impl Place {
    fn home(&self) -> PathBuf {
        self.home.clone().unwrap_or_else(|| "/home/\u{e002}".into())
    }
}

/// Judges a text that a shell would get.
#[must_use]
pub fn judge(text: &str, place: &Place) -> Judgement {
    let mut judge = walk::Judge::new(place);
    // A terminal takes both for Enter.
    let text = text.replace('\r', "\n");
    let edits = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if text.contains(edits) {
        // Keys that edit the line, or run it: with and without a break there.
        judge.unclear = true;
        judge.whole(&text.replace(edits, "\n"));
        judge.whole(&text.replace(edits, ""));
    } else {
        judge.whole(&text);
    }
    if judge.over {
        // Else anything could hide behind a lot of nothing.
        judge.find(Class::Overlong, &[], "it is too long or too deep to be read to its end");
    }
    if judge.unclear {
        judge.find(Class::Unparsed, &[], "it cannot be read to its end");
    }
    judge.said
}
