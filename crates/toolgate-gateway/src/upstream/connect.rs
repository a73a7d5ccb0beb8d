//! Opening a connection to a server: its process is started or its address reached, and it is said hello to.

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
    connection::{Connection, ServerInfo, Wire},
    events::{Events, ReplyTo, UpstreamListener, UpstreamNotification},
    handshake::{HandshakeError, HandshakeMode, greet, is_refusal, own_version},
    in_flight::unavailable,
    pipe::{Clients, Pipe},
    server::{Server, ServerState, SessionKey, Whose},
    sse_2024,
    streamable_http::StreamableHttp,
};
use crate::{
    config::{HttpTransport, Protocol, Start},
    http_client::{Bounds, HttpClient, Target},
    implementation_info::ourselves,
    process::{
        child::{self, ServerCommand},
        stray_output,
    },
    write_queue::WriteQueue,
};

/// After its input was closed, a server may take this long to end by itself.
const FAREWELL: Duration = Duration::from_secs(2);
/// What a server still said before it ended may take this long to be read.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Who hears what a server says: the server itself, as long as it is there.
struct EventRelay {
    server: Weak<Server>,
    owner: Option<Arc<str>>,
}

impl UpstreamListener for EventRelay {
    fn happened(&self, event: UpstreamNotification) {
        let Some(server) = self.server.upgrade() else { return };
        match event {
            UpstreamNotification::Changed(kind) => match &self.owner {
                // What was there to be asked once is not asked again.
                None if server.is_private() => {}
                None => super::discovery::changed(&server, kind),
                // What one session's server lists is of no concern to others.
                Some(owner) => server.tell(|watch| watch.changed_for(&server, owner, kind)),
            },
            UpstreamNotification::Updated(message) => {
                server.tell(|watch| watch.updated(&server, self.owner.as_deref(), &message));
            }
            UpstreamNotification::Log(message) | UpstreamNotification::Other(message) => {
                server.tell(|watch| watch.told(&server, self.owner.as_deref(), &message));
            }
        }
    }

    fn asks(&self, question: Message, reply: ReplyTo) -> bool {
        let Some(server) = self.server.upgrade() else { return false };
        let mut answered = false;
        server.tell(|watch| {
            answered = watch.asked(&server, self.owner.as_deref(), question, reply);
        });
        answered
    }
}

/// Opens a connection, for everybody or for one session: in the session's own era, where the server accepts that.
pub(super) async fn open(server: &Arc<Server>, whose: &Whose) -> Result<Arc<Connection>, Failure> {
    let is_legacy = match whose {
        Whose::Everybodys => false,
        Whose::Olds => true,
        Whose::Route(owner) => owner.is_one_client() && server.may_speak_legacy(),
    };
    if is_legacy {
        let opened = open_as(server, whose, Protocol::Legacy).await;
        match opened {
            Ok(connection) => {
                server.found_legacy(Some(&connection.offer.capabilities)).await;
                return Ok(connection);
            }
            Err(failure) => {
                if is_refusal(&failure) {
                    server.found_legacy(None).await;
                }
                if matches!(whose, Whose::Olds) || !is_refusal(&failure) {
                    return Err(failure);
                }
            }
        }
    }
    open_as(server, whose, server.config.protocol).await
}

