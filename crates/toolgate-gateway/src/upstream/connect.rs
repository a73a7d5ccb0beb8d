//! Opens a connection to a server: starts its process or reaches its address, and performs the handshake.

use std::{
    borrow::Cow,
    os::fd::{AsFd as _, OwnedFd},
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use toolgate::{Code, Failure};
use toolgate_wire::{Json, Message, mcp::Era};

use super::{
    connection::{Connection, ServerInfo, UpstreamTransport},
    events::{ReplyTo, SharedListener, UpstreamListener, UpstreamNotification},
    failures::{unavailable, unusable},
    handshake::{self, HandshakeError, HandshakeParams, is_refusal, own_version},
    pipe::{Clients, Pipe},
    server::{ConnectionOwner, ConnectionScope, OwnerKey, Server, ServerState},
    sse_2024,
    streamable_http::StreamableHttp,
};
use crate::{
    config::{HttpTransport, Protocol, Start},
    http_client::{ConnectionLimits, HttpClient, Target},
    implementation_info::ourselves,
    process::{
        child::{self, ServerCommand},
        stray_output,
    },
    write_queue::WriteQueue,
};

/// How long a server may take to exit after the gateway has closed its input.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the gateway reads the remaining output of a server that has ended.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// Passes the side messages of one connection to the server that it belongs to.
struct EventRelay {
    server: Weak<Server>,
    owner: Option<OwnerKey>,
}

impl UpstreamListener for EventRelay {
    fn on_notification(&self, notice: UpstreamNotification) {
        let Some(server) = self.server.upgrade() else { return };
        match notice {
            UpstreamNotification::ListChanged(kind) => match &self.owner {
                // This connection of a private server was opened only to list what the server offers.
                None if server.is_per_session() => {}
                None => super::discovery::list_changed(&server, kind),
                // What the process of one session lists does not concern other sessions.
                Some(owner) => {
                    server.emit(|events| events.on_list_changed_for(&server, owner, kind));
                }
            },
            UpstreamNotification::ResourceUpdated(message) => {
                let owner = self.owner.as_ref();
                server.emit(|events| events.on_resource_updated(&server, owner, &message));
            }
            UpstreamNotification::Log(message) | UpstreamNotification::Other(message) => {
                let owner = self.owner.as_ref();
                server.emit(|events| events.on_notification(&server, owner, &message));
            }
        }
    }

    fn on_request(&self, request: Message, reply: ReplyTo) -> bool {
        let Some(server) = self.server.upgrade() else { return false };
        let mut is_answered = false;
        server.emit(|events| {
            is_answered = events.on_request(&server, self.owner.as_ref(), request, reply);
        });
        is_answered
    }
}

/// Opens a connection. A legacy session gets a legacy connection if the server accepts one.
pub(super) async fn open(
    server: &Arc<Server>,
    scope: &ConnectionScope,
) -> Result<Arc<Connection>, Failure> {
    if let Some(why) = server.config.why_unusable() {
        return Err(unusable(&server.name, why));
    }
    let prefers_legacy = match scope {
        ConnectionScope::Shared => false,
        ConnectionScope::SharedLegacy => true,
        ConnectionScope::Session(owner) => owner.is_one_client() && server.may_speak_legacy(),
    };
    if prefers_legacy {
        match Attempt::new(server, scope, Protocol::Legacy).open().await {
            Ok(connection) => {
                server.set_legacy_capabilities(Some(&connection.server_info.capabilities)).await;
                return Ok(connection);
            }
            Err(failure) => {
                if is_refusal(&failure) {
                    server.set_legacy_capabilities(None).await;
                }
                if matches!(scope, ConnectionScope::SharedLegacy) || !is_refusal(&failure) {
                    return Err(failure);
                }
            }
        }
    }
    Attempt::new(server, scope, server.config.protocol).open().await
}

/// One attempt to open a connection to a server.
#[derive(Clone)]
struct Attempt<'a> {
    server: &'a Arc<Server>,
    owner: Option<&'a ConnectionOwner>,
    listener: SharedListener,
    protocol: Protocol,
    /// The era that the server spoke last time.
    known: Option<Era>,
}

