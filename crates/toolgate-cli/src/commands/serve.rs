//! `toolgate serve [CONFIG]`

pub(super) mod screen;

use std::{io::IsTerminal as _, path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::{Context as _, bail};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use toolgate_gateway::{
    config::{Config, ConfigWatch, Trigger, serve::address},
    gateway::{GatewayOptions, NamespaceSettings, RunningGateway},
    instances::{self, StatusSocket},
};

use crate::{
    config_file,
    overlay::{Overlay, run_folder, state_folder},
};

/// Serve many MCP servers as one, over HTTP, to clients of every protocol version
///
/// Reads the servers from a toolgate.toml, or from the mcp.json of an existing client, and offers them at one address:
/// streamable HTTP at /mcp and /mcp/NAMESPACE, the older transport at /sse. Every call passes the chain of its namespace,
/// as with `toolgate wrap`. Without CONFIG it takes toolgate.toml, .mcp.json or mcp.json of this folder.
///
/// It listens on this machine only, unless the config names tokens for those who may use it.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
#[command(mut_arg("server", |server| server.hide(true)))]
#[command(mut_arg("namespace", |namespace| namespace.hide(true)))]
pub(crate) struct ServeCommand {
    /// A toolgate.toml, or the mcp.json of an existing client
    #[arg(value_name = "CONFIG", conflicts_with = "config")]
    file: Option<PathBuf>,

    /// The address to listen on; can be repeated [default: 127.0.0.1:8642]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    listen: Vec<std::net::SocketAddr>,

    #[command(flatten, next_help_heading = "The chain of every namespace")]
    overlay: Overlay,
}

const HELP: &str = "\
Examples:
  toolgate serve mcp.json                     what your client has now, governed
  toolgate serve --safety readonly mcp.json   only tools that change nothing
  toolgate serve --listen 127.0.0.1:9000      another address; :0 picks a free port

In the config of a client:
  { \"mcpServers\": { \"toolgate\": { \"type\": \"http\", \"url\": \"http://127.0.0.1:8642/mcp\" } } }
Clients that speak stdio only:  toolgate stdio --to http://127.0.0.1:8642/mcp";

/// Where a config is looked for.
const USUAL: [&str; 3] = ["toolgate.toml", ".mcp.json", "mcp.json"];

impl ServeCommand {
    pub(crate) fn run(mut self) -> anyhow::Result<ExitCode> {
        if self.overlay.server.is_some() {
            bail!("`--server` names a server to wrap; `toolgate serve` serves all of the config");
        }
        if let Some(file) = self.file.take() {
            self.overlay.config = Some(file);
        }
        find_config(&mut self.overlay);
        let options = options(&self.overlay, &self.listen, None)?;
        let runtime = super::runtime()?;
        let code = runtime.block_on(serve(options, &self.overlay));
        runtime.shutdown_background();
        code
    }
}

/// The config of this folder, where none is named.
pub(crate) fn find_config(overlay: &mut Overlay) {
    if overlay.config.is_none() {
        overlay.config = USUAL.iter().map(PathBuf::from).find(|path| path.exists());
    }
}

/// What to serve, by the config and the command line.
pub(crate) fn options(
    overlay: &Overlay,
    listen: &[std::net::SocketAddr],
    only: Option<&str>,
) -> anyhow::Result<GatewayOptions> {
    let (config, watch) = overlay.read_watched()?;
    let mut plan = plan(overlay, config, watch, listen, only);
    let folder = state_folder().context("no place to remember what servers offer")?;
    plan.manifests = Some(folder.join("manifests"));
    Ok(plan)
}

/// The same for a config that was read, without a place to remember what servers offer.
pub(crate) fn plan(
    overlay: &Overlay,
    config: Config,
    watch: ConfigWatch,
    listen: &[std::net::SocketAddr],
    only: Option<&str>,
) -> GatewayOptions {
    let mut serve = config.serve();
    if !listen.is_empty() {
        serve.listen = listen.to_vec();
    }
    let settings = {
        let overlay = overlay.clone();
        Arc::new(move |namespace: &str| {
            said(&overlay, namespace).map_err(|error| format!("{error:#}"))
        })
    };
    GatewayOptions {
        store: overlay.store(&config),
        watch,
        manifests: None,
        only: only.map(str::to_owned),
        exclusive: None,
        inspects: None,
        settings,
        serve,
        config,
    }
}

pub(crate) fn said(overlay: &Overlay, namespace: &str) -> anyhow::Result<NamespaceSettings> {
    let mut overlay = overlay.clone();
    overlay.namespace = Some(namespace.to_owned());
    let config = overlay.config.as_deref().map(config_file::read).transpose()?.unwrap_or_default();
    Ok(NamespaceSettings {
        settings: overlay.settings()?,
        trail: config.trail(namespace)?,
        telemetry: overlay.telemetry(&config)?,
    })
}

async fn serve(options: GatewayOptions, overlay: &Overlay) -> anyhow::Result<ExitCode> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut asked = signal(SignalKind::user_defined1())?;
    let is_in_terminal = std::io::stderr().is_terminal();
    let settles_first = options.settles_first()?;
    let serve = RunningGateway::new(options).await?;
    if settles_first {
        let settled = tokio::select! {
            settled = serve.settle() => settled.map(|()| true),
            _ = terminate.recv() => Ok(false),
            _ = interrupt.recv() => Ok(false),
        };
        if !matches!(settled, Ok(true)) {
            serve.end().await;
            return Ok(settled.map(|_| ExitCode::SUCCESS)?);
        }
    }
    let entrance = match serve.bind() {
        Ok(entrance) => entrance,
        Err(error) => {
            serve.end().await;
            return Err(error.into());
        }
    };
    let addresses = entrance.addresses().to_vec();
    let doorkeeper = entrance.open(&serve)?;
    screen::listening(&addresses, &serve);
    let watch = serve.config_watch();
    let _announced = overlay.announce();
    let socket = status_socket();
    let mut welcome = Box::pin(screen::welcome(&addresses, &serve));
    let mut is_welcomed = false;
    loop {
        tokio::select! {
            () = &mut welcome, if !is_welcomed => is_welcomed = true,
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => {
                // A terminal that is closed ends what runs in it; without one it is the word to read the config again.
                if is_in_terminal {
                    break;
                }
                serve.reopen();
                serve.reload(Trigger::Asked);
            }
            _ = asked.recv() => serve.reload(Trigger::Asked),
            stream = next_status_request(socket.as_ref()) => instances::answer(stream, &serve.status(&addresses)),
            () = watch.changed() => serve.reload(Trigger::Changed),
        }
    }
    drop(welcome);
    tracing::info!("ending: requests under way are finished first");
    doorkeeper.stop(&serve).await;
    serve.end().await;
    Ok(ExitCode::SUCCESS)
}

/// Where `toolgate status` asks. The gateway runs without it, too.
fn status_socket() -> Option<StatusSocket> {
    let bound = run_folder().and_then(|folder| Ok(StatusSocket::bind(&folder)?));
    bound
        .inspect_err(|error| {
            tracing::warn!("`toolgate status` will not find this process: {error:#}");
        })
        .ok()
}

/// The next one that asks for the status.
async fn next_status_request(socket: Option<&StatusSocket>) -> tokio::net::UnixStream {
    match socket {
        Some(socket) => socket.asked().await,
        None => std::future::pending().await,
    }
}
