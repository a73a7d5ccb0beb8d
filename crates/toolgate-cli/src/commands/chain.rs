//! `toolgate chain`

use std::{io::Write as _, process::ExitCode};

use clap::Args;
use serde_json::json;
use toolgate_gateway::gateway::Inspection;

use crate::overlay::Overlay;

/// Print the chain that every call passes, outermost first, with what each layer is set to
///
/// Without `--namespace`, the chains of all namespaces that `toolgate serve` would serve.
#[derive(Debug, Args)]
pub(crate) struct Chain {
    /// Print a JSON array for scripts, with one object for each namespace
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    overlay: Overlay,
}

impl Chain {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let config = self.overlay.read()?;
        let inspection = super::inspect(&self.overlay, &config, &[], None, false)?;
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
