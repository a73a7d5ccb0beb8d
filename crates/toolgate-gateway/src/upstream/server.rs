//! A server of the config: reached when it is needed, started again when it fails, and what it offers.

mod deps;
mod log_level;
mod slots;

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
pub(crate) use deps::ServerState;
pub(super) use deps::Whose;
pub(crate) use deps::{ServerDeps, ServerEvents, SessionKey};
use parking_lot::Mutex;
use slots::{ConnectionSlot, source};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolgate::{Code, Failure};
use toolgate_wire::{Json, mcp::Era};

use super::{
    connection::Connection,
    discovery::Discovery,
    events::ListKind,
    exclusive::Exclusive,
    in_flight::{lost, never_up, unavailable},
    subscriptions::Subscriptions,
};
use crate::{
    backoff::Backoff,
    config::{Protocol, ServerConfig, Sharing, Start},
    process::child::ServerCommand,
    upstream::manifest::ServerManifest,
};

/// One server of the config.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: Arc<str>,
    pub(crate) config: ServerConfig,
    pub(crate) surroundings: Arc<ServerDeps>,
    pub(crate) subscriptions: Subscriptions,
    pub(super) learning: Discovery,
    manifest: ArcSwapOption<ServerManifest>,
    state: watch::Sender<ServerState>,
    shared: Arc<ConnectionSlot>,
    /// In the other era, for legacy clients, where the server speaks both.
    mirror: Arc<ConnectionSlot>,
    own: Mutex<HashMap<Arc<str>, Arc<ConnectionSlot>>>,
    started: Instant,
    used_ms: AtomicU64,
    /// The lowest level of log messages that somebody asked for.
    loudness: AtomicU8,
    late: AtomicBool,
    pub(super) stop: CancellationToken,
    /// Set where one client has it to itself.
    pub(super) exclusive: Option<Exclusive>,
}

/// What the keys of callers without a session begin with.
pub(crate) const SESSIONLESS: &str = "sessionless ";

/// A legacy client waits so long for a connection of its era to a server that has one of 2026-07-28.
const OTHER_ERA: Duration = Duration::from_secs(5);

/// An address that failed is tried again by calls after this long; commands wait for their turn.
const ADDRESS_AGAIN: Duration = Duration::from_millis(250);

impl Server {
    pub(crate) fn new(
        name: Arc<str>,
        config: ServerConfig,
        surroundings: Arc<ServerDeps>,
    ) -> Arc<Self> {
        let manifest = surroundings.shelf.read(&name, &source(&config));
        Arc::new(Self::with(name, config, surroundings, manifest, None))
    }

    /// A server that one client has to itself.
    pub(crate) fn for_one_client(
        name: Arc<str>,
        command: ServerCommand,
        start_timeout: Duration,
        surroundings: Arc<ServerDeps>,
    ) -> Arc<Self> {
        let mut config = ServerConfig::default();
        config.start = Start::OnDemand;
        config.start_timeout = start_timeout;
        Arc::new(Self::with(name, config, surroundings, None, Some(Exclusive::new(command))))
    }

    fn with(
        name: Arc<str>,
        config: ServerConfig,
        surroundings: Arc<ServerDeps>,
        manifest: Option<ServerManifest>,
        exclusive: Option<Exclusive>,
    ) -> Self {
        let is_late = manifest.is_none()
            && exclusive.is_none()
            && surroundings.shelf.is_late(&name, &source(&config));
        Self {
            name,
            config,
            surroundings,
            subscriptions: Subscriptions::default(),
            learning: Discovery::default(),
            manifest: ArcSwapOption::from(manifest.map(Arc::new)),
            state: watch::Sender::new(ServerState::Waiting),
            shared: Arc::default(),
            mirror: Arc::default(),
            own: Mutex::default(),
            started: Instant::now(),
            used_ms: AtomicU64::new(0),
            loudness: AtomicU8::new(u8::MAX),
            late: AtomicBool::new(is_late),
            stop: CancellationToken::new(),
            exclusive,
        }
    }

    /// Makes this the connection that everybody uses.
    pub(super) fn put(&self, connection: Arc<Connection>) {
        self.shared.current.store(Some(connection));
    }

    /// Starts it, if it is one that starts at once.
    pub(crate) fn begin(self: &Arc<Self>) {
        if self.config.start == Start::AtOnce {
            self.is(ServerState::Starting);
            let supervised = Arc::clone(self);
            self.surroundings.control.spawn(async move { supervised.supervise().await });
        }
    }

