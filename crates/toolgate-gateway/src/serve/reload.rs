//! Settings that change while the gateway runs: checked, and swapped in whole or refused.

use std::{path::PathBuf, sync::Arc};

use super::gateway::Serve;
use crate::{
    config::Config,
    wrap::{memory::needs_no_store, reload::ConfigWatch},
};

/// Tells when the settings have changed.
pub struct Changes(ConfigWatch);

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Changes")
    }
}

impl Changes {
    /// Waits until the file has changed and is left alone. Cancel safe.
    pub async fn next(&self) {
        self.0.changed().await;
    }
}

impl Serve {
    /// Watches the file that the settings come from.
    #[must_use]
    pub fn changes(&self) -> Changes {
        Changes(ConfigWatch::new(self.options.watch.as_deref()))
    }

    /// Reads the settings again. What is wrong is refused, and everything stays as it was.
    pub fn reload(&self) {
        let mut charters = Vec::new();
        let new = self.options.watch.as_deref().and_then(|path| Config::read(path).ok());
        for namespace in self.gateway.namespaces() {
            // One that was removed is served as it was until the next start; the others need not wait for that.
            if new.as_ref().is_some_and(|new| !new.namespaces().contains(&&*namespace.name)) {
                continue;
            }
            let old = namespace.charter();
            let said = match (self.options.settings)(&namespace.name) {
                Ok(said) => said,
                Err(why) => return refused(&why),
            };
            if self.options.store.is_none()
                && let Err(error) = needs_no_store(&said.settings)
            {
                return refused(&error.to_string());
            }
            if said.settings.audit.otlp && !old.settings.audit.otlp {
                return refused("`audit.otlp` is heeded from the next start on");
            }
            let names_files = said.settings.policies.values().any(|policy| policy.cedar.is_some());
            if old.settings == said.settings && !names_files {
                continue;
            }
            match old.successor(said.settings) {
                Ok(next) => charters.push((Arc::clone(namespace), next)),
                Err(error) => return refused(&error.to_string()),
            }
        }
        if let Some(why) = self.needs_a_start() {
            tracing::warn!("{why} is heeded from the next start on");
        }
        if charters.is_empty() {
            return;
        }
        for (namespace, charter) in charters {
            namespace.govern_by(charter);
        }
        tracing::info!("the config has changed; calls from here on are governed by it");
    }

    /// The audit file was moved away: a new one is begun.
    pub fn reopen(&self) {
        for namespace in self.gateway.namespaces() {
            if let Some(audit) = &namespace.charter().stack.audit {
                audit.reopen();
            }
        }
    }

    /// What has changed and cannot change while it runs.
    fn needs_a_start(&self) -> Option<&'static str> {
        let path: &PathBuf = self.options.watch.as_ref()?;
        let new = Config::read(path).ok()?;
        let old = &self.options.config;
        if new.servers() != old.servers() {
            return Some("what has changed in `[servers]`");
        }
        if new.serve() != old.serve() {
            return Some("what has changed in `[serve]`, tokens included,");
        }
        let names = |config: &Config| {
            config.namespaces().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        if names(&new) != names(old) {
            return Some("a namespace that was added or removed");
        }
        let said =
            |config: &Config, name: &str| (config.servers_of(name).ok(), config.style(name).ok());
        names(old)
            .iter()
            .any(|name| said(&new, name) != said(old, name))
            .then_some("another list of servers, `prefix` or `page_size` of a namespace")
    }
}

fn refused(why: &str) {
    tracing::error!("the changed config is refused, the old one stays in force: {why}");
}
