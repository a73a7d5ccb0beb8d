//! `toolgate.toml` as it is written: every table and key, with its meaning.
//!
//! From these types come the JSON Schema (`toolgate config schema`), the reference page
//! (`toolgate config reference`) and the checks. Each layer's own keys live beside the layer.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};
use toolgate::{
    Tier, ToolSettings,
    middleware::{
        audit::{AuditConfig, RedactConfig},
        breaker::BreakerConfig,
        filter::NewTools,
        flags::FlagsConfig,
        log::LogConfig,
        policy::{PolicyConfig, PrincipalPattern},
        preconditions::{ConfirmConfig, PreconditionRule},
        retry::RetryConfig,
        sanitize::SanitizeConfig,
        scopes::Scope,
        validate::ValidateConfig,
    },
    settings::{Annotations, ChainOrder, LimitsConfig, Switch},
};

use super::{
    ServeConfig, TelemetryConfig, Text, TrailConfig,
    listing::{PageSize, Prefix},
    servers::ServerConfig,
};

/// A table that also holds the settings of the layers, and can hand them out.
///
/// Written out by a macro instead of flattened: serde loses the place of an error in what it flattens.
macro_rules! with_layers {
    (
        $(#[$outer:meta])*
        struct $name:ident { $($(#[$inner:meta])* $field:ident: $type:ty,)* }
    ) => {
        #[derive(Clone, Debug, Default, Deserialize, schemars::JsonSchema)]
        $(#[$outer])*
        #[serde(deny_unknown_fields, default)]
        pub(super) struct $name {
            $($(#[$inner])* pub(super) $field: $type,)*
            /// The audit: one record per call, in a hash chain.
            audit: Option<AuditConfig>,
            /// Which arguments are redacted in records.
            redact: Option<RedactConfig>,
            /// Limits of sizes, times and rates.
            limits: Option<LimitsConfig>,
            /// The circuit breaker: stops calling a server that keeps failing, for a while.
            breaker: Option<BreakerConfig>,
            /// Retries of read-only calls after transient errors.
            retry: Option<RetryConfig>,
            /// The call log, which `toolgate log` shows; needs a `store`.
            log: Option<LogConfig>,
            /// Sends the record of each call to an HTTP endpoint.
            trail: Option<TrailConfig>,
            /// OpenTelemetry spans and metrics.
            telemetry: Option<TelemetryConfig>,
            /// Tools that are disabled for a while.
            flags: Option<FlagsConfig>,
            /// Calls that a person has to confirm.
            confirm: Option<ConfirmConfig>,
            /// Further conditions for calls of some tools.
            preconditions: Option<Vec<PreconditionRule>>,
            /// Checks of arguments and results against JSON Schemas.
            validate: Option<ValidateConfig>,
            /// Replaces secrets in the messages of servers.
            sanitize: Option<SanitizeConfig>,
        }

        impl $name {
            pub(super) fn layers(&self) -> Layers {
                Layers {
                    audit: self.audit.clone(),
                    redact: self.redact.clone(),
                    limits: self.limits.clone(),
                    breaker: self.breaker.clone(),
                    retry: self.retry.clone(),
                    log: self.log.clone(),
                    trail: self.trail.clone(),
                    telemetry: self.telemetry.clone(),
                    flags: self.flags.clone(),
                    confirm: self.confirm.clone(),
                    preconditions: self.preconditions.clone(),
                    validate: self.validate.clone(),
                    sanitize: self.sanitize.clone(),
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
        store: Option<Text>,
        /// The servers, by a name of your own.
        servers: BTreeMap<String, ServerConfig>,
        /// Namespaces, by a name of your own: the servers and the chain that a client connects to. A wrapped server
        /// is in `default`.
        namespaces: BTreeMap<String, Namespace>,
        /// Policies, by a name of your own. A policy applies to the namespaces and principals that are bound to it,
        /// and to requests that name it in `_meta.policyId`.
        policies: BTreeMap<String, PolicyConfig>,
        /// The server of `toolgate tmux`.
        #[schemars(with = "serde_json::Value")]
        tmux: Option<toml::Table>,
        /// Which changes of this file a running gateway applies by itself. All others wait for `toolgate reload` or
        /// SIGHUP.
        reload: Reload,
        /// Addresses, tokens and limits of `toolgate serve`.
        serve: Option<ServeConfig>,
    }
}

with_layers! {
    /// What a client connects to. A table of a layer in a namespace (`[namespaces.NAME.limits]`, …) replaces the
    /// whole table of that name at the top.
    struct Namespace {
        /// The servers of the namespace, by their names in `[servers]`; default: all.
        servers: Option<Vec<String>>,
        /// Which tools and prompts have the name of their server as a prefix.
        prefix: Prefix,
        /// The most entries on one page of a list.
        page_size: PageSize,
        /// `default`, a preset, or a list of layers, outermost first.
        chain: ChainOrder,
        /// The highest allowed tier; default: all tools are allowed.
        safety: Option<Tier>,
        /// Whether a tool gets its tier from its own annotations, if this file does not set it.
        annotations: Annotations,
        /// The policy that must allow every call.
        policy: Option<String>,
        /// Policies that must also allow the calls of single principals: `"local:*" = "NAME"`.
        principals: BTreeMap<PrincipalPattern, String>,
        /// The scopes that every caller is granted; default: all tools are allowed, unless `grants` or `MCP_SCOPES`
        /// is set or a tool requires scopes.
        scopes: Option<Vec<Scope>>,
        /// The scopes that single principals are granted: `"local:*" = ["read"]`. `scopes`, if set, must grant them,
        /// too. A principal that no pattern matches is granted none.
        grants: Option<BTreeMap<PrincipalPattern, Vec<Scope>>>,
        /// What happens to tools that a server adds later; `quarantine` needs a `store`.
        new_tools: NewTools,
        /// The time after which the gateway asks a server for its lists again. It also asks after `toolgate reload`
        /// or SIGHUP, whenever it connects, and whenever the server says that they changed. If several namespaces
        /// have the server, the shortest time counts. If the server fails, its last lists stay in force.
        cache_ttl: Switch<Duration>,
        /// The message for calls of an inactive tool; `{name}` stands for the tool's name.
        inactive_message: Option<String>,
        /// Settings of tools, by selector: `"server/tool"`.
        tools: BTreeMap<String, ToolSettings>,
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

/// Settings of the layers: at the top of the file for all namespaces, in a namespace for that one.
#[derive(Clone, Debug, Default)]
pub(super) struct Layers {
    pub(super) audit: Option<AuditConfig>,
    pub(super) redact: Option<RedactConfig>,
    pub(super) limits: Option<LimitsConfig>,
    pub(super) breaker: Option<BreakerConfig>,
    pub(super) retry: Option<RetryConfig>,
    pub(super) log: Option<LogConfig>,
    pub(super) trail: Option<TrailConfig>,
    pub(super) telemetry: Option<TelemetryConfig>,
    pub(super) flags: Option<FlagsConfig>,
    pub(super) confirm: Option<ConfirmConfig>,
    pub(super) preconditions: Option<Vec<PreconditionRule>>,
    pub(super) validate: Option<ValidateConfig>,
    pub(super) sanitize: Option<SanitizeConfig>,
}

impl Layers {
    /// These, and those of `shared` where these say nothing.
    pub(super) fn over(self, shared: Self) -> Self {
        Self {
            audit: self.audit.or(shared.audit),
            redact: self.redact.or(shared.redact),
            limits: self.limits.or(shared.limits),
            breaker: self.breaker.or(shared.breaker),
            retry: self.retry.or(shared.retry),
            log: self.log.or(shared.log),
            trail: self.trail.or(shared.trail),
            telemetry: self.telemetry.or(shared.telemetry),
            flags: self.flags.or(shared.flags),
            confirm: self.confirm.or(shared.confirm),
            preconditions: self.preconditions.or(shared.preconditions),
            validate: self.validate.or(shared.validate),
            sanitize: self.sanitize.or(shared.sanitize),
        }
    }
}
