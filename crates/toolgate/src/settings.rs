//! The settings of a chain: those of every layer, in one struct.

#[cfg(feature = "toml")]
pub mod from_toml;
mod inputs;
mod tables;
mod tools;
mod widening;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use crate::preset::Preset;
use crate::{
    byte_size, duration,
    middleware::{
        audit::{AuditConfig, RedactConfig, Target},
        filter::NewTools,
        policy::{PolicyConfig, PrincipalPattern},
        rate_limit::{QuotaRule, RateRule},
        response_limit::{self, Keep, ResponseLimitConfig, ToolLimit},
        scopes::Granted,
        telemetry::TelemetryConfig,
        timeout,
    },
    selector::Selector,
    tier::Tier,
    tool::TierRules,
};

#[cfg(feature = "toml")]
pub use from_toml::BadToml;
pub use tables::LayerTables;
pub use tools::{NotOneTool, ToolSettings};

crate::with_layer_tables! {
    /// All settings of a chain. The macro adds a field for the table of each layer after the fields below. [`Default`]
    /// has the settings of `toolgate wrap` without a config file, except for the audit, whose place the program
    /// chooses.
    #[derive(Clone, Debug, Default, PartialEq)]
    #[non_exhaustive]
    pub struct Settings {
        /// The layers of the chain, and their order.
        pub chain: ChainOrder,
        /// The highest allowed tier; default: all tools are allowed.
        pub safety: Option<Tier>,
        /// Whether a tool's own annotations give it a tier where the config does not.
        pub annotations: Annotations,
        /// Settings of single tools.
        pub tools: Vec<(Selector, ToolSettings)>,
        /// `[audit]`
        pub audit: AuditConfig,
        /// `[redact]`
        pub redact: RedactConfig,
        /// `[limits]`: limits of sizes, times and rates.
        pub limits: LimitsConfig,
        /// What the caller of an inactive tool reads.
        pub inactive_message: Option<String>,
        /// What happens to tools that the operator has not approved.
        pub new_tools: NewTools,
        /// How long a gateway caches the lists of a server. If it is off, the gateway caches them until the server
        /// announces a change.
        pub cache_ttl: Switch<Duration>,
        /// `[policies]`, by name.
        pub policies: BTreeMap<String, PolicyConfig>,
        /// The policy of the namespace.
        pub policy: Option<String>,
        /// Policies of single principals, which apply in addition to the policy of the namespace.
        pub principals: Vec<(PrincipalPattern, String)>,
        /// `scopes` and `grants` of the namespace, and `MCP_SCOPES`.
        pub granted: Granted,
        /// The folder that relative paths in settings start from.
        pub folder: PathBuf,
        /// The part of `[telemetry]` that the layer reads. The layer also needs instruments, which the program
        /// provides.
        pub telemetry: TelemetryConfig,
        /// `[layers.NAME]`: settings of layers that the program registers in
        /// [`Parts::layers`](crate::stack::Parts::layers), by the name of the layer.
        pub layers: BTreeMap<String, serde_json::Value>,
    }
}

/// `chain = "default"`, a preset, or the names of the layers, outermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ChainOrder {
    /// The order of [`stack`](crate::stack).
    #[default]
    Default,
    /// The order of another system, with its options and words.
    Preset(Preset),
    /// These layers, in this order.
    Listed(Vec<String>),
}

impl ChainOrder {
    /// The preset, if it is one.
    #[must_use]
    pub fn preset(&self) -> Option<Preset> {
        match self {
            Self::Preset(preset) => Some(*preset),
            Self::Default | Self::Listed(_) => None,
        }
    }
}

impl Serialize for ChainOrder {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Default => serializer.serialize_str("default"),
            Self::Preset(preset) => serializer.serialize_str(preset.name()),
            Self::Listed(layers) => layers.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ChainOrder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected `default` or a list of layers")]
        enum Either {
            Name(String),
            Listed(Vec<String>),
        }
        match Either::deserialize(deserializer)? {
            Either::Name(name) if name == "default" => Ok(Self::Default),
            Either::Name(other) => Preset::by_name(&other).map(Self::Preset).ok_or_else(|| {
                let names = Preset::ALL.map(|preset| format!("`{preset}`")).join(", ");
                serde::de::Error::custom(format!(
                    "unknown chain `{other}`: write `default`, {names} or a list of layers"
                ))
            }),
            Either::Listed(layers) => Ok(Self::Listed(layers)),
        }
    }
}

/// `annotations = "trust" | "ignore"`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Annotations {
    /// Yes.
    #[default]
    Trust,
    /// No: for servers that you do not trust.
    Ignore,
}

