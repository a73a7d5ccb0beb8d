//! Watches the config file. A change is any write, replacement, removal or creation of the file, and any change of a
//! symbolic link or folder on the path to it.

use std::{
    collections::BTreeSet,
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Editors write a file in several steps: the gateway reads the file once it has not changed for this time.
const SETTLE_TIME: Duration = Duration::from_millis(100);

/// The most symbolic links that are followed: the limit of the Linux kernel.
const MAX_LINKS: usize = 40;

/// Why the config is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The file has changed. Any program may have changed it, so the gateway applies only changes that narrow access.
    Changed,
    /// The operator asks for a reload, with `toolgate reload` or SIGHUP.
    Asked,
}

/// Watches a config file. Create the watch before you read the file, so that it notices every change after the read.
#[derive(Clone, Debug)]
pub struct ConfigWatch {
    path: Option<PathBuf>,
    changed: Arc<Notify>,
    watcher: Arc<Mutex<Option<RecommendedWatcher>>>,
}

impl ConfigWatch {
    /// Begins to watch the file, if there is a path.
    #[must_use]
    pub fn new(path: Option<&Path>) -> Self {
        let watch = Self::off(path);
        watch.begin();
        watch
    }

    /// Watches nothing: the file is read again only if the operator asks for it.
    #[must_use]
    pub fn off(path: Option<&Path>) -> Self {
        let path = path.map(Path::to_owned);
        Self { path, changed: Arc::default(), watcher: Arc::default() }
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Waits until the file has changed and has then been unchanged for `SETTLE_TIME`. Cancel safe.
    pub async fn changed(&self) {
        self.changed.notified().await;
        // If this future is dropped during the settle time, `NotifyAgain` restores the notification.
        let unread = NotifyAgain(&self.changed);
        while tokio::time::timeout(SETTLE_TIME, self.changed.notified()).await.is_ok() {}
        std::mem::forget(unread);
        // The path may lead to another folder now. The new watch begins before the caller reads the file, so that no
        // later change is missed.
        self.begin();
    }

    /// Watches the folders on the current path to the file. The previous watcher ends after the new one has begun.
    fn begin(&self) {
        let Some(path) = self.path.as_deref() else { return };
        let watcher = watch(path, &self.changed)
            .inspect_err(|error| {
                let path = path.display();
                tracing::warn!(
                    "changes of `{path}` are not noticed: {error}; send SIGHUP to have it read"
                );
            })
            .ok();
        *self.watcher.lock() = watcher;
    }
}

/// A change that was noticed and not yet reported to the caller. Dropped, it notifies again.
struct NotifyAgain<'a>(&'a Notify);

