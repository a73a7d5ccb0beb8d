//! What servers share, whom they tell, and whose their connections are.

use std::sync::{Arc, OnceLock, Weak};

use tokio::{runtime::Handle, sync::Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use toolgate_wire::{Json, Limits, Message};

use super::Server;
use crate::{
    upstream::{
        events::{ListKind, ReplyTo},
        manifest::ManifestCache,
    },
    usage::Account,
};

/// What servers share.
pub(crate) struct ServerDeps {
    /// Where servers live: what they read and write does not hold up those who serve clients.
    pub(crate) control: Handle,
    pub(crate) limits: Limits,
    pub(crate) shelf: ManifestCache,
    /// So many servers start at once.
    pub(crate) starts: Semaphore,
    /// Processes that have not ended yet.
    pub(crate) tasks: TaskTracker,
    /// Those who take leave of servers.
    pub(crate) partings: TaskTracker,
    /// Who is told of what happens.
    pub(crate) watch: OnceLock<Weak<dyn ServerEvents>>,
}

impl std::fmt::Debug for ServerDeps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerDeps")
    }
}

/// Who is told of what happens at servers. Nothing of it may wait.
pub(crate) trait ServerEvents: Send + Sync {
    /// A list of a server is another one now.
    fn changed(&self, server: &Arc<Server>, kinds: &[ListKind]);
    /// A list changed on the upstream connection of this owner.
    fn changed_for(&self, server: &Arc<Server>, owner: &str, kind: ListKind);
    /// A resource changed.
    fn updated(&self, server: &Arc<Server>, owner: Option<&str>, message: &Message);
    /// A server says something that belongs to no call.
    fn told(&self, server: &Arc<Server>, owner: Option<&str>, message: &Message);
    /// A server asks something that belongs to no call; `false`: nobody can answer.
    fn asked(
        &self,
        server: &Arc<Server>,
        owner: Option<&str>,
        message: Message,
        reply: ReplyTo,
    ) -> bool;
    /// It is known that a server cannot be called for now.
    fn failed(&self, server: &Server);
}

/// Whose connection it is, where each session has its own.
#[derive(Clone, Debug)]
pub(crate) struct SessionKey {
    pub(crate) key: Arc<str>,
    pub(crate) capabilities: Json,
    pub(crate) info: Json,
    pub(crate) version: Arc<str>,
    /// Cancelled when whoever it is is gone: nothing is started for it from then on.
    pub(crate) over: CancellationToken,
    /// Whose principal's it is.
    pub(crate) account: Arc<Account>,
}

impl SessionKey {
    /// Whether it is one client: a session. All clients of 2026-07-28 of a principal that have the same name and version
    /// and can be asked the same are one owner.
    pub(in crate::upstream) fn is_one_client(&self) -> bool {
        !self.key.starts_with(super::SESSIONLESS)
    }
}

/// Whose a connection is.
#[derive(Clone, Debug)]
pub(in crate::upstream) enum Whose {
    /// All clients'.
    Everybodys,
    /// Shared by all legacy clients.
    Olds,
    /// One session's.
    Route(SessionKey),
}

impl Whose {
    pub(in crate::upstream) fn owner(&self) -> Option<&SessionKey> {
        match self {
            Self::Route(owner) => Some(owner),
            Self::Everybodys | Self::Olds => None,
        }
    }
}

/// How a server is, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerState {
    /// Nobody needed it yet.
    Waiting,
    /// It is being started or reached.
    Starting,
    /// It can be called.
    Ready,
    /// It was stopped because nobody used it.
    Stopped,
    /// It cannot be called, and why.
    Failed(Arc<str>),
}
