//! The end of this process: clients leave before it, and are read to their end.
//!
//! tmux 3.3a keeps a client for ever that it could not tell everything, and then cannot end itself.

use std::{
    pin::Pin,
    sync::{Mutex, PoisonError, Weak},
};

/// What leaving is.
pub(super) type Boxed<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A client that can leave in good order.
pub(super) trait Leave: Send + Sync {
    /// Leaves; completes when tmux has let it go.
    fn leave(&self) -> Boxed<'_>;
}

/// All clients of this process, in the order in which they came.
static EVERY: Mutex<Vec<Weak<dyn Leave>>> = Mutex::new(Vec::new());

/// Remembers a client for the end.
pub(super) fn enlist(client: Weak<dyn Leave>) {
    let mut every = EVERY.lock().unwrap_or_else(PoisonError::into_inner);
    every.retain(|client| client.strong_count() > 0);
    every.push(client);
}

/// Leaves all servers, so that this process may end.
pub(crate) async fn leave_all() {
    let every = std::mem::take(&mut *EVERY.lock().unwrap_or_else(PoisonError::into_inner));
    // Those that came last go first: the first ones are told of that, and have to hear it.
    for client in every.iter().rev().filter_map(Weak::upgrade) {
        client.leave().await;
    }
}
