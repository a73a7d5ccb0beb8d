//! The resources of a server that clients have subscribed to.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::watch;
use toolgate::Failure;
use toolgate_wire::{Json, Object, mcp::method};

use super::{connection::Connection, failures::unavailable, request::StartFailure};
use crate::rpc_error::result_of;

/// How long a subscribe request waits until the server's `subscriptions/listen` stream covers its resource.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(3);

/// The subscribed resources of a server, by the connection on which the gateway subscribed to them.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    /// On the connection that all clients share, or on those of sessions.
    pub(super) shared: SubscriptionCounts,
    /// On the connection that legacy clients share, where the server speaks both eras.
    pub(super) legacy: SubscriptionCounts,
    /// The version of the set: counts its changes.
    version: watch::Sender<u64>,
    covered: watch::Sender<Coverage>,
}

/// What `subscriptions/listen` covers.
#[derive(Debug, Default)]
struct Coverage {
    /// The version of the set that the open request covers.
    version: u64,
    /// Whether the server does not know the method.
    is_refused: bool,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self {
            shared: SubscriptionCounts::default(),
            legacy: SubscriptionCounts::default(),
            version: watch::Sender::new(0),
            covered: watch::Sender::default(),
        }
    }
}

impl Subscriptions {
    /// Notifies of new versions of the set.
    pub(super) fn versions(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Starts a new version of the set, and gives its number.
    pub(super) fn next_version(&self) -> u64 {
        self.version.send_modify(|version| *version += 1);
        *self.version.borrow()
    }

    /// Notes that an open `subscriptions/listen` covers this version.
    pub(super) fn set_covered(&self, version: u64) {
        self.covered.send_modify(|covered| covered.version = version.max(covered.version));
    }

    /// Notes whether the server refuses `subscriptions/listen`.
    pub(super) fn set_refused(&self, is_refused: bool) {
        self.covered.send_modify(|covered| covered.is_refused = is_refused);
    }

    /// Waits until an open `subscriptions/listen` covers this version or a later one; `false` if the server refuses the
    /// method.
    pub(super) async fn wait_covered(&self, version: u64) -> bool {
        let mut covered = self.covered.subscribe();
        let waiting = covered.wait_for(|covered| covered.is_refused || covered.version >= version);
        let settled = tokio::time::timeout(LISTEN_TIMEOUT, waiting).await;
        !matches!(settled, Ok(Ok(covered)) if covered.is_refused)
    }
}

/// The number of subscriptions to each resource on one connection.
#[derive(Debug, Default)]
pub(super) struct SubscriptionCounts(Mutex<BTreeMap<Arc<str>, usize>>);

impl SubscriptionCounts {
    /// All subscribed resources.
    pub(super) fn all(&self) -> Vec<Arc<str>> {
        self.0.lock().keys().cloned().collect()
    }

    /// Adds a subscription; `true` if it is the first to this resource.
    pub(super) fn add(&self, uri: &Arc<str>) -> bool {
        let mut counts = self.0.lock();
        let count = counts.entry(Arc::clone(uri)).or_default();
        *count += 1;
        *count == 1
    }

    /// Removes a subscription; `true` if it was the last to this resource.
    pub(super) fn remove(&self, uri: &str) -> bool {
        let mut counts = self.0.lock();
        let Some(count) = counts.get_mut(uri) else { return false };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            counts.remove(uri);
        }
        is_last
    }

    /// Subscribes to all resources again, on a new connection.
    pub(super) async fn resubscribe(&self, server: &str, connection: &Connection) {
        for uri in self.all() {
            let subscribed = request(connection, server, method::RESOURCES_SUBSCRIBE, &uri).await;
            if let Err(failure) = subscribed {
                tracing::warn!(server, "cannot subscribe to `{uri}` again: {failure}");
            }
        }
    }
}

/// Sends `resources/subscribe` or `resources/unsubscribe`.
pub(super) async fn request(
    connection: &Connection,
    server: &str,
    method: &str,
    uri: &str,
) -> Result<(), Failure> {
    let mut params = Object::new();
    params.set("uri", Json::string(uri));
    let answer = connection.ask(method, params).await.map_err(|error| match error {
        StartFailure::Failed(failure) => failure,
        StartFailure::Closed(why) => unavailable(server, &why),
        StartFailure::SessionLost => unavailable(server, "it has forgotten the session"),
    })?;
    result_of(&answer).map(drop)
}
