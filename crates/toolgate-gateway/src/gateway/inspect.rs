//! Inspection for `toolgate check` and `toolgate why`: builds the gateway that `serve` would build and asks its servers
//! what they offer, but opens, writes and caches nothing.

use std::{collections::HashMap, sync::Arc, time::Duration};

use toolgate::{
    CallId, Chain, Context, Control, Principal, Session, Tool, ToolId,
    middleware::filter::KnownTools,
    settings::Settings,
    stack::{self, Parts},
};
use toolgate_wire::Json;

use super::{
    build::{GatewayOptions, NamespaceSettings},
    error::GatewayError,
    namespace::Namespace,
    running_gateway::{RunningGateway, ServerStatus},
};
use crate::{
    active_chain::ActiveChain,
    records::{RecordSinks, RecordsError, store_records::known_tools},
    upstream::server::Server,
};

/// How long a server may take to list what it offers, after the handshake.
const LIST_TIMEOUT: Duration = Duration::from_secs(20);

/// The result of an inspection.
#[derive(Debug)]
pub struct Inspection {
    /// The namespaces, in the order of the config.
    pub namespaces: Vec<InspectedNamespace>,
    /// The servers that were asked, by name.
    pub servers: Vec<ServerStatus>,
}

/// A namespace with its chain and the tools that its servers list.
#[derive(Debug)]
pub struct InspectedNamespace {
    chain: Arc<ActiveChain>,
    session: Arc<Session>,
    servers: Vec<Arc<str>>,
    /// Every tool that a server lists, by identity.
    pub tools: Vec<InspectedTool>,
    /// The tool of each wire name, also of names that are not listed.
    wire_names: HashMap<String, ToolId>,
    /// Tools and prompts that are left out because their names belong to others: one sentence each.
    pub collisions: Vec<String>,
    /// Tools and prompts that are listed under another name for the same reason: one sentence each.
    pub renamed: Vec<String>,
    was_asked: bool,
}

/// A tool of a server.
#[derive(Clone, Debug)]
pub struct InspectedTool {
    /// The tool.
    pub tool: Arc<Tool>,
    /// The name that clients see; `None` if the tool is left out because its name belongs to another tool.
    pub wire_name: Option<String>,
}

impl Inspection {
    /// Builds the gateway. With `asks` it starts the servers, asks them what they offer, and ends them. Returns the error
    /// with which `serve` would refuse to start.
    pub async fn new(options: GatewayOptions, asks: bool) -> Result<Self, GatewayError> {
        let order = options.inspects.clone().unwrap_or_default();
        let store = options.store.clone();
        let options = GatewayOptions { inspects: Some(order.clone()), ..options };
        let serve = RunningGateway::new(options).await?;
        if asks {
            serve.ask_servers().await;
        }
        let mut namespaces = Vec::new();
        let mut refused = serve.refuse_collisions();
        for name in &order {
            let Some(namespace) = serve.gateway.namespace(name) else { continue };
            let inspected = InspectedNamespace::new(&namespace, asks);
            if let Err(error) = inspected.approve(store.as_deref()).await {
                refused = refused.and(Err(error));
            }
            namespaces.push(inspected);
        }
        let servers = serve.servers();
        serve.end().await;
        refused.map(|()| Self { namespaces, servers })
    }

    /// Inspects a server that is built into this program, whose tools are known. `parts` has what belongs to the server's
    /// own chain, such as preconditions.
    pub fn of_tools(
        (namespace, server): (&str, &str),
        set: &NamespaceSettings,
        store: Option<&str>,
        definitions: &[serde_json::Value],
        mut parts: Parts,
    ) -> Result<Self, GatewayError> {
        let failed = |error: RecordsError| GatewayError::Settings(error.to_string());
        let (trail, telemetry) = (set.trail.as_ref(), set.telemetry.as_ref());
        let silent = RecordSinks::silent(store, trail, telemetry, &set.settings).map_err(failed)?;
        (parts.log, parts.trail) = (silent.log, silent.trail);
        parts.inputs = silent.inputs;
        parts.only_explains = true;
        let stack = stack::build_with(&set.settings, parts)?;
        let chain = ActiveChain::new(stack, set.settings.clone());
        let tools = definitions.iter().filter_map(|definition| {
            let definition = Json::value(definition);
            let id = ToolId::new(server, definition.get("name")?.text()?.as_ref());
            Some(Tool::listed(id, definition, &chain.rules))
        });
        let tools: Vec<Tool> = tools.collect();
        let ids: Vec<ToolId> = tools.iter().map(|tool| tool.id().clone()).collect();
        chain.stack.overrides.learn(&ids);
        chain.stack.parts().known.set(ids);
        let overrides = chain.stack.overrides.get();
        let mut tools: Vec<InspectedTool> = tools
            .into_iter()
            .map(|tool| InspectedTool {
                wire_name: Some(overrides.wire_name(tool.id()).to_owned()),
                tool: Arc::new(tool),
            })
            .collect();
        tools.sort_by_cached_key(|tool| tool.tool.id().to_string());
        let wire_names = tools
            .iter()
            .filter_map(|tool| Some((tool.wire_name.clone()?, tool.tool.id().clone())))
            .collect();
        let namespace = InspectedNamespace {
            collisions: override_collisions(&chain, &tools),
            chain: Arc::new(chain),
            session: session(namespace),
            servers: vec![server.into()],
            tools,
            wire_names,
            renamed: Vec::new(),
            was_asked: true,
        };
        Ok(Self { namespaces: vec![namespace], servers: Vec::new() })
    }
}

fn session(namespace: &str) -> Arc<Session> {
    let id = CallId::next().to_string().into();
    Arc::new(Session { id, namespace: namespace.into(), principal: Principal::local() })
}

