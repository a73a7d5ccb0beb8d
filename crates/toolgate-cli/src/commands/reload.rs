//! `toolgate reload`

use std::{io::Write as _, path::PathBuf, process::ExitCode};

use anyhow::{anyhow, bail};
use clap::Args;
use toolgate_gateway::instances;

use crate::chain_args::run_folder;

/// Make running gateways apply their changed config
///
/// Also if the change widens access. A running gateway (`toolgate serve`, `wrap`, `stdio` or `tmux`) applies a changed config by itself only if the change
/// narrows access. This command asks all gateways of this user that run with a config file to apply the file as it is
/// now. Each gateway logs the result.
#[derive(Debug, Args)]
pub(crate) struct Reload {
    /// Ask only the gateways that run with this file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print a JSON array with the ids of the processes
    #[arg(long)]
    json: bool,
}

impl Reload {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let asked = instances::ask_to_reload(&run_folder()?, self.config.as_deref())
            .map_err(|error| anyhow!("cannot ask the running gateways: {error}"))?;
        if asked.is_empty() {
            match &self.config {
                Some(config) => bail!(
                    "no gateway of this user runs with `{}`: start one with `toolgate serve`",
                    config.display()
                ),
                None => bail!(
                    "no gateway of this user runs with a config file: start one with `toolgate serve CONFIG`"
                ),
            }
        }
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(out, "{}", serde_json::json!(asked))?;
            return Ok(ExitCode::SUCCESS);
        }
        for pid in asked {
            writeln!(out, "asked process {pid} to reload its config; its log says what changed")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
