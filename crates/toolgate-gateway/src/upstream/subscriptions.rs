//! Which resources of a server somebody wants to hear of.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::watch;
use toolgate::{Failure, RpcError};
use toolgate_wire::{
    Json, Object,
    mcp::{Era, code, method},
};

use super::{
    connection::Connection,
    in_flight::{StartFailure, unavailable},
    server::{Server, SessionKey},
};
use crate::{
    response::result_of,
    usage::{Account, LimitReached, Reservation, UsageKind},
};

/// So long whoever subscribes waits until the server is listened to.
const PATIENCE: Duration = Duration::from_secs(3);

/// Which resources of a server clients are subscribed to.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    /// On the connection that all clients share, or on those of sessions.
    pub(super) shared: Subscribers,
    /// On the connection that legacy clients share, where the server speaks both eras.
    pub(super) mirrored: Subscribers,
    /// How often the set has changed, for those who follow it.
    changes: watch::Sender<u64>,
    /// What the server is listened to for.
    heard: watch::Sender<Listened>,
}

/// How far `subscriptions/listen` has come.
#[derive(Debug, Default)]
struct Listened {
    /// The number of the set that it asked for.
    number: u64,
    /// The server does not know the method.
    is_refused: bool,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self {
            shared: Subscribers::default(),
            mirrored: Subscribers::default(),
            changes: watch::Sender::new(0),
            heard: watch::Sender::default(),
        }
    }
}

impl Subscriptions {
    /// Tells when the set is another one.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The set is another one; gives its number.
    fn changed(&self) -> u64 {
        self.changes.send_modify(|count| *count += 1);
        *self.changes.borrow()
    }

    /// The server is listened to by the set of this number.
    pub(super) fn listened_to(&self, number: u64) {
        self.heard.send_modify(|heard| heard.number = number.max(heard.number));
    }

    /// Whether the server refuses `subscriptions/listen`, as far as that is known.
    pub(super) fn refuse(&self, is_refused: bool) {
        self.heard.send_modify(|heard| heard.is_refused = is_refused);
    }

    /// Waits until the server is listened to by a set that is not older; `false`: it refuses.
    async fn heard(&self, number: u64) -> bool {
        let mut heard = self.heard.subscribe();
        let settled = heard.wait_for(|heard| heard.is_refused || heard.number >= number);
        let settled = tokio::time::timeout(PATIENCE, settled).await;
        !matches!(settled, Ok(Ok(heard)) if heard.is_refused)
    }
}

/// How many are subscribed to each resource on one connection.
#[derive(Debug, Default)]
pub(super) struct Subscribers(Mutex<BTreeMap<Arc<str>, usize>>);

impl Subscribers {
    /// All resources.
    pub(super) fn all(&self) -> Vec<Arc<str>> {
        self.0.lock().keys().cloned().collect()
    }

    /// One more; `true` if it is the first.
    fn add(&self, uri: &Arc<str>) -> bool {
        let mut counts = self.0.lock();
        let count = counts.entry(Arc::clone(uri)).or_default();
        *count += 1;
        *count == 1
    }

