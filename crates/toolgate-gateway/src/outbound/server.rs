//! A server of the config: reached when it is needed, started again when it fails, and what it offers.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use tokio::{
    runtime::Handle,
    sync::{Semaphore, watch},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use toolgate::{Code, Failure};
use toolgate_wire::{Json, Limits, Message, Object};

use super::{
    backoff::Backoff,
    connection::{Connection, Era},
    events::{Kind, ReplyTo},
    flight::{lost, never_up, unavailable},
    handshake::Protocol,
    learning::Learning,
    subscriptions::Subscriptions,
};
use crate::{
    catalog::manifest::{Manifest, Shelf},
    config::{ServerConfig, Sharing, Start},
    sessions::{caller::Caller, level::Level},
};

/// What servers share.
pub(crate) struct Surroundings {
    /// Where servers live: what they read and write does not hold up those who serve clients.
    pub(crate) control: Handle,
    pub(crate) limits: Limits,
    pub(crate) shelf: Shelf,
    /// So many servers start at once.
    pub(crate) starts: Semaphore,
    /// Processes that have not ended yet.
    pub(crate) tasks: TaskTracker,
    /// Those who take leave of servers.
    pub(crate) partings: TaskTracker,
    /// Who is told of what happens.
    pub(crate) watch: OnceLock<Weak<dyn Watch>>,
}

impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Surroundings")
    }
}

/// Who is told of what happens at servers. Nothing of it may wait.
pub(crate) trait Watch: Send + Sync {
    /// A list of a server is another one now.
    fn changed(&self, server: &Arc<Server>, kinds: &[Kind]);
    /// A resource changed.
    fn updated(&self, server: &Arc<Server>, owner: Option<&str>, message: &Message);
    /// A server says something that belongs to no call.
    fn told(&self, server: &Arc<Server>, owner: Option<&str>, message: &Message);
    /// A server asks something that belongs to no call; `false`: nobody can answer.
    fn asked(
        &self,
        server: &Arc<Server>,
        owner: Option<&str>,
        message: Message,
        reply: ReplyTo,
    ) -> bool;
    /// It is known that a server cannot be called for now.
    fn failed(&self, server: &Server);
}

/// Whose connection it is, where each session has its own.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) key: Arc<str>,
    pub(crate) capabilities: Json,
    pub(crate) info: Json,
    pub(crate) version: Arc<str>,
    /// Cancelled when whoever it is is gone: nothing is started for it from then on.
    pub(crate) over: CancellationToken,
}

/// Whose a connection is.
#[derive(Clone, Debug)]
pub(super) enum Whose {
    /// All clients'.
    Everybodys,
    /// All clients' of old.
    Olds,
    /// One session's.
    Owned(Owner),
}

impl Whose {
    pub(super) fn owner(&self) -> Option<&Owner> {
        match self {
            Self::Owned(owner) => Some(owner),
            Self::Everybodys | Self::Olds => None,
        }
    }
}

/// How a server is, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nobody needed it yet.
    Waiting,
    /// It is being started or reached.
    Starting,
    /// It can be called.
    Ready,
    /// It was stopped because nobody used it.
    Stopped,
    /// It cannot be called, and why.
    Failed(Arc<str>),
}

/// One server of the config.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: Arc<str>,
    pub(crate) config: ServerConfig,
    pub(crate) surroundings: Arc<Surroundings>,
    pub(crate) subscriptions: Subscriptions,
    pub(super) learning: Learning,
    manifest: ArcSwapOption<Manifest>,
    state: watch::Sender<State>,
    shared: Arc<Slot>,
    /// In the other era, for clients of old, where the server speaks both.
    mirror: Arc<Slot>,
    own: Mutex<HashMap<Arc<str>, Arc<Slot>>>,
    started: Instant,
    used_ms: AtomicU64,
    /// The lowest level of log messages that somebody asked for.
    loudness: AtomicU8,
    late: AtomicBool,
    pub(super) stop: CancellationToken,
}

/// The place of one connection.
#[derive(Debug, Default)]
pub(super) struct Slot {
    used_ms: AtomicU64,
    current: ArcSwapOption<Connection>,
    opening: tokio::sync::Mutex<Opening>,
}

