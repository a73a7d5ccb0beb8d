//! Tools for tmux's options.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolgate::Failure;

use super::scope::{ScopeArgs, named};
use crate::{
    call::ToolContext,
    engine::{Batch, Command, Server, TmuxError},
    program_settings,
    self_guard::KillTarget,
    tool::{Model, Tool},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::readonly("show_option", "Show tmux Option", show_option).about(
            "Use to read an option of tmux, as history-limit or mouse; null if it is not set at that level.\n\
             Most values are global: set global_=true to see them.",
        ),
        Tool::mutating("set_option", "Set tmux Option", set_option)
            .about(
                "Use to change an option of tmux. What decides which programs run (hooks, default-command, formats \
                 with #( )) needs the destructive tier.",
            )
            .idempotent(),
    ]
}

#[derive(Deserialize, JsonSchema)]
struct ShowOption {
    #[schemars(length(min = 1))]
    option: String,
    #[serde(flatten)]
    scope: ScopeArgs,
}

#[derive(Serialize, JsonSchema)]
struct OptionResult {
    option: String,
    value: Value,
}

async fn show_option(cx: ToolContext, args: ShowOption) -> Result<Model<OptionResult>, Failure> {
    let (server, target) = args.scope.find(&cx).await?;
    let show = || args.scope.of(Command::new("show-options"), target.as_deref());
    let printed = |name: &str| {
        let names = show().end().text(name);
        [names, show().flag("-v").end().text(name)]
    };
    let (names, value) = both(&server, printed(&args.option)).await?;
    let value = match indexes(&names) {
        _ if names.is_empty() => Value::Null,
        // An option with an index has one value.
        Some(_) if args.option.ends_with(']') => typed(&cx.shown(&value)),
        None => typed(&cx.shown(&value)),
        Some((name, indexes)) => {
            let each =
                indexes.iter().map(|at| show().flag("-v").end().text(&format!("{name}[{at}]")));
            let values = server.run(Batch::read(each)).await.map_err(named)?;
            let values = values.into_iter().map(crate::engine::text);
            let values = indexes.iter().zip(values);
            let values = values.map(|(at, value)| ((*at).to_owned(), typed(&cx.shown(&value))));
            Value::Object(values.collect::<Map<_, _>>())
        }
    };
    Ok(Model(OptionResult { option: args.option, value }))
}

async fn both(server: &Server, commands: [Command; 2]) -> Result<(String, String), Failure> {
    let printed = server.run(Batch::read(commands)).await.map_err(named)?;
    let mut printed = printed.into_iter().map(crate::engine::text);
    Ok((printed.next().unwrap_or_default(), printed.next().unwrap_or_default()))
}

/// The full name and the indexes of an array option, if tmux printed one: lines as `name[3] value`.
fn indexes(names: &str) -> Option<(&str, Vec<&str>)> {
    let parts = |line| {
        let word: &str = str::split(line, ' ').next()?;
        let (name, index) = word.strip_suffix(']')?.split_once('[')?;
        index.parse::<u32>().ok().map(|_| (name, index))
    };
    let (name, _) = names.lines().next().and_then(parts)?;
    // A value may contain newlines: its lines do not look like this, or only by chance.
    let own = names.lines().filter_map(parts).filter(|(other, _)| *other == name);
    Some((name, own.map(|(_, index)| index).collect()))
}

/// Converts a value as libtmux-mcp does: digits become a number, `on` and `off` become true and false.
fn typed(value: &str) -> Value {
    match value {
        "on" => Value::Bool(true),
        "off" => Value::Bool(false),
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.parse::<u64>().map_or_else(|_| value.into(), Value::from)
        }
        text => text.into(),
    }
}

#[derive(Deserialize, JsonSchema)]
struct SetOption {
    #[schemars(length(min = 1))]
    option: String,
    /// The value.
    value: String,
    #[serde(flatten)]
    scope: ScopeArgs,
}

#[derive(Serialize, JsonSchema)]
struct OptionSetResult {
    option: String,
    value: String,
    status: &'static str,
}

async fn set_option(cx: ToolContext, args: SetOption) -> Result<Model<OptionSetResult>, Failure> {
    program_settings::option(cx.options(), &args.option, &args.value)?;
    let (server, target) = args.scope.find(&cx).await?;
    if program_settings::ends_sessions(&args.option) && !matches!(&*args.value, "off" | "0") {
        let session = target.as_deref().filter(|id| id.starts_with('$') && !args.scope.global_);
        let victim = session.map_or(KillTarget::Server, KillTarget::Session);
        cx.guard().check(&server, victim, "let an option end").await?;
    }
    let set = args.scope.of(Command::new("set-option"), target.as_deref());
    let set = set.end().text(&args.option).argument(&*args.value);
    server.run(set).await.map_err(|error| named(silent(error, &args.value)))?;
    Ok(Model(OptionSetResult { option: args.option, value: args.value, status: "set" }))
}

/// tmux's message without the value at its end: errors are logged, and the value may be a secret.
fn silent(error: TmuxError, value: &str) -> TmuxError {
    match error {
        TmuxError::Refused(said) => {
            let words = said.strip_suffix(value).filter(|_| !value.is_empty());
            TmuxError::Refused(
                words.map_or(said.as_str(), |words| words.trim_end_matches([':', ' '])).to_owned(),
            )
        }
        error => error,
    }
}
