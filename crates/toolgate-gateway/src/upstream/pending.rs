//! Requests in flight on one connection that carries many: by the id under which the server has each.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{mpsc, oneshot};
use toolgate_wire::{Id, Json, Message, Object, notification};

use super::in_flight::{Interest, UpstreamEvent};

/// So many side messages of one request wait for whoever reads them. More are dropped: a flood of progress must not
/// hold up the connection that others share.
const ROOM: usize = 64;

/// What came as, or instead of, an answer.
#[derive(Debug)]
pub(super) enum PendingOutcome {
    /// The answer.
    Answer(Message),
    /// An answer that cannot be read, and why.
    Unreadable(String),
    /// The connection is gone, and how.
    Gone(Arc<str>),
}

/// The gateway remembers so many ids of requests that were given up, to tell late answers from invented ones.
const REMEMBERED: usize = 1024;

/// All requests in flight.
#[derive(Debug)]
pub(super) struct PendingRequests {
    table: Mutex<Table>,
    first: u64,
    next: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    waiting: HashMap<Id, Waiting>,
    /// Ids of requests that were given up on an exclusive connection.
    given_up: VecDeque<Id>,
}

/// Numbers begin below this: they stay integers in JavaScript for as long as anybody counts.
const FIRST: u64 = 1 << 52;

impl Default for PendingRequests {
    /// Numbers begin somewhere: who has not been told one cannot name a request of somebody else.
    fn default() -> Self {
        let first = getrandom::u64().map_or(1, |random| 1 + random % FIRST);
        Self { table: Mutex::default(), first, next: AtomicU64::new(first) }
    }
}

#[derive(Debug)]
struct Waiting {
    /// The order in which requests came.
    number: u64,
    /// Whether late answers are told by the id itself, which is one of our numbers.
    is_numbered: bool,
    /// Whether the client itself tells the server that the request is cancelled.
    is_told: bool,
    answer: oneshot::Sender<PendingOutcome>,
    steps: Option<mpsc::Sender<UpstreamEvent>>,
    hears: Interest,
}

/// The id under which the server gets a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum PendingId<'a> {
    /// A number of ours.
    Number,
    /// A name of ours, where the client's own ids are in use as well.
    Name,
    /// The client's own.
    Clients(&'a Id),
}

/// The receiving end of one request.
#[derive(Debug)]
pub(super) struct PendingReceiver {
    pub(super) id: Id,
    pub(super) answer: oneshot::Receiver<PendingOutcome>,
    pub(super) steps: Option<mpsc::Receiver<UpstreamEvent>>,
}

/// What became of a message that belongs to a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// It was handed over.
    Taken,
    /// Its request was given up before.
    Late,
    /// There never was such a request.
    Unknown,
}

