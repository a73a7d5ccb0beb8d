//! Settings that change while the gateway runs: checked, and swapped in whole or refused.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, PoisonError},
};

use toolgate::Principal;

use super::gateway::Serve;
use crate::{
    config::{
        Config,
        serve::{TokenConfig, opens},
    },
    inbound::http::tokens::Tokens,
    wrap::{
        Trigger,
        memory::needs_no_store,
        reload::{ConfigWatch, tell_waiting, waiting},
    },
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
        let watch = self.options.watch.as_deref().filter(|_| self.options.config.is_watched());
        Changes(ConfigWatch::new(watch))
    }

    /// Reads the settings again. What is wrong is refused, and everything stays as it was.
    pub fn reload(&self, trigger: Trigger) {
        let mut charters = Vec::new();
        let mut waits = Vec::new();
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
            let files = said.settings.rule_files();
            if old.settings == said.settings && old.files == files {
                continue;
            }
            let keys = waiting(trigger, (&old.settings, &old.files), (&said.settings, &files));
            // Settings that wait are not even tried out: they may name files to be written. Files of rules are only read.
            let is_tried = keys.is_empty() || old.settings == said.settings;
            let waits_for = !keys.is_empty();
            waits.extend(keys.into_iter().map(|key| format!("{key} of `{}`", namespace.name)));
            if !is_tried {
                continue;
            }
            match old.successor(said.settings) {
                Ok(_) if waits_for => {}
                Ok(next) if trigger == Trigger::Changed && next.files != files => {
                    waits.push("files of policies".to_owned());
                }
                Ok(next) => charters.push((Arc::clone(namespace), next)),
                Err(error) => return refused(&error.to_string()),
            }
        }
        if let Some(why) = self.needs_a_start() {
            tracing::warn!("{why} is heeded from the next start on");
        }
        let tokens = new.as_ref().and_then(|new| self.changed_tokens(&new.serve().tokens));
        if let Some((_, false)) = tokens
            && trigger == Trigger::Changed
        {
            waits.push("`serve.tokens`".to_owned());
        }
        if let Some(new) = &new {
            new.exposure(None).iter().for_each(|warning| tracing::warn!("{warning}"));
        }
        if !waits.is_empty() {
            return tell_waiting(&waits);
        }
        let has_tokens = tokens.is_some();
        if let Some((tokens, _)) = tokens
            && let Err(why) = self.admit_by(tokens)
        {
            return refused(&why);
        }
        if charters.is_empty() && !has_tokens {
            return;
        }
        for (namespace, charter) in charters {
            namespace.govern_by(charter);
        }
        tracing::info!("the config has changed; calls from here on are governed by it");
    }

    /// The tokens of a changed config, and whether they only narrow who gets in; `None` where nothing has changed that
    /// can change while running: whether tokens are needed at all is decided at the start.
    fn changed_tokens(
        &self,
        new: &BTreeMap<String, TokenConfig>,
    ) -> Option<(BTreeMap<String, TokenConfig>, bool)> {
        let old = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if *old == *new || old.is_empty() || new.is_empty() {
            return None;
        }
        let narrows = new.iter().all(|(name, token)| {
            old.get(name).is_some_and(|before| before == token || token.narrows(before))
        });
        Some((new.clone(), narrows))
    }

    /// From here on these tokens count. The sessions of those that are gone end.
    fn admit_by(&self, tokens: BTreeMap<String, TokenConfig>) -> Result<(), String> {
        let checked = Tokens::new(&tokens).map_err(|error| error.to_string())?;
        self.gateway.tokens.store(Arc::new(checked));
        for session in self.gateway.sessions.all() {
            let is_gone = match &session.session.principal {
                Principal::Key(name) => tokens
                    .get(&**name)
                    .is_none_or(|token| !opens(token.namespaces(), &session.session.namespace)),
                _ => false,
            };
            if is_gone {
                self.gateway.end_session(&session);
            }
        }
        *self.tokens.lock().unwrap_or_else(PoisonError::into_inner) = tokens;
        Ok(())
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
        let (mut serve, before) = (new.serve(), old.serve());
        if !serve.tokens.is_empty() && !before.tokens.is_empty() {
            // They change while it runs.
            serve.tokens.clone_from(&before.tokens);
        }
        if serve != before {
            return Some("what has changed in `[serve]`");
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
