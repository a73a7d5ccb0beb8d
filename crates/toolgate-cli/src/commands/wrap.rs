//! `toolgate wrap [OPTIONS] -- CMD ARGS…`

use std::{ffi::OsString, io::IsTerminal as _, process::ExitCode, time::Duration};

use anyhow::Context as _;
use clap::Args;
use toolgate_gateway::{
    Environment,
    wrap::{self, Inspection, Options},
};

use crate::overlay::Overlay;

/// Govern one MCP server: put `toolgate wrap --` in front of its command
///
/// Speaks MCP over stdio to the client and to the server. Without options, failed calls answer with
/// results that a model can read, every call is recorded in a private audit file, oversized results
/// are shortened and endless calls are given up; nothing else changes.
#[derive(Debug, Args)]
#[command(after_help = "Example, in the config of an MCP client:\n  \
    { \"mcpServers\": { \"files\": { \"command\": \"toolgate\",\n      \
    \"args\": [\"wrap\", \"--safety\", \"readonly\", \"--\", \"npx\", \"-y\",\n               \
    \"@modelcontextprotocol/server-filesystem\", \".\"] } } }")]
pub(crate) struct Wrap {
    #[command(flatten)]
    overlay: Overlay,

    /// Start the server again, with growing waits, when it ends by itself
    #[arg(long)]
    restart: bool,

    /// How long the server may take to answer initialize
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = toolgate::duration::parse)]
    start_timeout: Duration,

    /// Set a variable in the server's environment; can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(OsString, OsString)>,

    /// Give the server only these of toolgate's environment variables, besides PATH, HOME and the like. A command after
    /// `--` gets all of them otherwise, except for those that the config reads
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', num_args = 0..)]
    only_env: Option<Vec<OsString>>,

    /// Print the chain that every call passes, outermost first, and end
    #[arg(long)]
    print_chain: bool,

    /// The server's command and its arguments; not needed where the config names the server
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

fn variable(text: &str) -> Result<(OsString, OsString), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err(format!("`{text}` is not NAME=VALUE")),
    }
}

impl Wrap {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let options = self.options()?;
        if self.print_chain {
            return super::chain::print(&Inspection::of_settings(&options)?);
        }
        let runtime = super::runtime()?;
        let wrap = runtime.block_on(wrap::Wrap::new(options))?;
        if std::io::stdin().is_terminal() {
            explain("my-server");
        }
        let code = runtime.block_on(wrap.run(|| self.overlay.announce()));
        // A read of a terminal that never ends must not keep us.
        runtime.shutdown_background();
        Ok(ExitCode::from(code))
    }

    fn options(&self) -> anyhow::Result<Options> {
        let config = self.overlay.read()?;
        let found = self.overlay.server(&config, &self.command)?;
        let (name, mut server) = match found {
            None if self.print_chain => Default::default(),
            found => found.context(
                "which server? Write its command after `--`, or name one of the config with `--server`: \
                 toolgate wrap [OPTIONS] -- CMD ARGS…",
            )?,
        };
        if let Some(names) = &self.only_env {
            let is_read =
                |name: &&OsString| config.variables().iter().any(|other| *name == other.as_str());
            let names = names.iter().filter(|name| !is_read(name)).cloned().collect();
            server.environment = Environment::Only(names);
        }
        server.set.extend(self.env.iter().cloned());
        for warning in config.exposure(Some((&name, &server))) {
            tracing::warn!("{warning}");
        }
        Ok(Options {
            name,
            namespace: self.overlay.namespace.clone(),
            server,
            settings: self.overlay.source(),
            store: self.overlay.store(&config),
            trail: config.trail(&self.overlay.namespace)?,
            telemetry: self.overlay.telemetry(&config)?,
            watch: self.overlay.watch().filter(|_| config.is_watched()),
            restart: self.restart,
            start_timeout: self.start_timeout,
        })
    }
}

/// Tells a person who runs it by hand what it waits for.
#[expect(clippy::print_stderr, reason = "a word to the person at the terminal")]
pub(crate) fn explain(name: &str) {
    let words: Vec<String> = std::env::args().skip(1).map(|word| format!("{word:?}")).collect();
    eprintln!(
        "toolgate: waiting for an MCP client on standard input. To use it, put this into your \
         client's config\n(the file with `mcpServers`), or type JSON-RPC here, one message a line:\n\n  \
         \"{name}\": {{ \"command\": \"toolgate\", \"args\": [{}] }}\n",
        words.join(", ")
    );
}
