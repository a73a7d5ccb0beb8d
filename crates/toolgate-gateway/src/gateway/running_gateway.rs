//! The gateway itself: construction, status, and shutdown in order.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use toolgate_wire::Limits;

use super::{
    build::{ExclusiveServer, GatewayOptions, OpenedRecords},
    error::GatewayError,
    namespace::Namespace,
    suspended::SuspendedCalls,
};
use crate::{
    catalog::{
        cursor::Cursors,
        names::{AddressGroup, Collision},
    },
    clients::{legacy_session::LegacySession, session_table::SessionTable},
    config::{Start, serve::TokenConfig},
    hops,
    tokens::Tokens,
    upstream::{
        manifest::{ManifestCache, error_text},
        server::{Server, ServerDeps, ServerEvents, ServerState},
    },
    usage::{MAX_STARTS, Share, Usage},
};

/// How long closing the sessions with HTTP servers may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long server processes may take to end.
const SERVER_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// How long writing the remaining records may take.
const RECORD_FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// The shared state that requests need.
#[derive(Debug)]
pub(crate) struct Gateway {
    namespaces: BTreeMap<Box<str>, Arc<Namespace>>,
    servers: Vec<Arc<Server>>,
    pub(crate) sessions: SessionTable,
    pub(crate) suspended_calls: SuspendedCalls,
    pub(crate) cursors: Cursors,
    /// The key that seals task ids.
    pub(crate) key: [u8; 32],
    /// The bearer tokens that HTTP clients need.
    pub(crate) tokens: ArcSwap<Tokens>,
    pub(crate) stopping: CancellationToken,
}

impl Gateway {
    pub(crate) fn namespace(&self, name: &str) -> Option<Arc<Namespace>> {
        self.namespaces.get(name).cloned()
    }

    pub(crate) fn namespaces(&self) -> impl Iterator<Item = &Arc<Namespace>> {
        self.namespaces.values()
    }

    /// The servers of all namespaces.
    pub(super) fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    /// Ends a session, and its connections to servers.
    pub(crate) fn end_session(&self, session: &Arc<LegacySession>) {
        self.sessions.remove(&session.session.id);
        session.end();
        for server in &self.servers {
            server.end_session(&session.session.id);
        }
    }
}

/// A gateway that is ready to accept clients.
#[derive(Debug)]
pub struct RunningGateway {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) options: GatewayOptions,
    deps: Arc<ServerDeps>,
    /// The configured tokens that are active.
    pub(super) tokens: Mutex<BTreeMap<String, TokenConfig>>,
    opened: Option<Box<OpenedRecordsSlot>>,
}

struct OpenedRecordsSlot(OpenedRecords);

impl std::fmt::Debug for OpenedRecordsSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OpenedRecords")
    }
}

/// The status of a server, for people and scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Its name.
    pub name: String,
    /// `ready`, `starting`, `waiting` (starts when it is first needed), `stopped` (starts when it is needed again) or
    /// `failed`.
    pub state: String,
    /// Why it is in this state, if there is a reason to show.
    pub why: Option<String>,
    /// The error code of calls in this state, if it is `failed`.
    #[serde(default)]
    pub code: Option<String>,
    /// How many tools it lists, as far as the gateway knows.
    pub tools: Option<usize>,
    /// The version of the protocol that it speaks.
    pub protocol: Option<String>,
}

/// What a running gateway serves, for `toolgate status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayStatus {
    /// The process.
    pub pid: u32,
    /// The version of toolgate.
    pub version: String,
    /// The config file, if there is one.
    pub config: Option<String>,
    /// The addresses it listens on.
    pub addresses: Vec<String>,
    /// The namespaces.
    pub namespaces: Vec<String>,
    /// The servers, by name.
    pub servers: Vec<ServerStatus>,
    /// Servers that belong to no namespace.
    pub unused: Vec<String>,
    /// The names that are left out or changed because they belong to another server, one line each.
    pub names: Vec<String>,
}

fn described(state: &ServerState, server: &str) -> (&'static str, Option<String>) {
    match state {
        ServerState::Ready => ("ready", None),
        ServerState::Starting => ("starting", None),
        ServerState::Waiting => ("waiting", Some("starts when it is first needed".to_owned())),
        ServerState::Stopped => ("stopped", Some("starts when it is needed again".to_owned())),
        ServerState::Failed(why, _) => {
            // The name is already shown beside the reason.
            let known = format!("The server `{server}` ");
            ("failed", Some(why.strip_prefix(&*known).unwrap_or(why).to_owned()))
        }
    }
}

