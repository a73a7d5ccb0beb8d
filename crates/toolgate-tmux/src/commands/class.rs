//! What a command may be, and what was found in one.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of command that should not run just because an agent types it.
#[derive(
    Clone, Copy, Debug, Deserialize, Serialize, JsonSchema, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Deletes outside of the roots, or a whole root.
    DeleteOutsideRoot,
    /// Writes outside of the roots: `> ~/.bashrc`, `cp x /etc/y`.
    WriteOutsideRoot,
    /// Discards work that git keeps nowhere else: `git checkout -- .`, `git branch -D`.
    DiscardWork,
    /// Publishes something: `npm publish`, `docker push`.
    Publish,
    /// Rewrites or deletes branches of a remote repository: `git push --force`.
    ForcePush,
    /// Deletes or archives a hosted repository or a release: `gh repo delete`.
    RemoteRepository,
    /// Deletes from a cluster: `kubectl delete`, `helm uninstall`.
    ClusterDelete,
    /// Destroys machines or other infrastructure: `terraform destroy`.
    InfrastructureDestroy,
    /// Deletes from a bucket or from another machine: `aws s3 rm --recursive`.
    RemoteStorage,
    /// Deletes volumes or images of containers: `docker volume rm`, `docker system prune`.
    ContainerData,
    /// Changes what runs later: `crontab -r`, `at`.
    Schedule,
    /// Changes owners or permissions of whole folders: `chmod -R`, `chown -R`.
    Permissions,
    /// Writes to a disk device directly.
    Disk,
    /// Runs a downloaded script: `curl … | sh`.
    PipeToShell,
    /// Runs something as another user: `sudo`.
    Privilege,
    /// Stops or reconfigures the machine, its services or its network.
    System,
    /// Drops or empties a database or a table.
    Database,
    /// Makes the shell run something later: `PROMPT_COMMAND`, `trap … DEBUG`, `precmd`, `bind -x`.
    ShellHook,
    /// Runs an earlier command again, which the guard does not see: Up, C-r, `!!`, `^a^b`.
    History,
    /// Is too long or too deeply nested to be parsed.
    Overlong,
    /// Cannot be parsed completely: an open quote, keys that edit the line, a program that is named by a variable.
    Unparsed,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 21] = [
        Self::DeleteOutsideRoot,
        Self::WriteOutsideRoot,
        Self::DiscardWork,
        Self::Publish,
        Self::ForcePush,
        Self::RemoteRepository,
        Self::ClusterDelete,
        Self::InfrastructureDestroy,
        Self::RemoteStorage,
        Self::ContainerData,
        Self::Schedule,
        Self::Permissions,
        Self::Disk,
        Self::PipeToShell,
        Self::Privilege,
        Self::System,
        Self::Database,
        Self::ShellHook,
        Self::History,
        Self::Overlong,
        Self::Unparsed,
    ];

    /// The name in configs and refusals.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DeleteOutsideRoot => "delete-outside-root",
            Self::WriteOutsideRoot => "write-outside-root",
            Self::DiscardWork => "discard-work",
            Self::Publish => "publish",
            Self::ForcePush => "force-push",
            Self::RemoteRepository => "remote-repository",
            Self::ClusterDelete => "cluster-delete",
            Self::InfrastructureDestroy => "infrastructure-destroy",
            Self::RemoteStorage => "remote-storage",
            Self::ContainerData => "container-data",
            Self::Schedule => "schedule",
            Self::Permissions => "permissions",
            Self::Disk => "disk",
            Self::PipeToShell => "pipe-to-shell",
            Self::Privilege => "privilege",
            Self::System => "system",
            Self::Database => "database",
            Self::ShellHook => "shell-hook",
            Self::History => "history",
            Self::Overlong => "overlong",
            Self::Unparsed => "unparsed",
        }
    }

    /// The kinds that had this name before they got names of their own.
    pub(super) const fn split_kinds(self) -> &'static [Self] {
        match self {
            Self::DeleteOutsideRoot => &[
                Self::WriteOutsideRoot,
                Self::RemoteRepository,
                Self::ClusterDelete,
                Self::InfrastructureDestroy,
                Self::RemoteStorage,
                Self::ContainerData,
                Self::Schedule,
            ],
            Self::System => &[Self::Permissions],
            _ => &[],
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
