//! `toolgate chain`

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::Args;
use serde_json::json;
use toolgate_gateway::gateway::Inspection;

use super::log::style::{Style, wrapped};
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
    writeln!(io::stdout(), "{}", json!(namespaces.collect::<Vec<_>>()))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the chain of each namespace.
pub(crate) fn print(inspection: &Inspection) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    let style = Style::of_stdout();
    for (at, namespace) in inspection.namespaces.iter().enumerate() {
        if inspection.namespaces.len() > 1 {
            let gap = if at == 0 { "" } else { "\n" };
            writeln!(out, "{gap}namespace `{}`:", toolgate::printable::message(namespace.name()))?;
        }
        let chain = toolgate::printable::lines(&namespace.chain().to_string()).into_owned();
        for line in chain.lines() {
            write_layer(line, style.width, &mut out)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the line of a layer. Its settings stay in their column if they need several lines.
fn write_layer(line: &str, width: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let name = line.get(5..).unwrap_or_default();
    let name_end = name.find("  ").map_or(line.len(), |at| at + 5);
    let settings = line.get(name_end..).unwrap_or_default().trim_start();
    let column = line.len() - settings.len();
    let Some(width) = width.filter(|width| column + MIN_SETTINGS <= *width) else {
        return writeln!(out, "{line}");
    };
    let mut start = line.get(..column).unwrap_or_default().to_owned();
    for part in wrapped(settings, width - column) {
        writeln!(out, "{}", format!("{start}{part}").trim_end())?;
        start = " ".repeat(column);
    }
    if settings.is_empty() { writeln!(out, "{line}") } else { Ok(()) }
}

/// The least width of the column with the settings.
const MIN_SETTINGS: usize = 24;
