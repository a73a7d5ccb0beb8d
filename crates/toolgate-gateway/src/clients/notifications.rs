//! What a client is told that belongs to no request: gathered until it reads, and never more than a little.

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

use crate::upstream::{events::ListKind, server::Server, subscriptions::SubscriptionGuard};

/// So many messages that cannot be put together wait; further ones are dropped, the oldest first.
const MOST: usize = 256;
/// So many resources are remembered as changed.
const MOST_UPDATED: usize = 1024;
/// So many bytes of messages wait, besides the newest.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// So many resources one client is subscribed to.
pub(crate) const MOST_SUBSCRIBED: usize = 1000;

/// One client's ear for what happens. Whatever comes while it does not listen is put together.
#[derive(Debug)]
pub(crate) struct NotificationQueue {
    wanted: NotificationFilter,
    state: Mutex<QueueState>,
    subscribed: Mutex<BySubject>,
    wake: Notify,
}

/// Subscriptions by their address. Servers may have the same one.
type BySubject = BTreeMap<Arc<str>, Vec<SubscriptionGuard>>;

/// What a client wants to hear of.
#[derive(Debug, Default)]
pub(crate) struct NotificationFilter {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
    /// The request that asked for it, from 2026-07-28 on: named in each message.
    pub(crate) subscription: Option<Id>,
}

impl NotificationFilter {
    /// All lists.
    pub(crate) fn everything() -> Self {
        Self { tools: true, prompts: true, resources: true, subscription: None }
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

    /// Whether it is that of a session, which hears of everything.
    pub(crate) fn is_session(&self) -> bool {
        self.wanted.subscription.is_none()
    }

    fn subscribed(&self) -> MutexGuard<'_, BySubject> {
        self.subscribed.lock()
    }

    /// Whether it hears of this resource of a server already.
    pub(crate) fn is_subscribed(&self, server: &Server, uri: &str) -> bool {
        self.subscribed().get(uri).is_some_and(|known| known.iter().any(|one| one.is_at(server)))
    }

    /// Whether it may hear of one more resource.
    pub(crate) fn has_room(&self) -> bool {
        self.subscribed().len() < MOST_SUBSCRIBED
    }

    /// Hears of a resource from here on.
    pub(crate) fn subscribe(&self, server: &Server, subscribed: SubscriptionGuard) {
        let mut all = self.subscribed();
        let known = all.entry(Arc::clone(subscribed.uri())).or_default();
        if !known.iter().any(|one| one.is_at(server)) {
            known.push(subscribed);
        }
    }

    /// Hears of a resource no more.
    pub(crate) fn unsubscribe(&self, uri: &str) {
        let gone = self.subscribed().remove(uri);
        drop(gone);
    }

    /// A resource of a server changed: told if somebody here wants to know of it, or of what it is a part of.
    pub(crate) fn updated_at(&self, server: &Server, owner: Option<&str>, uri: &Arc<str>) {
        let wants = any_prefix(&self.subscribed(), uri, |known| {
            known.iter().any(|one| one.covers(server, owner, uri))
        });
        if wants {
            self.updated(uri);
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock()
    }

    /// A list changed.
    pub(crate) fn changed(&self, kind: ListKind) {
        if self.wanted.wants(kind) {
            if let Some(flag) = self.lock().changed.get_mut(kind as usize) {
                *flag = true;
            }
            self.wake.notify_one();
        }
    }

    /// A resource changed.
    fn updated(&self, uri: &Arc<str>) {
        let mut state = self.lock();
        if state.updated.len() < MOST_UPDATED {
            state.updated.insert(Arc::clone(uri));
        }
        drop(state);
        self.wake.notify_one();
    }

    /// A message of its own.
    pub(crate) fn push(&self, line: Bytes) {
        let mut state = self.lock();
        while (state.lines.len() >= MOST || state.bytes + line.len() > MOST_BYTES)
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

    /// Nothing follows, and nothing is listened to.
    pub(crate) fn close(&self) {
        let subscribed = std::mem::take(&mut *self.subscribed());
        drop(subscribed);
        self.lock().is_closed = true;
        self.wake.notify_one();
        self.wake.notify_waiters();
    }

    /// Everything that has come up since, as messages; `None` once it is closed. For one reader at a time; cancel safe.
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

/// Whether one of the values satisfies whose key is the text or a beginning of it. Looks at few of the others: each look
/// goes to the next shorter key that can be one.
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
        let outlet = NotificationQueue::new(NotificationFilter::everything());
        for _ in 0..1000 {
            outlet.changed(ListKind::Tools);
            outlet.updated(&"a:b".into());
            outlet.push(Bytes::from_static(b"x"));
        }
        let lines = outlet.next().await.unwrap();
        assert_eq!(lines.len(), 2 + MOST);
        assert_eq!(lines[0], r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
        assert!(std::str::from_utf8(&lines[1]).unwrap().contains(r#"{"uri":"a:b"}"#));
        outlet.close();
        assert!(outlet.next().await.is_none());
    }

    #[tokio::test]
    async fn only_what_is_wanted_is_told_and_each_message_names_its_subscription() {
        let wanted = NotificationFilter {
            prompts: true,
            subscription: Some(Id::number(7)),
            ..NotificationFilter::default()
        };
        let outlet = NotificationQueue::new(wanted);
        outlet.changed(ListKind::Tools);
        outlet.changed(ListKind::Prompts);
        let lines = outlet.next().await.unwrap();
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
        let outlet = NotificationQueue::new(NotificationFilter::everything());
        let large = Bytes::from(vec![b'x'; MOST_BYTES / 2]);
        (0..10).for_each(|_| outlet.push(large.clone()));
        outlet.push(Bytes::from(vec![b'y'; 2 * MOST_BYTES]));
        let lines = outlet.next().await.unwrap();
        assert_eq!(lines.iter().map(Bytes::len).collect::<Vec<_>>(), [2 * MOST_BYTES]);
    }
}
