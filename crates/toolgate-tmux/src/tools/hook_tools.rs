//! Tools that show hooks. No tool sets one: a hook would run on after the agent has ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate::Failure;

use super::scope::{Scope, ScopeArgs, named};
use crate::{
    call::ToolContext,
    engine::{Batch, Command, TmuxError, text},
    tool::{Model, Tool},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::readonly("show_hooks", "Show tmux Hooks", show_hooks).about(
            "Use to see which tmux commands run when something happens; scope=\"server\" for all global hooks.",
        ),
        Tool::readonly("show_hook", "Show tmux Hook", show_hook)
            .about("Use for one hook by name, as pane-exited; no entries if it is not set."),
    ]
}

#[derive(Serialize, JsonSchema)]
struct HookListResult {
    entries: Vec<HookEntry>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
struct HookEntry {
    hook_name: String,
    index: Option<u32>,
    command: String,
}

/// The `show-hooks` commands for a scope. tmux has global hooks of sessions and of windows; the scope `server` covers
/// both.
fn show(args: &ScopeArgs, target: Option<&str>) -> Vec<Command> {
    let show = || Command::new("show-hooks");
    match args.scope {
        Some(Scope::Server) => vec![show().flag("-g"), show().flag("-g").flag("-w")],
        _ => vec![args.of(show(), target)],
    }
}

async fn show_hooks(cx: ToolContext, args: ScopeArgs) -> Result<Model<HookListResult>, Failure> {
    let (server, target) = args.find(&cx).await?;
    let printed = server.run(Batch::read(show(&args, target.as_deref()))).await.map_err(named)?;
    let mut entries: Vec<HookEntry> =
        printed.into_iter().flat_map(|printed| entries(&cx, &text(printed))).collect();
    entries.sort();
    entries.dedup();
    Ok(Model(HookListResult { entries }))
}

#[derive(Deserialize, JsonSchema)]
struct ShowHook {
    /// The hook's name.
    #[schemars(length(min = 1))]
    hook_name: String,
    #[serde(flatten)]
    scope: ScopeArgs,
}

async fn show_hook(cx: ToolContext, args: ShowHook) -> Result<Model<HookListResult>, Failure> {
    let (server, target) = args.scope.find(&cx).await?;
    // With a name, tmux would also show options. These two lists contain all hooks, also those that are not set.
    let global = || Command::new("show-hooks").flag("-g");
    let hooks = server.run(Batch::read([global(), global().flag("-w")])).await?;
    let hooks: Vec<String> = hooks.into_iter().map(text).collect();
    let wanted = args.hook_name.split('[').next().unwrap_or_default();
    if !hooks.iter().flat_map(|list| list.lines()).any(|line| name(line).0 == wanted) {
        return Err(named(TmuxError::Refused(format!("invalid option: {}", args.hook_name))));
    }
    let mut found = Vec::new();
    for command in show(&args.scope, target.as_deref()) {
        let command = command.end().text(&args.hook_name);
        found.extend(entries(&cx, &server.ask(Batch::read([command])).await.map_err(named)?));
    }
    found.sort();
    found.dedup();
    Ok(Model(HookListResult { entries: found }))
}

/// Reads lines as `name[0] command`. A hook that is not set has no command.
fn entries(cx: &ToolContext, printed: &str) -> Vec<HookEntry> {
    let entry = |line: &str| {
        let (_, command) = line.split_once(' ')?;
        let (hook_name, index) = name(line);
        let (hook_name, command) = (hook_name.to_owned(), cx.shown(command).into_owned());
        Some(HookEntry { hook_name, index, command })
    };
    printed.lines().filter_map(entry).collect()
}

/// The name and the index of a hook at the beginning of a line.
fn name(line: &str) -> (&str, Option<u32>) {
    let word = line.split(' ').next().unwrap_or_default();
    match word.strip_suffix(']').and_then(|word| word.split_once('[')) {
        Some((name, index)) => (name, index.parse().ok()),
        None => (word, None),
    }
}
