//! Requests in flight on one connection that carries many: by the number under which the server has each.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::{mpsc, oneshot};
use toolgate_wire::{Id, Json, Message, Object, notification};

use super::flight::{Hears, Step};

/// So many side messages of one request wait for whoever reads them. More are dropped: a flood of progress must not
/// hold up the connection that others share.
const ROOM: usize = 64;

/// What came as, or instead of, an answer.
#[derive(Debug)]
pub(super) enum Arrival {
    /// The answer.
    Answer(Message),
    /// An answer that cannot be read, and why.
    Unreadable(String),
    /// The connection is gone, and how.
    Gone(Arc<str>),
}

/// All requests in flight.
#[derive(Debug)]
pub(super) struct Flights {
    waiting: Mutex<HashMap<u64, Waiting>>,
    first: u64,
    next: AtomicU64,
}

/// Numbers begin below this: they stay integers in JavaScript for as long as anybody counts.
const FIRST: u64 = 1 << 52;

impl Default for Flights {
    /// Numbers begin somewhere: who has not been told one cannot name a request of somebody else.
    fn default() -> Self {
        let first = getrandom::u64().map_or(1, |random| 1 + random % FIRST);
        Self { waiting: Mutex::default(), first, next: AtomicU64::new(first) }
    }
}

#[derive(Debug)]
struct Waiting {
    answer: oneshot::Sender<Arrival>,
    steps: Option<mpsc::Sender<Step>>,
    hears: Hears,
}

/// The receiving end of one request.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) number: u64,
    pub(super) answer: oneshot::Receiver<Arrival>,
    pub(super) steps: Option<mpsc::Receiver<Step>>,
}

/// What became of a message that belongs to a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It was handed over.
    Taken,
    /// Its request was given up before.
    Late,
    /// There never was such a request.
    Unknown,
}

impl Flights {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a request.
    pub(super) fn enter(&self, hears: Hears) -> Seat {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        let (sender_of_steps, steps) = if hears.anything() {
            let (sender, receiver) = mpsc::channel(ROOM);
            (Some(sender), Some(receiver))
        } else {
            (None, None)
        };
        let waiting = Waiting { answer: sender, steps: sender_of_steps, hears };
        self.lock().insert(number, waiting);
        Seat { number, answer, steps }
    }

    /// Nobody waits any more; `false` if nobody did.
    pub(super) fn leave(&self, number: u64) -> bool {
        self.lock().remove(&number).is_some()
    }

    /// How many clients wait.
    pub(super) fn len(&self) -> usize {
        self.lock().values().filter(|waiting| !waiting.hears.is_ours).count()
    }

    /// Hands over what came for an id.
    pub(super) fn arrive(&self, id: &Id, arrival: Arrival) -> Found {
        let Some(number) = id.as_json().u64() else { return Found::Unknown };
        match self.lock().remove(&number) {
            Some(waiting) => {
                drop(waiting.answer.send(arrival));
                Found::Taken
            }
            None if (self.first..self.next.load(Ordering::Relaxed)).contains(&number) => {
                Found::Late
            }
            None => Found::Unknown,
        }
    }

    /// The connection is gone: everybody is told.
    pub(super) fn all_gone(&self, why: &Arc<str>) {
        let all = std::mem::take(&mut *self.lock());
        for waiting in all.into_values() {
            drop(waiting.answer.send(Arrival::Gone(Arc::clone(why))));
        }
    }

    /// Hands over a progress notification, under the token that the client knows; `false` if it is nobody's.
    pub(super) fn progress(&self, message: &Message) -> bool {
        let Some(number) = message.member("progressToken").and_then(|token| token.u64()) else {
            return false;
        };
        let waiting = self.lock();
        let Some(waiting) = waiting.get(&number) else { return false };
        let (Some(steps), Some(token)) = (&waiting.steps, &waiting.hears.token) else {
            return false;
        };
        if let Some(told) = with_token(message, token.clone()) {
            drop(steps.try_send(Step::Notice(told)));
        }
        true
    }

    /// Hands a message over on a connection that one client has to itself: to the newest of its calls that wants it,
    /// since all of them lead to that client. Gives it back otherwise, with how many calls there are.
    pub(super) fn any_one(
        &self,
        step: Step,
        fits: impl Fn(&Hears) -> bool,
    ) -> Result<(), Box<(Step, usize)>> {
        let waiting = self.lock();
        let calls = waiting.iter().filter(|(_, waiting)| !waiting.hears.is_ours);
        let fitting = calls.clone().filter_map(|(number, waiting)| {
            let steps = waiting.steps.as_ref().filter(|_| fits(&waiting.hears));
            steps.map(|steps| (number, steps))
        });
        match fitting.max_by_key(|(number, _)| **number) {
            Some((_, steps)) => {
                steps.try_send(step).map_err(|error| Box::new((error.into_inner(), 1)))
            }
            None => Err(Box::new((step, calls.count().min(1)))),
        }
    }

    /// Hands a message over that says nothing of the request it belongs to: there must be only one call that it can
    /// belong to, whoever made it, and that one must want it. Gives it back otherwise, with how many there are.
    pub(super) fn only_one(
        &self,
        step: Step,
        fits: impl Fn(&Hears) -> bool,
    ) -> Result<(), Box<(Step, usize)>> {
        let waiting = self.lock();
        let mut calls = waiting.values().filter(|waiting| !waiting.hears.is_ours);
        match (calls.next(), calls.next()) {
            (Some(Waiting { steps: Some(steps), hears, .. }), None) if fits(hears) => {
                steps.try_send(step).map_err(|error| Box::new((error.into_inner(), 1)))
            }
            (None, _) => Err(Box::new((step, 0))),
            (Some(_), None) => Err(Box::new((step, 1))),
            _ => Err(Box::new((step, 2))),
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
