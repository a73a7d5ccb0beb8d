//! Settings of preconditions: the tables `[confirm]` and `[[preconditions]]`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{duration, selection::Selection};

/// `[confirm]`: calls that run only with two keys, the operator's and the caller's.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ConfirmConfig {
    /// The tools that need a confirmation: `"server/tool"` globs, or facts, as `{ tier = "destructive" }`.
    pub when: Vec<Selection>,
    /// The operator's key. While it is `true`, calls of these tools are only shown, whatever the caller
    /// says.
    pub dry_run: bool,
    /// How long a confirmation may take, and a confirmation token holds.
    #[serde(with = "duration")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub ttl: Duration,
    /// What happens where the client cannot ask its user.
    pub fallback: Fallback,
    /// Whether a bare `__confirm: true` is the caller's key. An agent can say that unaided.
    pub boolean: bool,
    /// Whether a preview has `isError`. Clients that check results against a tool's output schema take a
    /// preview only with it.
    pub preview_is_error: bool,
}

impl Default for ConfirmConfig {
    fn default() -> Self {
        Self {
            when: Vec::new(),
            dry_run: true,
            ttl: Duration::from_mins(5),
            fallback: Fallback::Token,
            boolean: false,
            preview_is_error: true,
        }
    }
}

/// What happens where the client cannot ask its user.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Fallback {
    /// The caller gets a preview with a token, and repeats the call with it.
    #[default]
    Token,
    /// The call is refused: only a person may confirm.
    Refuse,
}

/// `[[preconditions]]`: what must hold before some tools are called.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PreconditionRule {
    /// The tools, as in `confirm.when`.
    pub when: Vec<Selection>,
    /// The ids of the preconditions: `confirm`, `dry_run`, `scopes`, or one that the program brings along.
    pub require: Vec<String>,
}
