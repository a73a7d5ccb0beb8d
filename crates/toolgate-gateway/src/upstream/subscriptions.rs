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

/// The subscribed resources of a server, with the number of subscriptions to each.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    counts: Mutex<BTreeMap<Arc<str>, usize>>,
    /// The version of the set: counts its changes.
    version: watch::Sender<u64>,
    /// The version of the set that the open `subscriptions/listen` covers.
    covered: watch::Sender<u64>,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self {
            counts: Mutex::default(),
            version: watch::Sender::new(0),
            covered: watch::Sender::new(0),
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
        self.covered.send_modify(|covered| *covered = version.max(*covered));
    }

    /// Waits until an open `subscriptions/listen` covers this version or a later one.
    pub(super) async fn wait_covered(&self, version: u64) {
        let mut covered = self.covered.subscribe();
        let waiting = covered.wait_for(|covered| *covered >= version);
        let _ = tokio::time::timeout(LISTEN_TIMEOUT, waiting).await;
    }

    /// All subscribed resources.
    pub(super) fn all(&self) -> Vec<Arc<str>> {
        self.counts.lock().keys().cloned().collect()
    }

    /// Adds a subscription; `true` if it is the first to this resource.
    pub(super) fn add(&self, uri: &Arc<str>) -> bool {
        let mut counts = self.counts.lock();
        let count = counts.entry(Arc::clone(uri)).or_default();
        *count += 1;
        *count == 1
    }

    /// Removes a subscription; `true` if it was the last to this resource.
    pub(super) fn remove(&self, uri: &str) -> bool {
        let mut counts = self.counts.lock();
        let Some(count) = counts.get_mut(uri) else { return false };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            counts.remove(uri);
        }
        is_last
    }
}

/// Subscribes to all resources again, on a new connection.
pub(super) async fn resubscribe(
    subscriptions: &Subscriptions,
    server: &str,
    connection: &Connection,
) {
    for uri in subscriptions.all() {
        if let Err(failure) = request(connection, server, method::RESOURCES_SUBSCRIBE, &uri).await {
            tracing::warn!("changes of `{uri}` are not heard of: {failure}");
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
