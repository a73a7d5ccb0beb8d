//! How much a server tells of what it does.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{task::JoinHandle, time::timeout};
use toolgate_wire::{Json, Object, mcp::Era};

use super::{Server, SessionKey};
use crate::{log_level::LogLevel, upstream::connection::Connection};

/// A server that does not take a level for so long is not waited for.
const PATIENCE: Duration = Duration::from_secs(2);

impl Server {
    /// A client wants to hear what the server does, from this level on: one that all share tells as much as the most
    /// curious client wants; `own_level` is what the client wants when its turn comes. Gives what to wait for until a
    /// server that runs knows it, or has had time enough.
    pub(crate) fn speak_up(
        self: &Arc<Self>,
        level: LogLevel,
        owner: impl FnOnce() -> SessionKey,
        own_level: impl Fn() -> Option<LogLevel> + Send + Sync + 'static,
    ) -> Option<JoinHandle<()>> {
        let has_logs = self.manifest().is_some_and(|manifest| {
            let is_old = manifest.offer.era == Era::Legacy || self.speaks_both();
            manifest.offer.has("logging") && is_old
        });
        let is_louder = self.loudness.fetch_min(level.number(), Ordering::Relaxed) > level.number();
        if !has_logs || !(is_louder || self.is_private()) {
            return None;
        }
        let (server, owner) = (Arc::clone(self), self.is_private().then(owner));
        let is_running = self.connected(owner.as_ref()).is_some();
        let control = &self.surroundings.control;
        let telling = control.spawn(async move {
            let opened = server.connection_for(owner.as_ref(), Era::Legacy).await;
            // From 2026-07-28 on each request says the level.
            let Some(connection) = opened.ok().filter(|c| c.era() == Era::Legacy) else { return };
            let wanted = || if owner.is_some() { own_level() } else { server.loudness() };
            server.set_level(&connection, wanted).await;
        });
        is_running.then(|| control.spawn(async move { drop(timeout(PATIENCE, telling).await) }))
    }

    /// Sets the level of a connection, one client after the other. What is wanted is read in that turn: of two that ask
    /// at once, neither undoes what the other one got.
    pub(in crate::upstream) async fn set_level(
        &self,
        connection: &Connection,
        wanted: impl Fn() -> Option<LogLevel>,
    ) {
        let mut set = connection.level.lock().await;
        let Some(level) = wanted().map(LogLevel::name).filter(|level| *set != Some(*level)) else {
            return;
        };
        let mut params = Object::new();
        params.set("level", Json::string(level));
        match connection.ask("logging/setLevel", params).await {
            Ok(_) => *set = Some(level),
            Err(not) => tracing::debug!("the level of `{}` is not set: {not:?}", self.name),
        }
    }

    /// The level of log messages that somebody asked for, for a connection that is new.
    pub(in crate::upstream) fn loudness(&self) -> Option<LogLevel> {
        LogLevel::by_number(self.loudness.load(Ordering::Relaxed))
    }
}
