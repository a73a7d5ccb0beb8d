//! The commands, one file each.

pub(crate) mod completions;
pub(crate) mod keep_server;
pub(crate) mod wrap;

use std::process::ExitCode;

use crate::arguments::Command;

/// Runs the command that was asked for.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Wrap(wrap) => wrap.run(),
        Command::Completions(completions) => completions.run(),
    }
}
