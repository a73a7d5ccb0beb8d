//! The queue of notifications for one client: merges repeated changes while the client does not read, and is bounded.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Bound,
    sync::Arc,
};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use toolgate_wire::{
    Id, Json, Object,
    mcp::{member, meta, method},
    notification,
};

use crate::upstream::{
    events::ListKind,
    server::{OwnerKey, Server},
    subscription_guard::SubscriptionGuard,
};

/// The number of messages that may wait. Beyond that, the oldest are dropped.
const MAX_MESSAGES: usize = 256;
/// The number of updated resources that may wait.
const MAX_UPDATED: usize = 1024;
/// The size of the messages that may wait, besides the newest.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// The number of resources that one client may subscribe to.
pub(crate) const MAX_SUBSCRIPTIONS: usize = 1000;

/// The notifications that wait for one client.
#[derive(Debug)]
pub(crate) struct NotificationQueue {
    wanted: NotificationFilter,
    state: Mutex<QueueState>,
    subscribed: Mutex<SubscriptionsByUri>,
    wake: Notify,
}

/// Subscriptions by their URI. Several servers may have the same URI.
type SubscriptionsByUri = BTreeMap<Arc<str>, Vec<SubscriptionGuard>>;

/// Which list changes a client wants to be notified of.
#[derive(Debug, Default)]
pub(crate) struct NotificationFilter {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
    /// The id of the `subscriptions/listen` request (2026-07-28), to put into each notification.
    pub(crate) subscription: Option<Id>,
    /// The key of the upstream connections that belong to this client alone.
    pub(crate) owner: Option<OwnerKey>,
}

impl NotificationFilter {
    /// All list changes, for a session.
    pub(crate) fn everything(session: &Arc<str>) -> Self {
        let owner = Some(OwnerKey::Session(Arc::clone(session)));
        Self { tools: true, prompts: true, resources: true, subscription: None, owner }
    }

    /// Whether an upstream connection belongs to this client alone.
    fn owns(&self, connection: &OwnerKey) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.has_same_clients(connection))
    }

    fn wants(&self, kind: ListKind) -> bool {
        match kind {
            ListKind::Tools => self.tools,
            ListKind::Prompts => self.prompts,
            ListKind::Resources => self.resources,
        }
    }
}

#[derive(Debug, Default)]
struct QueueState {
    changed: [bool; 3],
    updated: BTreeSet<Arc<str>>,
    lines: VecDeque<Bytes>,
    bytes: usize,
    dropped: u64,
    is_closed: bool,
}

impl NotificationQueue {
    pub(crate) fn new(wanted: NotificationFilter) -> Arc<Self> {
        let (state, subscribed) = (Mutex::default(), Mutex::default());
        Arc::new(Self { wanted, state, subscribed, wake: Notify::new() })
    }

    /// Whether the queue belongs to a legacy session, which gets all notifications.
    pub(crate) fn is_session(&self) -> bool {
        self.wanted.subscription.is_none()
    }

