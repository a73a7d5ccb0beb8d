//! The stack: every layer that toolgate has, in the order in which a call passes them. Open this first.

mod layers;

use std::sync::Arc;

use layers::Layers;

use crate::{
    chain::{BadChain, Builder, Chain},
    middleware::{
        RATE_LIMIT, SANITIZE, TELEMETRY, VALIDATE,
        audit::{self, Audit, AuditIntent, AuditOutput, AuditSink, Intents, OpenError, intent},
        breaker::{self, Circuits},
        call_id::{self, ReturnCallId},
        error_results::{self, ErrorResults, McpCoreResults},
        filter::{self, KnownTools},
        flags,
        log::{self, Log, LogSink},
        overrides::{self, CurrentOverrides, OverrideTools},
        policy,
        preconditions::{self, Approvals, Precondition, Seals},
        response_limit::{self, ResponseLimit},
        retry::{self, Retry},
        safety::{self, Safety},
        scopes::{self, Scopes},
        timeout::{self, Timeout},
        trail::{self, Trail},
    },
    presets::Preset,
    settings::{ChainOrder, Settings},
};

/// The default order, outermost first, with the reason for each place.
pub const DEFAULT_ORDER: &[(&str, &str)] = &[
    (TELEMETRY, "sees every call, also those that are refused"),
    (response_limit::NAME, "bounds whatever leaves, error results too"),
    (call_id::NAME, "results of failures have an id too"),
    (error_results::NAME, "renders whatever failed inside of it"),
    (preconditions::CONFIRM_ARGUMENT, "nobody sees or checks the reserved argument"),
    (log::NAME, "sees denials and runs; the outcome tells which it was"),
    (audit::NAME, "sees denials and runs; the outcome tells which it was"),
    (trail::NAME, "sees denials and runs; the outcome tells which it was"),
    (overrides::NAME, "whatever decides sees the arguments that the tool gets"),
    (VALIDATE, "whatever decides sees arguments that fit"),
    (filter::NAME, "what is switched off needs no further question"),
    (flags::NAME, "what is switched off needs no further question"),
    (policy::NAME, "who may call what; its denials cost nothing further in"),
    (safety::NAME, "what is denied here costs nothing further in"),
    (scopes::NAME, "what is denied here costs nothing further in"),
    (RATE_LIMIT, "only what is permitted uses up what is rationed"),
    (preconditions::NAME, "a person is asked only about calls that nothing else refuses"),
    (breaker::NAME, "a server that is left alone costs nothing further in"),
    (
        intent::NAME,
        "only what is permitted is announced; one intent for a call, however often it is tried",
    ),
    (retry::NAME, "only what was permitted is tried again"),
    (timeout::NAME, "each attempt has its own time"),
    (SANITIZE, "cleans what the tool says before anybody sees or keeps it"),
];

/// A chain with what it shares with the door in front of it.
#[derive(Clone, Debug)]
pub struct Stack {
    /// The chain.
    pub chain: Chain,
    /// The sink of its audit, if it has one: to be closed at the end.
    pub audit: Option<AuditSink>,
    /// Names on the wire and the tools that they mean.
    pub overrides: CurrentOverrides,
    parts: Parts,
}

/// What outlives a chain: a chain for changed settings takes it over.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// Where the call log goes. Without it there is none, whatever the settings say.
    pub log: Option<LogSink>,
    /// Where the audit trail goes. Without it there is none.
    pub trail: Option<LogSink>,
    /// Where audit records go beside their file, if the settings ask for it.
    pub audit_outputs: Vec<Arc<dyn AuditOutput>>,
    /// What was used up of rates and quotas so far.
    #[cfg(feature = "rate-limit")]
    pub counters: crate::middleware::rate_limit::Counters,
    /// Which servers keep failing.
    pub circuits: Circuits,
    /// Confirmations that were given out and used so far; made when first needed.
    pub seals: Option<Arc<Seals>>,
    /// Where calls wait for a person who is not at the client. Without it such calls are refused.
    pub approvals: Option<Arc<dyn Approvals>>,
    /// Preconditions of the program's own, by their ids for `[[preconditions]]`.
    pub preconditions: Vec<Arc<dyn Precondition>>,
    /// What spans and metrics are made with. Without it there are none.
    #[cfg(feature = "telemetry")]
    pub telemetry: Option<crate::middleware::telemetry::Instruments>,
    /// The tools that somebody has looked at, for a namespace that quarantines new ones.
    pub known: KnownTools,
    /// Whether the chain is only looked at: then no audit file is opened.
    pub only_explains: bool,
    /// The tools that tasks are of.
    pub tasks: crate::task::Tasks,
}