    /// One less; `true` if it was the last.
    fn take(&self, uri: &str) -> bool {
        let mut counts = self.0.lock();
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
pub(crate) struct SubscriptionGuard {
    server: Arc<Server>,
    uri: Arc<str>,
    /// Whose connection it is on, where each session has its own.
    owner: Option<SessionKey>,
    /// Whether it is on the connection that legacy clients share.
    is_mirrored: bool,
    _places: [Reservation; 2],
}

/// So many bytes the address of a subscription may have.
pub(crate) const LONGEST: usize = 8 * 1024;

impl SubscriptionGuard {
    /// Listens to a resource of a server, for a client of this era.
    pub(crate) async fn to(
        server: &Arc<Server>,
        uri: Arc<str>,
        era: Era,
        account: &Arc<Account>,
        owner: impl FnOnce() -> SessionKey,
    ) -> Result<Self, SubscribeError> {
        if uri.len() > LONGEST {
            return Err(SubscribeError::TooLong);
        }
        let take = |kind, amount| account.take(kind, amount);
        let places =
            [take(UsageKind::Subscriptions, 1)?, take(UsageKind::SubscriptionBytes, uri.len())?];
        let owner = server.is_private().then(owner);
        let mirror = server.mirror(era).await;
        let is_mirrored = mirror.is_some();
        let is_first = subscribers(server, is_mirrored).add(&uri) || owner.is_some();
        // From here on: dropped while it waits, it is taken back.
        let subscribed =
            Self { server: Arc::clone(server), uri, owner, is_mirrored, _places: places };
        if is_first {
            let connection = match mirror {
                Some(connection) => connection,
                None => server.connection(subscribed.owner.as_ref()).await?,
            };
            match connection.era() {
                Era::Legacy => {
                    tell(&connection, &server.name, "resources/subscribe", &subscribed.uri).await?;
                }
                Era::Modern => {
                    let number = server.subscriptions.changed();
                    if !server.subscriptions.heard(number).await {
                        return Err(refusal().into());
                    }
                }
            }
        }
        Ok(subscribed)
    }

    pub(crate) fn uri(&self) -> &Arc<str> {
        &self.uri
    }

    pub(crate) fn is_at(&self, server: &Server) -> bool {
        self.server.name == server.name
    }

    /// Whether a change of this resource is of interest: of this one, or of a part of it.
    pub(crate) fn covers(&self, server: &Server, owner: Option<&str>, uri: &str) -> bool {
        let own = self.owner.as_ref().map(|owner| &*owner.key);
        self.server.name == server.name && own == owner && is_part_of(uri, &self.uri)
    }
}

fn subscribers(server: &Server, is_mirrored: bool) -> &Subscribers {
    let all = &server.subscriptions;
    if is_mirrored { &all.mirrored } else { &all.shared }
}

/// A server of 2026-07-28 knows no subscriptions.
fn refusal() -> Failure {
    let message = format!("Method not found: `{}`", method::SUBSCRIPTIONS_LISTEN);
    Failure::rejected(RpcError { code: code::METHOD_NOT_FOUND, message, data: None })
}

/// Why a resource is not listened to.
#[derive(Debug)]
pub(crate) enum SubscribeError {
    /// Its address is too long.
    TooLong,
    /// There is no room.
    LimitReached(LimitReached),
    /// The server cannot be told.
    Failed(Failure),
}

impl From<LimitReached> for SubscribeError {
    fn from(full: LimitReached) -> Self {
        Self::LimitReached(full)
    }
}

impl From<Failure> for SubscribeError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl std::fmt::Display for SubscribeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLong => write!(f, "`uri` is longer than {LONGEST} bytes"),
            Self::LimitReached(full) => full.fmt(f),
            Self::Failed(failure) => failure.fmt(f),
        }
    }
}

impl Drop for SubscriptionGuard {
    fn drop(&mut self) {
        let was_last = subscribers(&self.server, self.is_mirrored).take(&self.uri);
        if self.owner.is_none() && !was_last {
            return;
        }
        let (server, uri) = (Arc::clone(&self.server), Arc::clone(&self.uri));
        let (owner, is_mirrored) = (self.owner.take(), self.is_mirrored);
        if !is_mirrored {
            self.server.subscriptions.changed();
        }
        self.server.surroundings.control.spawn(async move {
            // Only where there is one: it is not started to be told that nobody listens.
            let connection =
                if is_mirrored { server.mirrored() } else { server.connected(owner.as_ref()) };
            if let Some(connection) = connection
                && connection.era() == Era::Legacy
            {
                let _ = tell(&connection, &server.name, "resources/unsubscribe", &uri).await;
            }
        });
    }
}

/// Whether an address is another one, or a part of what is there.
fn is_part_of(uri: &str, whole: &str) -> bool {
    match uri.strip_prefix(whole) {
        Some("") => true,
        Some(rest) => whole.ends_with('/') || rest.starts_with(['/', '#', '?']),
        None => false,
    }
}

/// Subscribes again to everything, on a new connection.
pub(super) async fn renew(server: &Server, connection: &Connection, subscribers: &Subscribers) {
    for uri in subscribers.all() {
        if let Err(failure) = tell(connection, &server.name, "resources/subscribe", &uri).await {
            tracing::warn!("changes of `{uri}` are not heard of: {failure}");
        }
    }
}

async fn tell(
    connection: &Connection,
    server: &str,
    method: &str,
    uri: &str,
) -> Result<(), Failure> {
    let mut params = Object::new();
    params.set("uri", Json::string(uri));
    let answer = connection.ask(method, params).await.map_err(|not| match not {
        StartFailure::Failed(failure) => failure,
        StartFailure::Closed(why) => unavailable(server, &why),
        StartFailure::SessionLost => unavailable(server, "it has forgotten the session"),
    })?;
    result_of(&answer).map(drop)
}

#[cfg(test)]
mod tests {
    use super::is_part_of;

    #[test]
    fn a_change_is_of_interest_where_it_is_or_below() {
        assert!(is_part_of("file:///a", "file:///a") && is_part_of("file:///a/b", "file:///a"));
        assert!(is_part_of("file:///a/b", "file:///a/") && is_part_of("x:1#f", "x:1"));
        assert!(!is_part_of("file:///abc", "file:///a") && !is_part_of("file:///a", ""));
        assert!(!is_part_of("other:", "file:"));
    }
}