/// The limits for messages of servers. Namespaces share servers, so the largest limit of all namespaces counts.
fn largest_limits(options: &GatewayOptions, names: &[String]) -> Result<Limits, GatewayError> {
    let mut max_bytes = 0;
    for name in names {
        let namespace_settings = (options.settings)(name).map_err(GatewayError::Settings)?;
        max_bytes = max_bytes.max(namespace_settings.settings.limits.message_bytes);
    }
    Ok(Limits { max_bytes, ..Limits::default() })
}

impl RunningGateway {
    /// Builds the gateway, and begins to start the servers that are configured to start at once.
    pub async fn new(options: GatewayOptions) -> Result<Self, GatewayError> {
        let known = options.config.namespaces();
        if let Some(fault) = options.serve.fault().or_else(|| options.serve.unbound(&known)) {
            return Err(GatewayError::Settings(fault));
        }
        let random = |error: getrandom::Error| {
            GatewayError::Settings(format!("the system gives no randomness: {error}"))
        };
        let mut names: Vec<String> = known.iter().map(ToString::to_string).collect();
        if let Some(only) = &options.only {
            names.retain(|name| name == only);
        }
        if let Some(inspected) = &options.inspects {
            names.clone_from(inspected);
        }
        match (&options.exclusive, &options.only) {
            (Some(_), Some(only)) => names = vec![only.clone()],
            _ => check_access(&options)?,
        }
        let deps = Arc::new(ServerDeps {
            control: tokio::runtime::Handle::current(),
            limits: largest_limits(&options, &names)?,
            manifests: ManifestCache::new(
                options.manifests.clone().filter(|_| options.inspects.is_none()),
            ),
            starts: Semaphore::new(MAX_STARTS),
            tasks: TaskTracker::new(),
            session_ends: TaskTracker::new(),
            events: OnceLock::new(),
        });
        let servers = servers(&options, &names, &deps)?;
        let tokens = Tokens::new(&options.serve.tokens)
            .map_err(|error| GatewayError::Settings(error.to_string()))?;
        // A stdio gateway has exactly one client.
        let principals = if options.only.is_some() { 1 } else { options.serve.tokens.len() };
        let share = Share::new(options.serve.per_principal, principals);
        let usage = Usage::new(share, options.serve.sessions, options.serve.subscriptions);
        let usage = Arc::new(usage);
        let mut opened = OpenedRecords::default();
        let mut namespaces = BTreeMap::new();
        for name in &names {
            let namespace = opened.namespace(name, &options, &servers, &usage).await?;
            namespaces.insert(name.as_str().into(), Arc::new(namespace));
        }
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(random)?;
        let gateway = Arc::new(Gateway {
            namespaces,
            servers: servers.into_values().collect(),
            sessions: SessionTable::new(options.serve.session_idle.get()),
            suspended_calls: SuspendedCalls::default(),
            cursors: Cursors::new().map_err(random)?,
            key,
            tokens: ArcSwap::from_pointee(tokens),
            stopping: CancellationToken::new(),
        });
        let watch: Weak<dyn ServerEvents> =
            Arc::<Gateway>::downgrade(&gateway) as Weak<dyn ServerEvents>;
        let _ = deps.events.set(watch);
        let tokens = Mutex::new(options.serve.tokens.clone());
        let opened = Some(Box::new(OpenedRecordsSlot(opened)));
        let serve = Self { gateway, options, deps, tokens, opened };
        serve.sweep_periodically();
        serve.keep_fresh();
        // An inspection starts the servers itself.
        for server in serve.gateway.servers.iter().filter(|_| serve.options.inspects.is_none()) {
            server.start_at_once();
        }
        Ok(serve)
    }

    /// The error for names that are already known to collide.
    pub(super) fn refuse_collisions(&self) -> Result<(), GatewayError> {
        for namespace in self.gateway.namespaces() {
            if let Some(collision) = namespace.collision() {
                let namespace = namespace.name.to_string();
                return Err(GatewayError::Collision { namespace, collision });
            }
        }
        Ok(())
    }

