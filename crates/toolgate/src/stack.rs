//! The stack: builds the chain that settings describe, from the layers in [`layers`](crate::layers).

use std::sync::Arc;

use crate::{
    chain::{BadChain, Builder, Chain},
    layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec},
    layers::LAYERS,
    middleware::{
        audit::{AuditOutput, AuditSink, OpenError},
        filter::KnownTools,
        log::LogSink,
        overrides::{self, CurrentOverrides, Overrides},
        preconditions::{Approvals, Precondition},
        trail::TrailSink,
    },
    settings::{ChainOrder, Settings},
};

pub use crate::layers::default_order;

/// A chain, and the values that it shares with the program that runs it.
#[derive(Clone, Debug)]
pub struct Stack {
    /// The chain.
    pub chain: Chain,
    /// The sink of the audit, if the chain has one. The program closes it at shutdown.
    pub audit: Option<AuditSink>,
    /// The overrides, which map the names that clients use to tools.
    pub overrides: CurrentOverrides,
    parts: Parts,
}

/// Values that outlive a chain: the chain for changed settings uses the same ones.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// The sink of the call log. Without it calls are not logged, whatever the settings say.
    pub log: Option<LogSink>,
    /// The sink of the audit trail. Without it the chain has no audit trail.
    pub trail: Option<LogSink>,
    /// Further outputs of audit records beside the file, if the settings ask for them.
    pub audit_outputs: Vec<Arc<dyn AuditOutput>>,
    /// The approvals: calls wait there for a person who is not at the client. Without it such calls are refused.
    pub approvals: Option<Arc<dyn Approvals>>,
    /// Preconditions that the program adds. `[[preconditions]]` names them by their ids.
    pub preconditions: Vec<Arc<dyn Precondition>>,
    /// The tools that the operator has approved, for a namespace that quarantines new ones.
    pub known: KnownTools,
    /// Whether the chain only explains and runs no calls: then no audit file is opened.
    pub only_explains: bool,
    /// The tools to which tasks belong.
    pub tasks: crate::task::Tasks,
    /// Layers that the program adds. `chain = […]` names them, and `[layers.NAME]` holds their settings.
    pub layers: Vec<Arc<dyn LayerSpec>>,
    /// Further values that layers are built from, such as the instruments of telemetry, and state that layers keep from
    /// one chain to the next, such as the counters of rate limits.
    pub inputs: LayerInputs,
}

/// Why a stack could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StackError {
    /// The layers do not fit together.
    #[error("the chain is refused: {0}")]
    Chain(#[from] BadChain),
    /// The output of the audit cannot be opened.
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
    #[error("the chain names an unknown layer `{name}`: the layers are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The names of the layers that exist.
        known: String,
    },
    /// `[layers.NAME]` names a layer that does not exist.
    #[error("`[layers.{name}]` is set, but the layers of this program's own are {known}")]
    UnknownTable {
        /// The name of the table.
        name: String,
        /// The names of the layers that have such tables.
        known: String,
    },
    /// A setting needs a part of toolgate that was left out of this build.
    #[error(
        "{setting} is set, but this build of toolgate lacks `{feature}`: build it with that feature, or remove the setting"
    )]
    MissingFeature {
        /// The setting.
        setting: &'static str,
        /// The Cargo feature.
        feature: &'static str,
    },
    /// The chain lists a layer whose setting is missing.
    #[error("the chain names `{layer}`, but {missing}")]
    NotSet {
        /// The layer.
        layer: &'static str,
        /// What is missing.
        missing: &'static str,
    },
    /// A setting has an effect only with a layer that the chain lacks.
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

/// Builds the chain that the settings describe.
pub fn build(settings: &Settings) -> Result<Stack, StackError> {
    build_with(settings, Parts::default())
}

/// The same as [`build`], with the parts that the program provides.
pub fn build_with(settings: &Settings, parts: Parts) -> Result<Stack, StackError> {
    let (config, redact) = (&settings.audit, &settings.redact);
    let audit = if parts.only_explains {
        AuditSink::unopened(config, redact)?
    } else {
        AuditSink::open_with(config, redact, &parts.audit_outputs)?
    };
    finish(settings, parts, audit)
}

/// The same as [`build`], but returns the builder, so that you can add layers inside of those that the settings
/// describe.
pub fn builder(settings: &Settings) -> Result<(Builder, Option<AuditSink>), StackError> {
    let audit = AuditSink::open(&settings.audit, &settings.redact)?;
    let layers = Layers::build(settings, &mut Parts::default(), audit.as_ref())?;
    Ok((layers.ordered(settings)?, audit))
}

impl Stack {
    /// The stack for changed settings. Sinks whose settings did not change stay open.
    pub fn successor(&self, old: &Settings, new: &Settings) -> Result<Self, StackError> {
        let same = (&old.audit, &old.redact) == (&new.audit, &new.redact);
        let outputs = &self.parts.audit_outputs;
        let open = || AuditSink::open_with(&new.audit, &new.redact, outputs);
        let audit = if same { self.audit.clone() } else { open()? };
        finish(new, self.parts.clone(), audit)
    }

    /// A separate stack for other settings, beside this one. Both share one audit sink if their audit settings are
    /// equal, because an audit file has one writer.
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

    /// The values that outlive the chain.
    #[must_use]
    pub fn parts(&self) -> &Parts {
        &self.parts
    }
}

