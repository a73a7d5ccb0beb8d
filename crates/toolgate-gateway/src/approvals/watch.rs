//! Watches the folder of approvals for new requests and decisions, instead of polling it.

use std::{os::unix::fs::DirBuilderExt as _, sync::Arc};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

use super::ApprovalFolder;

/// Watches the folder of approvals until it is dropped.
#[derive(Debug)]
pub struct ApprovalWatch {
    changed: Arc<Notify>,
    _watcher: RecommendedWatcher,
}

impl ApprovalFolder {
    /// Begins to watch the folder.
    pub fn watch(&self) -> notify::Result<ApprovalWatch> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
        let changed = Arc::new(Notify::new());
        let notify = Arc::clone(&changed);
        let mut watcher =
            notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
                // A read is no change. After an error a change may have been missed.
                if event.as_ref().map_or(true, |event| !event.kind.is_access()) {
                    notify.notify_one();
                }
            })?;
        watcher.watch(&self.path, RecursiveMode::NonRecursive)?;
        Ok(ApprovalWatch { changed, _watcher: watcher })
    }
}

impl ApprovalWatch {
    /// Waits for a change. Returns at once if the folder has changed since the last call.
    pub async fn changed(&mut self) {
        self.changed.notified().await;
    }
}