impl<'a> Attempt<'a> {
    fn new(server: &'a Arc<Server>, scope: &'a ConnectionScope, protocol: Protocol) -> Self {
        let owner = scope.owner();
        let listener = Arc::new(EventRelay {
            server: Arc::downgrade(server),
            owner: owner.map(|owner| owner.key.clone()),
        });
        let known = server.manifest().map(|manifest| manifest.server_info.era);
        Self { server, owner, listener, protocol, known }
    }

    fn with_protocol(&self, protocol: Protocol) -> Self {
        Self { protocol, ..self.clone() }
    }

    fn with_unknown_era(&self) -> Self {
        Self { known: None, ..self.clone() }
    }

    async fn open(mut self) -> Result<Arc<Connection>, Failure> {
        let Some(command) = self.server.config.to_command() else {
            return Box::pin(self.reach()).await;
        };
        let mut started = Box::pin(self.start(&command)).await;
        if let Err(HandshakeError::Renewed(_)) = started {
            self = self.with_unknown_era();
            started = Box::pin(self.start(&command)).await;
        }
        let error = match started {
            Ok(connection) => return Ok(connection),
            Err(error) => error,
        };
        let is_silent = matches!(error, HandshakeError::Silent(_));
        let failure = error.into_failure();
        // On an unknown method, some servers exit and others do not respond.
        let has_exited = self.known.is_none() && failure.code() == Code::ServerCrashed;
        if self.protocol != Protocol::Auto || !(is_silent || has_exited) {
            return Err(failure);
        }
        tracing::info!("{failure}; it is started again with `initialize`");
        let legacy = self.with_protocol(Protocol::Legacy);
        match Box::pin(legacy.start(&command)).await.map_err(HandshakeError::into_failure) {
            // The server speaks 2026-07-28 after all, but slowly.
            Err(refused) if is_silent && is_refusal(&refused) => {
                let modern = self.with_protocol(Protocol::Modern);
                Box::pin(modern.start(&command)).await.map_err(HandshakeError::into_failure)
            }
            started => started,
        }
    }

    /// Whether a server that the manifest has as legacy, and that got a legacy handshake, has another version now. Only
    /// the shared connection asks: it renews the manifest.
    fn has_new_version(&self, server_info: &ServerInfo) -> bool {
        let version = |server_info: &ServerInfo| {
            let version = server_info.info.as_ref().and_then(|info| info.get("version"));
            version.and_then(|version| version.text().map(Cow::into_owned))
        };
        self.owner.is_none()
            && self.protocol == Protocol::Auto
            && self.known == Some(Era::Legacy)
            && server_info.era == Era::Legacy
            && self
                .server
                .manifest()
                .is_some_and(|known| version(&known.server_info) != version(server_info))
    }

