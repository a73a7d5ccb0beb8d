//! All sessions: ended when nobody uses them, found by an id that nobody can guess.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::RwLock;
use toolgate::Principal;

use super::legacy_session::LegacySession;
use crate::usage::Reservation;

/// A session with its place.
type Place = (Arc<LegacySession>, Reservation);

/// The sessions of the gateway.
#[derive(Debug)]
pub(crate) struct SessionTable {
    /// The place is free again once the session is taken out.
    sessions: RwLock<HashMap<Arc<str>, Place>>,
    idle: Option<Duration>,
}

impl SessionTable {
    pub(crate) fn new(idle: Option<Duration>) -> Self {
        Self { sessions: RwLock::default(), idle }
    }

    /// Enters a session, which has a place.
    pub(crate) fn enter(&self, session: &Arc<LegacySession>, place: Reservation) {
        let mut sessions = self.sessions.write();
        sessions.insert(Arc::clone(&session.session.id), (Arc::clone(session), place));
    }

    /// The session of this id.
    pub(crate) fn by_id(&self, id: &str) -> Option<Arc<LegacySession>> {
        let sessions = self.sessions.read();
        sessions.get(id).map(|(session, _)| Arc::clone(session))
    }

    /// The session of this id, if it is of this namespace and of whoever it was given to.
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

    /// Takes a session out.
    pub(crate) fn remove(&self, id: &str) {
        self.sessions.write().remove(id);
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<Arc<LegacySession>> {
        let sessions = self.sessions.read();
        sessions.values().map(|(session, _)| Arc::clone(session)).collect()
    }

    /// Takes out those that nobody used for long.
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

    /// For how long they may be idle.
    pub(crate) fn idle(&self) -> Option<Duration> {
        self.idle
    }

    /// How often to look for those.
    pub(crate) fn look_every(&self) -> Duration {
        let often = Duration::from_secs(30);
        self.idle.map_or(often, |idle| (idle / 4).clamp(Duration::from_millis(50), often))
    }
}