/// `[limits]`: limits of sizes, times and rates.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct LimitsConfig {
    /// The size in bytes above which a result is shortened.
    pub response_bytes: Switch<usize>,
    /// Which end of a shortened text is kept.
    pub keep: Keep,
    /// The time after which a call is cancelled.
    pub timeout: Switch<Duration>,
    /// The most bytes of one message, in both directions.
    #[serde(deserialize_with = "some_bytes")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "byte_size::schema"))]
    pub message_bytes: usize,
    /// The limit of requests in flight.
    #[serde(deserialize_with = "more_than_none")]
    pub in_flight: usize,
    /// Limits of calls per second, minute or hour.
    pub rate: Vec<RateRule>,
    /// Limits of calls per day.
    pub quota: Vec<QuotaRule>,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            response_bytes: Switch::On(response_limit::DEFAULT_BYTES),
            keep: Keep::Tail,
            timeout: Switch::On(timeout::DEFAULT),
            message_bytes: 64 * 1024 * 1024,
            in_flight: 10_000,
            rate: Vec::new(),
            quota: Vec::new(),
        }
    }
}

fn some_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    not_zero(byte_size::deserialize(deserializer)?)
}

fn more_than_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    not_zero(usize::deserialize(deserializer)?)
}

fn not_zero<E: serde::de::Error>(number: usize) -> Result<usize, E> {
    match number {
        0 => Err(E::custom("`0` would let nothing pass: write at least 1")),
        number => Ok(number),
    }
}

/// A value, or `"off"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Switch<T> {
    /// Nothing is limited.
    #[default]
    Off,
    /// Limited to this.
    On(T),
}

impl<T: Copy> Switch<T> {
    /// The value, unless it is off.
    #[must_use]
    pub fn get(&self) -> Option<T> {
        match self {
            Self::Off => None,
            Self::On(value) => Some(*value),
        }
    }
}

impl std::str::FromStr for Switch<usize> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let bytes = byte_size::parse(text).map_err(|error| format!("{error}, or `off`"))?;
        match usize::try_from(bytes) {
            Ok(bytes) if bytes >= response_limit::SMALLEST => Ok(Self::On(bytes)),
            Ok(_) => {
                Err(format!("`{text}` is too small: at least {} bytes", response_limit::SMALLEST))
            }
            Err(_) => Err(format!("`{text}` is more than this machine can address")),
        }
    }
}

impl std::str::FromStr for Switch<Duration> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            text => {
                duration::parse(text).map(Self::On).map_err(|error| format!("{error}, or `off`"))
            }
        }
    }
}

impl Serialize for Switch<usize> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_str("off"),
            Self::On(bytes) => bytes.serialize(serializer),
        }
    }
}

impl Serialize for Switch<Duration> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Off => serializer.serialize_str("off"),
            Self::On(time) => duration::serialize(time, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Switch<Duration> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Switch<usize> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "expected a number of bytes, as 1_000_000 or \"1MB\", or \"off\""
        )]
        enum Either {
            Number(usize),
            Text(String),
        }
        let text = match Either::deserialize(deserializer)? {
            Either::Number(number) => number.to_string(),
            Either::Text(text) => text,
        };
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl Settings {
    /// The settings with all relative paths in this folder.
    #[must_use]
    pub fn in_folder(mut self, folder: &Path) -> Self {
        if let Target::File(path) = &mut self.audit.file {
            *path = folder.join(&*path);
        }
        for path in [&mut self.audit.key_file, &mut self.redact.key_file].into_iter().flatten() {
            *path = folder.join(&*path);
        }
        folder.clone_into(&mut self.folder);
        self
    }

    /// The rules by which tools get their tiers.
    #[must_use]
    pub fn tier_rules(&self) -> TierRules {
        let rules = self.tools.iter();
        let rules = rules.filter_map(|(s, tool)| tool.tier.map(|tier| (s.clone(), tier)));
        let categories = self.tools.iter();
        let categories =
            categories.filter_map(|(s, tool)| Some((s.clone(), tool.category.as_deref()?.into())));
        TierRules::new(rules.collect(), self.annotations == Annotations::Trust)
            .with_categories(categories.collect())
    }

    /// Whether a setting selects tools by their names. A gateway then refuses names that no server lists, because a
    /// server may accept other spellings of a name, which the selectors do not match.
    #[must_use]
    pub fn names_tools(&self) -> bool {
        !self.tools.is_empty()
            || self.new_tools == NewTools::Quarantine
            || !self.policies.is_empty()
            || !self.limits.rate.is_empty()
            || !self.limits.quota.is_empty()
            || !self.layers.is_empty()
            || self.layer_tables().select_tools()
    }

    /// The settings of `response_limit`. `None` if neither all results nor those of a single tool are limited.
    pub(crate) fn response_limit(&self) -> Option<ResponseLimitConfig> {
        let bytes = match self.limits.response_bytes.get() {
            Some(bytes) => bytes,
            None if self.tools.iter().any(|(_, tool)| tool.response_bytes.is_some()) => usize::MAX,
            None => return None,
        };
        let tools = self.tools.iter();
        let tools = tools.filter(|(_, tool)| tool.response_bytes.is_some() || tool.keep.is_some());
        let tools = tools.map(|(selector, tool)| ToolLimit {
            tools: selector.clone(),
            bytes: tool.response_bytes,
            keep: tool.keep,
        });
        Some(ResponseLimitConfig { bytes, keep: self.limits.keep, tools: tools.collect() })
    }
}

#[cfg(test)]
mod tests;
