//! The connection slots of a server: a shared one, or one for each session; their owners and limits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use tokio_util::sync::CancellationToken;
use toolgate::{Failure, Principal};
use toolgate_wire::{Json, mcp::Era};

use super::Server;
use crate::{
    backoff::Backoff,
    config::{HttpTransport, ServerConfig, Text},
    upstream::{connection::Connection, failures::unavailable, request::Lease},
    usage::{Account, LimitReached, LimitScope},
};

/// How many requests of one owner can have connections of their own at once.
const MAX_LEASES_PER_OWNER: usize = 16;

/// Which clients share the connections of one [`ConnectionOwner`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OwnerKey {
    /// One legacy client: the id of its session.
    Session(Arc<str>),
    /// All clients of 2026-07-28 of one principal with the same name, version and capabilities.
    Sessionless {
        clients: Arc<str>,
        /// The number of the lease, for a request with a connection of its own; otherwise 0.
        lease: usize,
    },
}

impl OwnerKey {
    /// Whether both belong to the same clients. Leases do not count.
    pub(crate) fn has_same_clients(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Session(id), Self::Session(other)) => id == other,
            (Self::Sessionless { clients, .. }, Self::Sessionless { clients: others, .. }) => {
                clients == others
            }
            _ => false,
        }
    }
}

/// The owner of a connection to a server whose sharing is `session`: a session, or a group of clients without sessions.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionOwner {
    pub(crate) key: OwnerKey,
    pub(crate) capabilities: Json,
    pub(crate) info: Json,
    pub(crate) version: Arc<str>,
    /// Cancelled when the session is over: the gateway starts nothing for it from then on.
    pub(crate) over: CancellationToken,
    /// The account of its principal.
    pub(crate) account: Arc<Account>,
}

impl ConnectionOwner {
    /// Whether the owner is one client, which has a session.
    pub(in crate::upstream) fn is_one_client(&self) -> bool {
        matches!(self.key, OwnerKey::Session(_))
    }
}

/// Which clients share a connection.
#[derive(Clone, Debug)]
pub(in crate::upstream) enum ConnectionScope {
    /// All clients.
    Shared,
    /// All legacy clients.
    SharedLegacy,
    /// One session.
    Session(ConnectionOwner),
}

impl ConnectionScope {
    pub(in crate::upstream) fn owner(&self) -> Option<&ConnectionOwner> {
        match self {
            Self::Session(owner) => Some(owner),
            Self::Shared | Self::SharedLegacy => None,
        }
    }
}

/// The slot of one connection.
#[derive(Debug, Default)]
pub(super) struct ConnectionSlot {
    /// The principal of its owner; `None` for a shared slot.
    principal: Option<Principal>,
    pub(super) used_ms: AtomicU64,
    pub(super) current: ArcSwapOption<Connection>,
    /// Held by the request that has the connection reserved.
    lease: Lease,
    pub(super) opening: tokio::sync::Mutex<SlotOpening>,
}

#[derive(Debug, Default)]
pub(super) struct SlotOpening {
    pub(super) backoff: Backoff,
    pub(super) failed: Option<(Instant, Failure)>,
}

impl ConnectionSlot {
    pub(super) fn ready(&self) -> Option<Arc<Connection>> {
        self.current.load_full().filter(|connection| !connection.is_closed())
    }
}

impl Server {
    /// The open connection, if there is one.
    pub(crate) fn connected(&self, owner: Option<&ConnectionOwner>) -> Option<Arc<Connection>> {
        match owner.filter(|_| self.is_per_session()) {
            None => self.shared.ready(),
            Some(owner) => {
                let own = self.own.lock();
                own.get(&owner.key).and_then(|slot| slot.ready())
            }
        }
    }

