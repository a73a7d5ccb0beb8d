//! The stack: builds the chain that settings describe, from the layers in [`layers`](crate::layers).

mod places;

use std::{sync::Arc, time::Duration};

use crate::{
    chain::{BadChain, Builder, Chain},
    layer::{DynMiddleware, Middleware},
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

pub use crate::layers::{LayerPlace, default_order};
use places::Placed;
pub use places::PlacedLayer;

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
#[non_exhaustive]
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
    /// Layers that the program adds. `chain = […]` names them, and `[layers.NAME]` holds their settings. See also
    /// [`register`](Self::register).
    pub layers: Vec<Arc<dyn LayerSpec>>,
    /// Layers that the program places beside those of the settings, in this order.
    pub placed: Vec<PlacedLayer>,
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
    /// The layers that the program places do not fit there.
    #[error("the chain is refused: {mistakes}\n  {advice}")]
    Placed {
        /// The mistakes.
        mistakes: BadChain,
        /// How to place the layers instead.
        advice: String,
    },
    /// A layer is placed beside one that the chain does not have.
    #[error(
        "`{layer}` cannot be placed beside `{beside}`, which no layer is called{guess}: the layers are {known}"
    )]
    NoPlace {
        /// The layer.
        layer: &'static str,
        /// The name of the other layer.
        beside: String,
        /// The name that was probably meant.
        guess: String,
        /// The names of the layers that exist.
        known: String,
    },
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
        /// The key that is wrong, with the tables around it; empty if the layer does not say which.
        key: Vec<String>,
    },
    /// The chain lists a layer that does not exist.
    #[error("the chain names an unknown layer `{name}`{guess}: the layers are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The name that was probably meant.
        guess: String,
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
///
/// ```
/// use toolgate::{settings::Settings, stack};
///
/// let stack = stack::build(&Settings::default())?;
/// println!("{}", stack.chain);
/// # Ok::<(), stack::StackError>(())
/// ```
pub fn build(settings: &Settings) -> Result<Stack, StackError> {
    build_with(settings, Parts::default())
}

/// The same as [`build`], with the parts that the program provides.
pub fn build_with(settings: &Settings, parts: Parts) -> Result<Stack, StackError> {
    builder(settings, parts)?.build()
}

fn open_audit(settings: &Settings, parts: &Parts) -> Result<Option<AuditSink>, OpenError> {
    let (config, redact) = (&settings.audit, &settings.redact);
    if parts.only_explains {
        return AuditSink::unopened(config, redact);
    }
    AuditSink::open_with(config, redact, &parts.audit_outputs)
}

/// Starts a stack from settings, to which the program adds layers of its own: beside a layer that the settings describe,
/// or innermost. The audit is opened here.
///
/// ```
/// use toolgate::{settings::Settings, stack::{self, Parts}, Failure, gate};
///
/// let tenants = gate("tenants", |cx, _access| match &*cx.session().namespace {
///     "default" => Ok(()),
///     other => Err(Failure::refused(format!("`{other}` has no contract"))),
/// });
/// let stack = stack::builder(&Settings::default(), Parts::default())?.before("audit-intent", tenants).build()?;
/// assert!(stack.chain.to_string().contains("tenants"));
/// # Ok::<(), stack::StackError>(())
/// ```
pub fn builder(settings: &Settings, parts: Parts) -> Result<StackBuilder<'_>, StackError> {
    let audit = open_audit(settings, &parts)?;
    Ok(StackBuilder { settings, parts, audit })
}

/// A stack that is being composed, see [`builder`].
#[derive(Debug)]
#[must_use = "call `build` to get the stack"]
pub struct StackBuilder<'a> {
    settings: &'a Settings,
    parts: Parts,
    audit: Option<AuditSink>,
}

