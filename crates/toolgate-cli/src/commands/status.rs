//! `toolgate status`

use std::{io::Write as _, process::ExitCode};

use anyhow::anyhow;
use clap::Args;
use toolgate_gateway::{
    gateway::GatewayStatus,
    instances::{self, StatusReport},
};

use super::{
    log::style::{Paint, Style, clean},
    next_step,
    serve::screen,
};
use crate::chain_args::run_folder;

/// Show the running gateways and their servers
///
/// Also shows tools that have another name or are left out. Asks each running `toolgate serve` of this user over a private socket.
///
/// Exit status: 0, or 1 if no gateway runs or one of them does not answer.
#[derive(Debug, Args)]
pub(crate) struct StatusCommand {
    /// Print a JSON array with one object per gateway; a gateway that does not answer has only `pid` and `error`
    #[arg(long)]
    json: bool,
}

impl StatusCommand {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let reports = instances::statuses(&run_folder()?)
            .map_err(|error| anyhow!("cannot ask the running gateways: {error}"))?;
        let mut out = std::io::stdout().lock();
        if self.json {
            let text = serde_json::to_string_pretty(&reports)?;
            writeln!(out, "{}", toolgate::printable::json(&text))?;
        } else if reports.is_empty() {
            writeln!(out, "No gateway runs. Start one: `toolgate serve mcp.json`.")?;
        } else {
            let style = Style::of_stdout();
            for (number, report) in reports.iter().enumerate() {
                if number > 0 {
                    writeln!(out)?;
                }
                match report {
                    StatusReport::Answered(status) => show(&mut out, &style, status)?,
                    StatusReport::Unanswered { pid, error } => {
                        writeln!(
                            out,
                            "toolgate, process {pid}, does not answer: {}",
                            clean(error)
                        )?;
                    }
                }
            }
        }
        let is_answered = |report: &StatusReport| matches!(report, StatusReport::Answered(_));
        let is_complete = !reports.is_empty() && reports.iter().all(is_answered);
        Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn show(
    out: &mut impl std::io::Write,
    style: &Style,
    status: &GatewayStatus,
) -> std::io::Result<()> {
    let GatewayStatus { pid, version, config, addresses, namespaces, servers, unused, names } =
        status;
    writeln!(out, "toolgate {}, process {pid}", clean(version))?;
    writeln!(out, "  config      {}", clean(config.as_deref().unwrap_or("none")))?;
    writeln!(out, "  listens on  {}", clean(&addresses.join(", ")))?;
    writeln!(out, "  namespaces  {}", clean(&namespaces.join(", ")))?;
    writeln!(out)?;
    for line in screen::table(style, servers, unused).into_iter().chain(screen::names(names)) {
        writeln!(out, "{line}")?;
    }
    let mut codes: Vec<&str> = servers.iter().filter_map(|one| one.code.as_deref()).collect();
    codes.sort_unstable();
    codes.dedup();
    for next in codes.into_iter().filter_map(next_step::of_code) {
        writeln!(out, "\n  {}", style.paint(Paint::Quiet, &next))?;
    }
    Ok(())
}
