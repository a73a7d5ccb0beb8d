//! Which tools a client sees: by toolset, by name, and without those that are excluded.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

/// A group of tools. Unlike tiers, toolsets do not include each other; only `core` has tools of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Toolset {
    /// The everyday tools: those that an agent needs to look, to run commands and to open panes.
    Core,
    /// Tools that only read.
    Inspect,
    /// Tools that rename, select, move and resize.
    Manage,
    /// Tools that start programs or type into them.
    Execute,
    /// Tools that end or delete something.
    Teardown,
}

impl Toolset {
    /// All toolsets.
    pub const ALL: [Self; 5] =
        [Self::Core, Self::Inspect, Self::Manage, Self::Execute, Self::Teardown];

    /// The toolset's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Inspect => "inspect",
            Self::Manage => "manage",
            Self::Execute => "execute",
            Self::Teardown => "teardown",
        }
    }
}

impl fmt::Display for Toolset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Toolset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|toolset| toolset.name() == text);
        found.ok_or_else(|| {
            format!("unknown toolset `{text}`: write {}", Self::ALL.map(Self::name).join(", "))
        })
    }
}

/// Which tools are active. If only a tier is set, it alone decides; if nothing is set, the toolset `core` is active.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolChoice {
    /// The active toolsets.
    pub toolsets: Option<Vec<Toolset>>,
    /// Further active tools.
    pub tools: Vec<String>,
    /// Inactive tools. Wins over the other two.
    pub exclude: Vec<String>,
}
