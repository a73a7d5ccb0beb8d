//! Settings that change while running: watched, checked, and swapped in whole or refused.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use toolgate::settings::Settings;

use super::{SettingsSource, governance::RuleFiles, hub::Hub, memory};

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

/// What has the settings read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// Their file has changed. Whoever changed it need not be the operator, so only what narrows access is applied.
    Changed,
    /// The operator asks for it, with `toolgate reload` or SIGHUP.
    Asked,
}

/// The keys of a changed config that wait for the operator; none if the operator has asked.
pub(crate) fn waiting(
    trigger: Trigger,
    old: (&Settings, &RuleFiles),
    new: (&Settings, &RuleFiles),
) -> Vec<String> {
    if trigger == Trigger::Asked {
        return Vec::new();
    }
    let mut keys: Vec<String> = new.0.widened_since(old.0).into_iter().map(str::to_owned).collect();
    // A file that was not read before belongs to a policy or schema that is new, and judged above.
    let changed = |(path, content): &&(PathBuf, Option<Vec<u8>>)| {
        old.1.iter().any(|(known, before)| known == path && before != content)
    };
    keys.extend(new.1.iter().filter(changed).map(|(path, _)| format!("`{}`", path.display())));
    keys
}

/// Tells which changes wait, and how they are applied.
pub(crate) fn tell_waiting(keys: &[String]) {
    tracing::warn!(
        "the changed config waits, because it may widen access ({}): the old one stays in force; to apply it, run \
         `toolgate reload` or send SIGHUP",
        keys.join(", ")
    );
}

/// Reads the settings again. What is wrong is refused, and everything stays as it was.
pub(super) fn reload(hub: &Hub, source: &SettingsSource, trigger: Trigger) {
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
    let files = settings.rule_files();
    if *old.settings() == settings && *old.files() == files {
        return;
    }
    let keys = waiting(trigger, (old.settings(), old.files()), (&settings, &files));
    // Settings that wait are not even tried out: they may name files to be written. Files of rules are only read.
    if !keys.is_empty() && *old.settings() != settings {
        return tell_waiting(&keys);
    }
    match old.successor(settings) {
        Ok(_) if !keys.is_empty() => tell_waiting(&keys),
        Ok(next) if trigger == Trigger::Changed && *next.files() != files => {
            tell_waiting(&["files of policies".to_owned()]);
        }
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
