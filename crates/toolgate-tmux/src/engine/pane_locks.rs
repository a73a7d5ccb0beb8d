//! Which panes of a server are in use by a `run_command`: one at a time in each.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

/// The panes of one server that are locked.
#[derive(Clone, Debug, Default)]
pub(super) struct PaneLocks(Arc<Mutex<HashSet<String>>>);

/// The exclusive use of a pane, until it is dropped.
#[derive(Debug)]
pub(crate) struct PaneLock {
    locks: PaneLocks,
    pane: String,
}

impl PaneLocks {
    /// Locks a pane; `None` if it is locked already.
    pub(super) fn lock(&self, pane: &str) -> Option<PaneLock> {
        let is_free = self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(pane.to_owned());
        is_free.then(|| PaneLock { locks: self.clone(), pane: pane.to_owned() })
    }
}

impl Drop for PaneLock {
    fn drop(&mut self) {
        self.locks.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.pane);
    }
}
