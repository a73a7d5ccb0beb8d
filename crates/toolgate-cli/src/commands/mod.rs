//! The commands, one file each.

pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod chain;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod keep_server;
pub(crate) mod log;
pub(crate) mod reload;
pub(crate) mod replay;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod stdio;
pub(crate) mod tmux;
pub(crate) mod why;
pub(crate) mod wrap;

use std::{ffi::OsString, process::ExitCode};

use toolgate_gateway::wrap::Inspection;

use crate::{arguments::Command, overlay::Overlay};

/// Runs the command that was asked for.
pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Wrap(wrap) => wrap.run(),
        Command::Serve(serve) => serve.run(),
        Command::Stdio(stdio) => stdio.run(),
        Command::Tmux(tmux) => tmux.run(),
        Command::Chain(chain) => chain.run(),
        Command::Check(check) => check.run(),
        Command::Why(why) => why.run(),
        Command::Log(log) => log.run(),
        Command::Approvals(approvals) => approvals.run(),
        Command::Approve(approve) => approve.run(),
        Command::Deny(deny) => deny.run(),
        Command::Audit(audit) => audit.run(),
        Command::Reload(reload) => reload.run(),
        Command::Status(status) => status.run(),
        Command::Replay(replay) => replay.run(),
        Command::Config(config) => config.run(),
        Command::Completions(completions) => completions.run(),
    }
}

/// One thread is enough for one client.
pub(crate) fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Looks at the server that the config or the command line names, or at the settings alone.
pub(crate) fn inspect(overlay: &Overlay, command: &[OsString]) -> anyhow::Result<Inspection> {
    let config = overlay.read()?;
    if command.is_empty()
        && let Some(inspection) = tmux::inspected(overlay, &config)?
    {
        return Ok(inspection);
    }
    let mut options = chain::without_server(overlay);
    options.store = overlay.store(&config);
    options.telemetry = overlay.telemetry(&config)?;
    match overlay.server(&config, command)? {
        None => Ok(Inspection::of_settings(&options)?),
        Some((name, server)) => {
            (options.name, options.server) = (name, server);
            Ok(runtime()?.block_on(Inspection::of_server(&options))?)
        }
    }
}