async fn open_as(
    server: &Arc<Server>,
    whose: &Whose,
    protocol: Protocol,
) -> Result<Arc<Connection>, Failure> {
    let owner = whose.owner();
    let ear: Events = Arc::new(EventRelay {
        server: Arc::downgrade(server),
        owner: owner.map(|owner| Arc::clone(&owner.key)),
    });
    let mut known = server.manifest().map(|manifest| manifest.offer.era);
    let Some(command) = server.config.to_command() else {
        return Box::pin(reach(server, owner, &ear, protocol, known)).await;
    };
    let start = |protocol, known| Box::pin(start(server, &command, owner, &ear, protocol, known));
    let mut started = start(protocol, known).await;
    if let Err(HandshakeError::Renewed(_)) = started {
        known = None;
        started = start(protocol, known).await;
    }
    let not = match started {
        Ok(connection) => return Ok(connection),
        Err(not) => not,
    };
    let is_silent = matches!(not, HandshakeError::Silent(_));
    let failure = not.into_failure();
    // Some servers end when they are asked something that they do not know, and some say nothing.
    let has_died = known.is_none() && failure.code() == Code::ServerCrashed;
    if protocol != Protocol::Auto || !(is_silent || has_died) {
        return Err(failure);
    }
    tracing::info!("{failure}; it is started again with `initialize`");
    match start(Protocol::Legacy, known).await.map_err(HandshakeError::into_failure) {
        // It does speak 2026-07-28, and takes its time.
        Err(refused) if is_silent && is_refusal(&refused) => {
            start(Protocol::Modern, known).await.map_err(HandshakeError::into_failure)
        }
        started => started,
    }
}

/// Whether a server that is remembered as legacy, and got a legacy handshake, has another version now. A connection of
/// one session does not ask: what all share renews what is remembered.
fn is_renewed(
    server: &Server,
    owner: Option<&SessionKey>,
    protocol: Protocol,
    known: Option<Era>,
    offer: &ServerInfo,
) -> bool {
    let version = |offer: &ServerInfo| {
        let version = offer.info.as_ref().and_then(|info| info.get("version"));
        version.and_then(|version| version.text().map(Cow::into_owned))
    };
    owner.is_none()
        && protocol == Protocol::Auto
        && known == Some(Era::Legacy)
        && offer.era == Era::Legacy
        && server.manifest().is_some_and(|known| version(&known.offer) != version(offer))
}

fn greeting(
    server: &Server,
    owner: Option<&SessionKey>,
    protocol: Protocol,
    known: Option<Era>,
) -> HandshakeMode {
    // Whom a question is for is found out when it comes. Roots belong to nobody where all share one connection.
    let asked = || {
        Json::value(&serde_json::json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}}))
    };
    HandshakeMode {
        protocol,
        known,
        capabilities: owner.map_or_else(asked, |owner| owner.capabilities.clone()),
        info: owner.map_or_else(ourselves, |owner| owner.info.clone()),
        version: owner.map_or_else(own_version, |owner| Arc::clone(&owner.version)),
        patience: server.config.start_timeout,
        stdin: None,
    }
}

/// Starts the process of a server, with the tasks that serve its pipes. Gives a copy of its input, too, by which can be
/// seen how much of it was read; its input does not end before that is dropped.
pub(super) fn spawn(
    server: &Arc<Server>,
    command: &ServerCommand,
    clients: Clients,
    ear: &Events,
) -> Result<(Arc<Pipe>, ProcessLifetime, Option<OwnedFd>), child::StartError> {
    let (process, (stdin, stdout, stderr)) = child::start(command)?;
    let outbox = Arc::new(WriteQueue::new());
    let pipe = Arc::new(Pipe::new(Arc::clone(&server.name), Arc::clone(&outbox), clients));
    let life = ProcessLifetime::default();
    let unread = stdin.as_fd().try_clone_to_owned().ok();
    let (writing, broken) = (Arc::clone(&outbox), life.stop.clone());
    let writer = tokio::spawn(async move {
        if writing.drain(stdin).await.is_err() {
            // It reads no more: nothing that is asked of it would ever be answered.
            broken.cancel();
        }
    });
    let name = Arc::clone(&server.name);
    tokio::spawn(async move { stray_output::forward_stderr(&name, stderr).await });
    let reader = tokio::spawn({
        let (pipe, ear, limits) = (Arc::clone(&pipe), Arc::clone(ear), server.surroundings.limits);
        async move { pipe.read(stdout, &limits, &ear).await }
    });
    let guarded = SupervisedProcess {
        process,
        reader,
        writer,
        pipe: Arc::clone(&pipe),
        outbox,
        life: life.clone(),
        has_read: false,
    };
    server
        .surroundings
        .tasks
        .spawn_on(guarded.guard(Arc::clone(server)), &server.surroundings.control);
    Ok((pipe, life, unread))
}

