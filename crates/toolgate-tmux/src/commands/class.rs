//! What a command may be, and what was found in one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of command that should not run just because an agent types it.
#[derive(
    Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Deletes or empties what is not below a root, or all of a root.
    DeleteOutsideRoot,
    /// Gives something to the world: `npm publish`, `docker push`.
    Publish,
    /// Changes or deletes what others may have of a repository.
    ForcePush,
    /// Writes to a disk past its file system.
    Disk,
    /// Runs what was just downloaded.
    PipeToShell,
    /// Runs something as somebody else: `sudo`.
    Privilege,
    /// Ends or unsettles the machine, its services or its network.
    System,
    /// Drops or empties a database or a table.
    Database,
    /// Is too long, too deep or too much to be read to its end.
    Overlong,
    /// Cannot be read, or not to its end.
    Unparsed,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::DeleteOutsideRoot,
        Self::Publish,
        Self::ForcePush,
        Self::Disk,
        Self::PipeToShell,
        Self::Privilege,
        Self::System,
        Self::Database,
        Self::Overlong,
        Self::Unparsed,
    ];

    /// The name in configs and refusals.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DeleteOutsideRoot => "delete-outside-root",
            Self::Publish => "publish",
            Self::ForcePush => "force-push",
            Self::Disk => "disk",
            Self::PipeToShell => "pipe-to-shell",
            Self::Privilege => "privilege",
            Self::System => "system",
            Self::Database => "database",
            Self::Overlong => "overlong",
            Self::Unparsed => "unparsed",
        }
    }
}

impl std::fmt::Display for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What speaks against a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind.
    pub class: Class,
    /// The words that it is about, shortened, without secrets.
    pub words: String,
    /// Why, as a part of a sentence.
    pub why: String,
}

/// What there is to say about a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgement {
    /// What speaks against it, each kind and words once.
    pub findings: Vec<Finding>,
    /// What can only be known when it runs.
    pub notes: Vec<String>,
    /// Whether the folder that it runs in would make a difference.
    pub needs_folder: bool,
}

impl Judgement {
    /// The kinds that were found, each once.
    #[must_use]
    pub fn classes(&self) -> Vec<Class> {
        let mut classes: Vec<Class> = self.findings.iter().map(|finding| finding.class).collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }
}
