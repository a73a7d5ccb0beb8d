//! `toolgate reload`

use std::{io::Write as _, path::PathBuf, process::ExitCode};

use anyhow::{Context as _, bail};
use clap::Args;
use toolgate_gateway::instances;

use crate::overlay::run_folder;

/// Apply a changed config in the gateways that run, also where it widens access
///
/// A running `toolgate serve`, `wrap` or `stdio` applies a changed config by itself only if the change narrows access.
/// This command asks the gateways of this user that read a config file to apply it as it is now. What they make of it
/// is in their log.
#[derive(Debug, Args)]
pub(crate) struct Reload {
    /// Only the gateways that read this file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Reload {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let asked = instances::ask_to_reload(&run_folder()?, self.config.as_deref())
            .context("cannot ask the running gateways")?;
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
        for pid in asked {
            writeln!(out, "asked process {pid} to reload its config; its log says what changed")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
