//! `toolgate serve [CONFIG]`

mod first_run;
pub(super) mod screen;

use std::{io::IsTerminal as _, path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::bail;
use clap::Args;
use first_run::FirstRun;
use screen::Start;
use tokio::signal::unix::{SignalKind, signal};
use toolgate_gateway::{
    config::{Config, ConfigWatch, Trigger, serve::address},
    gateway::{GatewayOptions, NamespaceSettings, RunningGateway},
    instances::{self, StatusSocket},
};

use crate::{
    chain_args::{ChainArgs, run_folder, state_folder},
    config_file,
};

/// Serve all servers of a config at one HTTP address
///
/// For clients of every protocol version. Reads the servers from a toolgate.toml or from the config of an MCP client
/// (JSON, TOML or YAML). Serves streamable HTTP at /mcp and
/// /mcp/NAMESPACE, and the HTTP+SSE transport of 2024-11-05 at /sse. Every call passes the chain of its namespace.
/// Without CONFIG, it reads toolgate.toml, .mcp.json or mcp.json in this folder, whichever it finds first.
///
/// It listens on this machine only; other addresses need tokens in the config.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
#[command(mut_arg("server", |server| server.hide(true)))]
#[command(mut_arg("namespace", |namespace| namespace.hide(true)))]
pub(crate) struct ServeCommand {
    /// A toolgate.toml, or the config of an MCP client
    #[arg(value_name = "CONFIG", conflicts_with = "config")]
    file: Option<PathBuf>,

    /// Listen on this address; can be repeated [default: 127.0.0.1:8642]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    listen: Vec<std::net::SocketAddr>,

    #[command(flatten, next_help_heading = "Config and chain")]
    chain_args: ChainArgs,
}

const HELP: &str = "\
Examples:
  toolgate serve mcp.json                     the servers of your client's config
  toolgate serve --safety readonly mcp.json   only tools that change nothing
  toolgate serve --listen 127.0.0.1:9000      another address; port 0 chooses a free one

In the config of a client:
  { \"mcpServers\": { \"toolgate\": { \"type\": \"http\", \"url\": \"http://127.0.0.1:8642/mcp\" } } }
Clients that speak stdio only:  toolgate stdio --to http://127.0.0.1:8642/mcp";

impl ServeCommand {
    pub(crate) fn run(mut self) -> anyhow::Result<ExitCode> {
        if self.chain_args.server.is_some() {
            bail!(
                "`--server` is an option of `toolgate wrap`: `toolgate serve` serves all servers of the config; leave it out"
            );
        }
        if let Some(file) = self.file.take() {
            self.chain_args.config = Some(file);
        }
        let runtime = super::runtime()?;
        let served = runtime.block_on(self.serve());
        runtime.shutdown_background();
        served.map(|()| ExitCode::SUCCESS)
    }

    /// Serves the config. Without one, it serves no server until it finds a config.
    async fn serve(mut self) -> anyhow::Result<()> {
        // The watches begin before the folder is read, so that no file is missed.
        let mut first_run = self.chain_args.config.is_none().then(FirstRun::new);
        find_config(&mut self.chain_args);
        if self.chain_args.config.is_some() {
            first_run = None;
        }
        loop {
            let served = self.serve_once(first_run.as_mut()).await;
            match (served, &mut first_run, self.chain_args.config.take()) {
                (Ok(None), first_run, _) => {
                    if let Some(first_run) = first_run.take() {
                        first_run.end().await;
                    }
                    return Ok(());
                }
                (Ok(found), ..) => self.chain_args.config = found,
                (Err(error), Some(first_run), Some(path)) => {
                    crate::log::fail(&error);
                    first_run.refuse(path);
                }
                (Err(error), ..) => return Err(error),
            }
        }
    }

    /// Serves until the process is to end, or until a config was found.
    async fn serve_once(
        &mut self,
        first_run: Option<&mut FirstRun>,
    ) -> anyhow::Result<Option<PathBuf>> {
        let options = options(&self.chain_args, &self.listen, None)?;
        let first_run = first_run.filter(|_| self.chain_args.config.is_none());
        serve(options, self, first_run).await
    }
}

/// Uses the config in this folder if none is named.
pub(crate) fn find_config(chain_args: &mut ChainArgs) {
    if chain_args.config.is_none() {
        chain_args.config =
            first_run::CONFIG_FILES.iter().map(PathBuf::from).find(|path| path.exists());
    }
}

/// The gateway that the config and the command line describe.
pub(crate) fn options(
    chain_args: &ChainArgs,
    listen: &[std::net::SocketAddr],
    only: Option<&str>,
) -> anyhow::Result<GatewayOptions> {
    let (config, watch) = chain_args.read_watched()?;
    let mut gateway_options = gateway_options(chain_args, config, watch, listen, only);
    gateway_options.manifests = Some(state_folder()?.join("manifests"));
    Ok(gateway_options)
}

/// The same for a config that was read, without a folder for cached lists.
pub(crate) fn gateway_options(
    chain_args: &ChainArgs,
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
        let chain_args = chain_args.clone();
        Arc::new(move |namespace: &str| {
            namespace_settings(&chain_args, namespace).map_err(|error| format!("{error:#}"))
        })
    };
    GatewayOptions {
        store: chain_args.store(&config),
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

pub(crate) fn namespace_settings(
    chain_args: &ChainArgs,
    namespace: &str,
) -> anyhow::Result<NamespaceSettings> {
    let mut chain_args = chain_args.clone();
    chain_args.namespace = Some(namespace.to_owned());
    let config =
        chain_args.config.as_deref().map(config_file::read).transpose()?.unwrap_or_default();
    Ok(NamespaceSettings {
        settings: chain_args.settings()?,
        trail: config.trail(namespace)?,
        telemetry: chain_args.telemetry(&config)?,
    })
}

/// Serves until the process is to end; with `first_run` at most until there is a config, which is returned.
async fn serve(
    options: GatewayOptions,
    command: &mut ServeCommand,
    first_run: Option<&mut FirstRun>,
) -> anyhow::Result<Option<PathBuf>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut reload = signal(SignalKind::user_defined1())?;
    let is_in_terminal = std::io::stderr().is_terminal();
    let settles_first = options.settles_first()?;
    let is_port_chosen = options.serve.listen.iter().any(|address| address.port() == 0);
    let serve = RunningGateway::new(options).await?;
    if settles_first {
        let settled = tokio::select! {
            settled = serve.settle() => settled.map(|()| true),
            _ = terminate.recv() => Ok(false),
            _ = interrupt.recv() => Ok(false),
        };
        if !matches!(settled, Ok(true)) {
            serve.end().await;
            return Ok(settled.map(|_| None)?);
        }
    }
    let listeners = match serve.bind() {
        Ok(listeners) => listeners,
        Err(error) => {
            serve.end().await;
            return Err(error.into());
        }
    };
    let addresses = listeners.addresses().to_vec();
    let http_server = listeners.open(&serve)?;
    screen::listening(&addresses, &serve);
    let watch = serve.config_watch();
    let _announced = command.chain_args.announce();
    let socket = status_socket();
    let start = Start { config: command.chain_args.config.as_deref(), is_port_chosen };
    let mut welcome = Box::pin(screen::welcome(&addresses, &serve, start));
    let mut is_welcomed = false;
    let mut found = Box::pin(config_of(first_run));
    let mut chosen = None;
    loop {
        tokio::select! {
            () = &mut welcome, if !is_welcomed => is_welcomed = true,
            path = &mut found, if is_welcomed => {
                chosen = Some(path);
                break;
            }
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
            _ = hangup.recv() => {
                // A terminal that closes sends it to end the program; otherwise it means to reload the config.
                if is_in_terminal {
                    break;
                }
                serve.reopen();
                serve.reload(Trigger::Asked);
            }
            _ = reload.recv() => serve.reload(Trigger::Asked),
            stream = next_status_request(socket.as_ref()) => instances::answer(stream, &serve.status(&addresses)),
            () = watch.changed() => serve.reload(Trigger::Changed),
        }
    }
    drop((welcome, found));
    tracing::info!("shutting down: finishing requests in flight first");
    http_server.stop(&serve).await;
    serve.end().await;
    if chosen.is_some() && !command.listen.is_empty() {
        // The system chose the port 0: it stays what clients know.
        command.listen = addresses;
    }
    Ok(chosen)
}

/// Waits for a config, if there is none.
async fn config_of(first_run: Option<&mut FirstRun>) -> PathBuf {
    match first_run {
        Some(first_run) => first_run.config().await,
        None => std::future::pending().await,
    }
}

/// The socket for `toolgate status`. The gateway also runs without it.
fn status_socket() -> Option<StatusSocket> {
    let bound = run_folder().and_then(|folder| Ok(StatusSocket::bind(&folder)?));
    bound
        .inspect_err(|error| {
            tracing::warn!("`toolgate status` will not find this process: {error:#}");
        })
        .ok()
}

/// Waits for the next `toolgate status`.
async fn next_status_request(socket: Option<&StatusSocket>) -> tokio::net::UnixStream {
    match socket {
        Some(socket) => socket.asked().await,
        None => std::future::pending().await,
    }
}
