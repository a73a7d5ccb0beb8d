//! Quarantine of new tools: the first complete list of each server counts as approved, and is recorded in the store before
//! any of its tools is served. Tools that the server lists later wait for a person's approval.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use toolgate::{ToolId, middleware::filter::KnownTools};
use toolgate_store::FirstList;

use crate::{records::store_records::SeenTools, upstream::server::Server};

/// How long a request waits for the store to record the first lists.
const RECORD_TIMEOUT: Duration = Duration::from_secs(10);

/// The quarantine of one namespace.
#[derive(Debug)]
pub(super) struct Quarantine {
    namespace: Arc<str>,
    servers: Vec<Arc<str>>,
    store: SeenTools,
    known: KnownTools,
    lists: Mutex<FirstLists>,
    /// Whether every list is recorded. Every call reads this.
    is_recorded: AtomicBool,
    /// Held while recording.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct FirstLists {
    /// Servers that have listed their tools.
    seen: HashSet<Arc<str>>,
    /// First lists that are not recorded yet.
    waiting: BTreeMap<Arc<str>, Vec<ToolId>>,
}

impl Quarantine {
    pub(super) fn new(
        namespace: Arc<str>,
        servers: Vec<Arc<str>>,
        store: SeenTools,
        known: KnownTools,
    ) -> Self {
        Self {
            namespace,
            servers,
            store,
            known,
            lists: Mutex::default(),
            is_recorded: AtomicBool::new(true),
            turn: tokio::sync::Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, FirstLists> {
        self.lists.lock()
    }

    /// Notes the tools of a server, if it is the server's first list.
    pub(super) fn note_first_list(&self, server: &Arc<str>, listed: impl FnOnce() -> Vec<ToolId>) {
        let mut lists = self.lock();
        if lists.seen.insert(Arc::clone(server)) {
            lists.waiting.insert(Arc::clone(server), listed());
            self.is_recorded.store(false, Ordering::Release);
        }
    }

    /// Whether every first list is recorded.
    pub(super) fn is_recorded(&self) -> bool {
        self.is_recorded.load(Ordering::Acquire)
    }

    /// Records the pending lists; `true` if it recorded any. A list that the store does not accept stays quarantined; the
    /// next request tries again.
    pub(super) async fn record(&self) -> bool {
        let _turn = self.turn.lock().await;
        let waiting = self.lock().waiting.clone();
        let mut has_recorded = false;
        for (server, listed) in waiting {
            let list = FirstList {
                namespace: &self.namespace,
                servers: &self.servers,
                server: &server,
                tools: &listed,
            };
            if !self.store.approve_first_list(list, &self.known).await {
                break;
            }
            self.lock().waiting.remove(&server);
            has_recorded = true;
        }
        let lists = self.lock();
        self.is_recorded.store(lists.waiting.is_empty(), Ordering::Release);
        has_recorded
    }

    /// Waits until every first list is recorded, at most `RECORD_TIMEOUT`.
    pub(super) async fn wait_recorded(self: &Arc<Self>, servers: &[Arc<Server>]) {
        if self.is_recorded() {
            return;
        }
        // The store must be used on the control runtime.
        let Some(server) = servers.first() else { return };
        let quarantine = Arc::clone(self);
        let recording = server.deps.control.spawn(async move { quarantine.record().await });
        let _ = tokio::time::timeout(RECORD_TIMEOUT, recording).await;
    }
}
