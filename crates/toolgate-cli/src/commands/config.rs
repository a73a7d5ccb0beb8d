//! `toolgate config schema | reference | presets`

use std::{io::Write as _, process::ExitCode};

use clap::{Args, Subcommand};
use toolgate_gateway::config;

use crate::config_file;

/// Print the JSON Schema or the reference pages of toolgate.toml
#[derive(Debug, Args)]
pub(crate) struct ConfigCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The JSON Schema, so that editors complete and check toolgate.toml
    Schema,
    /// Every key with its meaning, as Markdown
    Reference,
    /// The chains of other systems beside the default one, as Markdown
    Presets,
}

impl ConfigCommand {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let text = match self.what {
            What::Schema => format!("{:#}\n", config_file::schema()),
            What::Reference => config_file::reference(),
            What::Presets => config::presets(),
        };
        std::io::stdout().write_all(text.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}
