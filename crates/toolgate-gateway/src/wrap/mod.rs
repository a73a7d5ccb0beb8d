//! `toolgate wrap`: one client over stdio, one server as a child process, the chain in between.
//!
//! The two directions are `client` and `server`; a request that the chain looks at takes the way
//! through `requests` and `upstream`, everything else is passed on as the bytes that came in.

mod asking;
mod client;
mod governance;
mod hub;
mod inspect;
mod life;
mod memory;
mod pending;
mod questions;
mod reload;
mod reply;
mod requests;
mod restart;
mod server;
mod tools;
mod upstream;

use std::{path::PathBuf, sync::Arc, time::Duration};

use governance::Governance;
use hub::Hub;
pub use inspect::Inspection;
use memory::Memory;
use toolgate::{
    Principal, Session,
    settings::Settings,
    stack::{Parts, StackError},
};

use crate::{
    outbound::{child::ServerCommand, trail::TrailConfig},
    telemetry::{self, Exporters, TelemetryConfig},
};

/// The id of a wrapped server that no config names: its tools are `main/NAME`.
pub const SERVER: &str = "main";

/// The namespace that a wrapped server joins where nothing else is said.
pub const NAMESPACE: &str = "default";

/// Reads the settings, once at the start and again whenever their file changes.
pub type SettingsSource = Arc<dyn Fn() -> Result<Settings, String> + Send + Sync>;

/// What to wrap, and how.
#[derive(Clone)]
pub struct Options {
    /// The id of the server: its tools are `ID/NAME`.
    pub name: String,
    /// The namespace that it joins.
    pub namespace: String,
    /// The server.
    pub server: ServerCommand,
    /// What the chain is set to.
    pub settings: SettingsSource,
    /// Where the call log is kept, as `sqlite:FILE`; there is none if not set.
    pub store: Option<String>,
    /// Where records of calls are sent; nowhere if not set.
    pub trail: Option<TrailConfig>,
    /// Where spans and metrics go; nowhere if not set.
    pub telemetry: Option<TelemetryConfig>,
    /// The file that the settings come from, to be watched.
    pub watch: Option<PathBuf>,
    /// Start the server again when it ends by itself.
    pub restart: bool,
    /// How long it may take to answer `initialize`.
    pub start_timeout: Duration,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why a server cannot be wrapped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WrapError {
    /// The settings cannot be read.
    #[error("{0}")]
    Settings(String),
    /// The chain cannot be built.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// The server could not be looked at.
    #[error("cannot look at the server's tools: {0}")]
    Inspection(String),
}

/// Everything but the server itself.
fn hub_for(
    options: &Options,
    settings: &Settings,
    memory: Memory,
    parts: Parts,
) -> Result<Hub, WrapError> {
    let server: Arc<str> = options.name.as_str().into();
    let governance = Governance::new(Arc::clone(&server), settings.clone(), parts)?;
    let id: Arc<str> = toolgate::CallId::next().to_string().into();
    let namespace = options.namespace.as_str().into();
    let session = Session { id, namespace, principal: Principal::local() };
    Ok(Hub::new(server, governance, session, settings, options.start_timeout, memory))
}

/// A server with a chain in front of it, ready to run.
#[derive(Debug)]
pub struct Wrap {
    options: Options,
    hub: Arc<Hub>,
    exporters: Option<Exporters>,
}

impl Wrap {
    /// Opens the store and builds the chain; refuses what does not fit together.
    pub async fn new(options: Options) -> Result<Self, WrapError> {
        let settings = (options.settings)().map_err(WrapError::Settings)?;
        let (memory, mut parts) = Memory::open(&options, &settings).await?;
        let mut exporters = None;
        if let Some(config) = &options.telemetry {
            let started = telemetry::start(config, &settings.audit).map_err(WrapError::Settings)?;
            let (instruments, output) = started.0;
            parts.telemetry = Some(instruments);
            parts.audit_outputs.extend(output);
            exporters = started.1;
        } else if settings.audit.otlp {
            return Err(WrapError::Settings(telemetry::NO_COLLECTOR.to_owned()));
        }
        let hub = Arc::new(hub_for(&options, &settings, memory, parts)?);
        Ok(Self { options, hub, exporters })
    }

    /// Runs until the client is gone, the server is gone for good, or a signal comes. Gives the exit code.
    pub async fn run(self) -> u8 {
        let code = life::run(&self.hub, &self.options).await;
        let governance = self.hub.governance();
        // Before the memory, which some of its records go to.
        if let Some(audit) = &governance.stack.audit {
            // Blocks, but nothing else runs any more.
            audit.close(Duration::from_secs(5));
            let lost = audit.counts().lost();
            if lost > 0 {
                tracing::error!(lost, "audit records were lost");
            }
        }
        if let Some(memory) = self.hub.take_memory() {
            memory.close(governance.stack.parts()).await;
        }
        if let Some(exporters) = self.exporters {
            exporters.finish(Duration::from_secs(5));
        }
        code
    }
}
