//! `toolgate.toml` as it is written: every table and key, with its meaning.
//!
//! From these types come the JSON Schema (`toolgate config schema`), the reference page
//! (`toolgate config reference`) and the checks. Each layer's own keys live beside the layer.

use std::{collections::BTreeMap, time::Duration};

use serde::Deserialize;
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
            /// Where the records of calls go.
            audit: Option<AuditConfig>,
            /// What never reaches a record in clear.
            redact: Option<RedactConfig>,
            /// Sizes and times.
            limits: Option<LimitsConfig>,
            /// When a server that keeps failing is left alone.
            breaker: Option<BreakerConfig>,
            /// Whether readonly calls are tried again.
            retry: Option<RetryConfig>,
            /// What is kept of each call; needs a `store`.
            log: Option<LogConfig>,
            /// An HTTP endpoint that the record of each call is sent to.
            trail: Option<TrailConfig>,
            /// Where spans and metrics go.
            telemetry: Option<TelemetryConfig>,
            /// Tools that are switched off for a while.
            flags: Option<FlagsConfig>,
            /// What needs a confirmation before it is called.
            confirm: Option<ConfirmConfig>,
            /// What else must hold before some tools are called.
            preconditions: Option<Vec<PreconditionRule>>,
            /// What the arguments of calls must fit.
            validate: Option<ValidateConfig>,
            /// What is cleaned out of results.
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
    /// The whole file. A key that it does not know is refused: a rule that nobody heeds is worse than none.
    #[schemars(title = "toolgate.toml")]
    struct File {
        /// Database for the call log and approved tools: `sqlite:FILE`.
        store: Option<Text>,
        /// What may be started or reached, by a name of your own.
        servers: BTreeMap<String, ServerConfig>,
        /// What a client connects to: some servers and one chain. A wrapped server joins `default`.
        namespaces: BTreeMap<String, Namespace>,
        /// Policies, by a name of your own. One holds where a namespace or a principal is bound to it, or
        /// where a request names it in `_meta.policyId`.
        policies: BTreeMap<String, PolicyConfig>,
        /// The server of `toolgate tmux`.
        #[schemars(with = "serde_json::Value")]
        tmux: Option<toml::Table>,
        /// What a running gateway does when this file changes: with `narrowing` it applies a change that only narrows
        /// access, and any other change waits for `toolgate reload` or SIGHUP; with `off` every change waits.
        reload: Reload,
        /// Where `toolgate serve` listens, whom it answers, and how much it takes on.
        serve: Option<ServeConfig>,
    }
}

with_layers! {
    /// What a client connects to. Tables of layers in a namespace stand in for those at the top.
    struct Namespace {
        /// The servers of the namespace, by their names in `[servers]`; all if not set.
        servers: Option<Vec<String>>,
        /// When the names of tools and prompts get their server's name before them.
        prefix: Prefix,
        /// How many entries a list has on one page.
        page_size: PageSize,
        /// `default`, or the names of the layers, outermost first.
        chain: ChainOrder,
        /// The highest tier that is allowed; all tools pass when it is not set.
        safety: Option<Tier>,
        /// Whether a tool's own annotations give it a tier where this file does not.
        annotations: Annotations,
        /// The policy that every call must be allowed by.
        policy: Option<String>,
        /// Policies that calls of single principals must be allowed by too: `"local:*" = "NAME"`.
        principals: BTreeMap<PrincipalPattern, String>,
        /// The scopes that all who call are granted; every tool is reached when nobody grants any.
        scopes: Option<Vec<Scope>>,
        /// The scopes that single principals are granted, on condition that `scopes` grants them too:
        /// `"local:*" = ["read"]`. Those whom no pattern covers are granted none.
        grants: Option<BTreeMap<PrincipalPattern, Vec<Scope>>>,
        /// What happens to tools that nobody has looked at; `quarantine` needs a `store`.
        new_tools: NewTools,
        /// How long what is known of a server's lists holds, as `60s`. The gateway asks for them again after that, after
        /// `toolgate reload` or SIGHUP, whenever it connects, and whenever the server says that they changed; of several
        /// namespaces with the same server the shortest time counts. `serve` and `stdio` ask in the background, `wrap`
        /// when a call or a list needs them. If the server then fails, the last good answer holds.
        cache_ttl: Switch<Duration>,
        /// What the caller of an inactive tool reads; `{name}` stands for the tool's name.
        inactive_message: Option<String>,
        /// Settings of single tools, by identity: `"server/tool"`; globs work where one setting fits many.
        tools: BTreeMap<String, ToolSettings>,
    }
}

/// `reload = "narrowing" | "off"`
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Reload {
    /// A change that only narrows access is applied at once.
    #[default]
    Narrowing,
    /// The file is not watched.
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
