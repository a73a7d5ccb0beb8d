//! The control clients that this engine has started, so that all of them are closed before the process ends.
//!
//! tmux 3.3a keeps a client that it could not write all output to, and then its server cannot exit.

use std::{
    fmt,
    pin::Pin,
    sync::{Mutex, PoisonError, Weak},
};

/// The future of [`ControlClient::close`].
pub(super) type Boxed<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A tmux client that stays connected until it is closed.
pub(super) trait ControlClient: Send + Sync {
    /// Closes the client's input; completes when the client has ended.
    fn close(&self) -> Boxed<'_>;
}

/// The open clients, in the order in which they were started.
#[derive(Default)]
pub(super) struct OpenClients(Mutex<Vec<Weak<dyn ControlClient>>>);

impl OpenClients {
    /// Registers a client to be closed by [`close_all`](Self::close_all).
    pub(super) fn register(&self, client: Weak<dyn ControlClient>) {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|client| client.strong_count() > 0);
        clients.push(client);
    }

    /// Closes all clients.
    pub(super) async fn close_all(&self) {
        let clients = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        // Newest first: tmux notifies the older clients of each end, and they must still read that.
        for client in clients.iter().rev().filter_map(Weak::upgrade) {
            client.close().await;
        }
    }
}

impl fmt::Debug for OpenClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OpenClients")
    }
}
