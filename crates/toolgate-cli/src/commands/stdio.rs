//! `toolgate stdio [OPTIONS]` and `toolgate stdio --to URL`

use std::{io::IsTerminal as _, process::ExitCode};

use anyhow::{Context as _, bail};
use clap::Args;
use toolgate_gateway::bridge::{self, Bridge};

use super::{one_client, signals::Signals};
use crate::chain_args::ChainArgs;

/// Serve all servers over stdio, or connect stdio to a gateway
///
/// Without --to, this process is the gateway: it reads the config (by default toolgate.toml, .mcp.json or mcp.json in
/// this folder) and serves one namespace to the client that started it.
///
/// With --to, it only forwards messages to a running `toolgate serve`, whose config applies.
#[derive(Debug, Args)]
#[command(after_help = "Example, in the config of an MCP client without HTTP:\n  \
    { \"mcpServers\": { \"work\": { \"command\": \"toolgate\",\n      \
    \"args\": [\"stdio\", \"--to\", \"http://127.0.0.1:8642/mcp/work\"] } } }")]
pub(crate) struct Stdio {
    /// Forward to the running gateway at this URL: `http://127.0.0.1:8642/mcp/NAMESPACE`
    #[arg(long, value_name = "URL")]
    to: Option<String>,

    /// Read the token for that gateway from this environment variable
    #[arg(long, value_name = "NAME", requires = "to")]
    token_env: Option<String>,

    #[command(flatten, next_help_heading = "Config and chain")]
    chain_args: ChainArgs,
}

impl Stdio {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match &self.to {
            Some(url) => self.run_bridge(url),
            None => self.run_whole(),
        }
    }

    /// Runs the gateway in this process, for the one client on stdio.
    fn run_whole(mut self) -> anyhow::Result<ExitCode> {
        if self.chain_args.server.is_some() {
            bail!(
                "`--server` is an option of `toolgate wrap`: use that command, or `--namespace` here"
            );
        }
        super::serve::find_config(&mut self.chain_args);
        let namespace = self.chain_args.namespace();
        let options = super::serve::options(&self.chain_args, &[], Some(namespace))?;
        if std::io::stdin().is_terminal() {
            one_client::explain("my-gateway", self.chain_args.config.as_deref());
        }
        one_client::run_gateway(&self.chain_args, options)
    }

    fn run_bridge(&self, url: &str) -> anyhow::Result<ExitCode> {
        let token = self.token_env.as_deref().map(token).transpose()?;
        let bridge = Bridge::new(&bridge::BridgeOptions { url: url.to_owned(), token })?;
        if std::io::stdin().is_terminal() {
            one_client::explain("my-gateway", None);
        }
        let runtime = super::runtime()?;
        let ended = runtime.block_on(async {
            let mut signals = Signals::new()?;
            let message = "nothing to reload: `toolgate stdio --to` has no config; run `toolgate reload` for the gateway";
            bridge.run(signals.end_without_config(message)).await
        });
        // A blocked read from a terminal must not delay the exit.
        runtime.shutdown_background();
        let signal = ended.context("cannot use standard input and output")?;
        Ok(ExitCode::from(signal.map_or(0, |number| 128 + number)))
    }
}

fn token(name: &str) -> anyhow::Result<String> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty());
    value.with_context(|| {
        format!(
            "the variable `{name}` is not set: set it to a token of the gateway's `[serve.tokens]`"
        )
    })
}
