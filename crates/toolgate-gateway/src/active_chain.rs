//! The chain that calls pass now, and the chain that replaces it when the config changes.
//!
//! A chain never changes: the gateway builds a new chain from a new config and swaps it in whole. A call keeps the
//! chain that it started with, so the old and the new rules never mix within one call.

use std::path::PathBuf;

use toolgate::{
    TierRules,
    middleware::filter::NewTools,
    settings::Settings,
    stack::{Stack, StackError},
};

use crate::{config::Trigger, records::store_records::refuse_without_store};

/// The rule files that settings name (policies, schemas), with their content.
pub(crate) type RuleFiles = Vec<(PathBuf, Option<Vec<u8>>)>;

/// A chain with the settings that it was built from.
#[derive(Debug)]
pub struct ActiveChain {
    /// The chain and what it shares with the transport.
    pub stack: Stack,
    /// The settings that the chain was built from.
    pub settings: Settings,
    /// The content of the files that the settings name, as it was when the chain was built.
    files: RuleFiles,
    pub(crate) rules: TierRules,
}

/// What a changed config does to one chain.
#[derive(Debug)]
pub enum Change {
    /// The config has not changed for this chain.
    None,
    /// These keys may widen access, so the change waits until the operator confirms it.
    Waits(Vec<String>),
    /// This chain replaces the active one.
    Next(Box<ActiveChain>),
}

impl ActiveChain {
    /// A chain that was just built.
    #[must_use]
    pub fn new(stack: Stack, settings: Settings) -> Self {
        let (rules, files) = (settings.tier_rules(), settings.rule_files());
        Self { stack, settings, files, rules }
    }

    /// Whether the chain hides tools that the operator has not approved.
    pub(crate) fn quarantines(&self) -> bool {
        self.settings.new_tools == NewTools::Quarantine
    }

    fn successor(&self, settings: Settings) -> Result<Self, StackError> {
        let stack = self.stack.successor(&self.settings, &settings)?;
        Ok(Self::new(stack, settings))
    }

    /// Checks changed settings and builds the next chain from them. The error says why the settings cannot be used.
    pub fn change(
        &self,
        settings: Settings,
        has_store: bool,
        trigger: Trigger,
    ) -> Result<Change, String> {
        if !has_store {
            refuse_without_store(&settings).map_err(|error| error.to_string())?;
        }
        if settings.audit.otlp && !self.settings.audit.otlp {
            return Err("`audit.otlp` takes effect after a restart".to_owned());
        }
        // The settings only name the policy files; the files themselves may have changed as well.
        let files = settings.rule_files();
        let is_same = self.settings == settings;
        if is_same && self.files == files {
            return Ok(Change::None);
        }
        let keys = self.waiting(&settings, &files, trigger);
        // Settings that wait are not built yet, because building may open files for writing. Rule files are only read.
        if !keys.is_empty() && !is_same {
            return Ok(Change::Waits(keys));
        }
        let next = self.successor(settings).map_err(|error| error.to_string())?;
        if !keys.is_empty() {
            return Ok(Change::Waits(keys));
        }
        if trigger == Trigger::Changed && next.files != files {
            // The files changed again while the chain was built, so `waiting` has not compared this content.
            return Ok(Change::Waits(vec!["files of policies".to_owned()]));
        }
        Ok(Change::Next(Box::new(next)))
    }

    /// The keys of changed settings that wait for the operator. Empty if the operator asked for the reload.
    fn waiting(&self, settings: &Settings, files: &RuleFiles, trigger: Trigger) -> Vec<String> {
        if trigger == Trigger::Asked {
            return Vec::new();
        }
        let widened = settings.widened_since(&self.settings);
        let mut keys: Vec<String> = widened.into_iter().map(str::to_owned).collect();
        // A file that the old chain did not read belongs to a new setting, which `widened_since` has judged.
        let changed = |(path, content): &&(PathBuf, Option<Vec<u8>>)| {
            self.files.iter().any(|(known, before)| known == path && before != content)
        };
        keys.extend(files.iter().filter(changed).map(|(path, _)| format!("`{}`", path.display())));
        keys
    }

    /// Like [`change`](Self::change), for a program with one chain: returns the next chain, if there is one, and logs
    /// the result.
    #[must_use]
    pub fn reload(
        &self,
        settings: Result<Settings, String>,
        has_store: bool,
        trigger: Trigger,
    ) -> Option<Self> {
        match settings.and_then(|settings| self.change(settings, has_store, trigger)) {
            Ok(Change::None) => None,
            Ok(Change::Waits(keys)) => {
                log_waiting(&keys);
                None
            }
            Ok(Change::Next(next)) => {
                log_applied();
                Some(*next)
            }
            Err(why) => {
                log_refused(&why);
                None
            }
        }
    }
}

/// Logs which changes wait, and how the operator applies them.
pub(crate) fn log_waiting(keys: &[String]) {
    tracing::warn!(
        "the changed config waits, because it may widen access ({}): the old one stays in force; to apply it, run \
         `toolgate reload` or send SIGHUP",
        keys.join(", ")
    );
}

pub(crate) fn log_refused(why: &str) {
    tracing::error!("the changed config is refused, the old one stays in force: {why}");
}

pub(crate) fn log_applied() {
    tracing::info!("the config has changed; calls from here on are governed by it");
}
