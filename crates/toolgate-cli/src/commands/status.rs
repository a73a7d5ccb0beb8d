//! `toolgate status`

use std::{io::Write as _, process::ExitCode};

use anyhow::Context as _;
use clap::Args;
use toolgate_gateway::{gateway::GatewayStatus, instances};

use super::{
    log::look::{Look, clean},
    serve::screen,
};
use crate::overlay::run_folder;

/// Show the gateways of this user that run, their servers, and names that were not given
///
/// Asks each running `toolgate serve` over a private socket. Exits with 1 if none runs.
#[derive(Debug, Args)]
pub(crate) struct StatusCommand {
    /// Print JSON: a list with one object per gateway
    #[arg(long)]
    json: bool,
}

impl StatusCommand {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let statuses =
            instances::statuses(&run_folder()?).context("cannot ask the running gateways")?;
        let mut out = std::io::stdout().lock();
        if self.json {
            let text = serde_json::to_string_pretty(&statuses)?;
            writeln!(out, "{}", toolgate::printable::json(&text))?;
        } else if statuses.is_empty() {
            writeln!(out, "No gateway of this user runs. Start one: `toolgate serve mcp.json`.")?;
        } else {
            let look = Look::of_stdout();
            for (number, status) in statuses.iter().enumerate() {
                if number > 0 {
                    writeln!(out)?;
                }
                show(&mut out, &look, status)?;
            }
        }
        Ok(if statuses.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn show(out: &mut impl std::io::Write, look: &Look, status: &GatewayStatus) -> std::io::Result<()> {
    let GatewayStatus { pid, version, config, addresses, namespaces, servers, unused, names } =
        status;
    writeln!(out, "toolgate {}, process {pid}", clean(version))?;
    writeln!(out, "  config      {}", clean(config.as_deref().unwrap_or("none")))?;
    writeln!(out, "  listens on  {}", clean(&addresses.join(", ")))?;
    writeln!(out, "  namespaces  {}", clean(&namespaces.join(", ")))?;
    writeln!(out)?;
    for line in screen::table(look, servers, unused).into_iter().chain(screen::names(names)) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}
