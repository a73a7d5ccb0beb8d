//! A server that one client has to itself: the client's handshake, ids and bytes reach it as they are. Its process is
//! started by whoever governs its life, and calls never start it.

use std::sync::Arc;

use parking_lot::Mutex;
use toolgate::{Code, Executed, Failure};
use toolgate_wire::Message;

use super::{
    connect::{ProcessLifetime, connected, spawn},
    connection::{Connection, ServerInfo, Wire},
    events::{Events, ReplyTo, UpstreamListener, UpstreamNotification},
    pipe::{Clients, Pipe},
    server::Server,
};
use crate::process::child::{Ending, ServerCommand, StartError};

pub(crate) use super::pipe::ExclusiveClient;

/// How an exclusive server is started, and why it is down while it is.
#[derive(Debug)]
pub(crate) struct Exclusive {
    command: ServerCommand,
    down: Mutex<Arc<str>>,
}

impl Exclusive {
    pub(crate) fn new(command: ServerCommand) -> Self {
        Self { command, down: Mutex::new("it has not been started yet".into()) }
    }
}

/// The process of an exclusive server.
#[derive(Debug)]
pub(crate) struct ExclusiveProcess {
    pub(crate) connection: Arc<Connection>,
    pub(crate) pipe: Arc<Pipe>,
    life: ProcessLifetime,
}

impl ExclusiveProcess {
    /// Waits until the process is gone. Cancel safe.
    pub(crate) async fn ended(&self) -> Option<Ending> {
        self.life.gone.cancelled().await;
        self.life.ending.get().copied()
    }

    /// Ends it: its input is closed, and it gets some time.
    pub(crate) async fn end(&self) -> Option<Ending> {
        self.life.stop.cancel();
        self.ended().await
    }
}

/// A process that was given up while it started is ended, too.
impl Drop for ExclusiveProcess {
    fn drop(&mut self) {
        self.life.stop.cancel();
    }
}

/// An exclusive pipe hands nothing to listeners.
struct Silent;

impl UpstreamListener for Silent {
    fn happened(&self, _: UpstreamNotification) {}

    fn asks(&self, _: Message, _: ReplyTo) -> bool {
        false
    }
}

impl Server {
    /// Whether one client has it to itself.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.exclusive.is_some()
    }

    /// Starts the process of an exclusive server. Nobody reaches it before `set_up`.
    pub(crate) fn start_exclusive(
        self: &Arc<Self>,
        client: Arc<dyn ExclusiveClient>,
    ) -> Result<ExclusiveProcess, StartError> {
        let Some(exclusive) = &self.exclusive else {
            return Err(StartError::NotFound(self.name.to_string()));
        };
        let silent: Events = Arc::new(Silent);
        let (pipe, life, _) = spawn(self, &exclusive.command, Clients::Exclusive(client), &silent)?;
        let connection = connected(ServerInfo::unknown(), Wire::Pipe(Arc::clone(&pipe)), &life);
        Ok(ExclusiveProcess { connection, pipe, life })
    }

    /// From here on requests go to this process.
    pub(crate) fn set_up(&self, process: &ExclusiveProcess) {
        self.put(Arc::clone(&process.connection));
    }

    /// Says why an exclusive server cannot be reached.
    pub(crate) fn set_down(&self, why: &str) {
        if let Some(exclusive) = &self.exclusive {
            *exclusive.down.lock() = why.into();
        }
    }

    /// The failure of a request that an exclusive server cannot be sent.
    pub(super) fn not_running(&self) -> Option<Failure> {
        let down = &self.exclusive.as_ref()?.down;
        let why = Arc::clone(&down.lock());
        let message = format!("The server `{}` is not running: {why}", self.name);
        let failure = Failure::new(Code::ServerUnavailable, message);
        Some(failure.suggest("Try again in a moment.").with_executed(Executed::No))
    }
}
