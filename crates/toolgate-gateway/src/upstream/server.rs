//! A server of the config: opens connections to it when they are needed, starts it again when it fails, and holds its
//! manifest.

mod connection_slots;

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
pub(super) use connection_slots::ConnectionScope;
pub(crate) use connection_slots::{ConnectionOwner, OwnerKey};
use connection_slots::{ConnectionSlot, cache_key};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{Semaphore, watch},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use toolgate::{Code, Executed, Failure};
use toolgate_wire::{
    Json, Limits, Message, Object,
    mcp::{Era, method},
};

use super::{
    connection::Connection,
    discovery::{Discovery, ListChange},
    events::{ListKind, ReplyTo},
    failures::{LossStage, connection_lost, not_opened, unavailable},
    manifest::{ManifestCache, ServerManifest},
    subscriptions::Subscriptions,
};
use crate::{
    backoff::Backoff,
    config::{Protocol, ServerConfig, Sharing, Start},
    log_level::LogLevel,
    process::child::ServerCommand,
};

/// One server of the config.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: Arc<str>,
    pub(crate) config: ServerConfig,
    pub(crate) deps: Arc<ServerDeps>,
    pub(crate) subscriptions: Subscriptions,
    pub(super) discovery: Discovery,
    manifest: ArcSwapOption<ServerManifest>,
    state: watch::Sender<ServerState>,
    shared: Arc<ConnectionSlot>,
    /// The connection for legacy clients to a server that speaks both eras.
    legacy_slot: Arc<ConnectionSlot>,
    own: Mutex<HashMap<OwnerKey, Arc<ConnectionSlot>>>,
    started: Instant,
    used_ms: AtomicU64,
    /// The lowest log level that a client has set.
    log_level: AtomicU8,
    /// Whether the gateway gave up waiting for its lists.
    is_late: AtomicBool,
    pub(super) stop: CancellationToken,
    /// Set if one client has the server to itself.
    pub(super) exclusive: Option<Exclusive>,
}

/// How long a client's `logging/setLevel` waits for a running server.
const SET_LEVEL_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a legacy client waits for a legacy connection to a server that has a connection of 2026-07-28.
const LEGACY_CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest time for which calls to a failed address fail at once. For commands it is the backoff.
const MAX_URL_RETRY_WAIT: Duration = Duration::from_millis(250);

impl Server {
    pub(crate) fn new(name: Arc<str>, config: ServerConfig, deps: Arc<ServerDeps>) -> Arc<Self> {
        let manifest = deps.manifests.read(&name, &cache_key(&config));
        Arc::new(Self::with(name, config, deps, manifest, None))
    }

    /// A server that one client has to itself: an exclusive server.
    pub(crate) fn for_one_client(
        name: Arc<str>,
        command: ServerCommand,
        start_timeout: Duration,
        deps: Arc<ServerDeps>,
    ) -> Arc<Self> {
        let mut config = ServerConfig::default();
        config.start = Start::OnDemand;
        config.start_timeout = start_timeout;
        Arc::new(Self::with(name, config, deps, None, Some(Exclusive::new(command))))
    }

    fn with(
        name: Arc<str>,
        config: ServerConfig,
        deps: Arc<ServerDeps>,
        manifest: Option<ServerManifest>,
        exclusive: Option<Exclusive>,
    ) -> Self {
        let is_late = manifest.is_none()
            && exclusive.is_none()
            && deps.manifests.is_late(&name, &cache_key(&config));
        Self {
            name,
            config,
            deps,
            subscriptions: Subscriptions::default(),
            discovery: Discovery::default(),
            manifest: ArcSwapOption::from(manifest.map(Arc::new)),
            state: watch::Sender::new(ServerState::Waiting),
            shared: Arc::default(),
            legacy_slot: Arc::default(),
            own: Mutex::default(),
            started: Instant::now(),
            used_ms: AtomicU64::new(0),
            log_level: AtomicU8::new(u8::MAX),
            is_late: AtomicBool::new(is_late),
            stop: CancellationToken::new(),
            exclusive,
        }
    }

    /// Sets the connection that all clients share.
    pub(super) fn set_shared_connection(&self, connection: Arc<Connection>) {
        self.shared.current.store(Some(connection));
    }

