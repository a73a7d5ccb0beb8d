//! The types that read `toolgate.toml`: every table and key, with its meaning.
//!
//! The JSON Schema (`toolgate config schema`), the reference page (`toolgate config reference`) and the checks are
//! generated from these types. The keys of a layer are declared in the folder of the layer.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use toolgate::{
    Tier, ToolSettings,
    middleware::{
        audit::{AuditConfig, RedactConfig},
        filter::NewTools,
        policy::{PolicyConfig, PrincipalPattern},
        scopes::Scope,
    },
    settings::{Annotations, ChainOrder, LayerTables, LimitsConfig, Switch},
};

use super::{
    ServeConfig, TelemetryConfig, Text, TrailConfig,
    listing::{PageSize, Prefix},
    servers::ServerConfig,
};

/// Declares a table that also contains the settings of layers: the tables that several layers or the gateway read, and
/// one table for each layer that has settings.
macro_rules! with_layers {
    (
        $(#[$meta:meta])*
        struct $name:ident { $($fields:tt)* }
    ) => {
        toolgate::with_layer_tables! {
            #[derive(Clone, Debug, Default, Deserialize, schemars::JsonSchema)]
            $(#[$meta])*
            #[serde(deny_unknown_fields, default)]
            pub(super) struct $name {
                $($fields)*
                /// The audit: one record per call, in a hash chain.
                pub(super) audit: Option<AuditConfig>,
                /// Which arguments are redacted in records.
                pub(super) redact: Option<RedactConfig>,
                /// Limits of sizes, times and rates.
                pub(super) limits: Option<LimitsConfig>,
                /// Sends the record of each call to an HTTP endpoint.
                pub(super) trail: Option<TrailConfig>,
                /// OpenTelemetry spans and metrics.
                pub(super) telemetry: Option<TelemetryConfig>,
            }
        }

        impl $name {
            pub(super) fn layers(&self) -> Layers {
                Layers {
                    audit: self.audit.clone(),
                    redact: self.redact.clone(),
                    limits: self.limits.clone(),
                    trail: self.trail.clone(),
                    telemetry: self.telemetry.clone(),
                    own: self.layer_tables(),
                }
            }
        }
    };
}

with_layers! {
    /// The whole file. Unknown keys are errors, because a misspelt rule would protect nothing.
    #[schemars(title = "toolgate.toml")]
    struct File {
        /// Database for the call log and approved tools: `sqlite:FILE`.
        pub(super) store: Option<Text>,
        /// The servers, by a name of your own.
        pub(super) servers: BTreeMap<String, ServerConfig>,
        /// Namespaces, by a name of your own: the servers and the chain that a client connects to. A wrapped server
        /// is in `default`.
        pub(super) namespaces: BTreeMap<String, Namespace>,
        /// Policies, by a name of your own. A policy applies to the namespaces and principals that are bound to it,
        /// and to requests that name it in `_meta.policyId`.
        pub(super) policies: BTreeMap<String, PolicyConfig>,
        /// The server of `toolgate tmux`.
        #[schemars(with = "serde_json::Value")]
        pub(super) tmux: Option<toml::Table>,
        /// Which changes of this file a running gateway applies by itself. All others wait for `toolgate reload` or
        /// SIGHUP.
        pub(super) reload: Reload,
        /// Addresses, tokens and limits of `toolgate serve`.
        pub(super) serve: Option<ServeConfig>,
    }
}

with_layers! {
    /// What a client connects to. A table of a layer in a namespace (`[namespaces.NAME.limits]`, …) replaces the
    /// whole table of that name at the top.
    struct Namespace {
        /// The servers of the namespace, by their names in `[servers]`; default: all.
        pub(super) servers: Option<Vec<String>>,
        /// Which tools and prompts have the name of their server as a prefix.
        pub(super) prefix: Prefix,
        /// The most entries on one page of a list.
        pub(super) page_size: PageSize,
        /// `default`, a preset, or a list of layers, outermost first.
        pub(super) chain: ChainOrder,
        /// The highest allowed tier; default: all tools are allowed.
        pub(super) safety: Option<Tier>,
        /// Whether a tool gets its tier from its own annotations, if this file does not set it.
        pub(super) annotations: Annotations,
        /// The policy that must allow every call.
        pub(super) policy: Option<String>,
        /// Policies that must also allow the calls of single principals: `"local:*" = "NAME"`.
        pub(super) principals: BTreeMap<PrincipalPattern, String>,
        /// The scopes that every caller is granted; default: all tools are allowed, unless `grants` or `MCP_SCOPES`
        /// is set or a tool requires scopes.
        pub(super) scopes: Option<Vec<Scope>>,
        /// The scopes that single principals are granted: `"local:*" = ["read"]`. `scopes`, if set, must grant them,
        /// too. A principal that no pattern matches is granted none.
        pub(super) grants: Option<BTreeMap<PrincipalPattern, Vec<Scope>>>,
        /// What happens to tools that a server adds later; `quarantine` needs a `store`.
        pub(super) new_tools: NewTools,
        /// The time after which the gateway asks a server for its lists again. It also asks after `toolgate reload`
        /// or SIGHUP, whenever it connects, and whenever the server says that they changed. If several namespaces
        /// have the server, the shortest time counts. If the server fails, its last lists stay in force.
        pub(super) cache_ttl: Switch<Duration>,
        /// The message for calls of an inactive tool; `{name}` stands for the tool's name.
        pub(super) inactive_message: Option<String>,
        /// Settings of tools, by selector: `"server/tool"`.
        pub(super) tools: BTreeMap<String, ToolSettings>,
    }
}

/// `reload = "narrowing" | "off"`
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub(super) enum Reload {
    /// Changes that only narrow access.
    #[default]
    Narrowing,
    /// None: the file is not watched.
    Off,
}

/// Settings of the layers. At the top of the file they apply to all namespaces, in a namespace to that namespace.
#[derive(Clone, Debug, Default)]
pub(super) struct Layers {
    pub(super) audit: Option<AuditConfig>,
    pub(super) redact: Option<RedactConfig>,
    pub(super) limits: Option<LimitsConfig>,
    pub(super) trail: Option<TrailConfig>,
    pub(super) telemetry: Option<TelemetryConfig>,
    /// The tables that each belong to one layer.
    pub(super) own: LayerTables,
}

impl Layers {
    /// These settings. A table that is not set is taken from `shared`.
    pub(super) fn over(self, shared: Self) -> Self {
        Self {
            audit: self.audit.or(shared.audit),
            redact: self.redact.or(shared.redact),
            limits: self.limits.or(shared.limits),
            trail: self.trail.or(shared.trail),
            telemetry: self.telemetry.or(shared.telemetry),
            own: self.own.or(shared.own),
        }
    }
}
