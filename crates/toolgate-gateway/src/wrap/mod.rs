//! `toolgate wrap`: one client over stdio, one server as a child process, the chain in between.
//!
//! The two directions are `client` and `server`; a request that the chain looks at takes the way
//! through `requests` and `upstream`, everything else is passed on as the bytes that came in.

mod asking;
mod client;
pub(crate) mod governance;
mod hub;
mod inspect;
mod life;
pub(crate) mod memory;
mod outlets;
mod pending;
mod questions;
pub(crate) mod reload;
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
pub use outlets::Outlets;
pub use reload::Trigger;
use toolgate::{
    Principal, Session,
    settings::Settings,
    stack::{Parts, StackError},
};

use crate::{
    approvals,
    outbound::{child::ServerCommand, trail::TrailConfig},
    telemetry::{Exporters, TelemetryConfig},
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
        let (Outlets { memory, exporters }, mut parts) = Outlets::open(
            options.store.as_deref(),
            options.trail.as_ref(),
            options.telemetry.as_ref(),
            &settings,
        )
        .await?;
        parts.approvals = approvals::in_state_folder(&approvals::Scope::Server(&options.server));
        let hub = Arc::new(hub_for(&options, &settings, memory, parts)?);
        Ok(Self { options, hub, exporters })
    }

    /// Runs until the client is gone, the server is gone for good, or a signal comes. Gives the exit code.
    /// `ready` is called when signals are taken; what it gives is kept until the end.
    pub async fn run<T>(self, ready: impl FnOnce() -> T) -> u8 {
        let code = life::run(&self.hub, &self.options, ready).await;
        let governance = self.hub.governance();
        let outlets = self.hub.take_memory();
        let outlets = Outlets { memory: outlets.unwrap_or_default(), exporters: self.exporters };
        outlets.close(&governance.stack).await;
        code
    }
}
