//! `toolgate stdio [OPTIONS]` and `toolgate stdio --to URL`

use std::{io::IsTerminal as _, process::ExitCode};

use anyhow::{Context as _, bail};
use clap::Args;
use toolgate_gateway::{
    bridge::{self, Bridge},
    gateway::RunningGateway,
};

use super::signals::Signals;
use crate::overlay::Overlay;

/// Serve over stdio, or bridge stdio to a running gateway (`--to`)
///
/// With `--to`, everything is governed by the gateway at that address; this process only carries messages.
#[derive(Debug, Args)]
#[command(after_help = "Example, in the config of an MCP client that knows no HTTP:\n  \
    { \"mcpServers\": { \"work\": { \"command\": \"toolgate\",\n      \
    \"args\": [\"stdio\", \"--to\", \"http://127.0.0.1:8642/mcp/work\"] } } }")]
pub(crate) struct Stdio {
    /// The address of a running `toolgate serve`, with the namespace
    #[arg(long, value_name = "URL")]
    to: Option<String>,

    /// The environment variable that holds the token for the gateway at `--to`
    #[arg(long, value_name = "NAME", requires = "to")]
    token_env: Option<String>,

    #[command(flatten)]
    overlay: Overlay,
}

impl Stdio {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match &self.to {
            Some(url) => self.run_bridge(url),
            None => self.run_whole(),
        }
    }

    /// The whole gateway, for this one client.
    fn run_whole(mut self) -> anyhow::Result<ExitCode> {
        if self.overlay.server.is_some() {
            bail!("`--server` names a server to wrap: use `toolgate wrap`, or `--namespace` here");
        }
        super::serve::find_config(&mut self.overlay);
        let namespace = self.overlay.namespace().to_owned();
        let options = super::serve::options(&self.overlay, &[], Some(&namespace))?;
        if std::io::stdin().is_terminal() {
            super::wrap::explain("my-gateway");
        }
        let runtime = super::runtime()?;
        let served = runtime.block_on(async {
            let mut signals = Signals::new()?;
            let settles_first = options.settles_first()?;
            let serve = RunningGateway::new(options).await?;
            if settles_first {
                let settled = tokio::select! {
                    settled = serve.settle() => settled.map(|()| true),
                    _ = signals.end() => Ok(false),
                };
                if !matches!(settled, Ok(true)) {
                    serve.end().await;
                    return Ok(settled.map(drop)?);
                }
            }
            let _announced = self.overlay.announce();
            let stop = async {
                signals.govern(&serve).await;
            };
            let served = serve.one(&namespace, stop).await;
            serve.end().await;
            anyhow::Ok(served?)
        });
        // A read of a terminal that never ends must not keep us.
        runtime.shutdown_background();
        served.map(|()| ExitCode::SUCCESS)
    }

    fn run_bridge(&self, url: &str) -> anyhow::Result<ExitCode> {
        let token = self.token_env.as_deref().map(token).transpose()?;
        let bridge = Bridge::new(&bridge::BridgeOptions { url: url.to_owned(), token })?;
        if std::io::stdin().is_terminal() {
            super::wrap::explain("my-gateway");
        }
        let runtime = super::runtime()?;
        let ended = runtime.block_on(async {
            let mut signals = Signals::new()?;
            let told = "there is nothing to reload: the bridge has no config; send the signal to the gateway";
            bridge.run(signals.end_without_config(told)).await
        });
        // A read of a terminal that never ends must not keep us.
        runtime.shutdown_background();
        let signal = ended.context("cannot use standard input and output")?;
        Ok(ExitCode::from(signal.map_or(0, |number| 128 + number)))
    }
}

fn token(name: &str) -> anyhow::Result<String> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty());
    value.with_context(|| {
        format!(
            "the variable `{name}` is not set; set it to a token of the gateway's `[serve.tokens]`"
        )
    })
}
