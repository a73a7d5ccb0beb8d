//! The life of a wrapped server: start, run, crash, start again, end, and nothing left behind.

use std::{sync::Arc, time::Duration};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinHandle,
    time::timeout,
};
use toolgate::{Code, Failure};

use super::{
    Options, SettingsSource, client,
    hub::{Hub, Link},
    reload::{ConfigWatch, Trigger, reload},
    restart, server,
};
use crate::{
    inbound::stdio,
    outbound::{
        backoff::Backoff,
        child::{self, Ending, Server, ServerCommand},
        noise,
    },
    outbox::Outbox,
};

/// After the client closed its end, calls in flight may take this long.
const LAST_CALLS: Duration = Duration::from_secs(10);
/// After its input was closed, a server may take this long to end by itself.
const FAREWELL: Duration = Duration::from_secs(2);
/// What is queued for a client may take this long to be read.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Why a run came to its end.
enum End {
    /// The client closed its output, and may still read.
    ClientDone,
    /// The client reads no more.
    ClientGone,
    /// The server ended.
    Server(Ending),
    /// The server hung in `initialize`.
    Hung,
    /// A signal came.
    Signal(u8),
}

/// What ends a run, besides the server.
struct Events {
    reader: JoinHandle<()>,
    writer: JoinHandle<std::io::Result<()>>,
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    /// `toolgate reload`
    asked: Signal,
    config: ConfigWatch,
    hub: Arc<Hub>,
    settings: SettingsSource,
}

impl Events {
    fn new(hub: &Arc<Hub>, options: &Options) -> std::io::Result<Self> {
        let (input, output) = (stdio::input()?, stdio::output()?);
        let writing = Arc::clone(hub);
        Ok(Self {
            reader: tokio::spawn(client::read(Arc::clone(hub), input)),
            writer: tokio::spawn(async move { writing.to_client.drain(output).await }),
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
            asked: signal(SignalKind::user_defined1())?,
            config: ConfigWatch::new(options.watch.as_deref()),
            hub: Arc::clone(hub),
            settings: Arc::clone(&options.settings),
        })
    }

    /// Waits for the client or a signal. Cancel safe.
    async fn next(&mut self) -> End {
        loop {
            tokio::select! {
                _ = &mut self.reader => return End::ClientDone,
                _ = &mut self.writer => return End::ClientGone,
                _ = self.terminate.recv() => return End::Signal(15),
                _ = self.interrupt.recv() => return End::Signal(2),
                _ = self.hangup.recv() => {
                    if let Some(audit) = &self.hub.governance().stack.audit {
                        audit.reopen();
                    }
                    self.hub.governance().tools.outdated();
                    reload(&self.hub, &self.settings, Trigger::Asked);
                }
                _ = self.asked.recv() => reload(&self.hub, &self.settings, Trigger::Asked),
                () = self.config.changed() => reload(&self.hub, &self.settings, Trigger::Changed),
            }
        }
    }
}

/// A server that runs, with the tasks that serve its pipes.
pub(super) struct Running {
    pub(super) server: Server,
    pub(super) outbox: Arc<Outbox>,
    reader: JoinHandle<()>,
    stderr: JoinHandle<()>,
}

pub(super) fn start(hub: &Arc<Hub>, command: &ServerCommand) -> Result<Running, child::StartError> {
    let (server, (stdin, stdout, stderr)) = child::start(command)?;
    let outbox = Arc::new(Outbox::new());
    let writing = Arc::clone(&outbox);
    tokio::spawn(async move {
        if let Err(error) = writing.drain(stdin).await {
            tracing::debug!(%error, "the server closed its input");
        }
    });
    let reader = tokio::spawn(server::read(Arc::clone(hub), stdout));
    let name = Arc::clone(&hub.server);
    let stderr = tokio::spawn(async move { noise::forward_stderr(&name, stderr).await });
    Ok(Running { server, outbox, reader, stderr })
}

pub(super) async fn run<T>(hub: &Arc<Hub>, options: &Options, ready: impl FnOnce() -> T) -> u8 {
    // Before the client is read: its first message finds the server's way open.
    let first = start(hub, &options.server);
    if let Ok(running) = &first {
        hub.set_link(Link::Up(Arc::clone(&running.outbox)));
    }
    let mut events = match Events::new(hub, options) {
        Ok(events) => events,
        Err(error) => {
            tracing::error!(%error, "cannot use standard input and output");
            return 1;
        }
    };
    let _ready = ready();
    let code = match first {
        Ok(running) => live(hub, options, running, &mut events).await,
        Err(error) => never_started(hub, &error, &mut events).await,
    };
    hub.to_client.close();
    if !events.writer.is_finished() && timeout(LAST_WORDS, &mut events.writer).await.is_err() {
        tracing::warn!("the client did not read what was left for it");
    }
    code
}

