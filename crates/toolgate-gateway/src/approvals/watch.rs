//! Noticing that something was asked or decided, without looking again and again.

use std::{os::unix::fs::DirBuilderExt as _, sync::Arc};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

use super::ApprovalFolder;

/// Watches the folder of approvals for as long as it lives.
#[derive(Debug)]
pub struct ApprovalWatch {
    changed: Arc<Notify>,
    _watcher: RecommendedWatcher,
}

impl ApprovalFolder {
    /// Watches for changes from now on.
    pub fn watch(&self) -> notify::Result<ApprovalWatch> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
        let changed = Arc::new(Notify::new());
        let told = Arc::clone(&changed);
        let mut watcher =
            notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
                // Reading is no change; an error may mean that something was missed.
                if event.as_ref().map_or(true, |event| !event.kind.is_access()) {
                    told.notify_one();
                }
            })?;
        watcher.watch(&self.path, RecursiveMode::NonRecursive)?;
        Ok(ApprovalWatch { changed, _watcher: watcher })
    }
}

impl ApprovalWatch {
    /// Waits for a change since the last one.
    pub async fn changed(&mut self) {
        self.changed.notified().await;
    }
}
