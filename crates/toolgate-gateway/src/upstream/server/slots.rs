//! The places of connections: one for everybody, or one for each session, and who may be in them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use toolgate::{Failure, Principal};
use toolgate_wire::mcp::Era;

use super::{SESSIONLESS, Server, SessionKey};
use crate::{
    backoff::Backoff,
    config::{HttpTransport, ServerConfig, Text},
    upstream::{
        connection::Connection,
        in_flight::{Lease, unavailable},
    },
    usage::{LimitReached, LimitScope},
};

/// So many requests of one owner have a connection to themselves at once.
const MOST_ALONE: usize = 16;

/// The place of one connection.
#[derive(Debug, Default)]
pub(super) struct ConnectionSlot {
    /// Whose it is, where each session has its own.
    principal: Option<Principal>,
    pub(super) used_ms: AtomicU64,
    pub(super) current: ArcSwapOption<Connection>,
    /// Held by the request that has the connection to itself.
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
    /// The connection to it, if there is one.
    pub(crate) fn connected(&self, owner: Option<&SessionKey>) -> Option<Arc<Connection>> {
        match owner.filter(|_| self.is_private()) {
            None => self.shared.ready(),
            Some(owner) => {
                let own = self.own.lock();
                own.get(&owner.key).and_then(|slot| slot.ready())
            }
        }
    }

    pub(super) fn slot(&self, owner: Option<&SessionKey>) -> Result<Arc<ConnectionSlot>, Failure> {
        let Some(owner) = owner.filter(|_| self.is_private()) else {
            return Ok(Arc::clone(&self.shared));
        };
        let mut own = self.own.lock();
        // Under the lock: whoever is gone from here on finds the place, and ends what is in it.
        if owner.over.is_cancelled() {
            return Err(unavailable(&self.name, "its client is gone"));
        }
        if let Some(slot) = own.get(&owner.key) {
            slot.used_ms.store(self.now_ms(), Ordering::Relaxed);
            return Ok(Arc::clone(slot));
        }
        let most = self.config.processes;
        let share = owner.account.share.of(most);
        let principal = Some(&owner.account.principal);
        let theirs = own.values().filter(|slot| slot.principal.as_ref() == principal).count();
        if theirs >= share || own.len() >= most {
            let (scope, bound) = if theirs >= share && share < most {
                (LimitScope::Principal, share)
            } else {
                (LimitScope::Gateway, most)
            };
            let what = "processes of the server for sessions of their own";
            let setting = format!("servers.{}.processes", self.name);
            return Err(LimitReached::new(what, setting, bound, scope).failure());
        }
        let slot =
            Arc::new(ConnectionSlot { principal: principal.cloned(), ..ConnectionSlot::default() });
        slot.used_ms.store(self.now_ms(), Ordering::Relaxed);
        own.insert(Arc::clone(&owner.key), Arc::clone(&slot));
        Ok(slot)
    }

    /// Gives a request a connection to itself, where a question of the server could otherwise not be told from those of
    /// other requests: several clients without sessions share an owner, and a legacy server does not say over a pipe
    /// which request it asks about. `None`: the request needs none.
    ///
    /// At most `MOST_ALONE` requests of one owner have their own; the others share the first one, where questions are
    /// refused while several are in flight.
    pub(crate) fn lease(&self, owner: &SessionKey) -> Option<(SessionKey, Lease)> {
        let is_lines = self.config.url.is_none() || self.config.transport == HttpTransport::Sse;
        let is_old = self.manifest().is_some_and(|manifest| manifest.offer.era == Era::Legacy);
        if owner.is_one_client() || !is_lines || !is_old {
            return None;
        }
        for number in 0..MOST_ALONE {
            let key = match number {
                0 => Arc::clone(&owner.key),
                number => format!("{} #{number}", owner.key).into(),
            };
            let alone = SessionKey { key, ..owner.clone() };
            let slot = self.slot(Some(&alone)).ok()?;
            // Under the lock: of two requests one gets it.
            let _own = self.own.lock();
            if !slot.lease.is_held() {
                return Some((alone, slot.lease.clone()));
            }
        }
        None
    }

    /// Whether the place of a connection is still somebody's.
    pub(super) fn is_wanted(&self, slot: &Arc<ConnectionSlot>, owner: Option<&SessionKey>) -> bool {
        let Some(owner) = owner.filter(|_| self.is_private()) else { return true };
        let own = self.own.lock();
        own.get(&owner.key).is_some_and(|own| Arc::ptr_eq(own, slot))
    }

    /// Ends connections of callers without a session that were not used for so long.
    pub(crate) fn sweep(&self, idle: Duration) {
        let now = self.now_ms();
        let idle = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX);
        let mut own = self.own.lock();
        own.retain(|key, slot| {
            let is_idle = now.saturating_sub(slot.used_ms.load(Ordering::Relaxed)) >= idle;
            let connection = slot.current.load_full();
            let is_busy = slot.lease.is_held()
                || connection.as_ref().is_some_and(|connection| connection.in_flight() > 0);
            let is_swept = is_idle && !is_busy && key.starts_with(SESSIONLESS);
            if let Some(connection) = connection.filter(|_| is_swept) {
                connection.close("nobody used it");
            }
            !is_swept
        });
    }

    /// A session is over: so is its connection.
    pub(crate) fn leave(&self, key: &str) {
        let slot = self.own.lock().remove(key);
        if let Some(connection) = slot.and_then(|slot| slot.current.swap(None)) {
            connection.close("its client is gone");
        }
    }
}

/// What a server is started or reached by, and as whom: for telling it from another of the same name. Only a digest of it
/// is ever kept.
pub(super) fn source(config: &ServerConfig) -> String {
    let words = config.command.iter().chain(&config.args).chain(&config.url);
    let mut words: Vec<&str> = words.map(Text::as_str).collect();
    for (name, value) in config.env.iter().chain(&config.headers) {
        words.extend([name.as_str(), value.as_str()]);
    }
    let folder = config.cwd.as_ref().map(|folder| folder.display().to_string());
    words.extend(folder.as_deref());
    words.join("\0")
}