impl PendingRequests {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    /// Enters a request; `None` if the id is in use.
    pub(super) fn enter(&self, hears: Interest, key: PendingId<'_>) -> Option<PendingReceiver> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let id = match key {
            PendingId::Number => id_of(number),
            PendingId::Name => Id::string(&format!("toolgate-{number}")),
            PendingId::Clients(id) => id.clone(),
        };
        let (sender, answer) = oneshot::channel();
        let (sender_of_steps, steps) = if hears.anything() {
            let (sender, receiver) = mpsc::channel(ROOM);
            (Some(sender), Some(receiver))
        } else {
            (None, None)
        };
        let waiting = Waiting {
            number,
            is_numbered: matches!(key, PendingId::Number),
            is_told: false,
            answer: sender,
            steps: sender_of_steps,
            hears,
        };
        match self.lock().waiting.entry(id.clone()) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(vacant) => drop(vacant.insert(waiting)),
        }
        Some(PendingReceiver { id, answer, steps })
    }

    /// Nobody waits any more. `true`: the server has to be told.
    pub(super) fn leave(&self, id: &Id) -> bool {
        let mut table = self.lock();
        let Some(waiting) = table.waiting.remove(id) else { return false };
        if !waiting.is_numbered {
            if table.given_up.len() >= REMEMBERED {
                table.given_up.pop_front();
            }
            table.given_up.push_back(id.clone());
        }
        !waiting.is_told
    }

    /// The client itself tells the server that a request is cancelled.
    pub(super) fn told(&self, id: &Id) {
        if let Some(waiting) = self.lock().waiting.get_mut(id) {
            waiting.is_told = true;
        }
    }

    /// How many clients wait.
    pub(super) fn len(&self) -> usize {
        self.lock().waiting.values().filter(|waiting| !waiting.hears.is_ours).count()
    }

    /// Hands over what came for an id.
    pub(super) fn arrive(&self, id: &Id, arrival: PendingOutcome) -> Lookup {
        let mut table = self.lock();
        match table.waiting.remove(id) {
            Some(waiting) => {
                drop(waiting.answer.send(arrival));
                Lookup::Taken
            }
            None if self.was_ours(id) || table.given_up.contains(id) => Lookup::Late,
            None => Lookup::Unknown,
        }
    }

    /// Whether an id is a number that some request of this connection had.
    fn was_ours(&self, id: &Id) -> bool {
        let ours = self.first..self.next.load(Ordering::Relaxed);
        id.as_json().u64().is_some_and(|number| ours.contains(&number))
    }

    /// The connection is gone: everybody is told.
    pub(super) fn all_gone(&self, why: &Arc<str>) {
        let all = std::mem::take(&mut self.lock().waiting);
        for waiting in all.into_values() {
            drop(waiting.answer.send(PendingOutcome::Gone(Arc::clone(why))));
        }
    }

    /// The server takes a question back: whichever request it was put to hears of it.
    pub(super) fn withdraw(&self, notice: &Message) {
        let Some(id) = notice.member("requestId").and_then(Id::from_json) else { return };
        let table = self.lock();
        for steps in table.waiting.values().filter_map(|waiting| waiting.steps.as_ref()) {
            drop(steps.try_send(UpstreamEvent::Withdrawn(id.clone())));
        }
    }

    /// Hands over a progress notification, under the token that the client knows; `false` if it is nobody's.
    pub(super) fn progress(&self, message: &Message) -> bool {
        let Some(id) = message.member("progressToken").and_then(Id::from_json) else {
            return false;
        };
        let table = self.lock();
        let Some(waiting) = table.waiting.get(&id) else { return false };
        let (Some(steps), Some(token)) = (&waiting.steps, &waiting.hears.token) else {
            return false;
        };
        if let Some(told) = with_token(message, token.clone()) {
            drop(steps.try_send(UpstreamEvent::Notice(told)));
        }
        true
    }

    /// Hands a message over that says nothing of the request it belongs to: there must be only one client that it can
    /// belong to, the one that made the only call or all of them, and a call of it must want the message: of several
    /// the newest. Gives it back otherwise, with how many clients there are.
    pub(super) fn only_client(
        &self,
        step: UpstreamEvent,
        fits: impl Fn(&Interest) -> bool,
    ) -> Result<(), Box<(UpstreamEvent, usize)>> {
        let table = self.lock();
        let calls = || table.waiting.values().filter(|waiting| !waiting.hears.is_ours);
        let Some(first) = calls().next() else { return Err(Box::new((step, 0))) };
        let session = first.hears.session.as_ref();
        let is_one = calls().count() == 1
            || session.is_some() && calls().all(|call| call.hears.session.as_ref() == session);
        if !is_one {
            return Err(Box::new((step, 2)));
        }
        let fitting = calls().filter_map(|waiting| {
            let steps = waiting.steps.as_ref().filter(|_| fits(&waiting.hears));
            steps.map(|steps| (waiting.number, steps))
        });
        match fitting.max_by_key(|(number, _)| *number) {
            Some((_, steps)) => {
                steps.try_send(step).map_err(|error| Box::new((error.into_inner(), 1)))
            }
            None => Err(Box::new((step, 1))),
        }
    }
}

/// A notification of progress under another token.
pub(super) fn with_token(message: &Message, token: Json) -> Option<Message> {
    let mut params = message.body()?;
    params.set("progressToken", token);
    let line = notification(message.method(), Some(&params.finish()));
    Message::parse(line, &toolgate_wire::Limits::default()).ok()
}

/// The notice that a request is given up.
pub(super) fn cancelled(id: &Id) -> bytes::Bytes {
    let mut params = Object::new();
    params.set("requestId", id.as_json().clone());
    params.set("reason", Json::string("toolgate gave the call up"));
    notification("notifications/cancelled", Some(&params.finish()))
}

/// The id of a request of this number.
pub(super) fn id_of(number: u64) -> Id {
    Id::number(i64::try_from(number).unwrap_or(i64::MAX))
}