impl Drop for NotifyAgain<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// Watches folders instead of the file, because editors often replace a file.
fn watch(path: &Path, changed: &Arc<Notify>) -> notify::Result<RecommendedWatcher> {
    let entries = entries_of(path)?;
    let folders: BTreeSet<PathBuf> =
        entries.iter().filter_map(|entry| entry.parent()).map(Path::to_owned).collect();
    let (changed, parents) = (Arc::clone(changed), folders.clone());
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Cedar policy files are usually in the folder of the config file that names them.
        let is_cedar = |path: &Path| path.extension().is_some_and(|extension| extension == "cedar");
        let concerns =
            |path: &PathBuf| entries.contains(path) || parents.contains(path) || is_cedar(path);
        let is_ours =
            |event: &notify::Event| !event.kind.is_access() && event.paths.iter().any(concerns);
        // After an error a change may have been missed.
        if event.as_ref().map_or(true, is_ours) {
            changed.notify_one();
        }
    })?;
    for folder in folders {
        watcher.watch(&folder, RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}

/// The directory entries that determine the file of the path: each symbolic link on the path, and the file. The search
/// ends at the first entry that does not exist, which is included.
fn entries_of(path: &Path) -> std::io::Result<BTreeSet<PathBuf>> {
    let mut entries = BTreeSet::new();
    let mut rest: Vec<PathBuf> = parts(&std::path::absolute(path)?);
    let (mut at, mut links) = (PathBuf::new(), 0);
    while let Some(part) = rest.pop() {
        if part == Path::new("..") {
            at.pop();
            continue;
        }
        let entry = at.join(&part);
        match entry.symlink_metadata() {
            Ok(found) if found.is_symlink() && links < MAX_LINKS => {
                links += 1;
                // `join` with an absolute target replaces `at`.
                rest.extend(parts(&entry.read_link()?));
                entries.insert(entry);
            }
            Ok(_) => {
                at.clone_from(&entry);
                if rest.is_empty() {
                    entries.insert(entry);
                }
            }
            Err(_) => {
                entries.insert(entry);
                break;
            }
        }
    }
    Ok(entries)
}

/// The components of a path in reverse order, without `.`.
fn parts(path: &Path) -> Vec<PathBuf> {
    let parts = path.components().filter(|part| !matches!(part, Component::CurDir));
    parts.rev().map(|part| PathBuf::from(part.as_os_str())).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    async fn is_noticed(watch: &ConfigWatch) {
        let noticed = tokio::time::timeout(Duration::from_secs(20), watch.changed()).await;
        assert!(noticed.is_ok(), "the change was not noticed");
    }

    #[tokio::test]
    async fn a_change_is_not_lost_when_waiting_for_it_is_given_up() {
        let watch = ConfigWatch::new(None);
        watch.changed.notify_one();
        let given_up = tokio::time::timeout(SETTLE_TIME / 10, watch.changed()).await;
        assert!(given_up.is_err(), "it waits until the file is left alone");
        is_noticed(&watch).await;
    }

    #[tokio::test]
    async fn a_file_that_is_written_replaced_or_removed_and_back_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("toolgate.toml"), folder.path().join("other"));
        std::fs::write(&file, "1").unwrap();
        let watch = ConfigWatch::new(Some(&file));
        std::fs::write(&file, "2").unwrap();
        is_noticed(&watch).await;
        std::fs::write(&other, "3").unwrap();
        std::fs::rename(&other, &file).unwrap();
        is_noticed(&watch).await;
        std::fs::remove_file(&file).unwrap();
        is_noticed(&watch).await;
        std::fs::write(&file, "4").unwrap();
        is_noticed(&watch).await;
    }

    #[tokio::test]
    async fn a_folder_that_is_removed_and_comes_back_is_watched_again() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        let file = inner.join("toolgate.toml");
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(&file, "1").unwrap();
        let watch = ConfigWatch::new(Some(&file));
        std::fs::remove_dir_all(&inner).unwrap();
        is_noticed(&watch).await;
        std::fs::create_dir(&inner).unwrap();
        is_noticed(&watch).await;
        std::fs::write(&file, "2").unwrap();
        is_noticed(&watch).await;
        let moved = folder.path().join("moved");
        std::fs::rename(&inner, &moved).unwrap();
        std::fs::create_dir(&inner).unwrap();
        std::fs::write(&file, "3").unwrap();
        is_noticed(&watch).await;
        std::fs::write(&file, "4").unwrap();
        is_noticed(&watch).await;
    }

    /// As Kubernetes mounts a config map: the file is a link through a link to a folder, which is replaced.
    #[tokio::test]
    async fn links_on_the_way_to_the_file_are_watched_and_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (version, text) in [("v1", "1"), ("v2", "2")] {
            std::fs::create_dir(at(version)).unwrap();
            std::fs::write(at(version).join("toolgate.toml"), text).unwrap();
        }
        symlink("v1", at("current")).unwrap();
        symlink("./current/../current/toolgate.toml", at("toolgate.toml")).unwrap();
        let watch = ConfigWatch::new(Some(&at("toolgate.toml")));
        symlink("v2", at("next")).unwrap();
        std::fs::rename(at("next"), at("current")).unwrap();
        is_noticed(&watch).await;
        // The folder that the link leads to now is watched as well.
        std::fs::write(at("v2").join("toolgate.toml"), "3").unwrap();
        is_noticed(&watch).await;
    }

    #[test]
    fn links_that_lead_in_a_circle_end() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        symlink(&two, &one).unwrap();
        symlink(&one, &two).unwrap();
        assert_eq!(entries_of(&one).unwrap().len(), 2);
    }
}