/// Tells the client why there is no server, if it asks within a moment.
async fn never_started(hub: &Arc<Hub>, error: &child::StartError, events: &mut Events) -> u8 {
    tracing::error!("{error}");
    hub.set_link(Link::Down(error.to_string().into()));
    let _ = timeout(FAREWELL, events.next()).await;
    error.exit_code()
}

async fn live(hub: &Arc<Hub>, options: &Options, first: Running, events: &mut Events) -> u8 {
    let mut backoff = Backoff::new();
    let mut running = first;
    loop {
        let end = tokio::select! {
            ending = running.server.ended() => End::Server(ending),
            () = hub.hung.notified() => End::Hung,
            end = events.next() => end,
        };
        match end {
            End::ClientDone => return say_goodbye(hub, running).await,
            End::ClientGone => return leave(hub, running, 0).await,
            End::Signal(number) => return leave(hub, running, 128 + number).await,
            End::Hung if !options.restart => return leave(hub, running, 1).await,
            End::Hung => {
                let ending = running.server.end(Duration::ZERO).await;
                bury(hub, running, ending).await;
            }
            End::Server(ending) => {
                bury(hub, running, ending).await;
                if !options.restart {
                    return u8::try_from(ending.code().unwrap_or(1)).unwrap_or(1);
                }
            }
        }
        running = match again(hub, options, &mut backoff, events).await {
            Ok(running) => running,
            Err(code) => return code,
        };
    }
}

/// The server ended by itself: what it still said is read, and who waits for it is told.
async fn bury(hub: &Arc<Hub>, running: Running, ending: Ending) {
    // A grandchild may hold the pipe open; the server's own last words are there at once.
    let _ = timeout(Duration::from_millis(500), running.reader).await;
    let _ = timeout(Duration::from_millis(500), running.stderr).await;
    running.outbox.close();
    let text = format!("the server `{}` ended: {ending}", hub.server);
    if ending.is_success() {
        tracing::info!("{text}");
    } else {
        tracing::error!("{text}");
    }
    hub.server_gone(&ending.to_string().into()).await;
    let _ = timeout(LAST_WORDS, settled(hub)).await;
}

/// Waits until every request of the client has its answer.
async fn answered(hub: &Hub) {
    settled(hub).await;
    hub.pending.emptied().await;
}

/// Waits until no request of the client is being worked on.
async fn settled(hub: &Hub) {
    hub.tasks.close();
    hub.tasks.wait().await;
    hub.tasks.reopen();
}

/// Starts the server again after a wait, as often as it takes.
async fn again(
    hub: &Arc<Hub>,
    options: &Options,
    backoff: &mut Backoff,
    events: &mut Events,
) -> Result<Running, u8> {
    loop {
        let wait = backoff.wait();
        let text = format!("it ended and is started again in {}", toolgate::duration::format(wait));
        hub.set_link(Link::Down(text.into()));
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            end = events.next() => return Err(match end {
                End::Signal(number) => 128 + number,
                _ => 0,
            }),
        }
        backoff.started();
        let failure = match start(hub, &options.server) {
            Err(error) => Failure::new(Code::ServerUnavailable, error.to_string()),
            Ok(mut running) => tokio::select! {
                resumed = restart::resume(hub, &running.outbox) => match resumed {
                    Ok(()) => {
                        tracing::info!("the server `{}` is up again", hub.server);
                        return Ok(running);
                    }
                    Err(failure) => {
                        running.server.end(Duration::ZERO).await;
                        failure
                    }
                },
                ending = running.server.ended() => hub.crashed(&ending.to_string(), toolgate::Ran::No),
                end = events.next() => {
                    running.server.end(Duration::ZERO).await;
                    return Err(if let End::Signal(number) = end { 128 + number } else { 0 });
                }
            },
        };
        tracing::error!("{failure}");
    }
}

/// The client closed its end: what is in flight is finished, then the server's input is closed.
async fn say_goodbye(hub: &Arc<Hub>, mut running: Running) -> u8 {
    tokio::select! {
        _ = timeout(LAST_CALLS, answered(hub)) => {}
        ending = running.server.ended() => {
            bury(hub, running, ending).await;
            return 0;
        }
    }
    hub.cancel_all();
    running.outbox.close();
    let ending = running.server.end(FAREWELL).await;
    bury(hub, running, ending).await;
    0
}

/// Nobody reads any more, or we were told to end: everything is given up at once.
async fn leave(hub: &Arc<Hub>, mut running: Running, code: u8) -> u8 {
    hub.cancel_all();
    let _ = timeout(LAST_WORDS, settled(hub)).await;
    running.outbox.close();
    running.server.end(Duration::ZERO).await;
    code
}