    /// Whether each session has a connection of its own.
    pub(crate) fn is_private(&self) -> bool {
        self.config.sharing == Sharing::Session
    }

    /// What it offers, as far as that is known.
    pub(crate) fn manifest(&self) -> Option<Arc<ServerManifest>> {
        self.manifest.load_full()
    }

    /// How it is.
    pub(crate) fn state(&self) -> ServerState {
        self.state.borrow().clone()
    }

    /// Waits until it is known whether it can be called, and what it offers; it is started for that.
    pub(crate) async fn settled(self: &Arc<Self>) {
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

    /// Starts it again, if it failed, without anybody waiting for it. Its own pauses are heeded.
    pub(crate) fn try_again(self: &Arc<Self>) {
        let has_failed = matches!(*self.state.borrow(), ServerState::Failed(_));
        // One that is being started needs no second start.
        if has_failed && self.shared.opening.try_lock().is_ok() {
            let server = Arc::clone(self);
            self.surroundings.control.spawn(async move { drop(server.connection(None).await) });
        }
    }

    /// It takes long to come up, and nobody waits for it any more, now or at the next start.
    pub(crate) fn is_late(self: &Arc<Self>) {
        if self.manifest().is_none() && !self.late.swap(true, Ordering::Relaxed) {
            let server = Arc::clone(self);
            self.surroundings.control.spawn_blocking(move || {
                server.surroundings.shelf.keep_late(&server.name, &source(&server.config));
            });
        }
    }

    /// Asks it for its lists again, in the background. One that nobody needs is asked when it comes up.
    pub(crate) fn refresh(self: &Arc<Self>) {
        for kind in ListKind::ALL {
            super::discovery::suspect(self, kind);
        }
    }

    /// Asks it for its lists again, if it was not asked for so long.
    pub(crate) fn refresh_after(self: &Arc<Self>, age: Duration) {
        if self.learning.asked().is_none_or(|asked| asked.elapsed() >= age) {
            self.refresh();
        }
    }

    /// When it was asked for its lists last.
    pub(crate) fn asked(&self) -> Option<Instant> {
        self.learning.asked()
    }

    /// A connection to ask for lists: the one that there is. A new one is opened only where a list is announced to have
    /// changed. One that sessions have for themselves is asked as it comes up.
    pub(super) async fn connection_to_ask(
        self: &Arc<Self>,
        is_announced: bool,
    ) -> Option<Arc<Connection>> {
        if let Some(connection) = self.shared.ready() {
            return Some(connection);
        }
        if self.is_private() || is_announced {
            let opened = self.connection(None).await;
            return opened.ok().filter(|_| !self.is_private());
        }
        None
    }

    /// Whether it is worth waiting for it to find out what it offers.
    pub(crate) fn may_come(&self) -> bool {
        let has_failed = matches!(*self.state.borrow(), ServerState::Failed(_));
        !has_failed && !self.late.load(Ordering::Relaxed)
    }

    /// A connection to it: the one that there is, or a new one.
    pub(crate) async fn connection(
        self: &Arc<Self>,
        owner: Option<&SessionKey>,
    ) -> Result<Arc<Connection>, Failure> {
        self.use_now();
        let slot = self.slot(owner)?;
        if let Some(connection) = slot.ready() {
            return Ok(connection);
        }
        if let Some(down) = self.not_running() {
            return Err(down);
        }
        let whose = owner.cloned().map_or(Whose::Everybodys, Whose::Route);
        self.opened(slot, whose).await
    }

    /// The same for a client of this era: a server behind an address that speaks both is spoken to in the client's, so
    /// that nothing has to be translated.
    pub(crate) async fn connection_for(
        self: &Arc<Self>,
        owner: Option<&SessionKey>,
        era: Era,
    ) -> Result<Arc<Connection>, Failure> {
        match self.mirror(era).await {
            Some(connection) => Ok(connection),
            None => self.connection(owner).await,
        }
    }

    /// The connection that legacy clients share to a server of 2026-07-28 that speaks both eras; `None` for other clients
    /// and servers.
    pub(super) async fn mirror(self: &Arc<Self>, era: Era) -> Option<Arc<Connection>> {
        if era == Era::Modern || !self.speaks_both() {
            return None;
        }
        self.use_now();
        if let Some(connection) = self.mirror.ready() {
            return Some(connection);
        }
        let opening = self.opened(Arc::clone(&self.mirror), Whose::Olds);
        tokio::time::timeout(OTHER_ERA, opening).await.ok()?.ok()
    }

    /// The connection that legacy clients share, if it is open.
    pub(super) fn mirrored(&self) -> Option<Arc<Connection>> {
        self.mirror.ready()
    }

    /// Whether requests of legacy clients reach it as they are.
    pub(crate) fn takes_legacy(&self) -> bool {
        let is_legacy = |manifest: Arc<ServerManifest>| manifest.offer.era == Era::Legacy;
        // A process that clients share is spoken to in one era.
        let has_connection = self.config.url.is_some() || self.is_private();
        self.manifest().is_some_and(is_legacy) || has_connection && self.may_speak_legacy()
    }

    /// Finds out what a server that speaks both eras announces to legacy clients.
    pub(crate) async fn learn_legacy(self: &Arc<Self>) {
        let is_known = |m: Arc<ServerManifest>| m.offer.announced_to(Era::Legacy).is_some();
        let has_failed = matches!(*self.state.borrow(), ServerState::Failed(_));
        if !has_failed && !self.manifest().is_some_and(is_known) {
            drop(self.mirror(Era::Legacy).await);
        }
    }

    /// Whether it is worth speaking to it in two eras: a second connection costs no process.
    fn speaks_both(&self) -> bool {
        self.config.url.is_some() && !self.is_private() && self.may_speak_legacy()
    }

    /// Whether a server of 2026-07-28 speaks the versions before, too, or might.
    pub(super) fn may_speak_legacy(&self) -> bool {
        let may = |manifest: Arc<ServerManifest>| {
            manifest.offer.era == Era::Modern && manifest.offer.speaks_legacy != Some(false)
        };
        self.config.protocol == Protocol::Auto && self.manifest().is_some_and(may)
    }

    /// It was tried whether a server of 2026-07-28 takes `initialize`, and what it announces there: remembered, so that
    /// it is tried once.
    pub(super) async fn found_legacy(self: &Arc<Self>, announced: Option<&Json>) {
        let _turn = self.learning.turn().await;
        let Some(known) = self.manifest() else { return };
        let (speaks, announced) = (Some(announced.is_some()), announced.map(Json::owned));
        if (known.offer.speaks_legacy, &known.offer.legacy_capabilities) != (speaks, &announced) {
            let mut manifest = ServerManifest::clone(&known);
            manifest.offer.speaks_legacy = speaks;
            manifest.offer.legacy_capabilities = announced;
            self.offers(manifest, &[]);
        }
    }

    async fn opened(
        self: &Arc<Self>,
        slot: Arc<ConnectionSlot>,
        whose: Whose,
    ) -> Result<Arc<Connection>, Failure> {
        let server = Arc::clone(self);
        let opening =
            self.surroundings.control.spawn(async move { server.open(slot, whose).await });
        opening.await.unwrap_or_else(|_| Err(Failure::internal("the start of a server failed")))
    }

    async fn open(
        self: Arc<Self>,
        slot: Arc<ConnectionSlot>,
        whose: Whose,
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
        // First among those of its own principal: nobody waits for all the starts of another one.
        let _own_turn = match whose.owner() {
            Some(owner) => owner.account.starts.acquire().await.ok(),
            None => None,
        };
        let _turn = self.surroundings.starts.acquire().await;
        // What failed before is not waited for again. A second connection says nothing of the first.
        let is_second = matches!(whose, Whose::Olds);
        if !is_second && !matches!(*self.state.borrow(), ServerState::Failed(_)) {
            self.is(ServerState::Starting);
        }
        match super::connect::open(&self, &whose).await.map_err(never_up) {
            Ok(connection) => {
                opening.failed = None;
                opening.backoff.started();
                slot.current.store(Some(Arc::clone(&connection)));
                if self.stop.is_cancelled() || !self.is_wanted(&slot, whose.owner()) {
                    slot.current.store(None);
                    connection.close("its client is gone");
                    return Err(unavailable(&self.name, "its client is gone"));
                }
                drop(opening);
                super::discovery::came_up(&self, &connection, !matches!(whose, Whose::Everybodys));
                Ok(connection)
            }
            Err(failure) => {
                let wait = opening.backoff.wait();
                let wait = if self.config.url.is_some() { wait.min(ADDRESS_AGAIN) } else { wait };
                opening.failed = Some((Instant::now() + wait, failure.clone()));
                if !is_second {
                    self.is(ServerState::Failed(failure.message().into()));
                }
                Err(failure)
            }
        }
    }

    /// Keeps it up: for servers that are started at once.
    async fn supervise(self: Arc<Self>) {
        let mut backoff = Backoff::new();
        let mut told: Option<String> = None;
        loop {
            if self.is_private() && self.manifest().is_some() {
                self.is(ServerState::Ready);
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
                    if self.is_private() && is_known || self.state() == ServerState::Stopped {
                        return;
                    }
                }
                Err(failure) => {
                    // Told once, however often it is tried.
                    if told.as_deref() == Some(failure.message()) {
                        tracing::debug!("{failure}");
                    } else {
                        tracing::warn!("{failure}");
                        told = Some(failure.message().to_owned());
                    }
                }
            }
            // A server that could not tell what it offers has kept both sides busy for nothing.
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

    /// Waits until it is known how it is now, whatever was known of it before.
    pub(crate) async fn fresh(&self) {
        let mut states = self.state.subscribe();
        let is_known =
            |state: &ServerState| !matches!(state, ServerState::Waiting | ServerState::Starting);
        let _ = states.wait_for(is_known).await;
    }

    /// Notes that somebody uses it.
    pub(crate) fn use_now(&self) {
        self.used_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// For how long nobody has used it.
    pub(super) fn idle_for(&self) -> Duration {
        let used = Duration::from_millis(self.used_ms.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(used)
    }

    pub(super) fn is(&self, state: ServerState) {
        let has_failed = matches!(state, ServerState::Failed(_));
        let is_new = self.state.send_if_modified(|now| {
            let is_new = *now != state;
            *now = state;
            is_new
        });
        if is_new && has_failed {
            self.tell(|watch| watch.failed(self));
        }
    }

    /// It offers this now: kept, and told to whoever wants to know.
    pub(super) fn offers(self: &Arc<Self>, manifest: ServerManifest, changed: &[ListKind]) {
        let manifest = Arc::new(manifest);
        self.manifest.store(Some(Arc::clone(&manifest)));
        let (server, source) = (Arc::clone(self), source(&self.config));
        // A slow disk holds nobody up.
        self.surroundings.control.spawn_blocking(move || {
            server.surroundings.shelf.keep(&server.name, &source, &manifest);
        });
        if !changed.is_empty() {
            self.tell(|watch| watch.changed(self, changed));
        }
    }

    pub(super) fn tell(&self, tell: impl FnOnce(&dyn ServerEvents)) {
        if let Some(watch) = self.surroundings.watch.get().and_then(Weak::upgrade) {
            tell(&*watch);
        }
    }

    /// A request could not be sent: whatever is thought of the server, it is not ready.
    pub(crate) fn failed_to_answer(&self, failure: &Failure) {
        if matches!(failure.code(), Code::ServerUnavailable | Code::ServerCrashed)
            && self.state() == ServerState::Ready
        {
            self.is(ServerState::Failed(failure.message().into()));
        }
    }

    /// It answered: if it was thought to be away, it is back, and may offer something else.
    pub(crate) fn answered(self: &Arc<Self>) {
        if matches!(*self.state.borrow(), ServerState::Failed(_)) {
            self.is(ServerState::Ready);
            if !self.is_private() {
                for kind in ListKind::ALL {
                    super::discovery::suspect(self, kind);
                }
            }
        }
    }

    /// The connection has lost its session: it is of no use any more.
    pub(crate) fn forget(&self, connection: &Connection) {
        tracing::info!("the server `{}` has forgotten its session: a new one is opened", self.name);
        connection.forget();
    }

    /// Stops it for good.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
        let own = std::mem::take(&mut *self.own.lock());
        let both = [Arc::clone(&self.shared), Arc::clone(&self.mirror)];
        let slots = own.into_values().chain(both);
        for connection in slots.filter_map(|slot| slot.current.swap(None)) {
            connection.close("toolgate is ending");
        }
    }

    /// What a request is told whose connection was gone before it was sent, twice.
    pub(crate) fn never_reached(&self, why: &str) -> Failure {
        lost(&self.name, why, toolgate::Executed::No)
    }
}
