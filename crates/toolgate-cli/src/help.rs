//! The help: commands in groups, and a short form (`-h`) that fits one screen of 24 lines and 80 columns.

use std::{ffi::OsString, fmt::Write as _};

use clap::{Arg, Command, builder::styling};

/// Headings.
const HEADER: styling::Style = styling::AnsiColor::Green.on_default().bold();
/// Words that a user types.
const LITERAL: styling::Style = styling::AnsiColor::Cyan.on_default().bold();
/// The colours of the help.
pub(crate) const STYLES: styling::Styles = styling::Styles::styled()
    .header(HEADER)
    .usage(HEADER)
    .literal(LITERAL)
    .placeholder(styling::AnsiColor::Cyan.on_default());

/// A group of commands, by name.
type Group = (&'static str, &'static [&'static str]);

/// All commands, grouped by what a user wants to do.
const GROUPS: [Group; 4] = [
    ("First steps", &["demo", "init", "import", "doctor"]),
    ("Put toolgate between clients and servers", &["wrap", "serve", "stdio", "tmux"]),
    (
        "Calls, and calls that wait for a person",
        &["log", "explain", "approvals", "approve", "deny", "audit", "replay"],
    ),
    (
        "Config and running gateways",
        &["check", "why", "chain", "status", "reload", "config", "completions", "man"],
    ),
];

/// The commands that `-h` describes; it only names the others.
const SHORT: [Group; 3] = [
    ("Start", &["demo", "init", "import", "doctor"]),
    ("Run", &["wrap", "serve", "stdio", "tmux"]),
    ("Inspect", &["status", "check", "why", "log", "explain", "approvals"]),
];

/// Options that only `--help` shows, by the id of the argument.
const LONG_ONLY: [&str; 22] = [
    "audit",
    "chain",
    "deadline",
    "dry_run",
    "exclude_tools",
    "limit",
    "only_env",
    "otlp",
    "pipe_roots",
    "print_chain",
    "prompts_as_tools",
    "record_required",
    "retry",
    "socket_name",
    "socket_path",
    "start_timeout",
    "store",
    "timeout",
    "tmux_bin",
    "tools",
    "wait_max",
    "server",
];

/// The width of a screen.
const WIDTH: usize = 80;

const ABOUT: &str = "\
Middleware and gateway for MCP (Model Context Protocol)

toolgate sits between AI agents and MCP servers. It authorises, limits and
records every tool call, and hides tools that an agent may not use.";

/// The command line with its help. `words` are the arguments of this process: they tell which form of the help is asked
/// for.
pub(crate) fn grouped(program: Command, words: &[OsString]) -> Command {
    let own = words.iter().take_while(|word| *word != "--");
    let is_short = words.is_empty() || own.into_iter().any(|word| word == "-h");
    let text = if is_short { short_help(&program) } else { long_help(&program) };
    let program = program.override_help(text);
    if is_short { program.mut_subcommands(short) } else { program }
}

fn about(program: &Command, name: &str) -> String {
    let found = program.find_subcommand(name).and_then(Command::get_about);
    found.map(ToString::to_string).unwrap_or_default()
}

fn usage() -> String {
    format!("{HEADER}Usage:{HEADER:#} {LITERAL}toolgate{LITERAL:#} COMMAND [OPTIONS]")
}

fn short_help(program: &Command) -> String {
    let first = ABOUT.lines().next().unwrap_or_default();
    let mut text = format!("{first}\n\n{}\n\n", usage());
    for (group, names) in SHORT {
        let mut group = group;
        for name in names {
            let about = about(program, name);
            let about = about.split([';', ':']).next().unwrap_or_default();
            let _ =
                writeln!(text, "{HEADER}{group:9}{HEADER:#}{LITERAL}{name:11}{LITERAL:#}{about}");
            group = "";
        }
    }
    let described = |name: &&str| SHORT.iter().any(|(_, names)| names.contains(name));
    let all = GROUPS.iter().flat_map(|(_, names)| names.iter().copied());
    let others: Vec<&str> = all.filter(|name| !described(name)).collect();
    let mut group = "More";
    for names in others.chunks(7) {
        let _ =
            writeln!(text, "{HEADER}{group:9}{HEADER:#}{LITERAL}{}{LITERAL:#}", names.join(" "));
        group = "";
    }
    text + "\n`toolgate --help` describes all commands, `toolgate COMMAND -h` one of them."
}

fn long_help(program: &Command) -> String {
    let mut text = format!("{ABOUT}\n\n{}\n\n", usage());
    for (group, names) in GROUPS {
        let _ = writeln!(text, "{HEADER}{group}:{HEADER:#}");
        for name in names {
            let _ = writeln!(text, "  {LITERAL}{name:11}{LITERAL:#}  {}", about(program, name));
        }
        text.push('\n');
    }
    text + "\
`toolgate COMMAND --help` describes a command and its options, `-h` in short.
`toolgate -V` prints the version.

toolgate writes its own messages to stderr. TOOLGATE_LOG=error|warn|info|debug|
off sets the level (default: warn). NO_COLOR=1 switches colours off."
}

/// A command whose help has one line for each of its most used options.
fn short(command: Command) -> Command {
    let column = command.get_arguments().filter(is_shown).map(width).max().unwrap_or_default();
    let room = WIDTH.saturating_sub(column + 2);
    let has_more = command.get_arguments().any(|arg| !is_shown(&arg))
        || command.get_after_help().is_some()
        || command.get_long_about().is_some();
    let command = command.mut_subcommands(short).mut_args(|arg| {
        let is_hidden = !is_shown(&&arg);
        let help = arg.get_help().map(|help| one_line(&help.to_string(), room));
        let arg = help.into_iter().fold(arg, Arg::help);
        let has_values = arg.get_action().takes_values();
        let arg = arg.hide_short_help(is_hidden).hide_env(true);
        // Defaults stand in the text.
        if has_values { arg.hide_default_value(true).hide_possible_values(true) } else { arg }
    });
    if has_more {
        command.after_help("`--help` tells more, and shows all options.")
    } else {
        command
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "a filter of an iterator passes a reference")]
fn is_shown(arg: &&Arg) -> bool {
    !arg.is_hide_set() && !LONG_ONLY.contains(&arg.get_id().as_str())
}

/// The width of an option before its description: `      --name <VALUE>`.
fn width(arg: &Arg) -> usize {
    let values = arg.get_value_names().unwrap_or_default();
    let values = if arg.get_action().takes_values() {
        values.iter().map(|name| name.len() + 3).sum()
    } else {
        0
    };
    // A list of values is shown as `[<VALUE>...]`.
    let list = if arg.get_num_args().is_some_and(|range| range.max_values() > 1) { 5 } else { 0 };
    let name = arg.get_long().map_or(0, |name| name.len() + 8);
    name + values + list
}

/// The beginning of a text, up to the last end of a clause that fits.
fn one_line(text: &str, room: usize) -> String {
    let text = text.split(" [default").next().unwrap_or(text);
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let ends = [". ", "; ", ": ", " ("].into_iter().flat_map(|end| text.match_indices(end));
    let ends = ends.map(|(at, _)| at);
    let clauses = ends.filter_map(|at| text.get(..at)).map(str::trim_end);
    let fitting = |part: &&str| part.chars().count() <= room && part.len() > room / 3;
    clauses.filter(fitting).max_by_key(|part| part.len()).map_or_else(
        || {
            let words = text.split_inclusive(' ');
            let mut cut = String::new();
            for word in words.take_while(|word| !word.is_empty()) {
                if cut.chars().count() + word.chars().count() >= room {
                    break;
                }
                cut.push_str(word);
            }
            format!("{}…", cut.trim_end())
        },
        str::to_owned,
    )
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::arguments::Arguments;

    #[test]
    fn the_groups_name_every_command_once() {
        let program = Arguments::command();
        let mut known: Vec<&str> = program.get_subcommands().map(Command::get_name).collect();
        let mut grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        known.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(known, grouped);
        for command in program.get_subcommands() {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(about.chars().count() <= 65, "{} leaves the line", command.get_name());
        }
        let mut short = SHORT.iter().flat_map(|(_, names)| names.iter());
        assert!(short.all(|name| known.contains(name)), "{known:?}");
    }

    #[test]
    fn a_text_is_cut_at_the_end_of_a_clause() {
        assert_eq!(one_line("Wait for it, and go [default: no]", 30), "Wait for it, and go");
        assert_eq!(one_line("Wait for it; else go on without it", 20), "Wait for it");
        assert_eq!(one_line("Wait for something to happen", 20), "Wait for something…");
    }
}
