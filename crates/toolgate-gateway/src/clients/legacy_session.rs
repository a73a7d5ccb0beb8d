//! A session of a legacy client (2025-11-25 and earlier).

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use toolgate::{ClientInfo, Session};
use toolgate_wire::{Id, Json};

use super::{
    active_requests::{ActiveRequest, ActiveRequests, DuplicateId},
    client_requests::ClientRequests,
    notifications::{NotificationFilter, NotificationQueue},
    replay::ReplayBuffer,
};
use crate::{
    capabilities::ClientCapabilities,
    hops::Hops,
    log_level::LogLevel,
    upstream::server::{ConnectionOwner, OwnerKey},
    usage::PrincipalInNamespace,
};

/// The client has not set a log level.
const NO_LEVEL: u8 = u8::MAX;

/// One session.
#[derive(Debug)]
pub(crate) struct LegacySession {
    pub(crate) session: Arc<Session>,
    pub(crate) principal: Arc<PrincipalInNamespace>,
    pub(crate) version: Arc<str>,
    pub(crate) capabilities: Json,
    pub(crate) info_text: Json,
    pub(crate) info: Option<Arc<ClientInfo>>,
    pub(crate) abilities: ClientCapabilities,
    pub(crate) client_requests: ClientRequests,
    pub(crate) notifications: Arc<NotificationQueue>,
    pub(crate) replay: ReplayBuffer,
    /// The gateways through which the session was opened.
    pub(crate) hops: Option<Hops>,
    /// Cancelled when the session ends.
    pub(crate) over: CancellationToken,
    /// Cancels the current reader of the notifications: the stream that was opened last replaces the one before.
    reader: Mutex<CancellationToken>,
    level: AtomicU8,
    pub(crate) requests: Arc<ActiveRequests>,
    busy: AtomicUsize,
    used_ms: AtomicU64,
    born: Instant,
}

/// What a legacy client's handshake contains, with its principal.
#[derive(Debug)]
pub(crate) struct ClientHandshake {
    pub(crate) session: Arc<Session>,
    pub(crate) principal: Arc<PrincipalInNamespace>,
    pub(crate) version: Arc<str>,
    pub(crate) capabilities: Json,
    /// `clientInfo`
    pub(crate) info: Json,
    /// The gateways that the handshake passed.
    pub(crate) hops: Option<Hops>,
}

impl LegacySession {
    pub(crate) fn new(handshake: ClientHandshake) -> Self {
        let ClientHandshake { session, principal, version, capabilities, info: info_text, hops } =
            handshake;
        let text = |key| info_text.get(key).and_then(|json| json.text().map(Cow::into_owned));
        let info = text("name").map(|name| Arc::new(ClientInfo { name, version: text("version") }));
        Self {
            abilities: abilities(&version, &capabilities),
            notifications: NotificationQueue::new(NotificationFilter::everything(&session.id)),
            session,
            version,
            capabilities,
            info_text,
            info,
            client_requests: ClientRequests::default(),
            replay: ReplayBuffer::new(Arc::clone(&principal.account)),
            principal,
            hops,
            over: CancellationToken::new(),
            reader: Mutex::default(),
            level: AtomicU8::new(NO_LEVEL),
            requests: Arc::default(),
            busy: AtomicUsize::new(0),
            used_ms: AtomicU64::new(0),
            born: Instant::now(),
        }
    }

    /// The key of connections to servers that belong to this session.
    pub(crate) fn owner(&self) -> ConnectionOwner {
        ConnectionOwner {
            key: OwnerKey::Session(Arc::clone(&self.session.id)),
            capabilities: self.capabilities.clone(),
            info: self.info_text.clone(),
            version: Arc::clone(&self.version),
            over: self.over.clone(),
            account: Arc::clone(&self.principal.account),
        }
    }

    /// Registers a request, and keeps the session in use until the response.
    pub(crate) fn begin(
        self: &Arc<Self>,
        id: &Id,
        token: &CancellationToken,
    ) -> Result<(ActiveRequest, SessionUse), DuplicateId> {
        self.use_now();
        let in_flight = self.requests.begin(id, token)?;
        Ok((in_flight, self.busy()))
    }

    /// The log level that the client has set, if it has.
    pub(crate) fn level(&self) -> Option<LogLevel> {
        LogLevel::by_number(self.level.load(Ordering::Relaxed))
    }

    /// Whether the client wants log messages of this level. Without a level set, the server decides.
    pub(crate) fn wants_log(&self, level: LogLevel) -> bool {
        self.level().is_none_or(|least| level >= least)
    }

    pub(crate) fn set_level(&self, level: LogLevel) {
        self.level.store(level.number(), Ordering::Relaxed);
    }

    /// Makes the caller the reader of the notifications, and cancels the previous reader.
    pub(crate) fn take_stream(&self) -> CancellationToken {
        let mut reader = self.reader.lock();
        reader.cancel();
        *reader = self.over.child_token();
        reader.clone()
    }

    pub(crate) fn use_now(&self) {
        let now = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.used_ms.store(now, Ordering::Relaxed);
    }

    /// How long the session has been idle.
    pub(crate) fn idle_for(&self) -> Duration {
        if self.busy.load(Ordering::Relaxed) > 0 {
            return Duration::ZERO;
        }
        let used = Duration::from_millis(self.used_ms.load(Ordering::Relaxed));
        self.born.elapsed().saturating_sub(used)
    }

    /// Keeps the session in use while a stream is open.
    pub(crate) fn busy(self: &Arc<Self>) -> SessionUse {
        self.busy.fetch_add(1, Ordering::Relaxed);
        SessionUse(Arc::clone(self))
    }

    /// Ends the session: cancels its requests and closes its notifications.
    pub(crate) fn end(&self) {
        self.over.cancel();
        self.notifications.close();
        self.requests.cancel_all();
    }
}

/// The capabilities that the version allows: elicitation since 2025-06-18, elicitation by URL since 2025-11-25.
fn abilities(version: &str, capabilities: &Json) -> ClientCapabilities {
    let declared = ClientCapabilities::of(capabilities);
    let mut abilities = ClientCapabilities::default();
    for ability in [ClientCapabilities::SAMPLING, ClientCapabilities::ROOTS] {
        if declared.has(ability) {
            abilities = abilities.and(ability);
        }
    }
    if version >= "2025-06-18" && declared.has(ClientCapabilities::FORMS) {
        abilities = abilities.and(ClientCapabilities::FORMS);
    }
    if version >= "2025-11-25" && declared.has(ClientCapabilities::URLS) {
        abilities = abilities.and(ClientCapabilities::URLS);
    }
    abilities
}

/// Keeps a session in use until this is dropped.
#[derive(Debug)]
pub(crate) struct SessionUse(Arc<LegacySession>);

impl Drop for SessionUse {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
        self.0.use_now();
    }
}
