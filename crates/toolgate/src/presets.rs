//! Presets: the chains of three other systems, libtmux-mcp, `MetaMCP` and mcp-core. Each has the order, options,
//! variables and messages that the document of that system describes.
//!
//! `docs/presets.md` compares them with the default.

mod variables;

use crate::{
    layers::{LayerPlace, default_order},
    middleware::{
        audit::{self, AuditConfig},
        breaker, call_id, error_results, filter, log, overrides, policy, preconditions, rate_limit,
        response_limit, retry, safety, scopes, telemetry, trail,
        validate::{self, Unknown, ValidateConfig},
    },
    settings::{Settings, Switch},
};

pub use crate::settings::Preset;
pub use variables::BadVariable;

/// A layer, and the reason for its place.
type Place = (&'static str, &'static str);

/// The other system does not have the layer. The layer is active if the config or a request uses it.
const SHARED: &str = "added by toolgate";

/// The differences between the order of a preset and the default order.
struct Differences {
    /// The layers that the other system has too, with the reason for each place.
    own: &'static [Place],
    /// Layers that move: each `(layer, outer)` places the layer directly inside of `outer`.
    moved: &'static [(&'static str, &'static str)],
    /// Layers that the preset leaves out because their order rules do not fit its order.
    without: &'static [&'static str],
}

/// The order of libtmux-mcp: limit, errors, audit, retry, safety.
const LIBTMUX: Differences = Differences {
    own: &[
        (telemetry::NAME, "measures the time of the whole chain, as in libtmux-mcp"),
        (response_limit::NAME, "also limits the size of error results, and keeps `isError`"),
        (error_results::NAME, "the layers inside of it see failures, not results"),
        (audit::NAME, "records denials, and a retried call once"),
        (
            retry::NAME,
            "inside of audit; outside of safety, whose denials are not transient and so never retried",
        ),
        (safety::NAME, "the last check before the tool"),
    ],
    moved: &[(safety::NAME, retry::NAME)],
    without: &[preconditions::CONFIRM_ARGUMENT, audit::intent::NAME],
};

/// The order of `MetaMCP`: logging, policy, filter, overrides.
const METAMCP: Differences = Differences {
    own: &[
        (call_id::NAME, "lets a nested call name its parent"),
        (error_results::NAME, "turns denials into results that a model reads"),
        (log::NAME, "outermost layer of MetaMCP: records denials and executed calls"),
        (policy::NAME, "checks access first"),
        (filter::NAME, "then checks that the tool is active and on the list of the request"),
        (overrides::NAME, "closest to the tool: maps names back last"),
    ],
    moved: &[(policy::NAME, trail::NAME), (filter::NAME, policy::NAME)],
    without: &[],
};

/// The order of mcp-core: telemetry, validate, preconditions, audit.
const MCP_CORE: Differences = Differences {
    own: &[
        (telemetry::NAME, "sees every call, including denied ones"),
        (error_results::NAME, "outside of all layers that can fail"),
        (
            preconditions::CONFIRM_ARGUMENT,
            "reads the confirmation before `validate` checks the arguments",
        ),
        (validate::NAME, "before preconditions, which then see valid arguments"),
        (scopes::NAME, "the precondition CategoryEnabled; also filters listings"),
        (
            rate_limit::NAME,
            "an additional layer between preconditions and audit, as mcp-core's document advises",
        ),
        (preconditions::NAME, "the precondition ConfirmRequired, and your own"),
        (audit::NAME, "innermost: records only calls that reach the tool"),
        (breaker::NAME, "one circuit per server; mcp-core has one for all"),
        (audit::intent::NAME, "records those calls before they run"),
    ],
    moved: &[(audit::NAME, preconditions::NAME)],
    without: &[],
};

impl Preset {
    /// The layers of the preset, outermost first. The stack leaves out layers that are off. A layer that the other system does not have stands where it stands in the default order.
    #[must_use]
    pub fn order(self) -> Vec<LayerPlace> {
        let differences = match self {
            Self::Libtmux => &LIBTMUX,
            Self::Metamcp => &METAMCP,
            Self::McpCore => &MCP_CORE,
        };
        let mut names: Vec<&str> = default_order().map(|place| place.name).collect();
        names.retain(|name| !differences.without.contains(name));
        for (name, outer) in differences.moved {
            names.retain(|other| other != name);
            let at = names.iter().position(|other| other == outer);
            names.insert(at.map_or(names.len(), |at| at + 1), name);
        }
        let why = |name| differences.own.iter().find(|(own, _)| *own == name);
        let place = |name| LayerPlace { name, why: why(name).map_or(SHARED, |(_, why)| *why) };
        names.into_iter().map(place).collect()
    }

    /// The layers that the other system has too, outermost first.
    pub fn own_layers(self) -> impl Iterator<Item = &'static str> {
        self.order().into_iter().filter(|place| place.why != SHARED).map(|place| place.name)
    }

    /// Sets the options of the preset that the config file does not set.
    pub fn fill(self, settings: &mut Settings) {
        match self {
            Self::Libtmux => {
                settings.safety = settings.safety.or(Some(crate::Tier::Mutating));
                settings.retry.get_or_insert_default();
            }
            Self::Metamcp => {
                if settings.cache_ttl == Switch::Off {
                    settings.cache_ttl = Switch::On(std::time::Duration::from_secs(60));
                }
            }
            Self::McpCore => fill_mcp_core(settings),
        }
    }

    /// The audit settings of the preset, for a config file without `[audit]`.
    #[must_use]
    pub fn audit(self) -> Option<AuditConfig> {
        match self {
            Self::Libtmux => Some(AuditConfig::default()),
            Self::Metamcp => None,
            Self::McpCore => Some(variables::mcp_core_audit()),
        }
    }

    /// The `[audit]` of a config file. If the file does not set where records go or which calls are recorded, the choice
    /// of the preset applies. `says` returns whether the file has a key.
    #[must_use]
    pub fn audit_over(self, file: AuditConfig, says: impl Fn(&str) -> bool) -> AuditConfig {
        let Some(own) = self.audit() else { return file };
        AuditConfig {
            file: if says("file") { file.file } else { own.file },
            record: if says("record") { file.record } else { own.record },
            readonly: if says("readonly") { file.readonly } else { own.readonly },
            ..file
        }
    }
}

/// Destructive tools need a confirmation, and arguments that the schema does not know are stripped.
fn fill_mcp_core(settings: &mut Settings) {
    let destructive = crate::Facts { destructive: Some(true), ..crate::Facts::default() };
    let confirm = settings.confirm.get_or_insert_with(|| preconditions::ConfirmConfig {
        when: vec![crate::Selection::Facts(destructive)],
        boolean: true,
        // In mcp-core agents confirm their own calls.
        fallback: preconditions::Fallback::AgentMayConfirmItself,
        ..preconditions::ConfirmConfig::default()
    });
    // In mcp-core no gated tool runs until `MCP_DRY_RUN` is `false`.
    if confirm.mode.is_none() && confirm.dry_run.is_none() {
        confirm.mode = Some(preconditions::Mode::Preview);
    }
    if cfg!(feature = "validate") {
        settings.validate.get_or_insert_with(|| ValidateConfig {
            input_schema: true,
            unknown: Unknown::Strip,
            ..Default::default()
        });
    }
}

#[cfg(test)]
mod tests;
