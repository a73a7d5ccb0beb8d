//! `toolgate chain`

use std::{io::Write as _, process::ExitCode, time::Duration};

use clap::Args;
use toolgate_gateway::wrap::{Inspection, Options, SERVER};

use crate::overlay::Overlay;

/// Print the chain that every call passes, outermost first, with what each layer is set to
#[derive(Debug, Args)]
pub(crate) struct Chain {
    #[command(flatten)]
    overlay: Overlay,
}

impl Chain {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let config = self.overlay.read()?;
        if let Some(inspection) = super::tmux::inspected(&self.overlay, &config)? {
            return print(&inspection);
        }
        let mut options = without_server(&self.overlay);
        options.store = self.overlay.store(&config);
        options.trail = config.trail(&self.overlay.namespace)?;
        options.telemetry = self.overlay.telemetry(&config)?;
        print(&Inspection::of_settings(&options)?)
    }
}

/// Prints the chain.
pub(crate) fn print(inspection: &Inspection) -> anyhow::Result<ExitCode> {
    writeln!(std::io::stdout(), "{}", toolgate::printable::lines(&inspection.chain().to_string()))?;
    Ok(ExitCode::SUCCESS)
}

/// Options for looking at the settings alone.
pub(crate) fn without_server(overlay: &Overlay) -> Options {
    Options {
        name: overlay.server.clone().unwrap_or_else(|| SERVER.to_owned()),
        namespace: overlay.namespace.clone(),
        server: toolgate_gateway::ServerCommand::default(),
        settings: overlay.source(),
        store: None,
        trail: None,
        telemetry: None,
        watch: None,
        restart: false,
        start_timeout: Duration::from_mins(1),
    }
}
