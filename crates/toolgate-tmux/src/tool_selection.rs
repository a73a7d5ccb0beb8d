//! Sets the tools that are not selected to inactive.

use toolgate::{
    Tier,
    middleware::filter::Status,
    settings::{Settings, ToolSettings},
};

use crate::{
    name::NAME,
    tool::Tool,
    toolsets::{ToolChoice, Toolset},
};

/// The everyday tools. A client puts all listed tools into its model's context, so the default list is short.
const CORE: &[&str] = &[
    "list_sessions",
    "list_windows",
    "list_panes",
    "get_session_info",
    "get_window_info",
    "get_pane_info",
    "create_session",
    "create_window",
    "split_window",
    "run_command",
    "send_keys",
    "paste_text",
    "capture_pane",
    "capture_since",
    "snapshot_pane",
    "search_panes",
    "wait_for_text",
    "select_window",
    "rename_window",
    "wait_for_channel",
    "signal_channel",
    // Only there if prompts are also offered as tools.
    "list_prompts",
    "get_prompt",
];

/// Tools of the tier `mutating` that start no program and type nothing.
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

/// Tools of the tier `mutating` that delete something.
const TEARDOWN: &[&str] = &["clear_pane", "delete_buffer"];

/// The active toolsets if single tools are added and no toolset is named.
const DEFAULT_TOOLSETS: [Toolset; 3] = [Toolset::Inspect, Toolset::Manage, Toolset::Execute];

impl Toolset {
    /// Whether a tool belongs to the toolset.
    fn has(self, tool: &Tool) -> bool {
        match self {
            Self::Core => CORE.contains(&tool.name()),
            other => other == Self::of(tool),
        }
    }

    /// The one toolset of a tool, besides `core`.
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

/// A selected tool that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place} names `{name}`, which is no tool: {help}")]
pub struct NoSuchTool {
    place: &'static str,
    name: String,
    help: String,
}

impl ToolChoice {
    /// Sets the tools that are not selected to inactive. If the settings have no tier, it becomes the lowest tier that
    /// allows all selected tools, so that every listed tool can be called. If neither tools nor a tier are chosen, the
    /// everyday tools are active.
    pub(crate) fn apply(&self, tools: &[Tool], settings: &mut Settings) -> Result<(), NoSuchTool> {
        let more = named(&self.tools, tools, "`--tools` (LIBTMUX_TOOLS, `tmux.tools`)")?;
        let less = "`--exclude-tools` (LIBTMUX_EXCLUDE_TOOLS, `tmux.exclude_tools`)";
        let less = named(&self.exclude, tools, less)?;
        let usual: Option<&[Toolset]> = match (&*self.tools, settings.safety) {
            ([], None) => Some(&[Toolset::Core]),
            ([], Some(_)) => None,
            _ => Some(&DEFAULT_TOOLSETS),
        };
        let toolsets = self.toolsets.as_deref().or(usual);
        let is_chosen = |tool: &&Tool| {
            let in_sets = toolsets.is_none_or(|sets| sets.iter().any(|toolset| toolset.has(tool)));
            (in_sets || more.contains(&tool.name())) && !less.contains(&tool.name())
        };
        let (chosen, mut others): (Vec<&Tool>, Vec<&Tool>) = tools.iter().partition(is_chosen);
        if settings.safety.is_none() {
            let needed = chosen.iter().map(|tool| tool.tier()).max().unwrap_or(Tier::Readonly);
            settings.safety = Some(needed);
            if toolsets == Some(&[Toolset::Core]) {
                // The tier refuses the others, and says which tier they need.
                others.retain(|tool| tool.tier() <= needed || less.contains(&tool.name()));
            }
        }
        let off = ToolSettings::with(|tool| tool.status = Some(Status::Inactive));
        let selectors = others.iter().filter_map(|tool| selector(tool));
        settings.tools.extend(selectors.map(|selector| (selector, off.clone())));
        Ok(())
    }
}

/// The tools with these names.
fn named<'a>(
    names: &'a [String],
    tools: &[Tool],
    place: &'static str,
) -> Result<Vec<&'a str>, NoSuchTool> {
    // Version a22 of libtmux-mcp has one batch tool, for readonly tools.
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

/// Suggests the most similar name, if one is similar; otherwise lists all names.
fn help(name: &str, tools: &[Tool]) -> String {
    let distance = |tool: &&str| strsim::damerau_levenshtein(name, tool);
    let nearest = tools.iter().map(Tool::name).min_by_key(distance);
    if let Some(nearest) = nearest.filter(|nearest| distance(nearest) <= 3) {
        return format!("did you mean `{nearest}`?");
    }
    let all: Vec<&str> = tools.iter().map(Tool::name).collect();
    format!("the tools are {}", all.join(", "))
}

/// The selector of a tool in settings.
pub(crate) fn selector(tool: &Tool) -> Option<toolgate::Selector> {
    format!("{NAME}/{}", tool.name()).parse().ok()
}