    fn handshake_params(&self) -> HandshakeParams {
        // The gateway attributes each request of the server to a client when it comes. `roots` is not declared: clients
        // that share a connection have different roots.
        let own = || {
            Json::value(
                &serde_json::json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}}),
            )
        };
        HandshakeParams {
            protocol: self.protocol,
            known: self.known,
            capabilities: self.owner.map_or_else(own, |owner| owner.capabilities.clone()),
            info: self.owner.map_or_else(ourselves, |owner| owner.info.clone()),
            version: self.owner.map_or_else(own_version, |owner| Arc::clone(&owner.version)),
            timeout: self.server.config.start_timeout,
            stdin: None,
        }
    }

    /// Starts the process of the server, and performs the handshake.
    async fn start(&self, command: &ServerCommand) -> Result<Arc<Connection>, HandshakeError> {
        let server = self.server;
        let spawned = spawn(server, command, Clients::Several, &self.listener);
        let process = spawned.map_err(|error| unavailable(&server.name, &error.to_string()))?;
        let (transport, life) = (UpstreamTransport::Pipe(process.pipe), process.life);
        let params = HandshakeParams { stdin: process.stdin, ..self.handshake_params() };
        let opened = tokio::select! {
            biased;
            opened = handshake::perform(&transport, &server.name, &params) => opened,
            () = server.stop.cancelled() => {
                Err(unavailable(&server.name, "toolgate is ending").into())
            }
        };
        drop(params);
        let opened = match opened {
            Ok(server_info) if self.has_new_version(&server_info) => {
                Err(HandshakeError::Renewed(unavailable(&server.name, "it has another version")))
            }
            opened => opened,
        };
        match opened {
            Ok(server_info) => Ok(connection_to(server_info, transport, &life)),
            Err(error) => {
                life.stop.cancel();
                if matches!(error, HandshakeError::Silent(_) | HandshakeError::Renewed(_)) {
                    // The next process starts after this one is gone: two at once may collide.
                    life.gone.cancelled().await;
                }
                Err(error)
            }
        }
    }

    /// Reaches the server at its address, and performs the handshake.
    async fn reach(&self) -> Result<Arc<Connection>, Failure> {
        let (server, config) = (self.server, &self.server.config);
        let url = config.url.as_ref().map(crate::config::Text::as_str).unwrap_or_default();
        let headers =
            config.headers.iter().map(|(name, value)| (name.clone(), value.as_str().to_owned()));
        let target = Target::new(url, headers, ConnectionLimits::default());
        let target = target.map_err(|error| unavailable(&server.name, &error.to_string()))?;
        let client = Arc::new(HttpClient::new(Arc::new(target)));
        let params = self.handshake_params();
        let sse = || {
            let name = Arc::clone(&server.name);
            sse_2024::open(name, server.deps.limits, Arc::clone(&client), &self.listener, &params)
        };
        if config.transport == HttpTransport::Sse {
            return Box::pin(sse()).await;
        }
        let http = Arc::new(StreamableHttp::new(
            Arc::clone(&server.name),
            Arc::clone(&client),
            server.deps.limits,
            Arc::clone(&self.listener),
        ));
        let transport = UpstreamTransport::Http(Arc::clone(&http));
        let mut opened = handshake::perform(&transport, &server.name, &params).await;
        if let Ok(server_info) = &opened
            && self.has_new_version(server_info)
        {
            http.end_session().await;
            return Box::pin(self.with_unknown_era().reach()).await;
        }
        // Each request is a POST of its own: a cancelled one does not block the next.
        if let Err(HandshakeError::Silent(_)) = opened {
            for protocol in [Protocol::Legacy, Protocol::Modern] {
                let params = self.with_protocol(protocol).handshake_params();
                opened = handshake::perform(&transport, &server.name, &params).await;
                if !matches!(&opened, Err(HandshakeError::Failed(failure)) if is_refusal(failure)) {
                    break;
                }
            }
        }
        match opened.map_err(HandshakeError::into_failure) {
            Ok(server_info) => {
                Ok(Arc::new(Connection::new(server_info, transport, CancellationToken::new())))
            }
            // The server does not accept POSTs here: it may speak only the transport of 2024-11-05.
            Err(failure)
                if config.transport == HttpTransport::Auto
                    && failure.code() == Code::ServerRejected
                    && self.protocol != Protocol::Modern
                    && (self.protocol == config.protocol || self.known != Some(Era::Modern)) =>
            {
                Box::pin(sse()).await.map_err(|_| failure)
            }
            Err(failure) => Err(failure),
        }
    }
}

/// A process that was started, with the tasks that read and write its pipes.
pub(super) struct SpawnedProcess {
    pub(super) pipe: Arc<Pipe>,
    pub(super) life: ProcessLifetime,
    /// A copy of the process's input, to see how much of it the process has read. The input stays open until this copy is
    /// dropped.
    stdin: Option<OwnedFd>,
}

/// Starts the process of a server.
pub(super) fn spawn(
    server: &Arc<Server>,
    command: &ServerCommand,
    clients: Clients,
    listener: &SharedListener,
) -> Result<SpawnedProcess, child::StartError> {
    let (process, (stdin, stdout, stderr)) = child::start(command)?;
    let queue = Arc::new(WriteQueue::new());
    let pipe = Arc::new(Pipe::new(Arc::clone(&server.name), Arc::clone(&queue), clients));
    let life = ProcessLifetime::default();
    let stdin_copy = stdin.as_fd().try_clone_to_owned().ok();
    let (writing, broken) = (Arc::clone(&queue), life.stop.clone());
    let writer = tokio::spawn(async move {
        if writing.drain(stdin).await.is_err() {
            // The server has closed its input: it would answer no further request.
            broken.cancel();
        }
    });
    let name = Arc::clone(&server.name);
    tokio::spawn(async move { stray_output::forward_stderr(&name, stderr).await });
    let reader = tokio::spawn({
        let (pipe, listener) = (Arc::clone(&pipe), Arc::clone(listener));
        let limits = server.deps.limits;
        async move { pipe.read(stdout, &limits, &listener).await }
    });
    let supervised = SupervisedProcess {
        process,
        reader,
        writer,
        pipe: Arc::clone(&pipe),
        queue,
        life: life.clone(),
        has_read: false,
    };
    let deps = &server.deps;
    deps.tasks.spawn_on(supervised.supervise(Arc::clone(server)), &deps.control);
    Ok(SpawnedProcess { pipe, life, stdin: stdin_copy })
}

