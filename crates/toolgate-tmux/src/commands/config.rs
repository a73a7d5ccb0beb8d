//! `[tmux.commands]`

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::Class;

/// `[tmux.commands]`: what is typed into panes is judged first.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct CommandsConfig {
    /// Whether commands are judged.
    pub enabled: bool,
    /// Kinds of commands that run only once they are confirmed. All but `unparsed`, if not said.
    pub ask: Vec<Class>,
    /// Kinds of commands that never run. Wins over `ask`.
    pub deny: Vec<Class>,
    /// Folders in which things may be deleted, beside the pane's own folder and the insides of `/tmp`.
    pub roots: Vec<PathBuf>,
    /// Whether what is only known when it runs counts as the worst that it can be.
    pub strict: bool,
}

impl Default for CommandsConfig {
    fn default() -> Self {
        let ask = Class::ALL.into_iter().filter(|class| *class != Class::Unparsed).collect();
        Self { enabled: true, ask, deny: Vec::new(), roots: Vec::new(), strict: false }
    }
}

impl CommandsConfig {
    /// Every kind that would be asked about is refused instead.
    #[must_use]
    pub fn denying(mut self) -> Self {
        self.deny.append(&mut self.ask);
        self
    }
}
