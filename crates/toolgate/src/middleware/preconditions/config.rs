//! Settings of preconditions: the tables `[confirm]` and `[[preconditions]]`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::layer_spec::{LayerTable, contains_all};
use crate::{duration, selection::Selection};

/// `[confirm]`: calls that a person has to confirm before they run.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ConfirmConfig {
    /// The tools whose calls need a confirmation.
    pub when: Vec<Selection>,
    /// What happens to calls of these tools.
    #[cfg_attr(feature = "schema", schemars(extend("default" = Self::default().mode())))]
    pub mode: Option<Mode>,
    /// Old form of `mode`: `true` is `mode = "preview"`, `false` is `mode = "ask"`.
    pub dry_run: Option<bool>,
    /// How long a person may take to decide, and how long a decision is valid. `expires` is another name of this key.
    #[serde(with = "duration", alias = "expires")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub ttl: Duration,
    /// What happens if the client cannot ask its user.
    pub fallback: Fallback,
    /// How long a call waits for `toolgate approve` before it returns "pending approval", for example `"30s"`;
    /// default: it returns at once.
    #[serde(deserialize_with = "some_duration")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub wait: Option<Duration>,
    /// The most calls of one principal that wait for approval.
    pub max_pending: usize,
    /// Whether a bare `__confirm: true` in the arguments confirms a call. An agent can send that on its own.
    pub boolean: bool,
    /// Whether a preview has `isError`. Clients that check results against a tool's output schema accept a preview
    /// only with it.
    pub preview_is_error: bool,
}

impl Default for ConfirmConfig {
    fn default() -> Self {
        Self {
            when: Vec::new(),
            mode: None,
            dry_run: None,
            ttl: Duration::from_secs(5 * 60),
            fallback: Fallback::Approval,
            wait: None,
            max_pending: 32,
            boolean: false,
            preview_is_error: true,
        }
    }
}

impl ConfirmConfig {
    /// What happens to calls that need a confirmation, by either spelling.
    #[must_use]
    pub fn mode(&self) -> Mode {
        match (self.mode, self.dry_run) {
            (Some(mode), _) => mode,
            (None, Some(true)) => Mode::Preview,
            (None, _) => Mode::Ask,
        }
    }

    /// Sets the mode over whatever either spelling says.
    pub fn set_mode(&mut self, mode: Mode) {
        (self.mode, self.dry_run) = (Some(mode), None);
    }

    /// Old spellings, each with the line to write instead.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        let mut hints = Vec::new();
        if let Some(dry_run) = self.dry_run {
            let mode = self.mode().name();
            hints.push(format!(
                "`confirm.dry_run = {dry_run}` is an old spelling: write `mode = \"{mode}\"`"
            ));
        }
        if self.fallback == Fallback::Token {
            hints.push(
                "`confirm.fallback = \"token\"` lets the agent confirm its own calls: write \
                 `fallback = \"agent-may-confirm-itself\"`, or `fallback = \"approval\"` to have a person decide with \
                 `toolgate approve`"
                    .to_owned(),
            );
        }
        hints
    }
}

fn some_duration<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration::deserialize(from).map(Some)
}

/// What happens to calls that need a confirmation.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// They never run; the caller reads what would run.
    Preview,
    /// A person is asked, and each call runs once the person confirms it.
    Ask,
}

impl Mode {
    /// The name in the config.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Preview => "preview",
            Self::Ask => "ask",
        }
    }
}

/// What happens if the client cannot ask its user.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Fallback {
    /// The call returns "pending approval"; a person decides with `toolgate approve` or `toolgate deny`, and
    /// the agent repeats the call.
    #[default]
    Approval,
    /// The call is refused.
    Refuse,
    /// The agent gets a token and repeats the call with it. Nothing makes it ask a person first.
    AgentMayConfirmItself,
    /// The old name of `agent-may-confirm-itself`.
    Token,
}

impl Fallback {
    /// Whether the agent gets a token.
    #[must_use]
    pub const fn gives_token(self) -> bool {
        matches!(self, Self::AgentMayConfirmItself | Self::Token)
    }
}

/// `[[preconditions]]`: conditions for calls of some tools.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PreconditionRule {
    /// The tools, as in `confirm.when`.
    pub when: Vec<Selection>,
    /// The ids of the preconditions: `confirm`, `dry_run`, `scopes`, or one of the program.
    pub require: Vec<String>,
}

/// `[[preconditions]]`
pub type PreconditionRules = Vec<PreconditionRule>;

impl LayerTable for ConfirmConfig {
    /// More tools may need a confirmation, and nothing else.
    fn narrows(old: Option<&Self>, new: Option<&Self>) -> bool {
        match (old, new) {
            (None, None) => true,
            // Other preconditions may ask too: where the agent may confirm itself, they ask for less.
            (None, Some(new)) => !new.fallback.gives_token() && !new.boolean,
            (Some(_), None) => false,
            (Some(old), Some(new)) => {
                let (when, mode) = (new.when.clone(), new.mode);
                let known = Self { when, mode, dry_run: new.dry_run, ..old.clone() };
                let shows = new.mode() == old.mode() || new.mode() == Mode::Preview;
                known == *new && shows && contains_all(&new.when, &old.when)
            }
        }
    }

    fn selects_tools(&self) -> bool {
        true
    }
}

impl LayerTable for PreconditionRules {
    /// More rules may hold.
    fn narrows(old: Option<&Self>, new: Option<&Self>) -> bool {
        contains_all(new.map_or(&[], Vec::as_slice), old.map_or(&[], Vec::as_slice))
    }

    fn selects_tools(&self) -> bool {
        !self.is_empty()
    }
}
