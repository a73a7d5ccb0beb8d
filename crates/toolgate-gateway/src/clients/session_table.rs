//! The table of legacy sessions, by their random ids.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::RwLock;
use toolgate::Principal;

use super::legacy_session::LegacySession;
use crate::usage::Reservation;

/// A session with the reservation that counts it.
type SessionEntry = (Arc<LegacySession>, Reservation);

/// The sessions of the gateway.
#[derive(Debug)]
pub(crate) struct SessionTable {
    /// Removing an entry releases its reservation.
    sessions: RwLock<HashMap<Arc<str>, SessionEntry>>,
    idle: Option<Duration>,
}

impl SessionTable {
    pub(crate) fn new(idle: Option<Duration>) -> Self {
        Self { sessions: RwLock::default(), idle }
    }

    /// Adds a session.
    pub(crate) fn insert(&self, session: &Arc<LegacySession>, place: Reservation) {
        let mut sessions = self.sessions.write();
        sessions.insert(Arc::clone(&session.session.id), (Arc::clone(session), place));
    }

    /// The session with this id.
    pub(crate) fn by_id(&self, id: &str) -> Option<Arc<LegacySession>> {
        let sessions = self.sessions.read();
        sessions.get(id).map(|(session, _)| Arc::clone(session))
    }

    /// The session with this id, if it belongs to this namespace and principal.
    pub(crate) fn find(
        &self,
        id: &str,
        namespace: &str,
        principal: &Principal,
    ) -> Option<Arc<LegacySession>> {
        let sessions = self.sessions.read();
        let (found, _) = sessions.get(id)?;
        let session = &found.session;
        let is_theirs = &*session.namespace == namespace && session.principal == *principal;
        is_theirs.then(|| Arc::clone(found))
    }

    /// Removes a session.
    pub(crate) fn remove(&self, id: &str) {
        self.sessions.write().remove(id);
    }

    /// All sessions.
    pub(crate) fn all(&self) -> Vec<Arc<LegacySession>> {
        let sessions = self.sessions.read();
        sessions.values().map(|(session, _)| Arc::clone(session)).collect()
    }

    /// Removes and returns the sessions that were idle for too long.
    pub(crate) fn take_idle(&self) -> Vec<Arc<LegacySession>> {
        let Some(idle) = self.idle else { return Vec::new() };
        let mut sessions = self.sessions.write();
        let mut taken = Vec::new();
        sessions.retain(|_, (session, _)| {
            let is_idle = session.idle_for() >= idle;
            if is_idle {
                taken.push(Arc::clone(session));
            }
            !is_idle
        });
        taken
    }

    /// How long a session may be idle; `None` without a limit.
    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        self.idle
    }

    /// How often to look for idle sessions.
    pub(crate) fn sweep_interval(&self) -> Duration {
        let often = Duration::from_secs(30);
        self.idle.map_or(often, |idle| (idle / 4).clamp(Duration::from_millis(50), often))
    }
}
