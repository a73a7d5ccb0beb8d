//! The command line: its commands and the help text of the program.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand, builder::styling};

use crate::commands::{
    approvals::{ApprovalsCommand, Approve, Deny},
    audit::AuditCommand,
    chain::Chain,
    check::Check,
    completions::Completions,
    config::ConfigCommand,
    import::Import,
    log::Log,
    reload::Reload,
    replay::Replay,
    serve::ServeCommand,
    status::StatusCommand,
    stdio::Stdio,
    tmux::TmuxCommand,
    why::Why,
    wrap::Wrap,
};

const STYLES: styling::Styles = styling::Styles::styled()
    .header(styling::AnsiColor::Green.on_default().bold())
    .usage(styling::AnsiColor::Green.on_default().bold())
    .literal(styling::AnsiColor::Cyan.on_default().bold())
    .placeholder(styling::AnsiColor::Cyan.on_default());

/// Middleware and gateway for MCP (Model Context Protocol)
///
/// toolgate sits between AI agents and MCP servers. It authorises, limits and records every tool call, and hides tools
/// that an agent may not use.
#[derive(Debug, Parser)]
#[command(name = "toolgate", version, styles = STYLES, arg_required_else_help = true)]
#[command(
    after_help = "toolgate writes its own messages to stderr. TOOLGATE_LOG=error|warn|info|debug|off sets the \
                  level (default: warn). NO_COLOR=1 switches colours off."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Wrap(Box<Wrap>),
    Serve(Box<ServeCommand>),
    Stdio(Box<Stdio>),
    Import(Import),
    Tmux(Box<TmuxCommand>),
    Chain(Box<Chain>),
    Check(Box<Check>),
    Why(Box<Why>),
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
}

impl Command {
    /// Runs the command.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self {
            Self::Wrap(wrap) => wrap.run(),
            Self::Serve(serve) => serve.run(),
            Self::Stdio(stdio) => stdio.run(),
            Self::Import(import) => import.run(),
            Self::Tmux(tmux) => tmux.run(),
            Self::Chain(chain) => chain.run(),
            Self::Check(check) => check.run(),
            Self::Why(why) => why.run(),
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
        }
    }
}
