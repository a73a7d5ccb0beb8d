//! The engine: everything that is said to tmux is said here.

mod command;
mod connection;
mod error;
mod nonce;
mod parse;
mod quote;
mod rows;
mod server;
mod socket;
mod spawn;
mod watch;

use std::{
    collections::HashMap,
    ffi::OsString,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

pub use command::{Batch, Command};
pub use connection::Printed;
pub use error::{TmuxError, not_found};
pub use quote::no_format;
pub use rows::{Kind, Row};
pub(crate) use server::text;
pub use server::{Identity, Server};
pub use socket::{Socket, folder, listens};
pub use watch::{Wake, Watch};

/// How long tmux may take to answer.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// All tmux servers that were asked for, by socket.
#[derive(Debug)]
pub struct Engine {
    binary: OsString,
    patience: Duration,
    servers: Mutex<HashMap<Socket, Arc<Server>>>,
    clients: spawn::Clients,
}

/// How long clients may take to leave.
const LEAVING: Duration = Duration::from_secs(1);

impl Engine {
    /// An engine for this tmux program. Nothing is started before it is asked for.
    #[must_use]
    pub fn new(binary: impl Into<OsString>, patience: Duration) -> Self {
        Self {
            binary: binary.into(),
            patience,
            servers: Mutex::default(),
            clients: spawn::Clients::default(),
        }
    }

    /// The server behind a socket.
    #[must_use]
    pub fn server(&self, socket: Socket) -> Arc<Server> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let server = servers.entry(socket).or_insert_with_key(|socket| {
            let (binary, socket) = (self.binary.clone(), socket.clone());
            let program = spawn::Program { binary, socket, clients: self.clients.clone() };
            Arc::new(Server::new(program, self.patience))
        });
        Arc::clone(server)
    }

    /// Lets go of all servers, for the end of the program, and waits for our clients to leave.
    ///
    /// They are read to their end meanwhile. tmux 3.3a never lets a client go to whom it has something left to say:
    /// one leaves, the others are told of it, and if nobody reads that they stay for ever.
    pub async fn close(&self) {
        let servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let leave = async {
            for server in servers.values() {
                server.close().await;
            }
            self.clients.all_left().await;
        };
        // Whoever takes longer than that is left behind.
        let _ = tokio::time::timeout(LEAVING, leave).await;
    }
}

#[cfg(test)]
mod tests;