impl StackBuilder<'_> {
    /// Places a layer directly outside of the layer of this name. A built-in layer that the settings leave off still
    /// marks its place.
    pub fn before(self, name: &str, layer: impl Middleware) -> Self {
        self.place(PlacedLayer::before(name, layer))
    }

    /// Places a layer directly inside of the layer of this name.
    pub fn after(self, name: &str, layer: impl Middleware) -> Self {
        self.place(PlacedLayer::after(name, layer))
    }

    /// Places a layer inside of all others.
    pub fn layer(self, layer: impl Middleware) -> Self {
        self.place(PlacedLayer::innermost(layer))
    }

    fn place(mut self, layer: PlacedLayer) -> Self {
        self.parts.placed.push(layer);
        self
    }

    /// Checks the order of all layers and finishes the stack.
    pub fn build(self) -> Result<Stack, StackError> {
        finish(self.settings, self.parts, self.audit)
    }
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

    /// Closes the audit and waits up to `timeout` until its records are written. Blocks the thread: for the end of a
    /// program.
    pub fn close(&self, timeout: Duration) {
        if let Some(audit) = &self.audit {
            audit.close(timeout);
        }
    }
}

fn finish(
    settings: &Settings,
    mut parts: Parts,
    audit: Option<AuditSink>,
) -> Result<Stack, StackError> {
    let layers = Layers::build(settings, &mut parts, audit.as_ref())?;
    let builder = layers.ordered(settings, &parts.placed)?.tasks(parts.tasks.clone());
    let chain = builder.build().map_err(|mistakes| places::refused(mistakes, &parts.placed))?;
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

    /// The layers in the order that the settings choose, with those that the program places.
    fn ordered(&self, settings: &Settings, own: &[PlacedLayer]) -> Result<Builder, StackError> {
        let mut chosen = Vec::new();
        match &settings.chain {
            ChainOrder::Default => {
                let built_in = self.built.iter().take(self.built_in);
                chosen.extend(built_in.map(|(name, _)| *name));
            }
            ChainOrder::Preset(preset) => {
                chosen.extend(preset.order().into_iter().map(|place| place.name));
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
        let built = |name: &str| self.built.iter().find(|(known, _)| *known == name);
        let layers = chosen.into_iter().map(|name| {
            let layer = built(name).and_then(|(_, built)| built.0.as_ref().ok());
            (name, layer.map(Arc::clone))
        });
        let placed = Placed::new(layers.collect()).with(own)?;
        Ok(Chain::builder().layers(placed.into_layers()))
    }

    fn unknown(&self, name: &str) -> StackError {
        let known = quoted(self.built.iter().map(|(name, _)| *name));
        StackError::Unknown { name: name.to_owned(), guess: places::guess(name), known }
    }
}

impl Parts {
    /// Registers a layer without settings, so that `chain = […]` can name it. For a layer with a table
    /// `[layers.NAME]`, add a [`LayerSpec`] to [`layers`](Self::layers).
    ///
    /// ```
    /// use toolgate::{from_fn, settings::{ChainOrder, Settings}, stack::{self, Parts}};
    ///
    /// let parts = Parts::default().register(from_fn("tenants", async |cx, call, next| next.call(cx, call).await));
    /// let chain = ["errors-to-results", "tenants"].map(str::to_owned);
    /// let settings = Settings::with(|settings| settings.chain = ChainOrder::Listed(chain.into()));
    /// let stack = stack::build_with(&settings, parts)?;
    /// assert_eq!(stack.chain.layers()[1].name, "tenants");
    /// # Ok::<(), stack::StackError>(())
    /// ```
    #[must_use]
    pub fn register(mut self, layer: impl Middleware) -> Self {
        self.layers.push(Arc::new(RegisteredLayer(layer.name(), layer.into_object())));
        self
    }

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

/// The declaration of a layer that [`Parts::register`] adds.
struct RegisteredLayer(&'static str, Arc<dyn DynMiddleware>);

impl LayerSpec for RegisteredLayer {
    fn name(&self) -> &'static str {
        self.0
    }

    fn why(&self) -> &'static str {
        "a layer of this program"
    }

    fn build(&self, _: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        Ok(BuiltLayer::on(Arc::clone(&self.1)))
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
    StackError::Layer { layer, why: error.to_string(), key: error.key().to_vec() }
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests;
