//! The process of a server that one client has to itself: the client's handshake, ids and bytes reach the server as
//! they are. The transport starts and ends the process; calls never start it.

use std::sync::Arc;

use toolgate_wire::Message;

use super::{
    connect::{ProcessLifetime, connection_to, spawn},
    connection::{Connection, ServerInfo, UpstreamTransport},
    events::{ReplyTo, SharedListener, UpstreamListener, UpstreamNotification},
    pipe::{Clients, Pipe},
    server::Server,
};
use crate::process::child::{Ending, StartError};

pub(crate) use super::pipe::ExclusiveClient;

/// The process of an exclusive server.
#[derive(Debug)]
pub(crate) struct ExclusiveProcess {
    pub(crate) connection: Arc<Connection>,
    pub(crate) pipe: Arc<Pipe>,
    life: ProcessLifetime,
}

impl ExclusiveProcess {
    /// Waits until the process is gone. Cancel safe.
    pub(crate) async fn wait(&self) -> Option<Ending> {
        self.life.gone.cancelled().await;
        self.life.ending.get().copied()
    }

    /// Closes the input of the process, and waits until it is gone.
    pub(crate) async fn end(&self) -> Option<Ending> {
        self.life.stop.cancel();
        self.wait().await
    }
}

/// Also ends a process whose start was cancelled.
impl Drop for ExclusiveProcess {
    fn drop(&mut self) {
        self.life.stop.cancel();
    }
}

/// An exclusive pipe passes all messages to its client, and none to a listener.
struct NoListener;

impl UpstreamListener for NoListener {
    fn on_notification(&self, _: UpstreamNotification) {}

    fn on_request(&self, _: Message, _: ReplyTo) -> bool {
        false
    }
}

impl Server {
    /// Starts the process of an exclusive server. No request reaches it before `set_running`.
    pub(crate) fn start_exclusive(
        self: &Arc<Self>,
        client: Arc<dyn ExclusiveClient>,
    ) -> Result<ExclusiveProcess, StartError> {
        let Some(exclusive) = &self.exclusive else {
            return Err(StartError::NotFound(self.name.to_string()));
        };
        let listener: SharedListener = Arc::new(NoListener);
        let process = spawn(self, &exclusive.command, Clients::Exclusive(client), &listener)?;
        let transport = UpstreamTransport::Pipe(Arc::clone(&process.pipe));
        let connection = connection_to(ServerInfo::unknown(), transport, &process.life);
        Ok(ExclusiveProcess { connection, pipe: process.pipe, life: process.life })
    }

    /// Sends requests to this process from now on.
    pub(crate) fn set_running(&self, process: &ExclusiveProcess) {
        self.set_shared_connection(Arc::clone(&process.connection));
    }
}
