//! The declaration of a layer: its name, the reason for its place, its settings, and how it is built.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    path::PathBuf,
    sync::Arc,
};

use serde_json::Value;

use crate::layer::{DynMiddleware, Middleware};

/// The declaration of one layer. A built-in layer has it in its folder, and one line in [`layers`](crate::layers); a
/// layer of your own is registered in [`Parts::layers`](crate::stack::Parts::layers) and then works by its name in
/// `chain = […]`.
///
/// A layer gets its settings and parts from [`LayerInputs`] by their types, so that it knows no other layer's settings.
pub trait LayerSpec: Send + Sync + 'static {
    /// The name of the layer in `chain = […]`, records and error messages.
    fn name(&self) -> &'static str;

    /// The reason for the layer's place in the default order, for people who read the documentation.
    fn why(&self) -> &'static str;

    /// The setting that has an effect only with this layer, if it is set. A chain without the layer then refuses to
    /// start, because the setting would look active and restrict nothing.
    fn needed_for(&self, _inputs: &LayerInputs) -> Option<&'static str> {
        None
    }

    /// The Cargo feature that this build lacks and the layer needs.
    fn missing_feature(&self) -> Option<&'static str> {
        None
    }

    /// Adds values that outlive a chain, unless they exist. A chain for changed settings gets the same ones.
    fn add_state(&self, _inputs: &mut LayerInputs) -> Result<(), BadSettings> {
        Ok(())
    }

    /// Reads the table `[layers.NAME]` of a layer that is not built in, and adds its settings to the inputs.
    fn read_table(&self, _table: &Value, _inputs: &mut LayerInputs) -> Result<(), BadSettings> {
        Err(BadSettings::new("the layer has no settings: remove its table"))
    }

    /// The JSON Schema of the table `[layers.NAME]`, for editors.
    #[cfg(feature = "schema")]
    fn table_schema(&self, _generator: &mut schemars::SchemaGenerator) -> Option<schemars::Schema> {
        None
    }

    /// Builds the layer. The layer is off if a setting or a part that it needs is missing. Invalid settings are an
    /// error.
    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings>;
}

impl fmt::Debug for dyn LayerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LayerSpec({})", self.name())
    }
}

/// The reason for a layer whose Cargo feature is not in this build.
#[cfg(not(all(feature = "rate-limit", feature = "telemetry", feature = "validate")))]
pub(crate) const LEFT_OUT: &str = "it is off, or this build of toolgate does not have it";

/// A built layer, or the reason why it is off.
pub struct BuiltLayer(pub(crate) Result<Arc<dyn DynMiddleware>, &'static str>);

impl BuiltLayer {
    /// The layer is on.
    #[must_use]
    pub fn on(middleware: impl Middleware) -> Self {
        Self(Ok(middleware.into_object()))
    }

    /// The layer is off. `missing` completes the sentence "the chain names the layer, but …".
    #[must_use]
    pub const fn off(missing: &'static str) -> Self {
        Self(Err(missing))
    }

    /// The layer is on if `middleware` is `Some`, else off.
    #[must_use]
    pub fn if_some(middleware: Option<impl Middleware>, missing: &'static str) -> Self {
        middleware.map_or(Self::off(missing), Self::on)
    }
}

impl fmt::Debug for BuiltLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(layer) => (**layer).as_info().fmt(f),
            Err(missing) => write!(f, "off: {missing}"),
        }
    }
}

/// The values that a layer is built from: settings, and parts that the program provides. It holds one value of each
/// type.
#[derive(Clone, Default)]
pub struct LayerInputs(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl LayerInputs {
    /// Sets the value of this type.
    pub fn set<T: Any + Send + Sync>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// Sets the value of this type if there is one.
    pub fn set_if_some<T: Any + Send + Sync>(&mut self, value: Option<T>) {
        if let Some(value) = value {
            self.set(value);
        }
    }

    /// The value of this type.
    #[must_use]
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }

    /// A copy of the value of this type, or its default.
    #[must_use]
    pub fn get_or_default<T: Any + Send + Sync + Clone + Default>(&self) -> T {
        self.get().cloned().unwrap_or_default()
    }

    /// Sets the default value of this type, unless there is a value.
    pub fn add_default<T: Any + Send + Sync + Default>(&mut self) {
        self.0.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
    }
}

impl fmt::Debug for LayerInputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LayerInputs({})", self.0.len())
    }
}

/// The folder that relative paths in settings start from.
#[derive(Clone, Debug, Default)]
pub struct SettingsFolder(pub PathBuf);

/// Why a layer refuses its settings.
#[derive(Debug)]
pub struct BadSettings {
    why: String,
    key: Vec<String>,
}

impl BadSettings {
    /// Refuses for this reason.
    #[must_use]
    pub fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), key: Vec::new() }
    }

    /// Names the key that is wrong, with the tables around it: an error of a config file then shows its line.
    #[must_use]
    pub fn at(mut self, key: &[&str]) -> Self {
        self.key = key.iter().map(ToString::to_string).collect();
        self
    }

    /// The key that is wrong, with the tables around it; empty if the layer does not say which.
    #[must_use]
    pub fn key(&self) -> &[String] {
        &self.key
    }
}

impl fmt::Display for BadSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// Not an [`Error`](std::error::Error) itself, so that `?` turns every error into one.
impl<E: std::error::Error> From<E> for BadSettings {
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}

/// A table of the config file that holds the settings of a layer.
pub trait LayerTable: PartialEq + Sized {
    /// Whether the change from `old` to `new` certainly only narrows what callers may do. Any other change waits until
    /// the operator applies it.
    #[must_use]
    fn narrows(old: Option<&Self>, new: Option<&Self>) -> bool {
        old == new
    }

    /// Whether the table selects tools by their names. The gateway then refuses names that no server lists, because a
    /// server may accept other spellings of a name, which the selectors do not match.
    fn selects_tools(&self) -> bool {
        false
    }

    /// Files whose content decides about calls, besides the settings.
    fn rule_files(&self) -> Vec<PathBuf> {
        Vec::new()
    }
}

/// Whether `new` still has each entry of `old`. New restrictions may be added, and none may be removed.
pub(crate) fn contains_all<T: PartialEq>(new: &[T], old: &[T]) -> bool {
    old.iter().all(|one| new.contains(one))
}
