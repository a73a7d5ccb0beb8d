//! Looking at a server without a client: started, asked for its tools, ended.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;
use toolgate::{
    Chain, Session, Tool,
    middleware::{overrides::Resolved, telemetry::Instruments},
    settings::Settings,
    stack::Parts,
};
use toolgate_wire::{Json, Shape, notification, request};

use crate::telemetry;

use super::{
    Options, WrapError, asking,
    governance::Governance,
    hub::{Hub, Link},
    life,
    memory::{self, Memory},
    upstream::exchange,
};

/// A server's tools, as the settings judge them.
#[derive(Debug)]
pub struct Inspection {
    governance: Arc<Governance>,
    session: Arc<Session>,
    /// Every tool that the server lists, by name; empty where no server was asked.
    pub tools: Vec<Arc<Tool>>,
}

impl Inspection {
    /// Judges by the settings alone, without asking any server.
    pub fn of_settings(options: &Options) -> Result<Self, WrapError> {
        let settings = (options.settings)().map_err(WrapError::Settings)?;
        // A log that nobody writes down: the chain is shown as it would run.
        let log = options.store.as_ref().map(|_| memory::log_to_nowhere(&settings)).transpose()?;
        let trail =
            options.trail.as_ref().map(|_| memory::log_to_nowhere(&settings)).transpose()?;
        let parts = Parts {
            log,
            trail,
            telemetry: silent(options)?,
            only_explains: true,
            ..Parts::default()
        };
        let hub = super::hub_for(options, &settings, Memory::default(), parts)?;
        let (governance, session) = (hub.governance(), Arc::clone(&hub.session));
        Ok(Self { governance, session, tools: Vec::new() })
    }

    /// Starts the server, asks it for its tools, and ends it.
    pub async fn of_server(options: &Options) -> Result<Self, WrapError> {
        let settings = (options.settings)().map_err(WrapError::Settings)?;
        let parts = Parts { telemetry: silent(options)?, only_explains: true, ..Parts::default() };
        let hub = Arc::new(super::hub_for(options, &settings, Memory::default(), parts)?);
        let mut running = life::start(&hub, &options.server)
            .map_err(|error| WrapError::Inspection(error.to_string()))?;
        hub.set_link(Link::Up(Arc::clone(&running.outbox)));
        let asked = tokio::select! {
            asked = ask(&hub) => asked,
            ending = running.server.ended() => Err(format!("the server ended: {ending}")),
        };
        running.outbox.close();
        running.server.end(Duration::from_millis(500)).await;
        asked.map_err(WrapError::Inspection)?;
        let (governance, session) = (hub.governance(), Arc::clone(&hub.session));
        let mut tools = governance.tools.all();
        tools.sort_by(|a, b| a.id().name().cmp(b.id().name()));
        if let Some(url) = options.store.as_ref().filter(|_| governance.quarantines()) {
            let mut known = memory::known_tools(url, &options.namespace).await?;
            if known.is_empty() {
                // The first run will trust them all.
                known = tools.iter().map(|tool| tool.id().clone()).collect();
            }
            governance.stack.parts().known.set(known);
        }
        Ok(Self { governance, session, tools })
    }

    /// Judges tools that no server has to be asked for, by settings that are settled. `parts` are those of the
    /// server's own, such as preconditions.
    pub fn of_tools(
        options: &Options,
        settings: &Settings,
        definitions: &[serde_json::Value],
        parts: Parts,
    ) -> Result<Self, WrapError> {
        let log = options.store.as_ref().map(|_| memory::log_to_nowhere(settings)).transpose()?;
        let trail = options.trail.as_ref().map(|_| memory::log_to_nowhere(settings)).transpose()?;
        let parts = Parts { log, trail, telemetry: silent(options)?, only_explains: true, ..parts };
        let hub = super::hub_for(options, settings, Memory::default(), parts)?;
        let (governance, session) = (hub.governance(), Arc::clone(&hub.session));
        governance.tools.list(definitions);
        governance.settle_names();
        let mut tools = governance.tools.all();
        tools.sort_by(|a, b| a.id().name().cmp(b.id().name()));
        governance.stack.parts().known.set(tools.iter().map(|tool| tool.id().clone()).collect());
        Ok(Self { governance, session, tools })
    }

    /// The id of the server.
    #[must_use]
    pub fn server(&self) -> &str {
        self.governance.tools.server()
    }

    /// The tool of this name: the server's own name for it, else the one that clients see. One of which only
    /// the name is known where no listing had it.
    #[must_use]
    pub fn tool(&self, name: &str) -> Arc<Tool> {
        let tools = &self.governance.tools;
        let overrides = self.governance.stack.overrides.get();
        let listed = tools.listed(name).or_else(|| match overrides.resolve(tools.server(), name) {
            Resolved::Tool(own) => tools.listed(own),
            Resolved::Gone => None,
        });
        listed.unwrap_or_else(|| tools.unlisted(name))
    }

    /// New names of tools that do not hold, because another tool has them.
    #[must_use]
    pub fn collisions(&self) -> Vec<String> {
        let listed: Vec<_> = self.tools.iter().map(|tool| tool.id().clone()).collect();
        let collisions = self.governance.stack.overrides.configured().collisions(&listed);
        collisions.iter().map(ToString::to_string).collect()
    }

    /// The chain.
    #[must_use]
    pub fn chain(&self) -> &Chain {
        self.governance.chain()
    }

    /// What the chain is set to.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        self.governance.settings()
    }

    /// The session that calls would belong to.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }
}

/// Telemetry that nobody hears of: the chain is shown as it would run.
fn silent(options: &Options) -> Result<Option<Instruments>, WrapError> {
    let config = options.telemetry.as_ref();
    config.map(telemetry::silent).transpose().map_err(WrapError::Settings)
}

/// Says initialize and learns all tools.
async fn ask(hub: &Arc<Hub>) -> Result<(), String> {
    let hello = serde_json::json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "toolgate", "version": env!("CARGO_PKG_VERSION")},
    });
    let id = hub.own_id();
    let line = request(&id, "initialize", Some(&Json::value(&hello)));
    let never = CancellationToken::new();
    let answer = tokio::time::timeout(hub.start_timeout, exchange(hub, &never, id, line, false));
    let answer = answer.await.map_err(|_| "it did not answer initialize in time".to_owned())?;
    let answer = answer.map_err(|failure| failure.to_string())?;
    if answer.shape() == Shape::Error {
        return Err("it refused initialize".to_owned());
    }
    let outbox = hub.link().map_err(|failure| failure.to_string())?;
    outbox.push(notification("notifications/initialized", None)).await;
    asking::all_tools(hub, &hub.governance()).await.map_err(|failure| failure.to_string())
}
