//! The requests of one client that are in flight, by their ids.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;
use toolgate_wire::Id;

/// The requests in flight of one client.
#[derive(Debug, Default)]
pub(crate) struct ActiveRequests(Mutex<HashMap<Id, CancellationToken>>);

/// A request with the same id is in flight, so a response would be ambiguous.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DuplicateId;

impl ActiveRequests {
    fn table(&self) -> MutexGuard<'_, HashMap<Id, CancellationToken>> {
        self.0.lock()
    }

    /// Registers a request. `token` is cancelled when the client cancels the request or is gone.
    pub(crate) fn begin(
        self: &Arc<Self>,
        id: &Id,
        token: &CancellationToken,
    ) -> Result<ActiveRequest, DuplicateId> {
        match self.table().entry(id.clone()) {
            Entry::Occupied(_) => return Err(DuplicateId),
            Entry::Vacant(slot) => drop(slot.insert(token.clone())),
        }
        Ok(ActiveRequest { requests: Arc::clone(self), id: id.clone() })
    }

    /// The client cancels a request.
    pub(crate) fn cancel(&self, id: &Id) {
        if let Some(token) = self.table().get(id) {
            token.cancel();
        }
    }

    /// The client is gone: all its requests are cancelled.
    pub(crate) fn cancel_all(&self) {
        self.table().values().for_each(CancellationToken::cancel);
    }

    /// How many requests are in flight.
    pub(crate) fn count(&self) -> usize {
        self.table().len()
    }
}

/// A request in flight, until this is dropped.
#[derive(Debug)]
pub(crate) struct ActiveRequest {
    requests: Arc<ActiveRequests>,
    pub(crate) id: Id,
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.requests.table().remove(&self.id);
    }
}