/// Names that the config gives to a tool although they belong to another tool.
fn override_collisions(chain: &ActiveChain, tools: &[InspectedTool]) -> Vec<String> {
    let listed: Vec<ToolId> = tools.iter().map(|tool| tool.tool.id().clone()).collect();
    let collisions = chain.stack.overrides.configured().collisions(&listed);
    collisions.iter().map(ToString::to_string).collect()
}

impl RunningGateway {
    /// Starts every server, even those that start on demand, and waits until each has listed what it offers or failed.
    async fn ask_servers(&self) {
        let mut asked = tokio::task::JoinSet::new();
        for server in self.gateway.servers() {
            asked.spawn(ask(Arc::clone(server)));
        }
        asked.join_all().await;
        self.gateway.namespaces().for_each(|namespace| namespace.rebuild());
    }
}

async fn ask(server: Arc<Server>) {
    if server.connection(None).await.is_ok() {
        let _ = tokio::time::timeout(LIST_TIMEOUT, server.wait_for_state()).await;
    }
}

impl InspectedNamespace {
    fn new(namespace: &Namespace, was_asked: bool) -> Self {
        let (chain, snapshot) = (namespace.active_chain(), namespace.snapshot());
        let shown = snapshot.tools.iter().filter_map(|tool| {
            let name = tool.definition()?.get("name")?.text()?.into_owned();
            let wire_name = Some(name);
            Some((tool.id().clone(), InspectedTool { tool: Arc::clone(tool), wire_name }))
        });
        let shown: HashMap<ToolId, InspectedTool> = shown.collect();
        let mut tools: HashMap<ToolId, InspectedTool> = HashMap::new();
        for offered in &snapshot.offered {
            let listed = offered.manifest.iter().flat_map(|manifest| manifest.tools.entries.iter());
            for definition in listed {
                let Some(name) = definition.get("name") else { continue };
                let Some(name) = name.text() else { continue };
                let id = ToolId::new(Arc::clone(&offered.server.name), name.as_ref());
                let left_out = || InspectedTool {
                    tool: Arc::new(Tool::listed(id.clone(), definition.clone(), &chain.rules)),
                    wire_name: None,
                };
                let tool = shown.get(&id).cloned().unwrap_or_else(left_out);
                tools.insert(id, tool);
            }
        }
        let mut tools: Vec<InspectedTool> = tools.into_values().collect();
        tools.sort_by_cached_key(|tool| tool.tool.id().to_string());
        let mut collisions = override_collisions(&chain, &tools);
        let (renamed, left_out): (Vec<_>, Vec<_>) =
            snapshot.collisions.iter().partition(|collision| collision.instead.is_some());
        collisions.extend(left_out.iter().map(ToString::to_string));
        let renamed = renamed.iter().map(ToString::to_string).collect();
        Self {
            chain,
            session: session(&namespace.name),
            servers: namespace.servers.iter().map(|server| Arc::clone(&server.name)).collect(),
            tools,
            wire_names: snapshot.wire_names(),
            collisions,
            renamed,
            was_asked,
        }
    }

    /// With quarantine, tells the chain which tools count as approved: those in the store, and the first list of each server
    /// that is not in the store.
    async fn approve(&self, store: Option<&str>) -> Result<(), GatewayError> {
        let Some(url) = store.filter(|_| self.chain.quarantines()) else { return Ok(()) };
        let known = known_tools(url, &self.session.namespace).await;
        let mut known = known.map_err(|error| GatewayError::Settings(error.to_string()))?;
        let is_new = |server: &str| known.iter().all(|tool| tool.server() != server);
        let new: Vec<&Arc<str>> = self.servers.iter().filter(|server| is_new(server)).collect();
        let listed = self.tools.iter().map(|tool| tool.tool.id());
        let first: Vec<ToolId> = listed
            .filter(|id| new.iter().any(|server| &***server == id.server()))
            .cloned()
            .collect();
        known.extend(first);
        let approved: &KnownTools = &self.chain.stack.parts().known;
        approved.set(known);
        Ok(())
    }

    /// The name of the namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.session.namespace
    }

    /// The servers of the namespace, in order.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|server| &**server)
    }

    /// Whether the servers were asked what they offer.
    #[must_use]
    pub fn was_asked(&self) -> bool {
        self.was_asked && !self.servers.is_empty()
    }

    /// The chain.
    #[must_use]
    pub fn chain(&self) -> &Chain {
        &self.chain.stack.chain
    }

    /// The settings of the chain.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.chain.settings
    }

    /// The session for calls of the inspection.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The tool of this identity, as its server lists it.
    #[must_use]
    pub fn tool(&self, id: &ToolId) -> Option<&InspectedTool> {
        self.tools.iter().find(|tool| tool.tool.id() == id)
    }

    /// The tool that a call by this wire name reaches.
    #[must_use]
    pub fn by_wire_name(&self, name: &str) -> Option<&InspectedTool> {
        self.tool(self.wire_names.get(name)?)
    }

    /// The tools with this name at their servers.
    pub fn by_own_name<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a InspectedTool> {
        self.tools.iter().filter(move |tool| tool.tool.id().name() == name)
    }

    /// A tool that no server lists.
    #[must_use]
    pub fn unlisted(&self, id: ToolId) -> Arc<Tool> {
        Arc::new(Tool::unlisted(id, &self.chain.rules))
    }

    /// Applies control data to the context of a call. The control data contains wire names.
    #[must_use]
    pub fn narrowed(&self, cx: Context, mut control: Control) -> Context {
        control.translate(|name| self.wire_names.get(name).cloned());
        cx.with_control(control)
    }
}
