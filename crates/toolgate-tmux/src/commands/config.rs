//! `[tmux.commands]`

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::Class;

/// `[tmux.commands]`: the command guard, which checks the commands that tools would type into panes.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct CommandsConfig {
    /// Whether commands are checked.
    pub enabled: bool,
    /// Kinds of commands that run only after a person has confirmed them. A list with `delete-outside-root` or
    /// `system`, and none of the kinds that were once part of it, covers those, too.
    #[serde(deserialize_with = "kinds")]
    pub ask: Vec<Class>,
    /// Kinds of commands that never run; wins over `ask`.
    #[serde(deserialize_with = "kinds")]
    pub deny: Vec<Class>,
    /// Roots: folders in which commands may delete and write files, besides the pane's folder and everything inside
    /// of `/tmp`.
    pub roots: Vec<PathBuf>,
    /// Whether values that are known only at run time (`$VAR`) count as the worst possible value.
    pub strict: bool,
}

impl Default for CommandsConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            ask: Class::ALL.to_vec(),
            deny: Vec::new(),
            roots: Vec::new(),
            strict: false,
        }
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

/// Reads a list of kinds. One that was written when a name covered more kinds than today still covers them.
fn kinds<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Class>, D::Error> {
    let mut kinds = Vec::<Class>::deserialize(from)?;
    for class in Class::ALL.into_iter().filter(|class| kinds.contains(class)).collect::<Vec<_>>() {
        let split = class.split_kinds();
        if !split.iter().any(|class| kinds.contains(class)) {
            kinds.extend(split);
        }
    }
    Ok(kinds)
}