#[derive(Debug, Default)]
struct Opening {
    backoff: Backoff,
    failed: Option<(Instant, Failure)>,
}

impl Slot {
    fn ready(&self) -> Option<Arc<Connection>> {
        self.current.load_full().filter(|connection| !connection.is_closed())
    }
}

/// What the keys of callers without a session begin with.
pub(crate) const SESSIONLESS: &str = "sessionless ";

/// An address that failed is tried again by calls after this long; commands wait for their turn.
const ADDRESS_AGAIN: Duration = Duration::from_millis(250);

impl Server {
    pub(crate) fn new(
        name: Arc<str>,
        config: ServerConfig,
        surroundings: Arc<Surroundings>,
    ) -> Arc<Self> {
        let manifest = surroundings.shelf.read(&name, &source(&config));
        Arc::new(Self {
            name,
            config,
            surroundings,
            subscriptions: Subscriptions::default(),
            learning: Learning::default(),
            manifest: ArcSwapOption::from(manifest.map(Arc::new)),
            state: watch::Sender::new(State::Waiting),
            shared: Arc::default(),
            mirror: Arc::default(),
            own: Mutex::default(),
            started: Instant::now(),
            used_ms: AtomicU64::new(0),
            loudness: AtomicU8::new(u8::MAX),
            late: AtomicBool::new(false),
            stop: CancellationToken::new(),
        })
    }

    /// Starts it, if it is one that starts at once.
    pub(crate) fn begin(self: &Arc<Self>) {
        if self.config.start == Start::AtOnce {
            self.is(State::Starting);
            let supervised = Arc::clone(self);
            self.surroundings.control.spawn(async move { supervised.supervise().await });
        }
    }

    /// Whether each session has a connection of its own.
    pub(crate) fn is_private(&self) -> bool {
        self.config.sharing == Sharing::Session
    }

    /// What it offers, as far as that is known.
    pub(crate) fn manifest(&self) -> Option<Arc<Manifest>> {
        self.manifest.load_full()
    }

    /// How it is.
    pub(crate) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// Waits until it is known whether it can be called, and what it offers; it is started for that.
    pub(crate) async fn settled(self: &Arc<Self>) {
        if self.manifest().is_some() {
            return;
        }
        if *self.state.borrow() == State::Waiting {
            let opened = self.connection(None).await;
            if opened.is_err() {
                return;
            }
        }
        let mut states = self.state.subscribe();
        let is_settled = |state: &State| !matches!(state, State::Waiting | State::Starting);
        let _ = states.wait_for(is_settled).await;
    }

    /// Starts it again, if it failed, without anybody waiting for it. Its own pauses are heeded.
    pub(crate) fn try_again(self: &Arc<Self>) {
        let has_failed = matches!(*self.state.borrow(), State::Failed(_));
        // One that is being started needs no second start.
        if has_failed && self.shared.opening.try_lock().is_ok() {
            let server = Arc::clone(self);
            self.surroundings.control.spawn(async move { drop(server.connection(None).await) });
        }
    }

    /// It takes long to come up, and nobody waits for it any more.
    pub(crate) fn is_late(&self) {
        if self.manifest().is_none() {
            self.late.store(true, Ordering::Relaxed);
        }
    }

    /// Whether it is worth waiting for it to find out what it offers.
    pub(crate) fn may_come(&self) -> bool {
        let has_failed = matches!(*self.state.borrow(), State::Failed(_));
        !has_failed && !self.late.load(Ordering::Relaxed)
    }

    /// A connection to it: the one that there is, or a new one.
    pub(crate) async fn connection(
        self: &Arc<Self>,
        owner: Option<&Owner>,
    ) -> Result<Arc<Connection>, Failure> {
        self.use_now();
        let Some(slot) = self.slot(owner) else {
            return Err(unavailable(&self.name, "its client is gone"));
        };
        if let Some(connection) = slot.ready() {
            return Ok(connection);
        }
        let whose = owner.cloned().map_or(Whose::Everybodys, Whose::Owned);
        self.opened(slot, whose).await
    }

