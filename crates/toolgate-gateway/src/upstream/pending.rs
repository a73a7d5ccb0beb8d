//! The pending requests of one connection, by the id that the server sees.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{mpsc, oneshot};
use toolgate_wire::{Id, Json, Message, Object, mcp::method, notification};

use super::{
    failures::LossStage,
    request::{Interest, Requester, UpstreamEvent},
};

/// How many side messages of one request may wait for its reader. The gateway drops further ones: a flood of progress
/// notifications must not block the connection that other requests share.
const MAX_BUFFERED_EVENTS: usize = 64;

/// How a pending request ends.
#[derive(Debug)]
pub(super) enum PendingOutcome {
    /// The server responded.
    Response(Message),
    /// The server's response cannot be read, and why.
    Unreadable(String),
    /// The connection was lost, and why.
    Lost(Arc<str>),
}

/// How many ids of given-up requests the gateway remembers, to tell late responses from invented ones.
const MAX_GIVEN_UP_IDS: usize = 1024;

/// The pending requests of one connection.
#[derive(Debug)]
pub(super) struct PendingRequests {
    table: Mutex<Table>,
    first: u64,
    next: AtomicU64,
    /// Whether the handshake is over.
    is_open: AtomicBool,
}

#[derive(Debug, Default)]
struct Table {
    waiting: HashMap<Id, PendingRequest>,
    /// Client-chosen ids of cancelled requests.
    given_up: VecDeque<Id>,
}

/// The limit of the first id: ids stay exact integers in JavaScript, which has 53 bits for them.
const MAX_FIRST_ID: u64 = 1 << 52;

impl Default for PendingRequests {
    /// The first id is random, so that a server cannot guess the ids of requests that it was not sent.
    fn default() -> Self {
        let first = getrandom::u64().map_or(1, |random| 1 + random % MAX_FIRST_ID);
        let (next, is_open) = (AtomicU64::new(first), AtomicBool::new(false));
        Self { table: Mutex::default(), first, next, is_open }
    }
}

#[derive(Debug)]
struct PendingRequest {
    /// Its place in the order of requests.
    number: u64,
    /// Whether its id is a number of the gateway, which identifies late responses by itself.
    is_numbered: bool,
    /// Whether the client's own `notifications/cancelled` reaches the server.
    is_cancelled_by_client: bool,
    response: oneshot::Sender<PendingOutcome>,
    side_events: Option<mpsc::Sender<SideEvent>>,
    interest: Interest,
}

/// Which id the server sees.
#[derive(Clone, Copy, Debug)]
pub(super) enum PendingId<'a> {
    /// A number that the gateway chooses.
    Number,
    /// A string that the gateway chooses, on a connection that carries the client's ids as well.
    Name,
    /// The client's id.
    FromClient(&'a Id),
}

/// What a server sends before the response. Boxed: the queue of each request has room for 32 of these from the start.
pub(super) type SideEvent = Box<UpstreamEvent>;

/// The receiving end of one request.
#[derive(Debug)]
pub(super) struct PendingReceiver {
    pub(super) id: Id,
    pub(super) response: oneshot::Receiver<PendingOutcome>,
    pub(super) side_events: Option<mpsc::Receiver<SideEvent>>,
}

/// Whether an id belongs to a pending request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// It does, and the message was delivered.
    Delivered,
    /// It did: the gateway gave the request up before.
    Late,
    /// The gateway never sent a request with this id.
    Unknown,
}

impl PendingRequests {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    /// The handshake is over.
    pub(super) fn set_open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    /// How far a request that was written had come when the connection was lost.
    pub(super) fn loss_stage(&self) -> LossStage {
        if self.is_open.load(Ordering::Relaxed) { LossStage::Sent } else { LossStage::Handshake }
    }

