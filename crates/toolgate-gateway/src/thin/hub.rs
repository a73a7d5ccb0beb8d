//! What the parts of the thin client share.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use tokio::{
    sync::{Semaphore, watch},
    task::AbortHandle,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use toolgate::Failure;
use toolgate_wire::{Id, Limits, error_response};

use super::{learnt::Learnt, session::Session};
use crate::{outbound::http::Client, outbox::Outbox};

/// So many requests are posted at once, each on a connection of its own; further ones wait.
const AT_ONCE: usize = 256;

/// Everything that is shared.
#[derive(Debug)]
pub(super) struct Hub {
    pub(super) gateway: Client,
    /// The gateway's address, as messages show it.
    pub(super) url: String,
    pub(super) to_client: Outbox,
    pub(super) limits: Limits,
    pub(super) learnt: Learnt,
    session: Mutex<Session>,
    /// Held by whoever makes a new session in place of a lost one.
    pub(super) renewing: tokio::sync::Mutex<()>,
    /// Tells the stream that there is a new session.
    pub(super) renewed: watch::Sender<u64>,
    listening: Mutex<Option<AbortHandle>>,
    flights: Mutex<HashMap<Id, CancellationToken>>,
    pub(super) room: Semaphore,
    tasks: TaskTracker,
    over: CancellationToken,
}

impl Hub {
    pub(super) fn new(gateway: Client, url: &str) -> Self {
        Self {
            gateway,
            url: url.to_owned(),
            to_client: Outbox::new(),
            limits: Limits::default(),
            learnt: Learnt::default(),
            session: Mutex::default(),
            renewing: tokio::sync::Mutex::default(),
            renewed: watch::channel(0).0,
            listening: Mutex::default(),
            flights: Mutex::default(),
            room: Semaphore::new(AT_ONCE),
            tasks: TaskTracker::new(),
            over: CancellationToken::new(),
        }
    }

    pub(super) fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flights(&self) -> MutexGuard<'_, HashMap<Id, CancellationToken>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs something until it is done, or everything is given up.
    pub(super) fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let over = self.over.clone();
        self.tasks.spawn(async move { over.run_until_cancelled(work).await });
    }

    /// Runs something that must not keep us when everything else is done.
    pub(super) fn spawn_aside(
        self: &Arc<Self>,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> AbortHandle {
        let over = self.over.clone();
        tokio::spawn(async move { over.run_until_cancelled(work).await }).abort_handle()
    }

    /// Follows the session's stream, or no stream at all: in place of what was followed before.
    pub(super) fn listen(&self, stream: Option<AbortHandle>) {
        let mut listening = self.listening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = std::mem::replace(&mut *listening, stream) {
            before.abort();
        }
    }

    /// Notes a request; `None` if its id is that of another one.
    pub(super) fn take_off(self: &Arc<Self>, id: &Id) -> Option<InFlight> {
        let given_up = CancellationToken::new();
        match self.flights().entry(id.clone()) {
            Entry::Occupied(_) => None,
            Entry::Vacant(entry) => {
                entry.insert(given_up.clone());
                Some(InFlight { hub: Arc::clone(self), id: id.clone(), given_up })
            }
        }
    }

    /// How many requests wait for their answers.
    pub(super) fn in_flight(&self) -> usize {
        self.flights().len()
    }

    /// The client gives a request up: its connection is closed, and nothing is said about it any more.
    pub(super) fn cancel(&self, id: &Id) {
        if let Some(flight) = self.flights().get(id) {
            flight.cancel();
        }
    }

    /// Waits until no request is being worked on.
    pub(super) async fn settled(&self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
    }

    /// Ends everything that is under way.
    pub(super) fn give_up(&self) {
        self.over.cancel();
    }

    /// Tells the client something.
    pub(super) async fn say(&self, message: Bytes) {
        self.to_client.push(message).await;
    }

    pub(super) async fn refuse(&self, id: Option<&Id>, failure: &Failure) {
        let rpc = failure.to_rpc();
        let line = error_response(id, rpc.code, &rpc.message, rpc.data.as_ref());
        self.to_client.push(line).await;
    }
}

/// A request under way; dropped, it is no longer.
#[derive(Debug)]
pub(super) struct InFlight {
    hub: Arc<Hub>,
    pub(super) id: Id,
    pub(super) given_up: CancellationToken,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.hub.flights().remove(&self.id);
    }
}
