//! Reloads the config while the gateway runs: checks it, then applies it as a whole or refuses it.

use std::{collections::BTreeMap, sync::Arc};

use toolgate::Principal;

use super::running_gateway::RunningGateway;
use crate::{
    active_chain::{Change, log_applied, log_refused, log_waiting},
    config::{
        Config, ConfigWatch, Trigger,
        serve::{TokenConfig, opens},
    },
    tokens::Tokens,
};

/// A change of the configured tokens.
struct TokenChange {
    tokens: BTreeMap<String, TokenConfig>,
    /// Whether the change gives no access that the old tokens did not give.
    only_narrows: bool,
}

impl RunningGateway {
    /// The watch that reports changes of the config file.
    #[must_use]
    pub fn config_watch(&self) -> ConfigWatch {
        self.options.watch.clone()
    }

    /// Reads the config again and applies it. If it is invalid, everything stays as it was. If the operator asked for the
    /// reload, the servers' lists are refreshed, too.
    pub fn reload(&self, trigger: Trigger) {
        match self.changed_config(trigger) {
            Ok(waits) if !waits.is_empty() => log_waiting(&waits),
            Ok(_) => {}
            Err(why) => log_refused(&why),
        }
        if trigger == Trigger::Asked {
            self.gateway.refresh();
        }
    }

    /// Applies the changes, unless some of them wait for the operator. Returns those that wait.
    fn changed_config(&self, trigger: Trigger) -> Result<Vec<String>, String> {
        let new = self.options.watch.path();
        let new = new.map(|path| self.options.config.read_again(path)).transpose();
        let new = new.map_err(|error| error.to_string())?;
        let (mut chains, mut waits) = (Vec::new(), Vec::new());
        for namespace in self.gateway.namespaces() {
            // A namespace that was removed from the config is served unchanged until the next start.
            if new.as_ref().is_some_and(|new| !new.namespaces().contains(&&*namespace.name)) {
                continue;
            }
            let settings = (self.options.settings)(&namespace.name)?.settings;
            let has_store = self.options.store.is_some();
            match namespace.current_chain().change(settings, has_store, trigger)? {
                Change::None => {}
                Change::Waits(keys) => {
                    waits.extend(keys.iter().map(|key| format!("{key} of `{}`", namespace.name)));
                }
                Change::Next(next) => chains.push((Arc::clone(namespace), next)),
            }
        }
        let mut tokens = None;
        if let Some(new) = &new {
            if let Some(why) = self.needs_a_start(new) {
                tracing::warn!("{why} takes effect after a restart");
            }
            new.exposure(None).iter().for_each(|warning| tracing::warn!("{warning}"));
            tokens = self.changed_tokens(&new.serve().tokens);
        }
        if tokens.as_ref().is_some_and(|change| !change.only_narrows) && trigger == Trigger::Changed
        {
            waits.push("`serve.tokens`".to_owned());
        }
        if !waits.is_empty() || (chains.is_empty() && tokens.is_none()) {
            return Ok(waits);
        }
        if let Some(change) = tokens {
            self.set_tokens(change.tokens)?;
        }
        for (namespace, chain) in chains {
            namespace.set_chain(*chain);
        }
        log_applied();
        Ok(waits)
    }

    /// The change of the tokens; `None` if they have not changed, or if tokens were added to or removed from a config as a
    /// whole: whether clients need tokens is fixed at the start.
    fn changed_tokens(&self, new: &BTreeMap<String, TokenConfig>) -> Option<TokenChange> {
        let old = self.tokens.lock();
        if *old == *new || old.is_empty() || new.is_empty() {
            return None;
        }
        let only_narrows = new.iter().all(|(name, token)| {
            old.get(name).is_some_and(|before| before == token || token.narrows(before))
        });
        Some(TokenChange { tokens: new.clone(), only_narrows })
    }

    /// Replaces the tokens, and ends the sessions of tokens that were removed.
    fn set_tokens(&self, tokens: BTreeMap<String, TokenConfig>) -> Result<(), String> {
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
        *self.tokens.lock() = tokens;
        Ok(())
    }

    /// Reopens the audit files, after the operator has moved them away.
    pub fn reopen(&self) {
        for namespace in self.gateway.namespaces() {
            if let Some(audit) = &namespace.current_chain().stack.audit {
                audit.reopen();
            }
        }
    }

    /// The changes that take effect only after a restart.
    fn needs_a_start(&self, new: &Config) -> Option<&'static str> {
        let old = &self.options.config;
        if new.servers() != old.servers() {
            return Some("what has changed in `[servers]`");
        }
        let (mut serve, before) = (new.serve(), old.serve());
        if !serve.tokens.is_empty() && !before.tokens.is_empty() {
            // Tokens change without a restart.
            serve.tokens.clone_from(&before.tokens);
        }
        if serve != before {
            return Some("what has changed in `[serve]`");
        }
        let names = |config: &Config| {
            config.namespaces().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        if names(new) != names(old) {
            return Some("a namespace that was added or removed");
        }
        let servers_and_style =
            |config: &Config, name: &str| (config.servers_of(name).ok(), config.style(name).ok());
        names(old)
            .iter()
            .any(|name| servers_and_style(new, name) != servers_and_style(old, name))
            .then_some("another list of servers, `prefix` or `page_size` of a namespace")
    }
}