async fn start(
    server: &Arc<Server>,
    command: &ServerCommand,
    owner: Option<&SessionKey>,
    ear: &Events,
    protocol: Protocol,
    known: Option<Era>,
) -> Result<Arc<Connection>, HandshakeError> {
    let spawned = spawn(server, command, Clients::Several, ear);
    let (pipe, life, unread) =
        spawned.map_err(|error| unavailable(&server.name, &error.to_string()))?;
    let wire = Wire::Pipe(pipe);
    let hello = HandshakeMode { stdin: unread, ..greeting(server, owner, protocol, known) };
    let greeted = tokio::select! {
        biased;
        greeted = greet(&wire, &server.name, &hello) => greeted,
        () = server.stop.cancelled() => Err(unavailable(&server.name, "toolgate is ending").into()),
    };
    drop(hello);
    let greeted = match greeted {
        Ok(offer) if is_renewed(server, owner, protocol, known, &offer) => {
            Err(HandshakeError::Renewed(unavailable(&server.name, "it has another version")))
        }
        greeted => greeted,
    };
    let offer = match greeted {
        Ok(offer) => offer,
        Err(not) => {
            life.stop.cancel();
            if matches!(not, HandshakeError::Silent(_) | HandshakeError::Renewed(_)) {
                // Another one follows: two at once may be in each other's way.
                life.gone.cancelled().await;
            }
            return Err(not);
        }
    };
    Ok(connected(offer, wire, &life))
}

/// The connection to a process; it closes when the process ends.
pub(super) fn connected(offer: ServerInfo, wire: Wire, life: &ProcessLifetime) -> Arc<Connection> {
    let connection = Arc::new(Connection::new(offer, wire, life.stop.clone()));
    let (ending, life) = (Arc::clone(&connection), life.clone());
    tokio::spawn(async move {
        life.ended.cancelled().await;
        ending.close(life.why.get().map_or("it has ended", |why| why));
    });
    connection
}

/// The life of a process, for those who wait for its end.
#[derive(Clone, Debug, Default)]
pub(super) struct ProcessLifetime {
    pub(super) stop: CancellationToken,
    /// Cancelled when the connection is of no use any more; the process may still be about to end.
    ended: CancellationToken,
    why: Arc<OnceLock<Arc<str>>>,
    /// Cancelled when the process is gone, whose end is known then.
    pub(super) gone: CancellationToken,
    pub(super) ending: Arc<OnceLock<child::Ending>>,
}

/// A process with what serves its pipes.
struct SupervisedProcess {
    process: child::ServerProcess,
    reader: tokio::task::JoinHandle<()>,
    writer: tokio::task::JoinHandle<()>,
    pipe: Arc<Pipe>,
    outbox: Arc<WriteQueue>,
    life: ProcessLifetime,
    has_read: bool,
}