    /// The same for a client of this era: a server behind an address that speaks both is spoken to in the client's, so
    /// that nothing has to be translated.
    pub(crate) async fn connection_for(
        self: &Arc<Self>,
        owner: Option<&Owner>,
        era: Era,
    ) -> Result<Arc<Connection>, Failure> {
        if era == Era::Modern || !self.speaks_both() {
            return self.connection(owner).await;
        }
        self.use_now();
        if let Some(connection) = self.mirror.ready() {
            return Ok(connection);
        }
        match self.opened(Arc::clone(&self.mirror), Whose::Olds).await {
            Ok(connection) => Ok(connection),
            Err(_) => self.connection(owner).await,
        }
    }

    /// Whether it is worth speaking to it in two eras: a second connection costs no process.
    fn speaks_both(&self) -> bool {
        let is_found_out = self.config.url.is_some() && self.config.protocol == Protocol::Auto;
        let speaks = |manifest: Arc<Manifest>| {
            manifest.offer.era == Era::Modern && manifest.offer.speaks_legacy
        };
        is_found_out && !self.is_private() && self.manifest().is_some_and(speaks)
    }

    async fn opened(
        self: &Arc<Self>,
        slot: Arc<Slot>,
        whose: Whose,
    ) -> Result<Arc<Connection>, Failure> {
        let server = Arc::clone(self);
        let opening =
            self.surroundings.control.spawn(async move { server.open(slot, whose).await });
        opening.await.unwrap_or_else(|_| Err(Failure::internal("the start of a server failed")))
    }

    /// The connection to it, if there is one.
    pub(crate) fn connected(&self, owner: Option<&Owner>) -> Option<Arc<Connection>> {
        match owner.filter(|_| self.is_private()) {
            None => self.shared.ready(),
            Some(owner) => {
                let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
                own.get(&owner.key).and_then(|slot| slot.ready())
            }
        }
    }

    fn slot(&self, owner: Option<&Owner>) -> Option<Arc<Slot>> {
        let Some(owner) = owner.filter(|_| self.is_private()) else {
            return Some(Arc::clone(&self.shared));
        };
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: whoever is gone from here on finds the place, and ends what is in it.
        if owner.over.is_cancelled() {
            return None;
        }
        let slot = own.entry(Arc::clone(&owner.key)).or_default();
        slot.used_ms.store(self.now_ms(), Ordering::Relaxed);
        Some(Arc::clone(slot))
    }

    /// Whether the place of a connection is still somebody's.
    fn is_wanted(&self, slot: &Arc<Slot>, owner: Option<&Owner>) -> bool {
        let Some(owner) = owner.filter(|_| self.is_private()) else { return true };
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.get(&owner.key).is_some_and(|own| Arc::ptr_eq(own, slot))
    }

    /// Ends connections of callers without a session that were not used for so long.
    pub(crate) fn sweep(&self, idle: Duration) {
        let now = self.now_ms();
        let idle = u64::try_from(idle.as_millis()).unwrap_or(u64::MAX);
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.retain(|key, slot| {
            let is_idle = now.saturating_sub(slot.used_ms.load(Ordering::Relaxed)) >= idle;
            let connection = slot.current.load_full();
            let is_busy = connection.as_ref().is_some_and(|connection| connection.in_flight() > 0);
            let is_swept = is_idle && !is_busy && key.starts_with(SESSIONLESS);
            if let Some(connection) = connection.filter(|_| is_swept) {
                connection.close("nobody used it");
            }
            !is_swept
        });
    }

    /// A session is over: so is its connection.
    pub(crate) fn leave(&self, key: &str) {
        let slot = self.own.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        if let Some(connection) = slot.and_then(|slot| slot.current.swap(None)) {
            connection.close("its client is gone");
        }
    }