/// Why a stack could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StackError {
    /// The layers do not fit together.
    #[error("the chain is refused: {0}")]
    Chain(#[from] BadChain),
    /// The audit has nowhere to go.
    #[error(transparent)]
    Audit(#[from] OpenError),
    /// A layer refuses its settings.
    #[error("`{layer}` refuses its settings: {why}")]
    Layer {
        /// The layer.
        layer: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The chain lists a layer that does not exist.
    #[error("the chain names an unknown layer `{0}`: the layers are {names}", names = names())]
    Unknown(String),
    /// The chain lists a layer whose setting is missing.
    #[error("the chain names `{layer}`, but {missing}")]
    NotSet {
        /// The layer.
        layer: &'static str,
        /// What is missing.
        missing: &'static str,
    },
    /// A setting has no layer that would heed it.
    #[error(
        "{setting} is set, but the chain does not name `{layer}`: add it, or remove the setting"
    )]
    Unheeded {
        /// The layer.
        layer: &'static str,
        /// The setting.
        setting: &'static str,
    },
}

fn names() -> String {
    let names: Vec<String> = DEFAULT_ORDER.iter().map(|(name, _)| format!("`{name}`")).collect();
    names.join(", ")
}

/// Builds the chain that the settings describe.
pub fn build(settings: &Settings) -> Result<Stack, StackError> {
    build_with(settings, Parts::default())
}

/// The same, with what the program gives it.
pub fn build_with(settings: &Settings, parts: Parts) -> Result<Stack, StackError> {
    let (config, redact) = (&settings.audit, &settings.redact);
    let audit = if parts.only_explains {
        AuditSink::unopened(config, redact)?
    } else {
        AuditSink::open_with(config, redact, &parts.audit_outputs)?
    };
    finish(settings, parts, audit)
}

/// The same, unfinished: layers of your own go inside of those that the settings describe.
pub fn builder(settings: &Settings) -> Result<(Builder, Option<AuditSink>), StackError> {
    let audit = AuditSink::open(&settings.audit, &settings.redact)?;
    let parts = Parts::default();
    let layers = Layers::new(settings, &parts)?;
    Ok((ordered(settings, &layers, &parts, audit.as_ref())?, audit))
}

impl Stack {
    /// The stack for changed settings. Sinks whose own settings did not change go on as they are.
    pub fn successor(&self, old: &Settings, new: &Settings) -> Result<Self, StackError> {
        let same = (&old.audit, &old.redact) == (&new.audit, &new.redact);
        let outputs = &self.parts.audit_outputs;
        let open = || AuditSink::open_with(&new.audit, &new.redact, outputs);
        let audit = if same { self.audit.clone() } else { open()? };
        finish(new, self.parts.clone(), audit)
    }

    /// A stack of its own for other settings, beside this one: the audit of both is one where both say the same of it,
    /// since a file has one writer.
    pub fn beside(
        &self,
        own: &Settings,
        other: &Settings,
        parts: Parts,
    ) -> Result<Self, StackError> {
        if (&own.audit, &own.redact) == (&other.audit, &other.redact) {
            return finish(other, parts, self.audit.clone());
        }
        build_with(other, parts)
    }

    /// What outlives the chain.
    #[must_use]
    pub fn parts(&self) -> &Parts {
        &self.parts
    }
}

fn finish(
    settings: &Settings,
    parts: Parts,
    audit: Option<AuditSink>,
) -> Result<Stack, StackError> {
    let layers = Layers::new(settings, &parts)?;
    let parts = Parts { seals: Some(layers.seals()), ..parts };
    let chain = ordered(settings, &layers, &parts, audit.as_ref())?.build()?;
    Ok(Stack { chain, audit, overrides: layers.overrides, parts })
}

fn ordered(
    settings: &Settings,
    layers: &Layers,
    parts: &Parts,
    audit: Option<&AuditSink>,
) -> Result<Builder, StackError> {
    let mut builder = Chain::builder().tasks(parts.tasks.clone());
    let add = |builder, name| add(builder, name, settings, layers, parts, audit);
    match &settings.chain {
        ChainOrder::Default => {
            for (name, _) in DEFAULT_ORDER {
                builder = add(builder, name).unwrap_or_else(|(builder, _)| builder);
            }
        }
        ChainOrder::Preset(preset) => {
            for (name, _) in preset.order() {
                builder = add(builder, name).unwrap_or_else(|(builder, _)| builder);
            }
            let there: Vec<String> = preset.order().iter().map(|(n, _)| (*n).to_owned()).collect();
            heeded(settings, parts, &there)?;
        }
        ChainOrder::Listed(listed) => {
            for listed in listed {
                let known = DEFAULT_ORDER.iter().find(|(name, _)| name == listed);
                let (name, _) = known.ok_or_else(|| StackError::Unknown(listed.clone()))?;
                builder = add(builder, name)
                    .map_err(|(_, missing)| StackError::NotSet { layer: name, missing })?;
            }
            heeded(settings, parts, listed)?;
        }
    }
    Ok(builder)
}