    /// Waits until the servers that start at once have listed what they offer, and refuses names that collide.
    pub async fn settle(&self) -> Result<(), GatewayError> {
        let mut waiting = tokio::task::JoinSet::new();
        for server in self.gateway.servers.iter().filter(|s| s.config.start == Start::AtOnce) {
            let server = Arc::clone(server);
            // A cached manifest may be outdated, so wait for a fresh listing.
            waiting.spawn(async move {
                let _ = tokio::time::timeout(server.config.start_timeout, server.wait_for_state())
                    .await;
            });
        }
        waiting.join_all().await;
        self.refuse_collisions()
    }

    /// Starts the task that ends idle sessions and drops suspended calls whose time is over.
    fn sweep_periodically(&self) {
        let gateway = Arc::downgrade(&self.gateway);
        let every = self.gateway.sessions.sweep_interval();
        let stopping = self.gateway.stopping.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = tokio::time::sleep(every) => {}
                    () = stopping.cancelled() => return,
                }
                let Some(gateway) = gateway.upgrade() else { return };
                for session in gateway.sessions.take_idle() {
                    tracing::debug!("a session is ended: it was idle for too long");
                    gateway.end_session(&session);
                }
                gateway.suspended_calls.sweep();
                gateway.sessions.all().iter().for_each(|session| session.replay.sweep());
                if let Some(idle) = gateway.sessions.idle_timeout() {
                    gateway.servers.iter().for_each(|server| server.sweep(idle));
                }
            }
        });
    }

    /// The status of all servers, by name.
    #[must_use]
    pub fn servers(&self) -> Vec<ServerStatus> {
        let mut served: Vec<ServerStatus> = self
            .gateway
            .servers
            .iter()
            .map(|server| {
                let manifest = server.manifest();
                let state = server.state();
                let code = match &state {
                    ServerState::Failed(_, code) => Some(code.name().to_owned()),
                    _ => None,
                };
                let (state, why) = described(&state, &server.name);
                let failure = manifest.as_ref().and_then(|manifest| manifest.failures().next());
                let why = why.or_else(|| {
                    let (list, error) = failure?;
                    Some(format!("cannot list its {}: {}", list.name(), error_text(error)))
                });
                ServerStatus {
                    name: server.name.to_string(),
                    state: state.to_owned(),
                    why,
                    code,
                    tools: manifest.as_ref().map(|manifest| manifest.tools.entries.len()),
                    protocol: manifest
                        .as_ref()
                        .map(|manifest| manifest.server_info.version.to_string()),
                }
            })
            .collect();
        served.sort_by(|one, two| one.name.cmp(&two.name));
        served
    }

    /// The servers of the config that belong to no namespace.
    #[must_use]
    pub fn without_namespace(&self) -> Vec<String> {
        self.options.config.without_namespace().iter().map(ToString::to_string).collect()
    }

    /// The current status.
    #[must_use]
    pub fn status(&self, addresses: &[SocketAddr]) -> GatewayStatus {
        GatewayStatus {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            config: self.options.watch.path().map(|path| {
                let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
                path.display().to_string()
            }),
            addresses: addresses.iter().map(ToString::to_string).collect(),
            namespaces: self.namespaces(),
            servers: self.servers(),
            unused: self.without_namespace(),
            names: self.names_not_given(),
        }
    }

    /// Whether clients need a token.
    #[must_use]
    pub fn needs_token(&self) -> bool {
        !self.options.serve.tokens.is_empty()
    }

    /// The names that are left out or changed because they belong to another server, one line each. Names that are left
    /// out come first.
    #[must_use]
    pub fn names_not_given(&self) -> Vec<String> {
        self.names_lines(|collisions| {
            collisions.iter().map(|one| (one.instead.is_some(), one.to_string())).collect()
        })
    }

    /// The same in short: one line for all URIs that two servers share.
    #[must_use]
    pub fn names_in_short(&self) -> Vec<String> {
        self.names_lines(|collisions| {
            let groups = AddressGroup::of(collisions);
            let names = collisions.iter().filter(|collision| !collision.is_address);
            let names = names.map(|one| (one.instead.is_some(), one.to_string()));
            groups.iter().map(|group| (false, group.to_string())).chain(names).collect()
        })
    }

    fn names_lines(&self, told: impl Fn(&[Collision]) -> Vec<(bool, String)>) -> Vec<String> {
        let mut lines = Vec::new();
        for namespace in self.gateway.namespaces() {
            let told = told(&namespace.snapshot().collisions);
            let line = |text| format!("namespace `{}`: {text}", namespace.name);
            lines.extend(told.into_iter().map(|(is_listed, text)| (is_listed, line(text))));
        }
        lines.sort();
        lines.into_iter().map(|(_, line)| line).collect()
    }

    /// The names of the namespaces.
    #[must_use]
    pub fn namespaces(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.gateway.namespaces().map(|n| n.name.to_string()).collect();
        names.sort();
        names
    }

    /// Closes notification streams and subscriptions; other requests continue.
    pub fn close(&self) {
        self.gateway.stopping.cancel();
        for session in self.gateway.sessions.all() {
            session.notifications.close();
        }
    }

    /// Ends everything in order: sessions, servers, records. The caller must first end the transports
    /// ([`HttpServer`](crate::HttpServer)).
    pub async fn end(mut self) {
        self.close();
        self.gateway.suspended_calls.clear();
        for session in self.gateway.sessions.all() {
            self.gateway.end_session(&session);
        }
        for server in &self.gateway.servers {
            server.stop();
        }
        self.deps.session_ends.close();
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.deps.session_ends.wait()).await;
        self.deps.tasks.close();
        if tokio::time::timeout(SERVER_SHUTDOWN_TIMEOUT, self.deps.tasks.wait()).await.is_err() {
            tracing::warn!("some servers did not end in time");
        }
        for namespace in self.gateway.namespaces() {
            // A reload may have changed the audit file since the start.
            if let Some(audit) = &namespace.current_chain().stack.audit {
                audit.close(RECORD_FLUSH_TIMEOUT);
            }
        }
        if let Some(opened) = self.opened.take() {
            opened.0.close().await;
        }
    }
}

