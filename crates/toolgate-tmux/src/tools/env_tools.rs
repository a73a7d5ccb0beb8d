//! Tools for the environment variables that tmux gives to programs that it starts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate::Failure;

use crate::{
    call::ToolContext,
    engine::{Batch, Command, TmuxError},
    program_settings,
    target::{SESSION, SessionArgs},
    tool::{Model, Tool},
};

pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::readonly("show_environment", "Show tmux Environment", show_environment).about(
            "Use to see which variables new panes get: of a session, or without one the global ones.\n\
             `-NAME: true` tells that a session removes NAME.",
        ),
        Tool::mutating("set_environment", "Set tmux Environment", set_environment)
            .about(
                "Use to set a variable for panes opened later, of a session; without one, of all, also those that a \
                 person opens.\nFor all sessions only harmless names (LANG, LC_*, TZ, …) are taken; what decides \
                 which programs run (PATH, LD_PRELOAD, …) needs the destructive tier.",
            )
            .idempotent(),
    ]
}

/// Adds the target to a command about the environment of a session, or of all sessions.
async fn scoped(
    cx: &ToolContext,
    session: &SessionArgs,
    command: Command,
) -> Result<(std::sync::Arc<crate::engine::Server>, Command), Failure> {
    if session.session_id.is_none() && session.session_name.is_none() {
        return Ok((cx.server(session.socket_name.as_deref())?, command.flag("-g")));
    }
    let (server, row) = session.find(cx, SESSION).await?;
    Ok((server, command.target(row.text("session_id"))))
}

#[derive(Serialize, JsonSchema)]
struct EnvironmentResult {
    variables: BTreeMap<String, TextOrTrue>,
}

/// A value; `true` for a variable that is removed.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
enum TextOrTrue {
    Text(String),
    True(bool),
}

async fn show_environment(
    cx: ToolContext,
    args: SessionArgs,
) -> Result<Model<EnvironmentResult>, Failure> {
    // As shell text, in which a value with a newline cannot be mistaken for two variables.
    let show = Command::new("show-environment").flag("-s");
    let (server, show) = scoped(&cx, &args, show).await?;
    let output = server.ask(Batch::read([show])).await?;
    let mut variables = read(&output).ok_or(TmuxError::Garbled("its variables"))?;
    for (name, value) in &mut variables {
        if let TextOrTrue::Text(text) = value {
            // With the name: masking needs it for values as that of AWS_SECRET_ACCESS_KEY.
            let line = format!("{name}={text}");
            *text = cx.shown(&line).split_once('=').map_or_else(String::new, |(_, v)| v.to_owned());
        }
    }
    Ok(Model(EnvironmentResult { variables }))
}

/// Reads `NAME="value"; export NAME;` and `unset NAME;`.
fn read(output: &str) -> Option<BTreeMap<String, TextOrTrue>> {
    let mut all = BTreeMap::new();
    let mut rest = output.trim_start_matches('\n');
    while !rest.is_empty() {
        let removed = rest.strip_prefix("unset ").and_then(|rest| rest.split_once(';'));
        if let Some((name, after)) = removed.filter(|(name, _)| !name.contains(['=', '\n'])) {
            all.insert(format!("-{name}"), TextOrTrue::True(true));
            rest = after.trim_start_matches('\n');
            continue;
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let (value, after) = unquoted(quoted)?;
        rest = after.strip_prefix("; export ")?.strip_prefix(name)?.strip_prefix(';')?;
        rest = rest.strip_prefix('\n').unwrap_or(rest);
        all.insert(name.to_owned(), TextOrTrue::Text(value));
    }
    Some(all)
}

/// The text up to the closing quote, and the rest. tmux writes a backslash before characters that a shell would
/// interpret.
fn unquoted(quoted: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, quoted.get(at + 1..)?)),
            '\\' => value.push(chars.next()?.1),
            other => value.push(other),
        }
    }
    None
}

#[derive(Deserialize, JsonSchema)]
struct SetEnvironment {
    /// The variable's name.
    #[schemars(regex(pattern = r"^[^=]+$"))]
    name: String,
    /// The value.
    value: String,
    #[serde(flatten)]
    session: SessionArgs,
}

#[derive(Serialize, JsonSchema)]
struct EnvironmentSetResult {
    name: String,
    value: String,
    status: &'static str,
}

async fn set_environment(
    cx: ToolContext,
    args: SetEnvironment,
) -> Result<Model<EnvironmentSetResult>, Failure> {
    if args.session.session_id.is_none() && args.session.session_name.is_none() {
        program_settings::global_variable(cx.options(), &args.name)?;
    } else {
        program_settings::variable(cx.options(), &args.name)?;
    }
    let set = Command::new("set-environment");
    let (server, set) = scoped(&cx, &args.session, set).await?;
    server.run(set.end().argument(&*args.name).argument(&*args.value)).await?;
    Ok(Model(EnvironmentSetResult { name: args.name, value: args.value, status: "set" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_exactly() {
        let output = "A=\"x\nB=y\\\"\\$\\`\\\\\"; export A;\nunset DISPLAY;\nC=\"\"; export C;\nD=\"unset X;\"; export D;";
        let text = |text: &str| TextOrTrue::Text(text.to_owned());
        let expected = [
            ("-DISPLAY", TextOrTrue::True(true)),
            ("A", text("x\nB=y\"$`\\")),
            ("C", text("")),
            ("D", text("unset X;")),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(read(output), Some(BTreeMap::from(expected)));
        assert_eq!(read(""), Some(BTreeMap::new()));
        assert_eq!(read("A=\"x"), None);
    }
}
