//! Settings of single tools: `[namespaces.N.tools."server/tool"]`.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::Settings;
use crate::{
    ToolId, byte_size,
    middleware::{
        filter::{FilterConfig, Status},
        overrides::{self, Original, OverrideConfig},
        response_limit::{Keep, SMALLEST},
        scopes::{Scope, ScopesConfig},
    },
    selector::Selector,
    tier::Tier,
};

/// Settings of the tools that a selector matches: `[namespaces.default.tools."server/tool"]`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ToolSettings {
    /// Whether the tool is allowed.
    pub status: Option<Status>,
    /// The tier of the tool; wins over its own annotations.
    pub tier: Option<Tier>,
    /// The category of the tool, for rules and metrics; default: the name of its server.
    pub category: Option<String>,
    /// The scopes that the tool requires, all of them; default: by its category and tier.
    pub scopes: Option<Vec<Scope>>,
    /// The most bytes of one result of this tool; default: `limits.response_bytes`.
    #[serde(deserialize_with = "response_bytes")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "byte_size::schema"))]
    pub response_bytes: Option<usize>,
    /// Which end of a shortened text is kept.
    pub keep: Option<Keep>,
    /// The name that clients see and call, instead of the tool's own.
    pub name: Option<String>,
    /// The title that clients show.
    pub title: Option<String>,
    /// The description that models read.
    pub description: Option<String>,
    /// Annotations that override the tool's own. Clients see them; they do not change the tier.
    #[serde(deserialize_with = "overrides::values")]
    pub annotations: BTreeMap<String, Value>,
    /// Values of arguments that the caller leaves out.
    #[serde(deserialize_with = "overrides::values")]
    pub defaults: BTreeMap<String, Value>,
    /// Fixed values of arguments, which callers neither see nor may send.
    #[serde(deserialize_with = "overrides::values")]
    pub hidden: BTreeMap<String, Value>,
    /// What happens to the tool's own name if `name` is set.
    pub original: Option<Original>,
}

fn response_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<usize>, D::Error> {
    match byte_size::deserialize(deserializer)? {
        bytes if bytes < SMALLEST => Err(serde::de::Error::custom(format!(
            "`{bytes}` is too small: at least {SMALLEST} bytes"
        ))),
        bytes => Ok(Some(bytes)),
    }
}

impl ToolSettings {
    /// The override of the tool, if a setting changes the tool.
    fn to_override(&self) -> Option<OverrideConfig> {
        let config = OverrideConfig {
            name: self.name.clone(),
            title: self.title.clone(),
            description: self.description.clone(),
            annotations: self.annotations.clone(),
            defaults: self.defaults.clone(),
            hidden: self.hidden.clone(),
            original: self.original.unwrap_or_default(),
        };
        (config != OverrideConfig::default()).then_some(config)
    }
}

/// An override whose selector covers more than one tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the settings of `{0}` change how a tool is called or shown, and `{0}` may cover several: name one \
     tool, as `server/tool`"
)]
pub struct NotOneTool(String);

impl Settings {
    /// The overrides of all tools.
    pub(crate) fn overrides(&self) -> Result<Vec<(ToolId, OverrideConfig)>, NotOneTool> {
        let changed = self.tools.iter();
        let changed = changed.filter_map(|(selector, tool)| Some((selector, tool.to_override()?)));
        let one =
            |selector: &Selector| selector.exact().ok_or_else(|| NotOneTool(selector.to_string()));
        changed.map(|(selector, config)| Ok((one(selector)?, config))).collect()
    }

    /// The settings of `scopes`, if a setting grants or requires scopes.
    pub(crate) fn scopes(&self) -> Option<ScopesConfig> {
        let required = self.tools.iter();
        let required = required.filter_map(|(s, tool)| Some((s.clone(), tool.scopes.clone()?)));
        let config = ScopesConfig { granted: self.granted.clone(), required: required.collect() };
        config.is_on().then_some(config)
    }

    /// The settings of `filter`.
    pub(crate) fn filter(&self) -> FilterConfig {
        let with = |status: Status| {
            let tools = self.tools.iter().filter(move |(_, tool)| tool.status == Some(status));
            tools.map(|(selector, _)| selector.clone()).collect()
        };
        FilterConfig {
            inactive: with(Status::Inactive),
            active: with(Status::Active),
            message: self.inactive_message.clone(),
            new_tools: self.new_tools,
        }
    }
}