/// Refuses a config in which a server leads back to this gateway, and warns of likely mistakes.
fn check_access(options: &GatewayOptions) -> Result<(), GatewayError> {
    let config = &options.config;
    // An inspection reports likely mistakes itself.
    let is_running = options.inspects.is_none();
    if let Some(only) = &options.only {
        config.servers_of(only).map_err(|error| GatewayError::Settings(error.to_string()))?;
    } else {
        for server in config.without_namespace().iter().filter(|_| is_running) {
            tracing::warn!(
                "the server `{server}` belongs to no namespace, so no client can reach it: add it to the `servers` of \
                 one, or remove it"
            );
        }
        let listen = &options.serve.listen;
        let mut servers = config.servers().iter();
        if let Some(why) = servers.find_map(|(name, server)| hops::leads_here(name, server, listen))
        {
            return Err(GatewayError::Settings(why));
        }
    }
    for warning in config.exposure(None).iter().filter(|_| is_running) {
        tracing::warn!("{warning}");
    }
    Ok(())
}

fn servers(
    options: &GatewayOptions,
    namespaces: &[String],
    deps: &Arc<ServerDeps>,
) -> Result<HashMap<Arc<str>, Arc<Server>>, GatewayError> {
    if let Some(ExclusiveServer { name, command, start_timeout, .. }) = &options.exclusive {
        let name: Arc<str> = name.as_str().into();
        let (command, shared) = (command.clone(), Arc::clone(deps));
        let server = Server::for_one_client(Arc::clone(&name), command, *start_timeout, shared);
        return Ok(HashMap::from([(name, server)]));
    }
    let mut needed: Vec<String> = Vec::new();
    for namespace in namespaces {
        let names = options.config.servers_of(namespace);
        needed.extend(names.map_err(|error| GatewayError::Settings(error.to_string()))?);
    }
    let configured = options.config.servers().iter().filter(|(name, _)| needed.contains(*name));
    let mut servers = HashMap::new();
    for (name, config) in configured {
        let name: Arc<str> = name.as_str().into();
        let config = options.config.with_command(&name, config);
        let config = config.map_err(|error| {
            GatewayError::Settings(format!("`{name}` cannot be started: {error}"))
        })?;
        servers.insert(Arc::clone(&name), Server::new(name, config, Arc::clone(deps)));
    }
    Ok(servers)
}
