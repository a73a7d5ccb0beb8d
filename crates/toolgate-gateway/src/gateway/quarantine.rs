//! Quarantine: the first complete list of each server is approved, and recorded before anything of it is served. What a
//! server lists later waits for a person, however soon it comes.

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

use crate::{records::store_records::SeenTools, upstream::server::Server};

/// How long a list or a call waits until the first lists are recorded.
const PATIENCE: Duration = Duration::from_secs(10);

/// The first lists of a namespace's servers.
#[derive(Debug)]
pub(super) struct Quarantine {
    namespace: Arc<str>,
    servers: Vec<Arc<str>>,
    store: SeenTools,
    known: KnownTools,
    lists: Mutex<FirstLists>,
    /// Whether no list waits to be recorded: read for every call.
    is_recorded: AtomicBool,
    /// One at a time records.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct FirstLists {
    /// Servers whose first list has come.
    met: HashSet<Arc<str>>,
    /// Those that are not recorded yet.
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

    /// A server lists these tools. Only the first time counts.
    pub(super) fn meet(&self, server: &Arc<str>, listed: impl FnOnce() -> Vec<ToolId>) {
        let mut lists = self.lock();
        if lists.met.insert(Arc::clone(server)) {
            lists.waiting.insert(Arc::clone(server), listed());
            self.is_recorded.store(false, Ordering::Release);
        }
    }

    /// Whether every list that came is recorded.
    pub(super) fn is_recorded(&self) -> bool {
        self.is_recorded.load(Ordering::Acquire)
    }

    /// Records the lists that wait; whether there were any. What cannot be recorded stays quarantined, and is tried
    /// again with the next list or call.
    pub(super) async fn record(&self) -> bool {
        let _turn = self.turn.lock().await;
        let waiting = self.lock().waiting.clone();
        let mut has_recorded = false;
        for (server, listed) in waiting {
            let (namespace, servers) = (&self.namespace, &self.servers);
            if !self.store.meet(namespace, servers, &server, &listed, &self.known).await {
                break;
            }
            self.lock().waiting.remove(&server);
            has_recorded = true;
        }
        let lists = self.lock();
        self.is_recorded.store(lists.waiting.is_empty(), Ordering::Release);
        has_recorded
    }

    /// Waits until every list that came is recorded, or cannot be.
    pub(super) async fn recorded(self: &Arc<Self>, servers: &[Arc<Server>]) {
        if self.is_recorded() {
            return;
        }
        // The store lives where servers do.
        let Some(server) = servers.first() else { return };
        let quarantine = Arc::clone(self);
        let recording = server.surroundings.control.spawn(async move { quarantine.record().await });
        let _ = tokio::time::timeout(PATIENCE, recording).await;
    }
}
