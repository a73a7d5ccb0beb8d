//! Which resources of a server somebody wants to hear of.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::Notify;
use toolgate::Failure;
use toolgate_wire::{Json, Object};

use super::{
    connection::{Connection, Era, result_of},
    flight::{NotStarted, unavailable},
    server::{Owner, Server},
};
use crate::sessions::caller::Caller;

/// How many listen to each resource.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    counts: Mutex<BTreeMap<Arc<str>, usize>>,
    /// Woken when the set is another one.
    pub(super) changed: Notify,
}

impl Subscriptions {
    /// All of them.
    pub(super) fn all(&self) -> Vec<Arc<str>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// One more; `true` if it is the first.
    fn add(&self, uri: &Arc<str>) -> bool {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(Arc::clone(uri)).or_default();
        *count += 1;
        *count == 1
    }

    /// One less; `true` if it was the last.
    fn take(&self, uri: &str) -> bool {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = counts.get_mut(uri) else { return false };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            counts.remove(uri);
        }
        is_last
    }
}

/// Somebody listens to a resource as long as it is there.
#[derive(Debug)]
pub(crate) struct Subscribed {
    server: Arc<Server>,
    uri: Arc<str>,
    /// Whose connection it is on, where each session has its own.
    owner: Option<Owner>,
}

impl Subscribed {
    /// Listens to a resource of a server.
    pub(crate) async fn to(
        server: &Arc<Server>,
        uri: Arc<str>,
        caller: &Caller,
    ) -> Result<Self, Failure> {
        let owner = server.is_private().then(|| caller.owner());
        if owner.is_some() {
            let connection = server.connection(owner.as_ref()).await?;
            tell(&connection, &server.name, "resources/subscribe", &uri).await?;
            return Ok(Self { server: Arc::clone(server), uri, owner });
        }
        let is_first = server.subscriptions.add(&uri);
        let subscribed = Self { server: Arc::clone(server), uri, owner };
        if is_first {
            let connection = server.connection(None).await?;
            match connection.era() {
                Era::Legacy => tell(&connection, &server.name, "resources/subscribe", &subscribed.uri).await?,
                Era::Modern => server.subscriptions.changed.notify_one(),
            }
        }
        Ok(subscribed)
    }

    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.server.name == other.server.name && self.uri == other.uri
    }

    /// Whether a change of this resource is of interest: of this one, or of a part of it.
    pub(crate) fn covers(&self, server: &Server, uri: &str) -> bool {
        self.server.name == server.name && uri.starts_with(&*self.uri)
    }
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        if self.owner.is_none() && !self.server.subscriptions.take(&self.uri) {
            return;
        }
        let (server, uri) = (Arc::clone(&self.server), Arc::clone(&self.uri));
        let owner = self.owner.take();
        self.server.subscriptions.changed.notify_one();
        self.server.surroundings.control.spawn(async move {
            // Only where there is one: it is not started to be told that nobody listens.
            if let Some(connection) = server.connected(owner.as_ref())
                && connection.era() == Era::Legacy
            {
                let _ = tell(&connection, &server.name, "resources/unsubscribe", &uri).await;
            }
        });
    }
}

/// Subscribes again to everything, on a new connection.
pub(super) async fn renew(server: &Server, connection: &Connection) {
    for uri in server.subscriptions.all() {
        if let Err(failure) = tell(connection, &server.name, "resources/subscribe", &uri).await {
            tracing::warn!("changes of `{uri}` are not heard of: {failure}");
        }
    }
}

async fn tell(connection: &Connection, server: &str, method: &str, uri: &str) -> Result<(), Failure> {
    let mut params = Object::new();
    params.set("uri", Json::string(uri));
    let answer = connection.ask(method, params).await.map_err(|not| match not {
        NotStarted::Failed(failure) => failure,
        NotStarted::Closed(why) => unavailable(server, &why),
        NotStarted::SessionLost => unavailable(server, "it has forgotten the session"),
    })?;
    result_of(&answer).map(drop)
}