    pub(super) fn slot(
        &self,
        owner: Option<&ConnectionOwner>,
    ) -> Result<Arc<ConnectionSlot>, Failure> {
        let Some(owner) = owner.filter(|_| self.is_per_session()) else {
            return Ok(Arc::clone(&self.shared));
        };
        let mut own = self.own.lock();
        // Checked under the lock: a session that ends after this finds the slot, and closes its connection.
        if owner.over.is_cancelled() {
            return Err(unavailable(&self.name, "its client is gone"));
        }
        if let Some(slot) = own.get(&owner.key) {
            slot.used_ms.store(self.now_ms(), Ordering::Relaxed);
            return Ok(Arc::clone(slot));
        }
        let max = self.config.processes;
        let share = owner.account.share.of(max);
        let principal = Some(&owner.account.principal);
        let theirs = own.values().filter(|slot| slot.principal.as_ref() == principal).count();
        if theirs >= share || own.len() >= max {
            let (scope, bound) = if theirs >= share && share < max {
                (LimitScope::Principal, share)
            } else {
                (LimitScope::Gateway, max)
            };
            let what = "processes of the server for sessions of their own";
            let setting = format!("servers.{}.processes", self.name);
            return Err(LimitReached::new(what, setting, bound, scope).failure());
        }
        let slot =
            Arc::new(ConnectionSlot { principal: principal.cloned(), ..ConnectionSlot::default() });
        slot.used_ms.store(self.now_ms(), Ordering::Relaxed);
        own.insert(owner.key.clone(), Arc::clone(&slot));
        Ok(slot)
    }

    /// Reserves a connection for one request, if the gateway could otherwise not attribute requests of the server: several
    /// clients without sessions share an owner, and a legacy server over a pipe does not name the call that its request is
    /// about. `None`: the request needs no connection of its own.
    ///
    /// At most `MAX_LEASES_PER_OWNER` requests of one owner have their own. The others share the first connection, where the
    /// gateway refuses requests of the server while several calls are in flight.
    pub(crate) fn lease(&self, owner: &ConnectionOwner) -> Option<(ConnectionOwner, Lease)> {
        let is_lines = self.config.url.is_none() || self.config.transport == HttpTransport::Sse;
        let is_old =
            self.manifest().is_some_and(|manifest| manifest.server_info.era == Era::Legacy);
        let OwnerKey::Sessionless { clients, .. } = &owner.key else { return None };
        if !is_lines || !is_old {
            return None;
        }
        for lease in 0..MAX_LEASES_PER_OWNER {
            let key = OwnerKey::Sessionless { clients: Arc::clone(clients), lease };
            let alone = ConnectionOwner { key, ..owner.clone() };
            let slot = self.slot(Some(&alone)).ok()?;
            // Under the lock: of two concurrent requests one gets it.
            let _own = self.own.lock();
            if !slot.lease.is_held() {
                return Some((alone, slot.lease.clone()));
            }
        }
        None
    }

    /// Whether the slot is still in use.
    pub(super) fn is_wanted(
        &self,
        slot: &Arc<ConnectionSlot>,
        owner: Option<&ConnectionOwner>,
    ) -> bool {
        let Some(owner) = owner.filter(|_| self.is_per_session()) else { return true };
        let own = self.own.lock();
        own.get(&owner.key).is_some_and(|own| Arc::ptr_eq(own, slot))
    }

    /// Closes connections of callers without a session that were idle for this long.
    pub(crate) fn sweep(&self, idle: Duration) {
        let now = self.now_ms();
        let idle = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX);
        let mut own = self.own.lock();
        own.retain(|key, slot| {
            let is_idle = now.saturating_sub(slot.used_ms.load(Ordering::Relaxed)) >= idle;
            let connection = slot.current.load_full();
            let is_busy = slot.lease.is_held()
                || connection.as_ref().is_some_and(|connection| connection.in_flight() > 0);
            let is_sessionless = matches!(key, OwnerKey::Sessionless { .. });
            let is_swept = is_idle && !is_busy && is_sessionless;
            if let Some(connection) = connection.filter(|_| is_swept) {
                connection.close("it was not used");
            }
            !is_swept
        });
    }

    /// Closes the connection of a session that is over.
    pub(crate) fn end_session(&self, id: &Arc<str>) {
        let slot = self.own.lock().remove(&OwnerKey::Session(Arc::clone(id)));
        if let Some(connection) = slot.and_then(|slot| slot.current.swap(None)) {
            connection.close("its client is gone");
        }
    }
}

/// The cache key of a server: command, args, url, env, headers and cwd. Contains secrets: only its hash is stored.
pub(super) fn cache_key(config: &ServerConfig) -> String {
    let words = config.command.iter().chain(&config.args).chain(&config.url);
    let mut words: Vec<&str> = words.map(Text::as_str).collect();
    for (name, value) in config.env.iter().chain(&config.headers) {
        words.extend([name.as_str(), value.as_str()]);
    }
    let folder = config.cwd.as_ref().map(|folder| folder.display().to_string());
    words.extend(folder.as_deref());
    words.join("\0")
}