    /// Starts the server, if the config says `start = "at-once"`.
    pub(crate) fn start_at_once(self: &Arc<Self>) {
        if self.config.start == Start::AtOnce {
            self.set_state(ServerState::Starting);
            let supervised = Arc::clone(self);
            self.deps.control.spawn(async move { supervised.supervise().await });
        }
    }

    /// Whether one client has the server to itself.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.exclusive.is_some()
    }

    /// Sets why an exclusive server cannot be reached.
    pub(crate) fn set_down(&self, why: &str) {
        if let Some(exclusive) = &self.exclusive {
            *exclusive.why_down.lock() = why.into();
        }
    }

    /// The failure of a request to an exclusive server that is down.
    fn not_running(&self) -> Option<Failure> {
        let why = Arc::clone(&self.exclusive.as_ref()?.why_down.lock());
        let message = format!("The server `{}` is not running: {why}", self.name);
        let failure = Failure::new(Code::ServerUnavailable, message);
        Some(failure.suggest("Try again in a moment.").with_executed(Executed::No))
    }

    /// Whether each session has a connection of its own.
    pub(crate) fn is_per_session(&self) -> bool {
        self.config.sharing == Sharing::Session
    }

    /// The manifest; `None` until the server has listed once.
    pub(crate) fn manifest(&self) -> Option<Arc<ServerManifest>> {
        self.manifest.load_full()
    }

    pub(crate) fn state(&self) -> ServerState {
        self.state.borrow().clone()
    }

    /// Waits until the manifest is known or the server has failed. Starts the server if needed.
    pub(crate) async fn wait_for_manifest(self: &Arc<Self>) {
        if self.manifest().is_some() {
            return;
        }
        if *self.state.borrow() == ServerState::Waiting {
            let opened = self.connection(None).await;
            if opened.is_err() {
                return;
            }
        }
        let mut states = self.state.subscribe();
        let is_settled =
            |state: &ServerState| !matches!(state, ServerState::Waiting | ServerState::Starting);
        let _ = states.wait_for(is_settled).await;
    }

    /// Starts a failed server again in the background, after its backoff.
    pub(crate) fn retry_in_background(self: &Arc<Self>) {
        let has_failed = matches!(*self.state.borrow(), ServerState::Failed(..));
        // A server that is starting already needs no second start.
        if has_failed && self.shared.opening.try_lock().is_ok() {
            let server = Arc::clone(self);
            self.deps.control.spawn(async move { drop(server.connection(None).await) });
        }
    }

    /// Notes that the server's lists take long: the gateway does not wait for them now or at its next start.
    pub(crate) fn mark_late(self: &Arc<Self>) {
        if self.manifest().is_none() && !self.is_late.swap(true, Ordering::Relaxed) {
            let server = Arc::clone(self);
            self.deps.control.spawn_blocking(move || {
                server.deps.manifests.write_late(&server.name, &cache_key(&server.config));
            });
        }
    }

    /// Requests the lists again, in the background. An idle server is listed when it starts.
    pub(crate) fn refresh(self: &Arc<Self>) {
        for kind in ListKind::ALL {
            super::discovery::mark_stale(self, kind);
        }
    }

    /// Requests the lists again if the last request is at least `age` ago.
    pub(crate) fn refresh_after(self: &Arc<Self>, age: Duration) {
        if self.discovery.last_listed().is_none_or(|listed| listed.elapsed() >= age) {
            self.refresh();
        }
    }

    /// When the lists were requested last.
    pub(crate) fn last_listed(&self) -> Option<Instant> {
        self.discovery.last_listed()
    }

    /// The connection on which to request a list: the shared one. Opens it only if the server reported a change. A private
    /// server lists as its connection opens.
    pub(super) async fn connection_to_list(
        self: &Arc<Self>,
        change: ListChange,
    ) -> Option<Arc<Connection>> {
        if let Some(connection) = self.shared.ready() {
            return Some(connection);
        }
        if self.is_per_session() || change == ListChange::Announced {
            let opened = self.connection(None).await;
            return opened.ok().filter(|_| !self.is_per_session());
        }
        None
    }

    /// Whether the manifest may still come soon.
    pub(crate) fn may_list_soon(&self) -> bool {
        let has_failed = matches!(*self.state.borrow(), ServerState::Failed(..));
        !has_failed && !self.is_late.load(Ordering::Relaxed)
    }

    /// The connection for an owner, or the shared one. Opens it if needed.
    pub(crate) async fn connection(
        self: &Arc<Self>,
        owner: Option<&ConnectionOwner>,
    ) -> Result<Arc<Connection>, Failure> {
        self.mark_used();
        let slot = self.slot(owner)?;
        if let Some(connection) = slot.ready() {
            return Ok(connection);
        }
        if let Some(down) = self.not_running() {
            return Err(down);
        }
        let scope = owner.cloned().map_or(ConnectionScope::Shared, ConnectionScope::Session);
        self.open_in_background(slot, scope).await
    }

    /// The connection for a client of this era. A server behind an address that speaks both eras gets a connection of the
    /// client's era, so that the gateway translates nothing.
    pub(crate) async fn connection_for(
        self: &Arc<Self>,
        owner: Option<&ConnectionOwner>,
        era: Era,
    ) -> Result<Arc<Connection>, Failure> {
        match self.legacy_connection(era).await {
            Some(connection) => Ok(connection),
            None => self.connection(owner).await,
        }
    }

    /// The connection that legacy clients share to a server of 2026-07-28 that speaks both eras; `None` for other clients
    /// and servers.
    pub(super) async fn legacy_connection(self: &Arc<Self>, era: Era) -> Option<Arc<Connection>> {
        if era == Era::Modern || !self.speaks_both() {
            return None;
        }
        self.mark_used();
        if let Some(connection) = self.legacy_slot.ready() {
            return Some(connection);
        }
        let opening =
            self.open_in_background(Arc::clone(&self.legacy_slot), ConnectionScope::SharedLegacy);
        timeout(LEGACY_CONNECTION_TIMEOUT, opening).await.ok()?.ok()
    }

    /// The connection that legacy clients share, if it is open.
    pub(super) fn open_legacy_connection(&self) -> Option<Arc<Connection>> {
        self.legacy_slot.ready()
    }

    /// Whether requests of legacy clients reach the server unchanged.
    pub(crate) fn takes_legacy(&self) -> bool {
        let is_legacy = |manifest: Arc<ServerManifest>| manifest.server_info.era == Era::Legacy;
        // The gateway speaks one era to a process that clients share.
        let has_connection = self.config.url.is_some() || self.is_per_session();
        self.manifest().is_some_and(is_legacy) || has_connection && self.may_speak_legacy()
    }

    /// Finds out what a server that speaks both eras announces to legacy clients.
    pub(crate) async fn discover_legacy(self: &Arc<Self>) {
        let is_known = |m: Arc<ServerManifest>| m.server_info.announced_to(Era::Legacy).is_some();
        let has_failed = matches!(*self.state.borrow(), ServerState::Failed(..));
        if !has_failed && !self.manifest().is_some_and(is_known) {
            drop(self.legacy_connection(Era::Legacy).await);
        }
    }

    /// Whether the gateway connects in both eras. A second connection costs no process.
    fn speaks_both(&self) -> bool {
        self.config.url.is_some() && !self.is_per_session() && self.may_speak_legacy()
    }

    /// Whether a server of 2026-07-28 also speaks legacy versions, as far as the gateway knows.
    pub(super) fn may_speak_legacy(&self) -> bool {
        let may = |manifest: Arc<ServerManifest>| {
            manifest.server_info.era == Era::Modern
                && manifest.server_info.speaks_legacy != Some(false)
        };
        self.config.protocol == Protocol::Auto && self.manifest().is_some_and(may)
    }

    /// Records what a server of 2026-07-28 announces to `initialize`, or that it refuses it: the gateway tries it only once.
    pub(super) async fn set_legacy_capabilities(self: &Arc<Self>, announced: Option<&Json>) {
        let _lock = self.discovery.lock_manifest().await;
        let Some(known) = self.manifest() else { return };
        let (speaks, announced) = (Some(announced.is_some()), announced.map(Json::owned));
        if (known.server_info.speaks_legacy, &known.server_info.legacy_capabilities)
            != (speaks, &announced)
        {
            let mut manifest = ServerManifest::clone(&known);
            manifest.server_info.speaks_legacy = speaks;
            manifest.server_info.legacy_capabilities = announced;
            self.set_manifest(manifest, &[]);
        }
    }

    /// Opens a connection in a task of its own: the connection is kept if the caller goes away.
    async fn open_in_background(
        self: &Arc<Self>,
        slot: Arc<ConnectionSlot>,
        scope: ConnectionScope,
    ) -> Result<Arc<Connection>, Failure> {
        let server = Arc::clone(self);
        let opening = self.deps.control.spawn(async move { server.open(slot, scope).await });
        opening.await.unwrap_or_else(|_| Err(Failure::internal("the start of a server failed")))
    }

    async fn open(
        self: Arc<Self>,
        slot: Arc<ConnectionSlot>,
        scope: ConnectionScope,
    ) -> Result<Arc<Connection>, Failure> {
        let mut opening = slot.opening.lock().await;
        if let Some(connection) = slot.ready() {
            return Ok(connection);
        }
        if self.stop.is_cancelled() {
            return Err(unavailable(&self.name, "toolgate is ending"));
        }
        if let Some((until, failure)) = &opening.failed
            && Instant::now() < *until
        {
            return Err(failure.clone());
        }
        // First a permit of the principal: its starts must not take all permits from other principals.
        let _own_permit = match scope.owner() {
            Some(owner) => owner.account.starts.acquire().await.ok(),
            None => None,
        };
        let _permit = self.deps.starts.acquire().await;
        // A failed server stays failed until it answers. The legacy connection does not change the state of the shared one.
        let is_second = matches!(scope, ConnectionScope::SharedLegacy);
        if !is_second && !matches!(*self.state.borrow(), ServerState::Failed(..)) {
            self.set_state(ServerState::Starting);
        }
        match super::connect::open(&self, &scope).await.map_err(not_opened) {
            Ok(connection) => {
                opening.failed = None;
                opening.backoff.started();
                slot.current.store(Some(Arc::clone(&connection)));
                if self.stop.is_cancelled() || !self.is_wanted(&slot, scope.owner()) {
                    slot.current.store(None);
                    connection.close("its client is gone");
                    return Err(unavailable(&self.name, "its client is gone"));
                }
                drop(opening);
                super::discovery::connection_opened(&self, &connection, &scope);
                Ok(connection)
            }
            Err(failure) => {
                let wait = opening.backoff.wait();
                let wait =
                    if self.config.url.is_some() { wait.min(MAX_URL_RETRY_WAIT) } else { wait };
                opening.failed = Some((Instant::now() + wait, failure.clone()));
                if !is_second {
                    self.set_state(ServerState::Failed(failure.message().into(), failure.code()));
                }
                Err(failure)
            }
        }
    }

    /// Keeps a server with `start = "at-once"` running.
    async fn supervise(self: Arc<Self>) {
        let mut backoff = Backoff::new();
        let mut logged: Option<String> = None;
        loop {
            if self.is_per_session() && self.manifest().is_some() {
                self.set_state(ServerState::Ready);
                return;
            }
            let started = Instant::now();
            let opened = tokio::select! {
                opened = self.connection(None) => opened,
                () = self.stop.cancelled() => return,
            };
            match opened {
                Ok(connection) => {
                    backoff.started();
                    tokio::select! {
                        () = connection.closed() => {}
                        () = self.stop.cancelled() => return,
                    }
                    let is_known = self.manifest().is_some();
                    if self.is_per_session() && is_known || self.state() == ServerState::Stopped {
                        return;
                    }
                }
                Err(failure) => {
                    // Logs the same failure once.
                    if logged.as_deref() == Some(failure.message()) {
                        tracing::debug!("{failure}");
                    } else {
                        tracing::warn!("{failure}");
                        logged = Some(failure.message().to_owned());
                    }
                }
            }
            // A start that ended without a manifest may have cost much time: the wait is at least as long.
            let wait = match self.manifest() {
                None => backoff.wait_after(started.elapsed()),
                Some(_) => backoff.wait(),
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.stop.cancelled() => return,
            }
        }
    }

    /// Waits until this process has tried the server once: it is ready, failed or stopped. The manifest cached by an
    /// earlier process does not count.
    pub(crate) async fn wait_for_state(&self) {
        let mut states = self.state.subscribe();
        let is_known =
            |state: &ServerState| !matches!(state, ServerState::Waiting | ServerState::Starting);
        let _ = states.wait_for(is_known).await;
    }

    /// Notes that a client uses the server.
    pub(crate) fn mark_used(&self) {
        self.used_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// How long no client has used the server.
    pub(super) fn idle_for(&self) -> Duration {
        let used = Duration::from_millis(self.used_ms.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(used)
    }

    pub(super) fn set_state(&self, state: ServerState) {
        let has_failed = matches!(state, ServerState::Failed(..));
        let is_new = self.state.send_if_modified(|now| {
            let is_new = *now != state;
            *now = state;
            is_new
        });
        if is_new && has_failed {
            self.emit(|events| events.on_failure(self));
        }
    }

    /// Replaces the manifest, writes it to the cache, and reports the changed lists.
    pub(super) fn set_manifest(self: &Arc<Self>, manifest: ServerManifest, changed: &[ListKind]) {
        let manifest = Arc::new(manifest);
        self.manifest.store(Some(Arc::clone(&manifest)));
        let (server, key) = (Arc::clone(self), cache_key(&self.config));
        // In the background: a slow disk must not delay calls.
        self.deps.control.spawn_blocking(move || {
            server.deps.manifests.write(&server.name, &key, &manifest);
        });
        if !changed.is_empty() {
            self.emit(|events| events.on_lists_changed(self, changed));
        }
    }

    /// Passes an event to the gateway.
    pub(super) fn emit(&self, emit: impl FnOnce(&dyn ServerEvents)) {
        if let Some(events) = self.deps.events.get().and_then(Weak::upgrade) {
            emit(&*events);
        }
    }

    /// Notes that a request failed: a ready server becomes a failed one if the connection was lost.
    pub(crate) fn note_failure(&self, failure: &Failure) {
        if matches!(failure.code(), Code::ServerUnavailable | Code::ServerCrashed)
            && self.state() == ServerState::Ready
        {
            self.set_state(ServerState::Failed(failure.message().into(), failure.code()));
        }
    }

    /// Notes that the server answered: a failed one becomes ready, and is listed again.
    pub(crate) fn note_answer(self: &Arc<Self>) {
        if matches!(*self.state.borrow(), ServerState::Failed(..)) {
            self.set_state(ServerState::Ready);
            if !self.is_per_session() {
                for kind in ListKind::ALL {
                    super::discovery::mark_stale(self, kind);
                }
            }
        }
    }

    /// Closes a connection whose session the server has forgotten.
    pub(crate) fn forget(&self, connection: &Connection) {
        tracing::info!("the server `{}` has forgotten its session: a new one is opened", self.name);
        connection.forget();
    }

    /// Stops the server for good.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
        let own = std::mem::take(&mut *self.own.lock());
        let both = [Arc::clone(&self.shared), Arc::clone(&self.legacy_slot)];
        let slots = own.into_values().chain(both);
        for connection in slots.filter_map(|slot| slot.current.swap(None)) {
            connection.close("toolgate is ending");
        }
    }

    /// The failure of a request whose connection closed before it was sent, twice.
    pub(crate) fn never_reached(&self, why: &str) -> Failure {
        connection_lost(&self.name, why, LossStage::NotSent)
    }

    /// Sets the log level for a client. A shared server gets the lowest level that any client has set; `own_level` is read
    /// when the level of a private server is set. Gives a task that ends when a running server has the level, or after
    /// `SET_LEVEL_TIMEOUT`.
    pub(crate) fn raise_log_level(
        self: &Arc<Self>,
        level: LogLevel,
        owner: impl FnOnce() -> ConnectionOwner,
        own_level: impl Fn() -> Option<LogLevel> + Send + Sync + 'static,
    ) -> Option<JoinHandle<()>> {
        let has_logs = self.manifest().is_some_and(|manifest| {
            let may_be_legacy = manifest.server_info.era == Era::Legacy || self.speaks_both();
            manifest.server_info.has("logging") && may_be_legacy
        });
        let is_lower = self.log_level.fetch_min(level.number(), Ordering::Relaxed) > level.number();
        if !has_logs || !(is_lower || self.is_per_session()) {
            return None;
        }
        let (server, owner) = (Arc::clone(self), self.is_per_session().then(owner));
        let is_running = self.connected(owner.as_ref()).is_some();
        let control = &self.deps.control;
        let setting = control.spawn(async move {
            let opened = server.connection_for(owner.as_ref(), Era::Legacy).await;
            // In 2026-07-28 each request carries the level.
            let Some(connection) = opened.ok().filter(|c| c.era() == Era::Legacy) else { return };
            let wanted = || if owner.is_some() { own_level() } else { server.wanted_log_level() };
            server.set_log_level(&connection, wanted).await;
        });
        is_running
            .then(|| control.spawn(async move { drop(timeout(SET_LEVEL_TIMEOUT, setting).await) }))
    }

    /// Sets the log level of a connection. Reads the wanted level under the lock: of two concurrent calls, neither undoes
    /// the other.
    pub(super) async fn set_log_level(
        &self,
        connection: &Connection,
        wanted: impl Fn() -> Option<LogLevel>,
    ) {
        let mut set = connection.level.lock().await;
        let Some(level) = wanted().map(LogLevel::name).filter(|level| *set != Some(*level)) else {
            return;
        };
        let mut params = Object::new();
        params.set("level", Json::string(level));
        match connection.ask(method::LOGGING_SET_LEVEL, params).await {
            Ok(_) => *set = Some(level),
            Err(error) => tracing::debug!("the level of `{}` is not set: {error:?}", self.name),
        }
    }

    /// The level of log messages that clients asked for last, which a new connection needs.
    pub(super) fn wanted_log_level(&self) -> Option<LogLevel> {
        LogLevel::by_number(self.log_level.load(Ordering::Relaxed))
    }
}

