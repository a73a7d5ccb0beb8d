//! The engine: everything that is said to tmux is said here.

mod command;
mod connection;
mod error;
mod nonce;
mod parse;
mod parting;
mod quote;
mod rows;
mod server;
mod socket;
mod spawn;
mod typed;
mod waiter;
mod wake;
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
pub(crate) use nonce::nonce;
pub(crate) use parting::leave_all;
pub use quote::no_format;
pub use rows::{Kind, Row};
pub(crate) use server::text;
pub use server::{Identity, Server};
pub use socket::{Socket, folder, listens};
pub use waiter::{Signal, Waiting};
pub use wake::{Wake, Watch};

/// How long tmux may take to answer.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// So many servers are known before those are forgotten that nothing speaks to.
const MOST: usize = 64;

/// All tmux servers that were asked for, by socket.
#[derive(Debug)]
pub struct Engine {
    binary: OsString,
    launcher: Arc<[OsString]>,
    patience: Duration,
    servers: Mutex<HashMap<Socket, Arc<Server>>>,
}

impl Engine {
    /// An engine for this tmux program. Nothing is started before it is asked for.
    #[must_use]
    pub fn new(binary: impl Into<OsString>, patience: Duration) -> Self {
        Self {
            binary: binary.into(),
            launcher: Arc::default(),
            patience,
            servers: Mutex::default(),
        }
    }

    /// Starts the clients that stay through a launcher: a program and its arguments that become tmux and end it with
    /// this process, however that ends.
    #[must_use]
    pub fn launched_by(self, launcher: &[OsString]) -> Self {
        Self { launcher: launcher.into(), ..self }
    }

    /// The server behind a socket.
    #[must_use]
    pub fn server(&self, socket: Socket) -> Arc<Server> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if servers.len() >= MOST {
            // Callers may name any number of sockets that nobody listens on.
            servers.retain(|_, server| Arc::strong_count(server) > 1 || server.is_linked());
        }
        let server = servers.entry(socket).or_insert_with_key(|socket| {
            let program = spawn::Program {
                binary: self.binary.clone(),
                launcher: Arc::clone(&self.launcher),
                socket: socket.clone(),
            };
            Arc::new(Server::new(program, self.patience))
        });
        Arc::clone(server)
    }
}

#[cfg(test)]
mod tests;
