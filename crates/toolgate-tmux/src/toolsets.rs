//! Which tools there are for a client: by toolset, by name, and less those that are excluded.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use toolgate::{
    Tier,
    middleware::filter::Status,
    settings::{Settings, ToolSettings},
};

use crate::{server::NAME, tool::Tool};

/// A group of tools. Unlike tiers, none holds another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Toolset {
    /// Tools that only look.
    Inspect,
    /// Tools that rename, select, move and resize.
    Manage,
    /// Tools that start programs, or type into them.
    Execute,
    /// Tools that end things.
    Teardown,
}

impl Toolset {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Inspect, Self::Manage, Self::Execute, Self::Teardown];

    /// What there is if single tools are added and no toolset is named.
    const USUAL: [Self; 3] = [Self::Inspect, Self::Manage, Self::Execute];

    /// The name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inspect => "inspect",
            Self::Manage => "manage",
            Self::Execute => "execute",
            Self::Teardown => "teardown",
        }
    }

    /// The toolset of a tool.
    fn of(tool: &Tool) -> Self {
        match tool.tier() {
            Tier::Readonly => Self::Inspect,
            Tier::Destructive => Self::Teardown,
            Tier::Mutating if TEARDOWN.contains(&tool.name()) => Self::Teardown,
            Tier::Mutating if MANAGE.contains(&tool.name()) => Self::Manage,
            Tier::Mutating => Self::Execute,
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

/// Tools of the tier in the middle that run nothing.
const MANAGE: &[&str] = &[
    "rename_session",
    "rename_window",
    "select_window",
    "select_pane",
    "select_layout",
    "resize_window",
    "resize_pane",
    "move_window",
    "set_pane_title",
    "swap_pane",
    "enter_copy_mode",
    "exit_copy_mode",
    "load_buffer",
    "wait_for_channel",
    "signal_channel",
    "join_pane",
    "break_pane",
    "link_window",
    "unlink_window",
];

/// Tools of the tier in the middle that lose something.
const TEARDOWN: &[&str] = &["clear_pane", "delete_buffer"];

/// Which tools there are. Without any of it, the tier alone decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The toolsets; all tools if not set.
    pub toolsets: Option<Vec<Toolset>>,
    /// Tools that are there too.
    pub tools: Vec<String>,
    /// Tools that are not there, whatever else is said.
    pub exclude: Vec<String>,
}

/// A tool that is chosen, and is not there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place} names `{name}`, which is no tool: {help}")]
pub struct NoSuchTool {
    place: &'static str,
    name: String,
    help: String,
}

impl Choice {
    /// Switches off what is not chosen. Where no tier is set, it becomes the one that what is chosen needs, so that
    /// whatever is listed can be called; without a choice, `mutating`.
    pub(crate) fn apply(&self, tools: &[Tool], settings: &mut Settings) -> Result<(), NoSuchTool> {
        let more = named(&self.tools, tools, "`--tools` (LIBTMUX_TOOLS, `tmux.tools`)")?;
        let less = "`--exclude-tools` (LIBTMUX_EXCLUDE_TOOLS, `tmux.exclude_tools`)";
        let less = named(&self.exclude, tools, less)?;
        let usual = (!self.tools.is_empty()).then(|| Toolset::USUAL.to_vec());
        let toolsets = self.toolsets.clone().or(usual);
        let is_chosen = |tool: &&Tool| {
            let in_sets = toolsets.as_ref().is_none_or(|sets| sets.contains(&Toolset::of(tool)));
            (in_sets || more.contains(&tool.name())) && !less.contains(&tool.name())
        };
        let (chosen, others): (Vec<&Tool>, Vec<&Tool>) = tools.iter().partition(is_chosen);
        if settings.safety.is_none() {
            let needed = chosen.iter().map(|tool| tool.tier()).max().unwrap_or(Tier::Readonly);
            let needed = toolsets.is_some().then_some(needed);
            settings.safety = Some(needed.unwrap_or(Tier::Mutating));
        }
        let off = ToolSettings { status: Some(Status::Inactive), ..ToolSettings::default() };
        let selectors = others.iter().filter_map(|tool| selector(tool));
        settings.tools.extend(selectors.map(|selector| (selector, off.clone())));
        Ok(())
    }
}

/// The tools of these names.
fn named<'a>(
    names: &'a [String],
    tools: &[Tool],
    place: &'static str,
) -> Result<Vec<&'a str>, NoSuchTool> {
    // What a22 has instead of three tools is the mildest of them here.
    let known = |name: &'a String| match name.as_str() {
        "call_read_tools_batch" => "call_readonly_tools_batch",
        name => name,
    };
    let found = names.iter().map(known).map(|name| {
        let is_there = tools.iter().any(|tool| tool.name() == name);
        let missing = || NoSuchTool { place, name: name.to_owned(), help: help(name, tools) };
        is_there.then_some(name).ok_or_else(missing)
    });
    found.collect()
}

/// The name that was meant, if one is near; else all of them.
fn help(name: &str, tools: &[Tool]) -> String {
    let distance = |tool: &&str| strsim::damerau_levenshtein(name, tool);
    let nearest = tools.iter().map(Tool::name).min_by_key(distance);
    if let Some(nearest) = nearest.filter(|nearest| distance(nearest) <= 3) {
        return format!("did you mean `{nearest}`?");
    }
    let all: Vec<&str> = tools.iter().map(Tool::name).collect();
    format!("the tools are {}", all.join(", "))
}

/// The tool's name in settings.
pub(crate) fn selector(tool: &Tool) -> Option<toolgate::Selector> {
    format!("{NAME}/{}", tool.name()).parse().ok()
}
