//! Opening a connection to a server: its process is started or its address reached, and it is said hello to.

use std::{
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use toolgate::{Code, Failure};
use toolgate_wire::{Json, Message, notification};

use super::{
    child::{self, ServerCommand},
    connection::{Connection, Era, Wire, ourselves},
    events::{Event, Events, Listener, ReplyTo},
    flight::unavailable,
    handshake::{Greeting, Protocol, greet, own_version},
    http::{Bounds, Client, Target},
    legacy_sse, noise,
    pipe::Pipe,
    server::{Owner, Server, State, Whose},
    streamable::Streamable,
};
use crate::{config::HttpTransport, outbox::Outbox};

/// After its input was closed, a server may take this long to end by itself.
const FAREWELL: Duration = Duration::from_secs(2);
/// What a server still said before it ended may take this long to be read.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Who hears what a server says: the server itself, as long as it is there.
struct Ear {
    server: Weak<Server>,
    owner: Option<Arc<str>>,
}

impl Listener for Ear {
    fn happened(&self, event: Event) {
        let Some(server) = self.server.upgrade() else { return };
        match event {
            Event::Changed(kind) => match &self.owner {
                // What was there to be asked once is not asked again.
                None if server.is_private() => {}
                None => super::learning::changed(&server, kind),
                // What one session's server lists is of no concern to others.
                Some(owner) => {
                    let line = notification(kind.notice(), None);
                    if let Ok(message) = Message::parse(line, &server.surroundings.limits) {
                        server.tell(|watch| watch.told(&server, Some(owner), &message));
                    }
                }
            },
            Event::Updated(message) => {
                server.tell(|watch| watch.updated(&server, self.owner.as_deref(), &message));
            }
            Event::Log(message) | Event::Other(message) => {
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

/// Opens a connection, for everybody or for one session.
pub(super) async fn open(server: &Arc<Server>, whose: &Whose) -> Result<Arc<Connection>, Failure> {
    let owner = whose.owner();
    let ear: Events = Arc::new(Ear {
        server: Arc::downgrade(server),
        owner: owner.map(|owner| Arc::clone(&owner.key)),
    });
    let known = server.manifest().map(|manifest| manifest.offer.era);
    let Some(command) = server.config.to_command() else {
        let protocol = match whose {
            Whose::Olds => Protocol::Legacy,
            Whose::Everybodys | Whose::Owned(_) => server.config.protocol,
        };
        return Box::pin(reach(server, owner, &ear, protocol, known)).await;
    };
    let protocol = server.config.protocol;
    match Box::pin(start(server, &command, owner, &ear, protocol, known)).await {
        // Some servers end when they are asked something that they do not know.
        Err(failure)
            if protocol == Protocol::Auto
                && known.is_none()
                && failure.code() == Code::ServerCrashed =>
        {
            Box::pin(start(server, &command, owner, &ear, Protocol::Legacy, known)).await
        }
        started => started,
    }
}

fn greeting(
    server: &Server,
    owner: Option<&Owner>,
    protocol: Protocol,
    known: Option<Era>,
) -> Greeting {
    // Whom a question is for is found out when it comes. Roots belong to nobody where all share one connection.
    let asked = || {
        Json::value(&serde_json::json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}}))
    };
    Greeting {
        protocol,
        known,
        capabilities: owner.map_or_else(asked, |owner| owner.capabilities.clone()),
        info: owner.map_or_else(ourselves, |owner| owner.info.clone()),
        version: owner.map_or_else(own_version, |owner| Arc::clone(&owner.version)),
        patience: server.config.start_timeout,
    }
}

async fn start(
    server: &Arc<Server>,
    command: &ServerCommand,
    owner: Option<&Owner>,
    ear: &Events,
    protocol: Protocol,
    known: Option<Era>,
) -> Result<Arc<Connection>, Failure> {
    let started = child::start(command);
    let (process, (stdin, stdout, stderr)) =
        started.map_err(|error| unavailable(&server.name, &error.to_string()))?;
    let outbox = Arc::new(Outbox::new());
    let is_one_clients = owner.is_some_and(Owner::is_one_client);
    let pipe = Pipe::new(Arc::clone(&server.name), Arc::clone(&outbox), is_one_clients);
    let pipe = Arc::new(pipe);
    let life = Life::default();
    let (writing, broken) = (Arc::clone(&outbox), life.stop.clone());
    tokio::spawn(async move {
        if writing.drain(stdin).await.is_err() {
            // It reads no more: nothing that is asked of it would ever be answered.
            broken.cancel();
        }
    });
    let name = Arc::clone(&server.name);
    tokio::spawn(async move { noise::forward_stderr(&name, stderr).await });
    let reader = tokio::spawn({
        let (pipe, ear, limits) = (Arc::clone(&pipe), Arc::clone(ear), server.surroundings.limits);
        async move { pipe.read(stdout, &limits, &ear).await }
    });
    let guarded = Guarded {
        process,
        reader,
        pipe: Arc::clone(&pipe),
        outbox,
        life: life.clone(),
        has_read: false,
    };
    server
        .surroundings
        .tasks
        .spawn_on(guarded.guard(Arc::clone(server)), &server.surroundings.control);
    let wire = Wire::Pipe(pipe);
    let hello = greeting(server, owner, protocol, known);
    let greeted = tokio::select! {
        biased;
        greeted = greet(&wire, &server.name, &hello) => greeted,
        () = server.stop.cancelled() => Err(unavailable(&server.name, "toolgate is ending")),
    };
    let offer = match greeted {
        Ok(offer) => offer,
        Err(failure) => {
            life.stop.cancel();
            return Err(failure);
        }
    };
    let connection = Arc::new(Connection::new(offer, wire, life.stop.clone()));
    let ending = Arc::clone(&connection);
    tokio::spawn(async move {
        life.ended.cancelled().await;
        ending.close(life.why.get().map_or("it has ended", |why| why));
    });
    Ok(connection)
}

/// The life of a process, for those who wait for its end.
#[derive(Clone, Debug, Default)]
struct Life {
    stop: CancellationToken,
    ended: CancellationToken,
    why: Arc<OnceLock<Arc<str>>>,
}

/// A process with what serves its pipes.
struct Guarded {
    process: child::Server,
    reader: tokio::task::JoinHandle<()>,
    pipe: Arc<Pipe>,
    outbox: Arc<Outbox>,
    life: Life,
    has_read: bool,
}

impl Guarded {
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
                        server.is(State::Stopped);
                        break (true, self.end("nobody used it").await);
                    }
                }
            }
        };
        drop(server);
        // A grandchild may hold the pipe open; the server's own last words are there at once.
        if !self.has_read {
            let _ = timeout(LAST_WORDS, &mut self.reader).await;
            self.reader.abort();
        }
        let why: Arc<str> = ending.to_string().into();
        if is_ours || ending.is_success() {
            tracing::debug!("the server `{name}` ended: {ending}");
        } else {
            tracing::error!("the server `{name}` ended: {ending}");
        }
        let _ = self.life.why.set(Arc::clone(&why));
        self.pipe.close(&why);
        self.life.ended.cancel();
    }

    async fn end(&mut self, why: &str) -> child::Ending {
        // First: whoever comes from here on starts another one.
        let _ = self.life.why.set(why.into());
        self.life.ended.cancel();
        self.outbox.abandon();
        self.process.end(FAREWELL).await
    }
}

async fn reach(
    server: &Arc<Server>,
    owner: Option<&Owner>,
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
    let client = Arc::new(Client::new(Arc::new(target)));
    let hello = greeting(server, owner, protocol, known);
    let is_one_clients = owner.is_some_and(Owner::is_one_client);
    if config.transport == HttpTransport::Sse {
        return Box::pin(legacy_sse::open(server, &client, ear, &hello, is_one_clients)).await;
    }
    let limits = server.surroundings.limits;
    let link =
        Streamable::new(Arc::clone(&server.name), Arc::clone(&client), limits, Arc::clone(ear));
    let wire = Wire::Http(Arc::new(link));
    match greet(&wire, &server.name, &hello).await {
        Ok(offer) => Ok(Arc::new(Connection::new(offer, wire, CancellationToken::new()))),
        // It knows nothing of POSTs here: it may be of the time before.
        Err(failure)
            if config.transport == HttpTransport::Auto
                && failure.code() == Code::ServerRejected
                && protocol != Protocol::Modern =>
        {
            let older =
                Box::pin(legacy_sse::open(server, &client, ear, &hello, is_one_clients)).await;
            older.map_err(|_| failure)
        }
        Err(failure) => Err(failure),
    }
}
