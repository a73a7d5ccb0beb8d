//! The queue between calls and whoever writes: bounded, in order, and quiet unless somebody has to be woken.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{Semaphore, oneshot};

use super::{Event, Rejection, output::About};
use crate::context::CallId;

/// What waits in the queue.
pub(super) enum Item {
    /// A call that ended.
    Call(Box<Event>),
    /// A call that is about to run.
    Intent(Intent),
    /// A request that no call was read from.
    Rejected(Box<Rejection>),
}

/// A call that is about to run, and who waits until that is written.
pub(super) struct Intent {
    pub(super) call: CallId,
    pub(super) record: Announced,
    pub(super) written: oneshot::Sender<bool>,
}

/// The record of an intent.
pub(super) enum Announced {
    /// Finished but for its place in the chain.
    Told(Vec<u8>, About),
    /// Still to be told: too much for the thread that the call runs on.
    Whole(Box<Event>),
}

/// So many records go into one write at most.
pub(super) const BATCH: usize = 256;

pub(super) struct Queue {
    state: Mutex<State>,
    /// One permit for each place that is free.
    room: Semaphore,
    bell: Condvar,
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    sleep: Sleep,
    /// Somebody waits for what is here, and nobody else is going to write it.
    hurries: bool,
    /// Somebody wanted to write what is here while another was writing, who is to look again.
    is_left: bool,
    is_closed: bool,
}

/// What the writer's own thread is waiting for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Sleep {
    #[default]
    Awake,
    /// The first record.
    First,
    /// Further records, for a moment.
    Further,
}

/// Who is to write what is put into the queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// The thread, in a moment.
    Later,
    /// The thread, at once.
    AtOnce,
    /// Whoever puts it there.
    Myself,
}

/// A place in the queue, to be used at once.
pub(super) struct Place<'a>(&'a Queue);

impl Queue {
    pub(super) fn new(places: usize) -> Self {
        let room = Semaphore::new(places.clamp(1, Semaphore::MAX_PERMITS));
        Self { state: Mutex::default(), room, bell: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing here is ever half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place, if one is free.
    pub(super) fn try_place(&self) -> Option<Place<'_>> {
        self.room.try_acquire().ok()?.forget();
        Some(Place(self))
    }

    /// A place, as soon as one is free. `None` if the queue is closed.
    pub(super) async fn place(&self) -> Option<Place<'_>> {
        self.room.acquire().await.ok()?.forget();
        Some(Place(self))
    }

    /// Takes what is to be written next; gives its places back.
    pub(super) fn take(&self, into: &mut Vec<Item>) {
        let mut state = self.state();
        let count = state.items.len().min(BATCH);
        into.extend(state.items.drain(..count));
        state.is_left = !state.items.is_empty();
        if !state.is_left {
            state.hurries = false;
        }
        drop(state);
        self.room.add_permits(count);
    }

    /// Says that what is here is left to whoever writes just now.
    pub(super) fn leave(&self) {
        let mut state = self.state();
        state.is_left = !state.items.is_empty();
    }

    /// Whether something was left here meanwhile.
    pub(super) fn is_left(&self) -> bool {
        self.state().is_left
    }

    /// The thread is to write what is here at once.
    pub(super) fn hurry(&self) {
        let mut state = self.state();
        state.hurries = true;
        self.ring(&mut state);
    }

    /// Waits until there is something to write, and a moment longer for what may come with it: a write and
    /// a wake-up for each record would cost more than the record itself. False at the end.
    pub(super) fn wait(&self, moment: Duration) -> bool {
        let mut state = self.state();
        while state.items.is_empty() && !state.is_closed {
            state.sleep = Sleep::First;
            state = self.bell.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.sleep = Sleep::Awake;
        let until = Instant::now() + moment;
        while !state.hurries && !state.is_closed && state.items.len() < BATCH {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state.sleep = Sleep::Further;
            let woken = self.bell.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.sleep = Sleep::Awake;
        !(state.is_closed && state.items.is_empty())
    }

    /// Whether somebody waits for the thread.
    pub(super) fn is_hurried(&self) -> bool {
        self.state().hurries
    }

    /// Takes no more.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        self.room.close();
        self.ring(&mut state);
    }

    fn ring(&self, state: &mut State) {
        // Only once, and only if it sleeps: a ring is a system call.
        if std::mem::take(&mut state.sleep) != Sleep::Awake {
            self.bell.notify_one();
        }
    }
}

impl Place<'_> {
    /// Puts something there. False if the queue is closed.
    pub(super) fn fill(self, item: Item, pace: Pace) -> bool {
        let mut state = self.0.state();
        if state.is_closed {
            return false;
        }
        state.items.push_back(item);
        let rings = match (pace, state.sleep) {
            (Pace::Myself, _) => false,
            (Pace::AtOnce, _) => {
                state.hurries = true;
                true
            }
            (Pace::Later, Sleep::Further) => state.items.len() >= BATCH,
            (Pace::Later, _) => true,
        };
        if rings {
            self.0.ring(&mut state);
        }
        true
    }
}