    async fn open(
        self: Arc<Self>,
        slot: Arc<Slot>,
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
        let _turn = self.surroundings.starts.acquire().await;
        // What failed before is not waited for again.
        if !matches!(*self.state.borrow(), State::Failed(_)) {
            self.is(State::Starting);
        }
        match super::opening::open(&self, &whose).await.map_err(never_up) {
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
                super::learning::came_up(&self, &connection, !matches!(whose, Whose::Everybodys));
                Ok(connection)
            }
            Err(failure) => {
                let wait = opening.backoff.wait();
                let wait = if self.config.url.is_some() { wait.min(ADDRESS_AGAIN) } else { wait };
                opening.failed = Some((Instant::now() + wait, failure.clone()));
                self.is(State::Failed(failure.message().into()));
                Err(failure)
            }
        }
    }

    /// Keeps it up: for servers that are started at once.
    async fn supervise(self: Arc<Self>) {
        let mut backoff = Backoff::new();
        loop {
            if self.is_private() && self.manifest().is_some() {
                self.is(State::Ready);
                return;
            }
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
                    if self.is_private() && is_known || self.state() == State::Stopped {
                        return;
                    }
                }
                Err(failure) => tracing::warn!("{failure}"),
            }
            tokio::select! {
                () = tokio::time::sleep(backoff.wait()) => {}
                () = self.stop.cancelled() => return,
            }
        }
    }

    /// A client of old wants to hear more of what servers do: a server that all share is as loud as the most curious
    /// wants it. Nobody waits for it.
    pub(crate) fn speak_up(self: &Arc<Self>, level: Level, caller: &Caller) {
        let has_logs = self.manifest().is_some_and(|manifest| {
            let is_old = manifest.offer.era == Era::Legacy || self.speaks_both();
            manifest.offer.has("logging") && is_old
        });
        let is_louder = self.loudness.fetch_min(level.number(), Ordering::Relaxed) > level.number();
        if !has_logs || !(is_louder || self.is_private()) {
            return;
        }
        let (server, owner) = (Arc::clone(self), self.is_private().then(|| caller.owner()));
        self.surroundings.control.spawn(async move {
            let opened = server.connection_for(owner.as_ref(), Era::Legacy).await;
            let Ok(connection) = opened else { return };
            let mut params = Object::new();
            params.set("level", Json::string(level.name()));
            if let Err(not) = connection.ask("logging/setLevel", params).await {
                tracing::debug!("the level of `{}` is not set: {not:?}", server.name);
            }
        });
    }

    /// The level of log messages that somebody asked for, for a connection that is new.
    pub(super) fn loudness(&self) -> Option<Level> {
        Level::by_number(self.loudness.load(Ordering::Relaxed))
    }

    /// Waits until it is known how it is now, whatever was known of it before.
    pub(crate) async fn fresh(&self) {
        let mut states = self.state.subscribe();
        let is_known = |state: &State| !matches!(state, State::Waiting | State::Starting);
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

    pub(super) fn is(&self, state: State) {
        let has_failed = matches!(state, State::Failed(_));
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
    pub(super) fn offers(self: &Arc<Self>, manifest: Manifest, changed: &[Kind]) {
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

    pub(super) fn tell(&self, tell: impl FnOnce(&dyn Watch)) {
        if let Some(watch) = self.surroundings.watch.get().and_then(Weak::upgrade) {
            tell(&*watch);
        }
    }

    /// A request could not be sent: whatever is thought of the server, it is not ready.
    pub(crate) fn failed_to_answer(&self, failure: &Failure) {
        if matches!(failure.code(), Code::ServerUnavailable | Code::ServerCrashed)
            && self.state() == State::Ready
        {
            self.is(State::Failed(failure.message().into()));
        }
    }

    /// It answered: if it was thought to be away, it is back, and may offer something else.
    pub(crate) fn answered(self: &Arc<Self>) {
        if matches!(*self.state.borrow(), State::Failed(_)) {
            self.is(State::Ready);
            if !self.is_private() {
                for kind in Kind::ALL {
                    super::learning::suspect(self, kind);
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
        let own = std::mem::take(&mut *self.own.lock().unwrap_or_else(PoisonError::into_inner));
        let both = [Arc::clone(&self.shared), Arc::clone(&self.mirror)];
        let slots = own.into_values().chain(both);
        for connection in slots.filter_map(|slot| slot.current.swap(None)) {
            connection.close("toolgate is ending");
        }
    }

    /// What a request is told whose connection was gone before it was sent, twice.
    pub(crate) fn never_reached(&self, why: &str) -> Failure {
        lost(&self.name, why, toolgate::Ran::No)
    }
}

/// What a server is started or reached by, for telling it from another of the same name.
fn source(config: &ServerConfig) -> String {
    let words = config.command.iter().chain(&config.args).chain(&config.url);
    let words: Vec<&str> = words.map(super::super::config::Text::as_str).collect();
    words.join("\0")
}
