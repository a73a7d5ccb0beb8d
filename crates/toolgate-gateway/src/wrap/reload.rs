//! Settings that change while running: watched, checked, and swapped in whole or refused.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use toolgate::settings::Settings;

use super::{SettingsSource, hub::Hub, memory};

/// Editors write a file in several steps; so long after the last one it is read.
const SETTLE: Duration = Duration::from_millis(100);

/// Watches a config file. Holds the watcher; dropped, it watches no more.
pub(crate) struct ConfigWatch {
    changed: Arc<Notify>,
    _watcher: Option<RecommendedWatcher>,
}

impl ConfigWatch {
    /// Watches the folder of the file, because a file is often replaced and not written.
    pub(crate) fn new(path: Option<&Path>) -> Self {
        let changed = Arc::new(Notify::new());
        let watcher = path.and_then(|path| match watch(path, Arc::clone(&changed)) {
            Ok(watcher) => Some(watcher),
            Err(error) => {
                let path = path.display();
                tracing::warn!(%error, "changes of `{path}` are not noticed; send SIGHUP to have it read");
                None
            }
        });
        Self { changed, _watcher: watcher }
    }

    /// Waits until the file has changed and is left alone. Cancel safe.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
        // Given up while the file settles, the change is still to be read.
        let unread = Unread(&self.changed);
        while tokio::time::timeout(SETTLE, self.changed.notified()).await.is_ok() {}
        std::mem::forget(unread);
    }
}

/// A change that was noticed and not handed on yet.
struct Unread<'a>(&'a Notify);

impl Drop for Unread<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

fn watch(path: &Path, changed: Arc<Notify>) -> notify::Result<RecommendedWatcher> {
    let path = path.canonicalize()?;
    let folder = path.parent().unwrap_or(&path).to_owned();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Policies in Cedar usually stand beside the file that names them.
        let is_read = |changed: &PathBuf| {
            changed.file_name() == path.file_name()
                || changed.extension().is_some_and(|extension| extension == "cedar")
        };
        let is_ours =
            |event: &notify::Event| !event.kind.is_access() && event.paths.iter().any(is_read);
        // An error may mean that something was missed.
        if event.as_ref().map_or(true, is_ours) {
            changed.notify_one();
        }
    })?;
    watcher.watch(&folder, RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

/// Reads the settings again. What is wrong is refused, and everything stays as it was.
pub(super) fn reload(hub: &Hub, source: &SettingsSource) {
    let old = hub.governance();
    let settings: Settings = match source() {
        Ok(settings) => settings,
        Err(why) => return refused(&why),
    };
    if hub.acquaintances().is_none()
        && let Err(error) = memory::needs_no_store(&settings)
    {
        return refused(&error.to_string());
    }
    if settings.audit.otlp && !old.settings().audit.otlp {
        return refused("`audit.otlp` is heeded from the next start on");
    }
    // The settings only name the files of policies: what stands in those may have changed too.
    let names_files = settings.policies.values().any(|policy| policy.cedar.is_some());
    if *old.settings() == settings && !names_files {
        return;
    }
    match old.successor(settings) {
        Ok(next) => {
            hub.govern_by(next);
            tracing::info!("the config has changed; calls from here on are governed by it");
        }
        Err(error) => refused(&error.to_string()),
    }
}

fn refused(why: &str) {
    tracing::error!("the changed config is refused, the old one stays in force: {why}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_change_that_nobody_waited_for_to_the_end_is_not_lost() {
        let watch = ConfigWatch::new(None);
        watch.changed.notify_one();
        let given_up = tokio::time::timeout(SETTLE / 10, watch.changed()).await;
        assert!(given_up.is_err(), "it waits until the file is left alone");
        let told = tokio::time::timeout(Duration::from_secs(20), watch.changed()).await;
        assert!(told.is_ok(), "the change was lost");
    }
}
