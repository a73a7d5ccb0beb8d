//! `toolgate chain`

use std::{io::Write as _, process::ExitCode};

use clap::Args;
use serde_json::json;
use toolgate_gateway::gateway::Inspection;

use crate::chain_args::ChainArgs;

/// Print the layers that every call passes, and their settings
///
/// The outermost layer is the first. Without --namespace, it prints the chains of all namespaces that `toolgate serve` would serve. It starts no server.
#[derive(Debug, Args)]
#[command(mut_arg("namespace", |namespace| namespace.help("Print only the chain of this namespace [default: all namespaces]")))]
pub(crate) struct Chain {
    /// Print a JSON array with one object per namespace
    #[arg(long)]
    json: bool,

    #[command(flatten, next_help_heading = "Config and chain")]
    chain_args: ChainArgs,
}

impl Chain {
    pub(crate) fn run(mut self) -> anyhow::Result<ExitCode> {
        super::serve::find_config(&mut self.chain_args);
        let config = self.chain_args.read()?;
        let inspection = super::inspect(&self.chain_args, &config, &[], None, false)?;
        if self.json { print_json(&inspection) } else { print(&inspection) }
    }
}

fn print_json(inspection: &Inspection) -> anyhow::Result<ExitCode> {
    let namespaces = inspection.namespaces.iter().map(|namespace| {
        let layers = namespace.chain().layers().iter();
        let layers = layers.map(|layer| json!({"name": layer.name, "settings": layer.describe}));
        json!({"namespace": namespace.name(), "layers": layers.collect::<Vec<_>>()})
    });
    writeln!(std::io::stdout(), "{}", json!(namespaces.collect::<Vec<_>>()))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the chain of each namespace.
pub(crate) fn print(inspection: &Inspection) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    for (at, namespace) in inspection.namespaces.iter().enumerate() {
        if inspection.namespaces.len() > 1 {
            let gap = if at == 0 { "" } else { "\n" };
            writeln!(out, "{gap}namespace `{}`:", toolgate::printable::message(namespace.name()))?;
        }
        writeln!(out, "{}", toolgate::printable::lines(&namespace.chain().to_string()))?;
    }
    Ok(ExitCode::SUCCESS)
}
