//! What a client is told that belongs to no request: gathered until it reads, and never more than a little.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use tokio::sync::Notify;
use toolgate_wire::{Id, Json, Object, era, notification};

use crate::outbound::{events::Kind, server::Server, subscriptions::Subscribed};

/// So many messages that cannot be put together wait; further ones are dropped, the oldest first.
const MOST: usize = 256;
/// So many resources are remembered as changed.
const MOST_UPDATED: usize = 1024;

/// One client's ear for what happens. Whatever comes while it does not listen is put together.
#[derive(Debug)]
pub(crate) struct Outlet {
    wanted: Wanted,
    state: Mutex<State>,
    subscribed: Mutex<Vec<Subscribed>>,
    wake: Notify,
}

/// What a client wants to hear of.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    pub(crate) tools: bool,
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
    /// The request that asked for it, from 2026-07-28 on: named in each message.
    pub(crate) subscription: Option<Id>,
}

impl Wanted {
    /// All lists.
    pub(crate) fn everything() -> Self {
        Self { tools: true, prompts: true, resources: true, subscription: None }
    }

    fn wants(&self, kind: Kind) -> bool {
        match kind {
            Kind::Tools => self.tools,
            Kind::Prompts => self.prompts,
            Kind::Resources => self.resources,
        }
    }
}

#[derive(Debug, Default)]
struct State {
    changed: [bool; 3],
    updated: BTreeSet<Arc<str>>,
    lines: VecDeque<Bytes>,
    dropped: u64,
    is_closed: bool,
}

impl Outlet {
    pub(crate) fn new(wanted: Wanted) -> Arc<Self> {
        let (state, subscribed) = (Mutex::default(), Mutex::default());
        Arc::new(Self { wanted, state, subscribed, wake: Notify::new() })
    }

    /// Whether it is that of a session, which hears of everything.
    pub(crate) fn is_session(&self) -> bool {
        self.wanted.subscription.is_none()
    }

    /// Hears of a resource from here on.
    pub(crate) fn subscribe(&self, subscribed: Subscribed) {
        let mut all = self.subscribed.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.iter().any(|known| known.is_same(&subscribed)) {
            all.push(subscribed);
        }
    }

    /// Hears of a resource no more.
    pub(crate) fn unsubscribe(&self, uri: &str) {
        let mut all = self.subscribed.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|known| known.uri() != uri);
    }

    /// A resource of a server changed: told if somebody here wants to know of it, or of what it is a part of.
    pub(crate) fn updated_at(&self, server: &Server, owner: Option<&str>, uri: &Arc<str>) {
        let wants = {
            let all = self.subscribed.lock().unwrap_or_else(PoisonError::into_inner);
            all.iter().any(|known| known.covers(server, owner, uri))
        };
        if wants {
            self.updated(uri);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A list changed.
    pub(crate) fn changed(&self, kind: Kind) {
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
        if state.lines.len() >= MOST {
            state.lines.pop_front();
            state.dropped += 1;
        }
        state.lines.push_back(line);
        drop(state);
        self.wake.notify_one();
    }

    /// Nothing follows.
    pub(crate) fn close(&self) {
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
        for kind in Kind::ALL {
            if let Some(flag) = state.changed.get_mut(kind as usize)
                && std::mem::take(flag)
            {
                lines.push(self.message(kind.notice(), Object::new()));
            }
        }
        for uri in std::mem::take(&mut state.updated) {
            let mut params = Object::new();
            params.set("uri", Json::string(&uri));
            lines.push(self.message("notifications/resources/updated", params));
        }
        lines.extend(state.lines.drain(..));
        if state.dropped > 0 {
            tracing::warn!("{} messages were dropped: their client does not read", state.dropped);
            state.dropped = 0;
        }
        (!lines.is_empty() || !state.is_closed).then_some(lines)
    }

    fn message(&self, method: &str, mut params: Object) -> Bytes {
        if let Some(id) = &self.wanted.subscription {
            let mut meta = Object::new();
            meta.set(era::META_SUBSCRIPTION_ID, id.as_json().clone());
            params.set("_meta", meta.finish());
        }
        let params = params.finish();
        notification(method, (params.len() > 2).then_some(&params))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whatever_comes_at_once_is_told_once() {
        let outlet = Outlet::new(Wanted::everything());
        for _ in 0..1000 {
            outlet.changed(Kind::Tools);
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
        let wanted =
            Wanted { prompts: true, subscription: Some(Id::number(7)), ..Wanted::default() };
        let outlet = Outlet::new(wanted);
        outlet.changed(Kind::Tools);
        outlet.changed(Kind::Prompts);
        let lines = outlet.next().await.unwrap();
        assert_eq!(lines.len(), 1);
        let text = std::str::from_utf8(&lines[0]).unwrap();
        assert!(text.contains("prompts/list_changed") && text.contains(r#"subscriptionId":7"#));
    }
}