fn finish(
    settings: &Settings,
    mut parts: Parts,
    audit: Option<AuditSink>,
) -> Result<Stack, StackError> {
    let layers = Layers::build(settings, &mut parts, audit.as_ref())?;
    let chain = layers.ordered(settings)?.tasks(parts.tasks.clone()).build()?;
    Ok(Stack { chain, audit, overrides: layers.overrides, parts })
}

/// Every layer, built or off: the built-in ones in the default order, then those that the program adds.
struct Layers {
    built: Vec<(&'static str, BuiltLayer)>,
    /// The number of built-in layers. The default order has only these.
    built_in: usize,
    /// The settings that are set and have an effect only with a layer, each with that layer.
    needed: Vec<(&'static str, &'static str)>,
    overrides: CurrentOverrides,
}

impl Layers {
    /// Builds all layers, also those that the chain leaves out, so that invalid settings are refused with any chain.
    fn build(
        settings: &Settings,
        parts: &mut Parts,
        audit: Option<&AuditSink>,
    ) -> Result<Self, StackError> {
        let own = parts.layers.clone();
        let specs = LAYERS.iter().copied().chain(own.iter().map(|spec| &**spec));
        let specs: Vec<&dyn LayerSpec> = specs.collect();
        for spec in &specs {
            let state = spec.add_state(&mut parts.inputs);
            state.map_err(|error| refused(spec.name(), &error))?;
        }
        let mut inputs = parts.layer_inputs();
        settings.add_to(&mut inputs);
        inputs.set_if_some(audit.cloned());
        read_own_tables(settings, &own, &mut inputs)?;
        let overrides = settings.overrides();
        let overrides = overrides.map_err(|error| refused(overrides::NAME, &error.into()))?;
        let changes_tools = !overrides.is_empty();
        let overrides = Overrides::new(overrides);
        let overrides = overrides.map_err(|error| refused(overrides::NAME, &error.into()))?;
        let overrides = CurrentOverrides::new(overrides);
        inputs.set_if_some(changes_tools.then(|| overrides.clone()));

        let mut layers =
            Self { built: Vec::new(), built_in: LAYERS.len(), needed: Vec::new(), overrides };
        for spec in specs {
            let (name, setting) = (spec.name(), spec.needed_for(&inputs));
            if let (Some(feature), Some(setting)) = (spec.missing_feature(), setting) {
                return Err(StackError::MissingFeature { setting, feature });
            }
            let built = spec.build(&inputs).map_err(|error| refused(name, &error))?;
            layers.needed.extend(setting.map(|setting| (name, setting)));
            layers.built.push((name, built));
        }
        Ok(layers)
    }

    /// The layers in the order that the settings choose.
    fn ordered(&self, settings: &Settings) -> Result<Builder, StackError> {
        let mut builder = Chain::builder();
        let mut chosen = Vec::new();
        match &settings.chain {
            ChainOrder::Default => {
                let built_in = self.built.iter().take(self.built_in);
                chosen.extend(built_in.map(|(name, _)| *name));
            }
            ChainOrder::Preset(preset) => {
                chosen.extend(preset.order().into_iter().map(|(name, _)| name));
            }
            ChainOrder::Listed(listed) => {
                for name in listed {
                    let known = self.built.iter().find(|(known, _)| known == name);
                    let (name, built) = known.ok_or_else(|| self.unknown(name))?;
                    if let Err(missing) = built.0 {
                        return Err(StackError::NotSet { layer: name, missing });
                    }
                    chosen.push(*name);
                }
            }
        }
        // Without the layer that enforces it, a setting would look active and restrict nothing.
        if let Some((layer, setting)) = self.needed.iter().find(|(name, _)| !chosen.contains(name))
        {
            return Err(StackError::Unheeded { layer, setting });
        }
        for name in chosen {
            let built = self.built.iter().find(|(known, _)| *known == name);
            if let Some(Ok(layer)) = built.map(|(_, built)| &built.0) {
                builder = builder.layer(Arc::clone(layer));
            }
        }
        Ok(builder)
    }

    fn unknown(&self, name: &str) -> StackError {
        let known = quoted(self.built.iter().map(|(name, _)| *name));
        StackError::Unknown { name: name.to_owned(), known }
    }
}

impl Parts {
    /// The parts as values that layers are built from.
    fn layer_inputs(&self) -> LayerInputs {
        let mut inputs = self.inputs.clone();
        inputs.set_if_some(self.log.clone());
        inputs.set_if_some(self.trail.clone().map(TrailSink));
        inputs.set_if_some(self.approvals.clone());
        inputs.set(self.preconditions.clone());
        inputs.set(self.known.clone());
        inputs
    }
}

/// Reads `[layers.NAME]` of the layers that the program adds.
fn read_own_tables(
    settings: &Settings,
    own: &[Arc<dyn LayerSpec>],
    inputs: &mut LayerInputs,
) -> Result<(), StackError> {
    for (name, table) in &settings.layers {
        let spec = own.iter().find(|spec| spec.name() == name);
        let unknown = || StackError::UnknownTable {
            name: name.clone(),
            known: quoted(own.iter().map(|spec| spec.name())),
        };
        let spec = spec.ok_or_else(unknown)?;
        spec.read_table(table, inputs).map_err(|error| refused(spec.name(), &error))?;
    }
    Ok(())
}

fn refused(layer: &'static str, error: &BadSettings) -> StackError {
    StackError::Layer { layer, why: error.to_string() }
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests;
