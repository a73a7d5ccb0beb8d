//! A client's subscription to a resource of a server, and its end when the client drops it.

use std::sync::Arc;

use toolgate::{Failure, RpcError};
use toolgate_wire::mcp::{Era, code, method};

use super::{
    server::{ConnectionOwner, OwnerKey, Server},
    subscriptions::{SubscriptionCounts, request},
};
use crate::usage::{Account, LimitReached, Reservation, UsageKind};

/// A subscription. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct SubscriptionGuard {
    server: Arc<Server>,
    uri: Arc<str>,
    /// The session that owns the connection, if each session has its own.
    owner: Option<ConnectionOwner>,
    /// Whether it is on the connection that legacy clients share.
    is_on_legacy: bool,
    _reservations: [Reservation; 2],
}

/// The most bytes of the URI of a subscription.
pub(crate) const MAX_URI_BYTES: usize = 8 * 1024;

impl SubscriptionGuard {
    /// Subscribes to a resource of a server, for a client of this era.
    pub(crate) async fn to(
        server: &Arc<Server>,
        uri: Arc<str>,
        era: Era,
        account: &Arc<Account>,
        owner: impl FnOnce() -> ConnectionOwner,
    ) -> Result<Self, SubscribeError> {
        if uri.len() > MAX_URI_BYTES {
            return Err(SubscribeError::TooLong);
        }
        let take = |kind, amount| account.take(kind, amount);
        let reservations =
            [take(UsageKind::Subscriptions, 1)?, take(UsageKind::SubscriptionBytes, uri.len())?];
        let owner = server.is_per_session().then(owner);
        let legacy = server.legacy_connection(era).await;
        let is_on_legacy = legacy.is_some();
        let is_first = counts(server, is_on_legacy).add(&uri) || owner.is_some();
        // A guard from here on: dropping the future unsubscribes.
        let server_of = Arc::clone(server);
        let subscribed =
            Self { server: server_of, uri, owner, is_on_legacy, _reservations: reservations };
        if is_first {
            let connection = match legacy {
                Some(connection) => connection,
                None => server.connection(subscribed.owner.as_ref()).await?,
            };
            match connection.era() {
                Era::Legacy => {
                    request(
                        &connection,
                        &server.name,
                        method::RESOURCES_SUBSCRIBE,
                        &subscribed.uri,
                    )
                    .await?;
                }
                Era::Modern => {
                    let version = server.subscriptions.next_version();
                    if !server.subscriptions.wait_covered(version).await {
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

    /// Whether the subscription covers a change of this resource: the subscribed one or a part of it.
    pub(crate) fn covers(&self, server: &Server, owner: Option<&OwnerKey>, uri: &str) -> bool {
        let own = self.owner.as_ref().map(|owner| &owner.key);
        self.server.name == server.name && own == owner && is_part_of(uri, &self.uri)
    }
}

fn counts(server: &Server, is_on_legacy: bool) -> &SubscriptionCounts {
    let all = &server.subscriptions;
    if is_on_legacy { &all.legacy } else { &all.shared }
}

/// The response of a server of 2026-07-28 that has no subscriptions.
fn refusal() -> Failure {
    let message = format!("Method not found: `{}`", method::SUBSCRIPTIONS_LISTEN);
    Failure::rejected(RpcError { code: code::METHOD_NOT_FOUND, message, data: None })
}

/// Why a subscription failed.
#[derive(Debug)]
pub(crate) enum SubscribeError {
    /// The URI is too long.
    TooLong,
    /// A limit of the gateway is reached.
    LimitReached(LimitReached),
    /// The server refused, or cannot be reached.
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
            Self::TooLong => write!(f, "`uri` is longer than {MAX_URI_BYTES} bytes"),
            Self::LimitReached(full) => full.fmt(f),
            Self::Failed(failure) => failure.fmt(f),
        }
    }
}

impl Drop for SubscriptionGuard {
    fn drop(&mut self) {
        let was_last = counts(&self.server, self.is_on_legacy).remove(&self.uri);
        if self.owner.is_none() && !was_last {
            return;
        }
        let (server, uri) = (Arc::clone(&self.server), Arc::clone(&self.uri));
        let (owner, is_on_legacy) = (self.owner.take(), self.is_on_legacy);
        if !is_on_legacy {
            self.server.subscriptions.next_version();
        }
        self.server.deps.control.spawn(async move {
            // Only on an open connection: the gateway does not start a server to unsubscribe.
            let connection = if is_on_legacy {
                server.open_legacy_connection()
            } else {
                server.connected(owner.as_ref())
            };
            if let Some(connection) = connection
                && connection.era() == Era::Legacy
            {
                let _ =
                    request(&connection, &server.name, method::RESOURCES_UNSUBSCRIBE, &uri).await;
            }
        });
    }
}

/// Whether a URI equals `whole` or lies below it.
fn is_part_of(uri: &str, whole: &str) -> bool {
    match uri.strip_prefix(whole) {
        Some("") => true,
        Some(rest) => whole.ends_with('/') || rest.starts_with(['/', '#', '?']),
        None => false,
    }
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