/// The connection to a process. It closes when the process ends.
pub(super) fn connection_to(
    server_info: ServerInfo,
    transport: UpstreamTransport,
    life: &ProcessLifetime,
) -> Arc<Connection> {
    let connection = Arc::new(Connection::new(server_info, transport, life.stop.clone()));
    let (ending, life) = (Arc::clone(&connection), life.clone());
    tokio::spawn(async move {
        life.ended.cancelled().await;
        ending.close(life.why.get().map_or("it has ended", |why| why));
    });
    connection
}

/// When the process of a server stops and ends, for its connection and its owner.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcessLifetime {
    /// Cancelled to stop the process.
    pub(super) stop: CancellationToken,
    /// Cancelled when the connection can no longer be used; the process may still be ending.
    ended: CancellationToken,
    why: Arc<OnceLock<Arc<str>>>,
    /// Cancelled when the process is gone and `ending` is set.
    pub(super) gone: CancellationToken,
    pub(super) ending: Arc<OnceLock<child::Ending>>,
}

/// A process with the tasks that read and write its pipes.
struct SupervisedProcess {
    process: child::ServerProcess,
    reader: tokio::task::JoinHandle<()>,
    writer: tokio::task::JoinHandle<()>,
    pipe: Arc<Pipe>,
    queue: Arc<WriteQueue>,
    life: ProcessLifetime,
    has_read: bool,
}

impl SupervisedProcess {
    /// Waits until the process ends, or ends it on `stop` or after the idle time; then closes the connection.
    async fn supervise(mut self, server: Arc<Server>) {
        let idle = server.config.idle_stop.get();
        let name = Arc::clone(&server.name);
        let (is_ours, ending) = loop {
            tokio::select! {
                ending = self.process.wait() => break (false, ending),
                // The process closed its output: it cannot respond any more, even if it lives on.
                _ = &mut self.reader, if !self.has_read => {
                    self.has_read = true;
                    match timeout(DRAIN_TIMEOUT, self.process.wait()).await {
                        Ok(ending) => break (false, ending),
                        Err(_) => break (false, self.end("it closed its output").await),
                    }
                }
                () = self.life.stop.cancelled() => break (true, self.end("toolgate has ended it").await),
                () = tokio::time::sleep(idle.map_or(Duration::MAX, |idle| idle / 4)), if idle.is_some() => {
                    let is_idle = idle.is_some_and(|idle| server.idle_for() >= idle);
                    if is_idle && self.pipe.in_flight() == 0 {
                        tracing::info!("the server `{name}` is stopped: it was not used");
                        server.set_state(ServerState::Stopped);
                        break (true, self.end("it was not used").await);
                    }
                }
            }
        };
        // While a server is starting, the supervisor that starts it logs the failure.
        let logs_failure =
            server.state() == ServerState::Ready || server.config.start == Start::OnDemand;
        drop(server);
        // A grandchild may hold the pipe open; the server's own last output is readable at once.
        if !self.has_read {
            let _ = timeout(DRAIN_TIMEOUT, &mut self.reader).await;
            self.reader.abort();
        }
        let why: Arc<str> = ending.to_string().into();
        if is_ours || ending.is_success() || !logs_failure {
            tracing::debug!("the server `{name}` ended: {ending}");
        } else {
            tracing::error!("the server `{name}` ended: {ending}");
        }
        let _ = self.life.why.set(Arc::clone(&why));
        self.pipe.close(&why);
        self.life.ended.cancel();
        let _ = self.life.ending.set(ending);
        self.life.gone.cancel();
    }

    async fn end(&mut self, why: &str) -> child::Ending {
        if self.pipe.is_exclusive() {
            // The client's last notifications still reach the server.
            self.queue.close();
            let _ = timeout(DRAIN_TIMEOUT, &mut self.writer).await;
        }
        // Before the process ends: from here on a call starts another process.
        let _ = self.life.why.set(why.into());
        self.life.ended.cancel();
        self.queue.abandon();
        self.process.end(EXIT_TIMEOUT).await
    }
}