    /// Adds a request; `None` if the id is in use.
    pub(super) fn insert(&self, interest: Interest, key: PendingId<'_>) -> Option<PendingReceiver> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let id = match key {
            PendingId::Number => numeric_id(number),
            PendingId::Name => Id::string(&format!("toolgate-{number}")),
            PendingId::FromClient(id) => id.clone(),
        };
        let (sender, response) = oneshot::channel();
        let (event_sender, side_events) = if interest.requester == Requester::Client {
            let (sender, receiver) = mpsc::channel(MAX_BUFFERED_EVENTS);
            (Some(sender), Some(receiver))
        } else {
            (None, None)
        };
        let waiting = PendingRequest {
            number,
            is_numbered: matches!(key, PendingId::Number),
            is_cancelled_by_client: false,
            response: sender,
            side_events: event_sender,
            interest,
        };
        match self.lock().waiting.entry(id.clone()) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(vacant) => drop(vacant.insert(waiting)),
        }
        Some(PendingReceiver { id, response, side_events })
    }

    /// Removes a request that the gateway no longer waits for. `true`: the server has to be sent a cancellation.
    pub(super) fn remove(&self, id: &Id) -> bool {
        let mut table = self.lock();
        let Some(waiting) = table.waiting.remove(id) else { return false };
        if !waiting.is_numbered {
            if table.given_up.len() >= MAX_GIVEN_UP_IDS {
                table.given_up.pop_front();
            }
            table.given_up.push_back(id.clone());
        }
        !waiting.is_cancelled_by_client
    }

    /// Notes that the client's own `notifications/cancelled` reaches the server.
    pub(super) fn mark_cancelled_by_client(&self, id: &Id) {
        if let Some(waiting) = self.lock().waiting.get_mut(id) {
            waiting.is_cancelled_by_client = true;
        }
    }

    /// The number of pending requests of clients.
    pub(super) fn len(&self) -> usize {
        self.lock()
            .waiting
            .values()
            .filter(|waiting| waiting.interest.requester != Requester::Gateway)
            .count()
    }

    /// Ends the request with this id.
    pub(super) fn finish(&self, id: &Id, outcome: PendingOutcome) -> Lookup {
        let mut table = self.lock();
        match table.waiting.remove(id) {
            Some(waiting) => {
                drop(waiting.response.send(outcome));
                Lookup::Delivered
            }
            None if self.was_ours(id) || table.given_up.contains(id) => Lookup::Late,
            None => Lookup::Unknown,
        }
    }

    /// Whether the gateway has sent a request with this number.
    fn was_ours(&self, id: &Id) -> bool {
        let ours = self.first..self.next.load(Ordering::Relaxed);
        id.as_json().u64().is_some_and(|number| ours.contains(&number))
    }

    /// The connection was lost: ends all pending requests.
    pub(super) fn fail_all(&self, why: &Arc<str>) {
        let all = std::mem::take(&mut self.lock().waiting);
        for waiting in all.into_values() {
            drop(waiting.response.send(PendingOutcome::Lost(Arc::clone(why))));
        }
    }

    /// Passes the server's `notifications/cancelled` to all pending requests: one of them passed the cancelled request on
    /// to its client.
    pub(super) fn cancel_server_request(&self, notification: &Message) {
        let Some(id) = notification.member("requestId").and_then(Id::from_json) else { return };
        let table = self.lock();
        for events in table.waiting.values().filter_map(|waiting| waiting.side_events.as_ref()) {
            let cancelled = UpstreamEvent::ServerRequestCancelled(id.clone());
            drop(events.try_send(Box::new(cancelled)));
        }
    }

    /// Delivers a progress notification under the client's token; `false` if no pending request has asked for it.
    pub(super) fn deliver_progress(&self, message: &Message) -> bool {
        let Some(id) = message.member("progressToken").and_then(Id::from_json) else {
            return false;
        };
        let table = self.lock();
        let Some(waiting) = table.waiting.get(&id) else { return false };
        let (Some(events), Some(token)) = (&waiting.side_events, &waiting.interest.token) else {
            return false;
        };
        if let Some(notification) = with_token(message, token.clone()) {
            drop(events.try_send(Box::new(UpstreamEvent::Notification(notification))));
        }
        true
    }

    /// Delivers a message that does not say which request it belongs to. All pending requests of clients must come from
    /// one client; of its requests that accept the message, the newest gets it.
    pub(super) fn deliver_to_only_client(
        &self,
        event: UpstreamEvent,
        accepts: impl Fn(&Interest) -> bool,
    ) -> RouteResult {
        let table = self.lock();
        let calls = || {
            table
                .waiting
                .values()
                .filter(|waiting| waiting.interest.requester != Requester::Gateway)
        };
        let Some(first) = calls().next() else { return RouteResult::NoClient(event) };
        let session = first.interest.session.as_ref();
        let is_one = calls().count() == 1
            || session.is_some() && calls().all(|call| call.interest.session.as_ref() == session);
        if !is_one {
            return RouteResult::SeveralClients(event);
        }
        let accepting = calls().filter_map(|waiting| {
            let events = waiting.side_events.as_ref().filter(|_| accepts(&waiting.interest));
            events.map(|events| (waiting.number, events))
        });
        match accepting.max_by_key(|(number, _)| *number) {
            Some((_, events)) => match events.try_send(Box::new(event)) {
                Ok(()) => RouteResult::Delivered,
                Err(error) => RouteResult::NotAccepted(*error.into_inner()),
            },
            None => RouteResult::NotAccepted(event),
        }
    }
}

/// What became of a message that does not say which request it belongs to. Gives the message back unless it was delivered.
#[derive(Debug)]
pub(super) enum RouteResult {
    Delivered,
    /// No client has a pending request.
    NoClient(UpstreamEvent),
    /// Several clients have pending requests, and the message could be for any of them.
    SeveralClients(UpstreamEvent),
    /// The only client does not accept the message, or its buffer is full.
    NotAccepted(UpstreamEvent),
}

impl RouteResult {
    /// The message, if it is a notification that was not delivered.
    pub(super) fn into_undelivered_notification(self) -> Option<Message> {
        match self {
            Self::NoClient(event) | Self::SeveralClients(event) | Self::NotAccepted(event) => {
                match event {
                    UpstreamEvent::Notification(message) => Some(message),
                    _ => None,
                }
            }
            Self::Delivered => None,
        }
    }
}

/// A copy of a progress notification with another token.
pub(super) fn with_token(message: &Message, token: Json) -> Option<Message> {
    let mut params = message.body()?;
    params.set("progressToken", token);
    let line = notification(message.method(), Some(&params.finish()));
    Message::parse(line, &toolgate_wire::Limits::default()).ok()
}

/// `notifications/cancelled` for a request that the gateway cancels.
pub(super) fn cancellation(id: &Id) -> bytes::Bytes {
    let mut params = Object::new();
    params.set("requestId", id.as_json().clone());
    params.set("reason", Json::string("toolgate cancelled the call"));
    notification(method::NOTIFICATIONS_CANCELLED, Some(&params.finish()))
}

/// The id of the request with this number.
pub(super) fn numeric_id(number: u64) -> Id {
    Id::number(i64::try_from(number).unwrap_or(i64::MAX))
}