/// How an exclusive server is started, and why it is down while it is.
#[derive(Debug)]
pub(super) struct Exclusive {
    pub(super) command: ServerCommand,
    why_down: Mutex<Arc<str>>,
}

impl Exclusive {
    fn new(command: ServerCommand) -> Self {
        Self { command, why_down: Mutex::new("it has not been started yet".into()) }
    }
}

/// What all servers of a gateway share.
pub(crate) struct ServerDeps {
    /// The runtime of all servers on pipes, whose thread also runs the first HTTP worker.
    pub(crate) control: Handle,
    pub(crate) limits: Limits,
    pub(crate) manifests: ManifestCache,
    /// Limits how many servers start at once.
    pub(crate) starts: Semaphore,
    /// Tasks of processes that have not ended yet.
    pub(crate) tasks: TaskTracker,
    /// Tasks that end sessions with servers.
    pub(crate) session_ends: TaskTracker,
    /// The gateway, which receives the events of servers. It is built after this struct, and then sets it.
    pub(crate) events: OnceLock<Weak<dyn ServerEvents>>,
}

impl std::fmt::Debug for ServerDeps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerDeps")
    }
}

/// Receives the events of servers. Must not block.
pub(crate) trait ServerEvents: Send + Sync {
    /// Lists of a server changed.
    fn on_lists_changed(&self, server: &Arc<Server>, kinds: &[ListKind]);
    /// A list changed on the connection of this owner.
    fn on_list_changed_for(&self, server: &Arc<Server>, owner: &OwnerKey, kind: ListKind);
    /// A resource changed.
    fn on_resource_updated(
        &self,
        server: &Arc<Server>,
        owner: Option<&OwnerKey>,
        message: &Message,
    );
    /// A server sent a notification that belongs to no call.
    fn on_notification(&self, server: &Arc<Server>, owner: Option<&OwnerKey>, message: &Message);
    /// A server sent a request that belongs to no call; `false`: no client can answer it.
    fn on_request(
        &self,
        server: &Arc<Server>,
        owner: Option<&OwnerKey>,
        message: Message,
        reply: ReplyTo,
    ) -> bool;
    /// A server cannot be called for now.
    fn on_failure(&self, server: &Server);
}

/// The state of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerState {
    /// No client has needed it yet.
    Waiting,
    /// The gateway is starting it or connecting to it.
    Starting,
    /// It can be called.
    Ready,
    /// The gateway stopped it because no client used it.
    Stopped,
    /// It cannot be called, for this reason.
    Failed(Arc<str>, Code),
}
