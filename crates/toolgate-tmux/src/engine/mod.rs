//! The engine: all communication with tmux.

mod channel_wait;
mod command;
mod connection;
mod error;
mod identity;
mod nonce;
mod open_clients;
mod pane_locks;
mod parse;
mod program;
mod quote;
mod recent_input;
mod rows;
mod server;
mod socket;
mod watch;
mod watch_clients;

use std::{
    collections::HashMap,
    ffi::OsString,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

pub use channel_wait::Signal;
pub use command::{Batch, Command};
pub use connection::PrintedBytes;
pub use error::{TmuxError, not_found};
pub use identity::Identity;
pub(crate) use nonce::nonce;
use open_clients::OpenClients;
pub(crate) use pane_locks::PaneLock;
pub use quote::no_format;
pub use rows::{ListTarget, Row};
pub use server::Server;
pub(crate) use server::text;
pub use socket::{Socket, folder, listens};
pub use watch::{Wake, Watch};

/// How long tmux may take to answer, by default.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How many servers are kept. A further one removes those without a connection or a user.
const MAX_SERVERS: usize = 64;

/// The tmux servers that callers have named, by socket.
#[derive(Debug)]
pub struct Engine {
    binary: OsString,
    launcher: Arc<[OsString]>,
    time_limit: Duration,
    clients: Arc<OpenClients>,
    servers: Mutex<HashMap<Socket, Arc<Server>>>,
}

impl Engine {
    /// An engine for this tmux program. It starts nothing before a server is used.
    #[must_use]
    pub fn new(binary: impl Into<OsString>, time_limit: Duration) -> Self {
        Self {
            binary: binary.into(),
            launcher: Arc::default(),
            time_limit,
            clients: Arc::default(),
            servers: Mutex::default(),
        }
    }

    /// Starts the clients that stay connected through a launcher: a program with its arguments that executes tmux and ends
    /// it when this process ends, even if this process is killed.
    #[must_use]
    pub fn launched_by(self, launcher: &[OsString]) -> Self {
        Self { launcher: launcher.into(), ..self }
    }

    /// The server behind a socket.
    #[must_use]
    pub fn server(&self, socket: Socket) -> Arc<Server> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if servers.len() >= MAX_SERVERS {
            // Callers may name any number of sockets, also ones without a server.
            servers.retain(|_, server| Arc::strong_count(server) > 1 || server.is_linked());
        }
        let server = servers.entry(socket).or_insert_with_key(|socket| {
            let program = program::Program {
                binary: self.binary.clone(),
                launcher: Arc::clone(&self.launcher),
                socket: socket.clone(),
                clients: Arc::clone(&self.clients),
            };
            Arc::new(Server::new(program, self.time_limit))
        });
        Arc::clone(server)
    }

    /// Closes all clients, so that this process may end.
    pub(crate) async fn close_clients(&self) {
        self.clients.close_all().await;
    }
}

#[cfg(test)]
mod tests;