impl SupervisedProcess {
    /// Waits for the process to end, or ends it when it is time; then tells everybody who waits for it.
    async fn guard(mut self, server: Arc<Server>) {
        let idle = server.config.idle_stop.get();
        let name = Arc::clone(&server.name);
        let (is_ours, ending) = loop {
            tokio::select! {
                ending = self.process.ended() => break (false, ending),
                // It says no more, and may live on: of no use to anybody.
                _ = &mut self.reader, if !self.has_read => {
                    self.has_read = true;
                    match timeout(LAST_WORDS, self.process.ended()).await {
                        Ok(ending) => break (false, ending),
                        Err(_) => break (false, self.end("it closed its output").await),
                    }
                }
                () = self.life.stop.cancelled() => break (true, self.end("toolgate has ended it").await),
                () = tokio::time::sleep(idle.map_or(Duration::MAX, |idle| idle / 4)), if idle.is_some() => {
                    let is_idle = idle.is_some_and(|idle| server.idle_for() >= idle);
                    if is_idle && self.pipe.in_flight() == 0 {
                        tracing::info!("the server `{name}` is stopped: nobody used it");
                        server.is(ServerState::Stopped);
                        break (true, self.end("nobody used it").await);
                    }
                }
            }
        };
        // That it does not come up is told by whoever starts it, once.
        let is_news =
            server.state() == ServerState::Ready || server.config.start == Start::OnDemand;
        drop(server);
        // A grandchild may hold the pipe open; the server's own last words are there at once.
        if !self.has_read {
            let _ = timeout(LAST_WORDS, &mut self.reader).await;
            self.reader.abort();
        }
        let why: Arc<str> = ending.to_string().into();
        if is_ours || ending.is_success() || !is_news {
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
            // The client's last notifications are for the server, as over a pipe of its own.
            self.outbox.close();
            let _ = timeout(LAST_WORDS, &mut self.writer).await;
        }
        // First: whoever comes from here on starts another one.
        let _ = self.life.why.set(why.into());
        self.life.ended.cancel();
        self.outbox.abandon();
        self.process.end(FAREWELL).await
    }
}

async fn reach(
    server: &Arc<Server>,
    owner: Option<&SessionKey>,
    ear: &Events,
    protocol: Protocol,
    known: Option<Era>,
) -> Result<Arc<Connection>, Failure> {
    let config = &server.config;
    let url = config.url.as_ref().map(crate::config::Text::as_str).unwrap_or_default();
    let headers =
        config.headers.iter().map(|(name, value)| (name.clone(), value.as_str().to_owned()));
    let target = Target::new(url, headers, Bounds::default());
    let target = target.map_err(|error| unavailable(&server.name, &error.to_string()))?;
    let client = Arc::new(HttpClient::new(Arc::new(target)));
    let hello = greeting(server, owner, protocol, known);
    if config.transport == HttpTransport::Sse {
        return Box::pin(sse_2024::open(server, &client, ear, &hello)).await;
    }
    let limits = server.surroundings.limits;
    let link =
        StreamableHttp::new(Arc::clone(&server.name), Arc::clone(&client), limits, Arc::clone(ear));
    let link = Arc::new(link);
    let wire = Wire::Http(Arc::clone(&link));
    let mut greeted = greet(&wire, &server.name, &hello).await;
    if let Ok(offer) = &greeted
        && is_renewed(server, owner, protocol, known, offer)
    {
        link.leave().await;
        return Box::pin(reach(server, owner, ear, protocol, None)).await;
    }
    // Each request is a POST of its own: what was given up is not in the way of the next one.
    if let Err(HandshakeError::Silent(_)) = greeted {
        for protocol in [Protocol::Legacy, Protocol::Modern] {
            let hello = greeting(server, owner, protocol, known);
            greeted = greet(&wire, &server.name, &hello).await;
            if !matches!(&greeted, Err(HandshakeError::Failed(failure)) if is_refusal(failure)) {
                break;
            }
        }
    }
    match greeted.map_err(HandshakeError::into_failure) {
        Ok(offer) => Ok(Arc::new(Connection::new(offer, wire, CancellationToken::new()))),
        // It knows nothing of POSTs here: it may be of the time before.
        Err(failure)
            if config.transport == HttpTransport::Auto
                && failure.code() == Code::ServerRejected
                && protocol != Protocol::Modern
                && (protocol == config.protocol || known != Some(Era::Modern)) =>
        {
            let older = Box::pin(sse_2024::open(server, &client, ear, &hello)).await;
            older.map_err(|_| failure)
        }
        Err(failure) => Err(failure),
    }
}
