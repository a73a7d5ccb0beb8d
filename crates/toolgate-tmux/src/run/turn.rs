//! One run at a time in a pane.

use std::{
    collections::HashSet,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use toolgate::{Executed, Failure};

use crate::engine::Socket;

static TAKEN: LazyLock<Mutex<HashSet<(Socket, String)>>> = LazyLock::new(Mutex::default);

/// The right to type into a pane, until it is dropped.
#[derive(Debug)]
pub(super) struct Turn((Socket, String));

impl Turn {
    /// Takes it, or refuses.
    pub(super) fn take(socket: &Socket, pane: &str) -> Result<Arc<Self>, Failure> {
        let place = (socket.clone(), pane.to_owned());
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.insert(place.clone()) {
            return Ok(Arc::new(Self(place)));
        }
        let message = format!("Another run_command has not ended in pane {pane}");
        Err(Failure::tool("PaneBusy", message).with_executed(Executed::No).suggest(
            "Wait for that one, or use another pane: commands in different panes run at once.",
        ))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}
