//! Presets: the chains of the three systems that toolgate grew from, each in its own order, with its own
//! options, variables and words, and working as its document says.
//!
//! `docs/presets.md` compares them with the default.

mod variables;

use crate::{
    middleware::{audit::AuditConfig, error_results, log, preconditions, response_limit, retry},
    settings::{Settings, Switch},
};

pub use crate::settings::Preset;
pub use variables::BadVariable;

/// A layer, and the reason for its place.
type Place = (&'static str, &'static str);

/// The layer is not part of the original. It is active if the config or a request uses it.
const SHARED: &str = "added by toolgate";

/// libtmux-mcp's own order: limit, errors, audit, retry, safety.
const LIBTMUX: &[Place] = &[
    ("telemetry", "measures the time of the whole chain, as in the original"),
    (response_limit::NAME, "also limits the size of error results, and keeps `isError`"),
    ("call-id", SHARED),
    (error_results::NAME, "the layers inside of it see failures, not results"),
    (log::NAME, SHARED),
    ("audit", "records denials, and a retried call once"),
    ("audit-trail", SHARED),
    ("overrides", SHARED),
    ("validate", SHARED),
    ("filter", SHARED),
    ("flags", SHARED),
    ("policy", SHARED),
    ("scopes", SHARED),
    ("rate-limit", SHARED),
    (preconditions::NAME, SHARED),
    ("breaker", SHARED),
    (
        retry::NAME,
        "inside of audit; outside of safety, whose denials are not transient and so never retried",
    ),
    ("safety", "the last check before the tool"),
    ("timeout", SHARED),
    ("sanitize", SHARED),
];

/// `MetaMCP`'s own order: logging, policy, filter, overrides.
const METAMCP: &[Place] = &[
    ("telemetry", SHARED),
    (response_limit::NAME, SHARED),
    ("call-id", "lets a nested call name its parent"),
    (error_results::NAME, "turns denials into results that a model reads"),
    (preconditions::CONFIRM_ARGUMENT, SHARED),
    (log::NAME, "outermost layer of the original: records denials and executed calls"),
    ("audit", SHARED),
    ("audit-trail", SHARED),
    ("policy", "checks access first"),
    ("filter", "then checks that the tool is active and on the list of the request"),
    ("overrides", "closest to the tool: maps names back last"),
    ("validate", SHARED),
    ("flags", SHARED),
    ("safety", SHARED),
    ("scopes", SHARED),
    ("rate-limit", SHARED),
    (preconditions::NAME, SHARED),
    ("breaker", SHARED),
    ("audit-intent", SHARED),
    (retry::NAME, SHARED),
    ("timeout", SHARED),
    ("sanitize", SHARED),
];

/// mcp-core's own order: telemetry, validate, preconditions, audit.
const MCP_CORE: &[Place] = &[
    ("telemetry", "sees every call, including denied ones"),
    (response_limit::NAME, SHARED),
    ("call-id", SHARED),
    (error_results::NAME, "outside of all layers that can fail"),
    (
        preconditions::CONFIRM_ARGUMENT,
        "reads the confirmation before `validate` checks the arguments",
    ),
    (log::NAME, SHARED),
    ("audit-trail", SHARED),
    ("overrides", SHARED),
    ("validate", "before preconditions, which then see valid arguments"),
    ("filter", SHARED),
    ("flags", SHARED),
    ("policy", SHARED),
    ("safety", SHARED),
    ("scopes", "the precondition CategoryEnabled; also filters listings"),
    (
        "rate-limit",
        "an additional layer between preconditions and audit, as the original's document advises",
    ),
    (preconditions::NAME, "the precondition ConfirmRequired, and your own"),
    ("audit", "innermost: records only calls that reach the tool"),
    ("breaker", "one circuit per server; the original has one for all"),
    ("audit-intent", "records those calls before they run"),
    (retry::NAME, SHARED),
    ("timeout", SHARED),
    ("sanitize", SHARED),
];

impl Preset {
    /// Its layers, outermost first, with the reason for each place. Those that nothing switches on are left
    /// out.
    #[must_use]
    pub const fn order(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Libtmux => LIBTMUX,
            Self::Metamcp => METAMCP,
            Self::McpCore => MCP_CORE,
        }
    }

    /// The layers that the original has too, outermost first.
    pub fn own_layers(self) -> impl Iterator<Item = &'static str> {
        self.order().iter().filter(|(_, why)| *why != SHARED).map(|(name, _)| *name)
    }

    /// Its options, where the file leaves them open.
    pub fn fill(self, settings: &mut Settings) {
        match self {
            Self::Libtmux => {
                settings.safety = settings.safety.or(Some(crate::Tier::Mutating));
                settings.retry.get_or_insert_default();
            }
            Self::Metamcp => {
                if settings.cache_ttl == Switch::Off {
                    settings.cache_ttl = Switch::On(std::time::Duration::from_mins(1));
                }
            }
            Self::McpCore => fill_mcp_core(settings),
        }
    }

    /// What its audit is set to where the file has no `[audit]`.
    #[must_use]
    pub fn audit(self) -> Option<AuditConfig> {
        match self {
            Self::Libtmux => Some(AuditConfig::default()),
            Self::Metamcp => None,
            Self::McpCore => Some(variables::mcp_core_audit()),
        }
    }

    /// The `[audit]` of a file, with the original's choice where the file does not say which calls are recorded. `says`
    /// tells which keys the file has.
    #[must_use]
    pub fn audit_over(self, file: AuditConfig, says: impl Fn(&str) -> bool) -> AuditConfig {
        let Some(own) = self.audit() else { return file };
        AuditConfig {
            record: if says("record") { file.record } else { own.record },
            readonly: if says("readonly") { file.readonly } else { own.readonly },
            ..file
        }
    }
}

/// Destructive tools are gated with the two keys, and what a schema does not know is stripped.
fn fill_mcp_core(settings: &mut Settings) {
    let destructive = crate::Facts { destructive: Some(true), ..crate::Facts::default() };
    let confirm = settings.confirm.get_or_insert_with(|| preconditions::ConfirmConfig {
        when: vec![crate::Selection::Facts(destructive)],
        boolean: true,
        // As in the original: its agents confirm their own calls.
        fallback: preconditions::Fallback::AgentMayConfirmItself,
        ..preconditions::ConfirmConfig::default()
    });
    // In the original nothing runs before `MCP_DRY_RUN` is `false`.
    if confirm.mode.is_none() && confirm.dry_run.is_none() {
        confirm.mode = Some(preconditions::Mode::Preview);
    }
    #[cfg(feature = "validate")]
    settings.validate.get_or_insert_with(|| crate::middleware::validate::ValidateConfig {
        input_schema: true,
        unknown: crate::middleware::validate::Unknown::Strip,
        ..Default::default()
    });
}

#[cfg(test)]
mod tests;
