//! `toolgate stdio [OPTIONS]` and `toolgate stdio --to URL`

use std::{io::IsTerminal as _, process::ExitCode};

use anyhow::{Context as _, bail};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use toolgate_gateway::{serve::Serve, thin, wrap::Trigger};

use crate::overlay::Overlay;

/// Speak MCP over stdio to one client: as a gateway, or as the way to one that runs already
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
            Some(url) => self.run_thin(url),
            None => self.run_whole(),
        }
    }

    /// The whole gateway, for this one client.
    fn run_whole(mut self) -> anyhow::Result<ExitCode> {
        if self.overlay.server.is_some() {
            bail!("`--server` names a server to wrap: use `toolgate wrap`, or `--namespace` here");
        }
        super::serve::find_config(&mut self.overlay);
        let namespace = self.overlay.namespace.clone();
        let options = super::serve::options(&self.overlay, &[], Some(&namespace))?;
        if std::io::stdin().is_terminal() {
            super::wrap::explain("my-gateway");
        }
        let runtime = super::runtime()?;
        let served = runtime.block_on(async {
            let mut terminate = signal(SignalKind::terminate())?;
            let mut interrupt = signal(SignalKind::interrupt())?;
            let mut hangup = signal(SignalKind::hangup())?;
            let mut asked = signal(SignalKind::user_defined1())?;
            let settles_first = options.settles_first()?;
            let serve = Serve::new(options).await?;
            if settles_first {
                let settled = tokio::select! {
                    settled = serve.settle() => settled.map(|()| true),
                    _ = terminate.recv() => Ok(false),
                    _ = interrupt.recv() => Ok(false),
                };
                if !matches!(settled, Ok(true)) {
                    serve.end(None).await;
                    return Ok(settled.map(drop)?);
                }
            }
            let changes = serve.changes();
            let _announced = self.overlay.announce();
            let stop = async {
                loop {
                    tokio::select! {
                        _ = terminate.recv() => break,
                        _ = interrupt.recv() => break,
                        _ = hangup.recv() => {
                            serve.reopen();
                            serve.reload(Trigger::Asked);
                        }
                        _ = asked.recv() => serve.reload(Trigger::Asked),
                        () = changes.next() => serve.reload(Trigger::Changed),
                    }
                }
            };
            let served = serve.one(&namespace, stop).await;
            serve.end(None).await;
            anyhow::Ok(served?)
        });
        // A read of a terminal that never ends must not keep us.
        runtime.shutdown_background();
        served.map(|()| ExitCode::SUCCESS)
    }

    fn run_thin(&self, url: &str) -> anyhow::Result<ExitCode> {
        let token = self.token_env.as_deref().map(token).transpose()?;
        let thin = thin::Thin::new(&thin::Options { url: url.to_owned(), token })?;
        if std::io::stdin().is_terminal() {
            super::wrap::explain("my-gateway");
        }
        let runtime = super::runtime()?;
        let code = runtime.block_on(thin.run());
        // A read of a terminal that never ends must not keep us.
        runtime.shutdown_background();
        Ok(ExitCode::from(code))
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
