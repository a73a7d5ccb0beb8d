//! The command line: its commands and the help text of the program.

use std::{ffi::OsString, process::ExitCode};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::{
    commands::{
        approvals::{ApprovalsCommand, Approve, Deny},
        audit::AuditCommand,
        chain::Chain,
        check::Check,
        completions::Completions,
        config::ConfigCommand,
        demo::Demo,
        doctor::Doctor,
        explain::Explain,
        import::Import,
        init::Init,
        log::Log,
        man::Man,
        reload::Reload,
        replay::Replay,
        serve::ServeCommand,
        status::StatusCommand,
        stdio::Stdio,
        tmux::TmuxCommand,
        why::Why,
        wrap::Wrap,
    },
    help,
};

/// Middleware and gateway for MCP (Model Context Protocol)
///
/// toolgate sits between AI agents and MCP servers. It authorises, limits and records every tool call, and hides tools
/// that an agent may not use.
#[derive(Debug, Parser)]
#[command(name = "toolgate", version, styles = help::STYLES, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Demo(Demo),
    Init(Init),
    Doctor(Doctor),
    Wrap(Box<Wrap>),
    Serve(Box<ServeCommand>),
    Stdio(Box<Stdio>),
    Import(Import),
    Tmux(Box<TmuxCommand>),
    Chain(Box<Chain>),
    Check(Box<Check>),
    Why(Box<Why>),
    Explain(Explain),
    Log(Box<Log>),
    Approvals(ApprovalsCommand),
    Approve(Approve),
    Deny(Deny),
    Audit(AuditCommand),
    Reload(Reload),
    Status(StatusCommand),
    Replay(Replay),
    Config(ConfigCommand),
    Completions(Completions),
    Man(Man),
}

impl Arguments {
    /// Reads the command line; ends the program for help and for errors.
    pub(crate) fn read() -> Self {
        let words: Vec<OsString> = std::env::args_os().skip(1).collect();
        let matches = help::grouped(Self::command(), &words).get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

impl Command {
    /// Runs the command.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Demo(demo) => demo.run(),
            Self::Init(init) => init.run(),
            Self::Doctor(doctor) => doctor.run(),
            Self::Wrap(wrap) => wrap.run(),
            Self::Serve(serve) => serve.run(),
            Self::Stdio(stdio) => stdio.run(),
            Self::Import(import) => import.run(),
            Self::Tmux(tmux) => tmux.run(),
            Self::Chain(chain) => chain.run(),
            Self::Check(check) => check.run(),
            Self::Why(why) => why.run(),
            Self::Explain(explain) => explain.run(),
            Self::Log(log) => log.run(),
            Self::Approvals(approvals) => approvals.run(),
            Self::Approve(approve) => approve.run(),
            Self::Deny(deny) => deny.run(),
            Self::Audit(audit) => audit.run(),
            Self::Reload(reload) => reload.run(),
            Self::Status(status) => status.run(),
            Self::Replay(replay) => replay.run(),
            Self::Config(config) => config.run(),
            Self::Completions(completions) => completions.run(Arguments::command()),
            Self::Man(man) => man.run(Arguments::command()),
        }
    }
}
