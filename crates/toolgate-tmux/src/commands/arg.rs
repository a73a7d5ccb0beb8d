//! The arguments of a command after expansion, as far as they are known.

use std::rc::Rc;

/// Stands for text that is only known when the command runs.
pub(super) const UNKNOWN: char = '\u{e000}';
/// Stands for a user's home folder.
pub(super) const HOME: char = '\u{e001}';

/// One argument.
#[derive(Clone, Debug, Default)]
pub(super) struct Arg {
    /// The text; [`UNKNOWN`] and [`HOME`] stand for text that is not known.
    pub(super) text: String,
    /// Whether it has wildcards that are not quoted.
    pub(super) globs: bool,
    /// Whether it was downloaded, or names a file that was.
    pub(super) fetched: bool,
    /// The content of the file that it names, if that is known: `<(echo x)`.
    pub(super) content: Option<Rc<str>>,
}

impl Arg {
    pub(super) fn is_known(&self) -> bool {
        !self.text.contains(UNKNOWN)
    }

    pub(super) fn is_option(&self) -> bool {
        self.text.len() > 1 && self.text.starts_with('-')
    }
}

/// The value of a variable.
#[derive(Clone, Debug, Default)]
pub(super) struct VariableValue {
    pub(super) text: String,
    pub(super) fetched: bool,
}