/// Adds the layer of this name if it is switched on; else says what is missing.
fn add(
    builder: Builder,
    name: &str,
    settings: &Settings,
    layers: &Layers,
    parts: &Parts,
    audit: Option<&AuditSink>,
) -> Result<Builder, (Builder, &'static str)> {
    match name {
        response_limit::NAME => match settings.response_limit() {
            Some(config) => Ok(builder.layer(ResponseLimit::new(config))),
            None => Err((builder, "`limits.response_bytes` is off")),
        },
        call_id::NAME if parts.log.is_some() => Ok(builder.layer(ReturnCallId)),
        error_results::NAME => Ok(match settings.chain.preset() {
            Some(Preset::McpCore) => builder.layer(McpCoreResults),
            _ => builder.layer(ErrorResults),
        }),
        log::NAME => match &parts.log {
            Some(sink) => Ok(builder.layer(Log::new(sink.clone()))),
            None => Err((builder, "there is no `store` for the log")),
        },
        audit::NAME => match audit {
            Some(sink) => Ok(builder.layer(Audit::new(sink.clone()))),
            None => Err((builder, "`audit.file` is off")),
        },
        intent::NAME => match audit {
            Some(_) if settings.audit.intents() == Intents::Off => {
                Err((builder, "`audit.intents` is off"))
            }
            Some(sink) => Ok(builder.layer(AuditIntent::new(sink.clone()))),
            None => Err((builder, "`audit.file` is off")),
        },
        trail::NAME => match &parts.trail {
            Some(sink) => Ok(builder.layer(Trail::new(sink.clone()))),
            None => Err((builder, "there is no `[trail]`")),
        },
        overrides::NAME if !settings.changes_tools() => Err((builder, "no tool is changed")),
        overrides::NAME => Ok(builder.layer(OverrideTools::new(layers.overrides.clone()))),
        safety::NAME => match settings.safety {
            Some(tier) if settings.chain.preset() == Some(Preset::Libtmux) => {
                Ok(builder.layer(Safety::new(tier).set_by("LIBTMUX_SAFETY")))
            }
            Some(tier) => Ok(builder.layer(Safety::new(tier))),
            None => Err((builder, "no `safety` tier is set")),
        },
        scopes::NAME => match settings.scopes() {
            Some(config) => Ok(builder.layer(Scopes::new(config))),
            None => Err((builder, "nobody grants scopes, and no tool requires any")),
        },
        retry::NAME => match &settings.retry {
            Some(config) => Ok(builder.layer(Retry::new(config.clone()))),
            None => Err((builder, "there is no `[retry]`")),
        },
        timeout::NAME => match settings.limits.timeout.get() {
            Some(after) => Ok(builder.layer(Timeout::new(after))),
            None => Err((builder, "`limits.timeout` is off")),
        },
        other => layers.add(builder, other),
    }
}

/// A listed chain that leaves out a layer that something asks for would be open where it looks shut.
fn heeded(settings: &Settings, parts: &Parts, layers: &[String]) -> Result<(), StackError> {
    let is_audited = settings.audit.file != audit::Target::Off;
    let asked = [
        (safety::NAME, "`safety`", settings.safety.is_some()),
        (scopes::NAME, "`scopes`, `grants` or `MCP_SCOPES`", settings.scopes().is_some()),
        (audit::NAME, "`audit.file`", is_audited),
        (intent::NAME, "`audit.required`", settings.audit.required),
        (intent::NAME, "`audit.intents`", is_audited && settings.audit.intents == Intents::All),
        (log::NAME, "`store`", parts.log.is_some()),
        (trail::NAME, "`[trail]`", parts.trail.is_some()),
        (breaker::NAME, "`[breaker]`", settings.breaker.is_some()),
        (retry::NAME, "`[retry]`", settings.retry.is_some()),
        (response_limit::NAME, "`response_bytes` of a tool", settings.limits_single_tools()),
        (overrides::NAME, "a change of a tool", settings.changes_tools()),
        (filter::NAME, "`status` of a tool or `new_tools`", settings.filters_tools()),
        (flags::NAME, "`[flags]`", settings.flags.is_some()),
        (policy::NAME, "a policy", settings.binds_policies()),
        (preconditions::NAME, "`[confirm]` or `[[preconditions]]`", settings.has_preconditions()),
    ];
    for (layer, setting, is_set) in asked.into_iter().chain(Layers::asked(settings, parts)) {
        if is_set && !layers.iter().any(|name| name == layer) {
            return Err(StackError::Unheeded { layer, setting });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