    fn subscribed(&self) -> MutexGuard<'_, SubscriptionsByUri> {
        self.subscribed.lock()
    }

    /// Whether the client has subscribed to this resource of a server.
    pub(crate) fn is_subscribed(&self, server: &Server, uri: &str) -> bool {
        self.subscribed().get(uri).is_some_and(|known| known.iter().any(|one| one.is_at(server)))
    }

    /// Whether the client may subscribe to another resource.
    pub(crate) fn has_room(&self) -> bool {
        self.subscribed().len() < MAX_SUBSCRIPTIONS
    }

    /// Adds a subscription.
    pub(crate) fn subscribe(&self, server: &Server, subscribed: SubscriptionGuard) {
        let mut all = self.subscribed();
        let known = all.entry(Arc::clone(subscribed.uri())).or_default();
        if !known.iter().any(|one| one.is_at(server)) {
            known.push(subscribed);
        }
    }

    /// Removes the subscriptions to a URI.
    pub(crate) fn unsubscribe(&self, uri: &str) {
        let gone = self.subscribed().remove(uri);
        drop(gone);
    }

    /// Queues an update of a server's resource, if the client has subscribed to the resource or to a parent of it.
    pub(crate) fn updated_at(&self, server: &Server, owner: Option<&OwnerKey>, uri: &Arc<str>) {
        let wants = any_prefix(&self.subscribed(), uri, |known| {
            known.iter().any(|one| one.covers(server, owner, uri))
        });
        // The server of one session notifies that session, as over a direct connection.
        let is_own = self.is_session() && owner.is_some_and(|owner| self.wanted.owns(owner));
        if wants || is_own {
            self.updated(uri);
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }

    /// Queues the change of a list, if the client wants it.
    pub(crate) fn changed(&self, kind: ListKind) {
        if self.wanted.wants(kind) {
            if let Some(flag) = self.lock().changed.get_mut(kind as usize) {
                *flag = true;
            }
            self.wake.notify_one();
        }
    }

    /// Queues a list change that an upstream connection of this owner announced.
    pub(crate) fn changed_at(&self, owner: &OwnerKey, kind: ListKind) {
        if self.wanted.owns(owner) {
            self.changed(kind);
        }
    }

    /// Queues the update of a resource.
    fn updated(&self, uri: &Arc<str>) {
        let mut state = self.lock();
        if state.updated.len() < MAX_UPDATED {
            state.updated.insert(Arc::clone(uri));
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Queues a message that cannot be merged.
    pub(crate) fn push(&self, line: Bytes) {
        let mut state = self.lock();
        while (state.lines.len() >= MAX_MESSAGES || state.bytes + line.len() > MAX_BYTES)
            && let Some(oldest) = state.lines.pop_front()
        {
            state.bytes -= oldest.len();
            state.dropped += 1;
        }
        state.bytes += line.len();
        state.lines.push_back(line);
        drop(state);
        self.wake.notify_one();
    }

    /// Closes the queue and removes all subscriptions.
    pub(crate) fn close(&self) {
        let subscribed = std::mem::take(&mut *self.subscribed());
        drop(subscribed);
        self.lock().is_closed = true;
        self.wake.notify_one();
        self.wake.notify_waiters();
    }

    /// Waits for messages and returns all of them; `None` once the queue is closed and empty. For one reader at a time;
    /// cancel safe.
    pub(crate) async fn next(&self) -> Option<Vec<Bytes>> {
        loop {
            let lines = self.take();
            match lines {
                Some(lines) if lines.is_empty() => self.wake.notified().await,
                lines => return lines,
            }
        }
    }

    fn take(&self) -> Option<Vec<Bytes>> {
        let mut state = self.lock();
        let mut lines = Vec::new();
        for kind in ListKind::ALL {
            if let Some(flag) = state.changed.get_mut(kind as usize)
                && std::mem::take(flag)
            {
                lines.push(self.message(kind.notice(), Object::new()));
            }
        }
        for uri in std::mem::take(&mut state.updated) {
            let mut params = Object::new();
            params.set("uri", Json::string(&uri));
            lines.push(self.message(method::NOTIFICATIONS_RESOURCES_UPDATED, params));
        }
        lines.extend(state.lines.drain(..));
        state.bytes = 0;
        if state.dropped > 0 {
            tracing::warn!("{} messages were dropped: their client does not read", state.dropped);
            state.dropped = 0;
        }
        (!lines.is_empty() || !state.is_closed).then_some(lines)
    }

    fn message(&self, method: &str, mut params: Object) -> Bytes {
        if let Some(id) = &self.wanted.subscription {
            let mut meta = Object::new();
            meta.set(meta::SUBSCRIPTION_ID, id.as_json().clone());
            params.set(member::META, meta.finish());
        }
        let params = params.finish();
        notification(method, (params.len() > 2).then_some(&params))
    }
}

/// Whether `holds` is true for a value whose key is a prefix of the text. Each lookup goes to the next shorter key that
/// can be a prefix, so it visits few other keys.
fn any_prefix<T>(all: &BTreeMap<Arc<str>, T>, text: &str, holds: impl Fn(&T) -> bool) -> bool {
    let mut end = text.len();
    loop {
        let Some(beginning) = text.get(..end) else { return false };
        let mut below = all.range::<str, _>((Bound::Unbounded, Bound::Included(beginning)));
        let Some((key, value)) = below.next_back() else { return false };
        let common = key.bytes().zip(beginning.bytes()).take_while(|(one, two)| one == two).count();
        if common == key.len() {
            if holds(value) {
                return true;
            }
            let Some(shorter) = common.checked_sub(1) else { return false };
            end = shorter;
        } else {
            end = common;
        }
        while !text.is_char_boundary(end) {
            end -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whatever_comes_at_once_is_told_once() {
        let queue = NotificationQueue::new(NotificationFilter::everything(&"session".into()));
        for _ in 0..1000 {
            queue.changed(ListKind::Tools);
            queue.updated(&"a:b".into());
            queue.push(Bytes::from_static(b"x"));
        }
        let lines = queue.next().await.unwrap();
        assert_eq!(lines.len(), 2 + MAX_MESSAGES);
        assert_eq!(lines[0], r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
        assert!(std::str::from_utf8(&lines[1]).unwrap().contains(r#"{"uri":"a:b"}"#));
        queue.close();
        assert!(queue.next().await.is_none());
    }

    #[tokio::test]
    async fn only_what_is_wanted_is_told_and_each_message_names_its_subscription() {
        let wanted = NotificationFilter {
            prompts: true,
            subscription: Some(Id::number(7)),
            ..NotificationFilter::default()
        };
        let queue = NotificationQueue::new(wanted);
        queue.changed(ListKind::Tools);
        queue.changed(ListKind::Prompts);
        let lines = queue.next().await.unwrap();
        assert_eq!(lines.len(), 1);
        let text = std::str::from_utf8(&lines[0]).unwrap();
        assert!(text.contains("prompts/list_changed") && text.contains(r#"subscriptionId":7"#));
    }

    #[test]
    fn keys_that_begin_a_text_are_found() {
        let all: BTreeMap<Arc<str>, usize> =
            ["", "a/", "a/b", "a/bc", "a/b/ü", "a/b/üx", "b", "a/b/z"]
                .iter()
                .enumerate()
                .map(|(at, key)| (Arc::from(*key), at))
                .collect();
        for text in ["a/b/üxy", "a/b/ÿ", "a/bcd", "", "c", "a", "b", "a/b/ü"] {
            for (key, at) in &all {
                let found = any_prefix(&all, text, |value| value == at);
                assert_eq!(found, text.starts_with(&**key), "{key:?} of {text:?}");
            }
        }
    }

    #[tokio::test]
    async fn messages_are_bounded_in_bytes_and_the_newest_stays() {
        let queue = NotificationQueue::new(NotificationFilter::everything(&"session".into()));
        let large = Bytes::from(vec![b'x'; MAX_BYTES / 2]);
        (0..10).for_each(|_| queue.push(large.clone()));
        queue.push(Bytes::from(vec![b'y'; 2 * MAX_BYTES]));
        let lines = queue.next().await.unwrap();
        assert_eq!(lines.iter().map(Bytes::len).collect::<Vec<_>>(), [2 * MAX_BYTES]);
    }
}
