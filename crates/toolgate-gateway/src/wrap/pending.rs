//! Requests that wait for the server's answer.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Notify, oneshot};
use toolgate_wire::{Id, Json, Message, notification};

use crate::outbox::Outbox;

/// Who waits for an answer.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// A task of ours.
    Task(oneshot::Sender<Arrival>),
    /// Only the client: the answer is passed on as it is.
    Client,
    /// Only the client, for a page of tools that we look at in passing.
    Listing,
    /// The client, for the answer to `initialize`.
    Start,
}

/// What came instead of, or as, an answer.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// The answer.
    Answer(Box<Message>),
    /// An answer that cannot be read, and why.
    Unreadable(String),
    /// The server is gone, and how.
    Gone(Arc<str>),
}

/// So many ids of given-up requests are remembered, to tell late answers from invented ones.
const REMEMBERED: usize = 1024;

/// All requests that wait, by the id under which the server has them.
#[derive(Debug, Default)]
pub(crate) struct PendingTable {
    inner: Mutex<Inner>,
    /// Woken when the last one is gone.
    empty: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    waiting: HashMap<Id, Waiter>,
    given_up: HashSet<Id>,
    given_up_order: VecDeque<Id>,
}

/// What became of an answer's id.
#[derive(Debug)]
pub(crate) enum Found {
    Waiting(Waiter),
    /// The request was given up; its answer came late.
    Late,
    /// Nobody asked.
    Unknown,
}

impl PendingTable {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody waits. For one waiter, at the end.
    pub(crate) async fn emptied(&self) {
        while !self.lock().waiting.is_empty() {
            self.empty.notified().await;
        }
    }

    /// Enters a request; `false` when one with the same id still waits.
    pub(crate) fn enter(&self, id: Id, waiter: Waiter) -> bool {
        match self.lock().waiting.entry(id) {
            std::collections::hash_map::Entry::Occupied(_) => false,
            std::collections::hash_map::Entry::Vacant(slot) => {
                slot.insert(waiter);
                true
            }
        }
    }

    /// Enters a request of one of our tasks.
    pub(crate) fn ticket(self: &Arc<Self>, id: Id) -> Option<Ticket> {
        let (sender, receiver) = oneshot::channel();
        let entered = self.enter(id.clone(), Waiter::Task(sender));
        entered.then(|| Ticket { id, receiver, table: Arc::clone(self), sent: None })
    }

    pub(crate) fn is_waiting(&self, id: &Id) -> bool {
        self.lock().waiting.contains_key(id)
    }

    /// Takes the request that an answer belongs to.
    pub(crate) fn take(&self, id: &Id) -> Found {
        let mut inner = self.lock();
        let waiter = inner.waiting.remove(id);
        if inner.waiting.is_empty() {
            self.empty.notify_one();
        }
        match waiter {
            Some(waiter) => Found::Waiting(waiter),
            None if inner.given_up.contains(id) => Found::Late,
            None => Found::Unknown,
        }
    }

    /// Nobody waits for this one any more.
    pub(crate) fn give_up(&self, id: &Id) {
        let mut inner = self.lock();
        if inner.waiting.remove(id).is_none() || !inner.given_up.insert(id.clone()) {
            return;
        }
        inner.given_up_order.push_back(id.clone());
        if inner.given_up_order.len() > REMEMBERED
            && let Some(oldest) = inner.given_up_order.pop_front()
        {
            inner.given_up.remove(&oldest);
        }
    }

    /// Takes everything that waits: the server is gone.
    pub(crate) fn take_all(&self) -> Vec<(Id, Waiter)> {
        self.lock().waiting.drain().collect()
    }
}

/// A request of ours that waits. Dropped before its answer, it is given up, and the server is told.
#[derive(Debug)]
pub(crate) struct Ticket {
    id: Id,
    receiver: oneshot::Receiver<Arrival>,
    table: Arc<PendingTable>,
    sent: Option<Arc<Outbox>>,
}

impl Ticket {
    /// From here on the server may know of the request.
    pub(crate) fn sent_through(&mut self, outbox: &Arc<Outbox>) {
        self.sent = Some(Arc::clone(outbox));
    }

    /// The answer. Cancel safe.
    pub(crate) async fn arrival(&mut self) -> Arrival {
        let arrival = (&mut self.receiver).await;
        self.sent = None;
        arrival.unwrap_or_else(|_| Arrival::Gone("it is gone".into()))
    }

    /// Somebody else tells the server.
    pub(crate) fn tell_nobody(&mut self) {
        self.sent = None;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.table.give_up(&self.id);
        if let Some(outbox) = &self.sent {
            let mut params = toolgate_wire::Object::new();
            params.set("requestId", self.id.as_json().clone());
            params.set("reason", Json::string("toolgate gave the call up"));
            outbox.push_now(notification("notifications/cancelled", Some(&params.finish())));
        }
    }
}
