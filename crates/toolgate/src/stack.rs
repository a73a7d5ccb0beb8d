//! The stack: every layer that toolgate has, in the order in which a call passes them. Open this first.

use crate::{
    chain::{BadChain, Builder, Chain},
    middleware::{
        audit::{self, Audit, AuditSink, OpenError},
        error_results::{self, ErrorResults},
        response_limit::{self, ResponseLimit},
        retry::{self, Retry},
        safety::{self, Safety},
        timeout::{self, Timeout},
    },
    settings::{ChainOrder, Settings},
};

/// The default order, outermost first, with the reason for each place.
pub const DEFAULT_ORDER: &[(&str, &str)] = &[
    (response_limit::NAME, "bounds whatever leaves, error results too"),
    (error_results::NAME, "renders whatever failed inside of it"),
    (audit::NAME, "sees denials and runs; the outcome tells which it was"),
    (safety::NAME, "what is denied here costs nothing further in"),
    (retry::NAME, "only what was permitted is tried again"),
    (timeout::NAME, "each attempt has its own time"),
];

/// A chain with the sink that its audit writes to.
#[derive(Clone, Debug)]
pub struct Stack {
    /// The chain.
    pub chain: Chain,
    /// The sink of its audit, if it has one: to be closed at the end.
    pub audit: Option<AuditSink>,
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
    let (builder, audit) = builder(settings)?;
    Ok(Stack { chain: builder.build()?, audit })
}

impl Stack {
    /// The stack for changed settings. Sinks whose own settings did not change go on as they are.
    pub fn successor(&self, old: &Settings, new: &Settings) -> Result<Self, StackError> {
        let same = (&old.audit, &old.redact) == (&new.audit, &new.redact);
        let audit = if same {
            self.audit.clone()
        } else {
            AuditSink::open(&new.audit, &new.redact)?
        };
        let chain = with_sinks(new, audit.as_ref())?.build()?;
        Ok(Self { chain, audit })
    }
}

/// The same, unfinished: layers of your own go inside of those that the settings describe.
pub fn builder(settings: &Settings) -> Result<(Builder, Option<AuditSink>), StackError> {
    let audit = AuditSink::open(&settings.audit, &settings.redact)?;
    Ok((with_sinks(settings, audit.as_ref())?, audit))
}

fn with_sinks(settings: &Settings, audit: Option<&AuditSink>) -> Result<Builder, StackError> {
    let mut builder = Chain::builder();
    match &settings.chain {
        ChainOrder::Default => {
            for (name, _) in DEFAULT_ORDER {
                builder = add(builder, name, settings, audit).unwrap_or_else(|(b, _)| b);
            }
        }
        ChainOrder::Listed(layers) => {
            for listed in layers {
                let known = DEFAULT_ORDER.iter().find(|(name, _)| name == listed);
                let (name, _) = known.ok_or_else(|| StackError::Unknown(listed.clone()))?;
                builder = add(builder, name, settings, audit)
                    .map_err(|(_, missing)| StackError::NotSet { layer: name, missing })?;
            }
            heeded(settings, layers)?;
        }
    }
    Ok(builder)
}

/// Adds the layer of this name if it is switched on; else says what is missing.
fn add(
    builder: Builder,
    name: &str,
    settings: &Settings,
    audit: Option<&AuditSink>,
) -> Result<Builder, (Builder, &'static str)> {
    let limits = &settings.limits;
    match name {
        response_limit::NAME => match settings.response_limit() {
            Some(config) => Ok(builder.layer(ResponseLimit::new(config))),
            None => Err((builder, "`limits.response_bytes` is off")),
        },
        error_results::NAME => Ok(builder.layer(ErrorResults)),
        audit::NAME => match audit {
            Some(sink) => Ok(builder.layer(Audit::new(sink.clone()))),
            None => Err((builder, "`audit.file` is off")),
        },
        safety::NAME => match settings.safety {
            Some(tier) => Ok(builder.layer(Safety::new(tier))),
            None => Err((builder, "no `safety` tier is set")),
        },
        retry::NAME => match &settings.retry {
            Some(config) => Ok(builder.layer(Retry::new(config.clone()))),
            None => Err((builder, "there is no `[retry]`")),
        },
        timeout::NAME => match limits.timeout.get() {
            Some(after) => Ok(builder.layer(Timeout::new(after))),
            None => Err((builder, "`limits.timeout` is off")),
        },
        _ => Err((builder, "nobody knows how to build it")),
    }
}

/// A listed chain that leaves out a layer that something asks for would be open where it looks shut.
fn heeded(settings: &Settings, layers: &[String]) -> Result<(), StackError> {
    let asked = [
        (safety::NAME, "`safety`", settings.safety.is_some()),
        (audit::NAME, "`audit.file`", settings.audit.file != audit::Target::Off),
        (retry::NAME, "`[retry]`", settings.retry.is_some()),
        (response_limit::NAME, "`response_bytes` of a tool", settings.limits_single_tools()),
    ];
    for (layer, setting, is_set) in asked {
        if is_set && !layers.iter().any(|name| name == layer) {
            return Err(StackError::Unheeded { layer, setting });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
