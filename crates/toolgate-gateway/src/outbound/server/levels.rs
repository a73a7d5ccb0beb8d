//! How much a server tells of what it does.

use std::sync::{Arc, atomic::Ordering};

use toolgate_wire::{Json, Object};

use super::Server;
use crate::{
    outbound::connection::Era,
    sessions::{caller::Caller, level::Level},
};

impl Server {
    /// A client of old wants to hear more of what servers do: a server that all share is as loud as the most curious
    /// wants it. Nobody waits for it.
    pub(crate) fn speak_up(self: &Arc<Self>, level: Level, caller: &Caller) {
        let has_logs = self.manifest().is_some_and(|manifest| {
            let is_old = manifest.offer.era == Era::Legacy || self.speaks_both();
            manifest.offer.has("logging") && is_old
        });
        let is_louder = self.loudness.fetch_min(level.number(), Ordering::Relaxed) > level.number();
        if !has_logs || !(is_louder || self.is_private()) {
            return;
        }
        let (server, owner) = (Arc::clone(self), self.is_private().then(|| caller.owner()));
        self.surroundings.control.spawn(async move {
            let opened = server.connection_for(owner.as_ref(), Era::Legacy).await;
            let Ok(connection) = opened else { return };
            let mut params = Object::new();
            params.set("level", Json::string(level.name()));
            if let Err(not) = connection.ask("logging/setLevel", params).await {
                tracing::debug!("the level of `{}` is not set: {not:?}", server.name);
            }
        });
    }

    /// The level of log messages that somebody asked for, for a connection that is new.
    pub(in crate::outbound) fn loudness(&self) -> Option<Level> {
        Level::by_number(self.loudness.load(Ordering::Relaxed))
    }
}
