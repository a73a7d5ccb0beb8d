//! `toolgate config schema | reference | presets | clients`

use std::{io::Write as _, process::ExitCode};

use anyhow::bail;
use clap::{Args, Subcommand};
use toolgate_gateway::{client_files, config};

use crate::config_file;

/// Print the JSON Schema, the reference pages or the known clients
#[derive(Debug, Args)]
pub(crate) struct ConfigCommand {
    #[command(subcommand)]
    subcommand: ConfigSubcommand,
}

#[derive(Debug, Subcommand)]
enum ConfigSubcommand {
    /// Print the JSON Schema, with which editors complete and check toolgate.toml
    Schema,
    /// Print every key with its default and meaning, as Markdown
    Reference,
    /// Print a comparison of the presets (--chain) with the default chain, as Markdown
    Presets,
    /// Print the MCP clients whose configs toolgate reads, or the page of one client, as Markdown
    Clients {
        /// The client, for example cursor or vscode
        client: Option<String>,
    },
}

impl ConfigCommand {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let text = match &self.subcommand {
            ConfigSubcommand::Schema => format!("{:#}\n", config_file::schema()),
            ConfigSubcommand::Reference => config_file::reference(),
            ConfigSubcommand::Presets => config::presets(),
            ConfigSubcommand::Clients { client: None } => client_files::page(),
            ConfigSubcommand::Clients { client: Some(id) } => match client_files::client_page(id) {
                Some(page) => page,
                None => bail!("the client `{id}` is unknown: `toolgate config clients` lists all"),
            },
        };
        std::io::stdout().write_all(text.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}
