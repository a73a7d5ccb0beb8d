//! The bounded queue between calls and the writer, in order. It wakes the background thread only when that has to
//! write.

use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{Semaphore, oneshot};

use super::{AuditEvent, Rejection, output::About};
use crate::context::CallId;

/// An entry of the queue.
pub(super) enum Item {
    /// A call that ended.
    Call(Box<AuditEvent>),
    /// A call that is about to run.
    Intent(Intent),
    /// A request that a transport rejected.
    Rejected(Box<Rejection>),
}

/// A call that is about to run and waits until its intent is written.
pub(super) struct Intent {
    pub(super) call: CallId,
    pub(super) record: IntentRecord,
    pub(super) written: oneshot::Sender<bool>,
}

/// The record of an intent.
pub(super) enum IntentRecord {
    /// Rendered by the call, without its place in the hash chain.
    Rendered(Vec<u8>, About),
    /// To be rendered by the writer: the arguments are too large for the thread of the call.
    Unrendered(Box<AuditEvent>),
}

/// Largest number of records in one write.
pub(super) const MAX_BATCH: usize = 256;

pub(super) struct Queue {
    state: Mutex<State>,
    /// One permit for each free entry.
    permits: Semaphore,
    wake: Condvar,
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent requests to the background thread")]
struct State {
    items: VecDeque<Item>,
    sleep: Sleep,
    /// A call waits for an entry that only the background thread will write.
    must_flush: bool,
    /// Set when a call found the writer busy: the current writer checks the queue again before it returns.
    needs_recheck: bool,
    /// Whether records were taken since the background thread looked last.
    was_drained: bool,
    /// Whether the writer keeps the lock of its file. The background thread then wakes at intervals to release it.
    keeps_lock: bool,
    is_closed: bool,
}

/// What the background thread has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    Write,
    /// No record came for a while: release the lock of the file.
    ReleaseLock,
    /// The queue is closed and empty.
    End,
}

/// What the background thread waits for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Sleep {
    #[default]
    Awake,
    /// For the first record.
    First,
    /// For further records, until the batch delay is over.
    Further,
}

/// Who writes an entry, and when.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FlushBy {
    /// The background thread, after the batch delay.
    ThreadLater,
    /// The background thread, at once.
    ThreadNow,
    /// The call that adds it.
    Caller,
}

/// The right to add one entry to the queue.
pub(super) struct Permit<'a>(&'a Queue);

impl Queue {
    pub(super) fn new(size: usize) -> Self {
        let permits = Semaphore::new(size.clamp(1, Semaphore::MAX_PERMITS));
        Self { state: Mutex::default(), permits, wake: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock, so the state is consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A permit, if the queue is not full.
    pub(super) fn try_permit(&self) -> Option<Permit<'_>> {
        self.permits.try_acquire().ok()?.forget();
        Some(Permit(self))
    }

    /// Waits for a permit. `None` if the queue is closed.
    pub(super) async fn permit(&self) -> Option<Permit<'_>> {
        self.permits.acquire().await.ok()?.forget();
        Some(Permit(self))
    }

    /// Moves up to `MAX_BATCH` entries into `into` and releases their permits.
    pub(super) fn drain_into(&self, into: &mut Vec<Item>) {
        let mut state = self.state();
        let count = state.items.len().min(MAX_BATCH);
        into.extend(state.items.drain(..count));
        state.was_drained |= count > 0;
        state.needs_recheck = !state.items.is_empty();
        if !state.needs_recheck {
            state.must_flush = false;
        }
        drop(state);
        self.permits.add_permits(count);
    }

    /// Leaves the queued entries to the current writer.
    pub(super) fn request_recheck(&self) {
        let mut state = self.state();
        state.needs_recheck = !state.items.is_empty();
    }

    /// Whether a call left entries to the current writer.
    pub(super) fn needs_recheck(&self) -> bool {
        self.state().needs_recheck
    }

    /// Makes the background thread write at once.
    pub(super) fn flush_by_thread(&self) {
        let mut state = self.state();
        state.must_flush = true;
        self.wake_thread(&mut state);
    }

    /// Waits for the first record and then up to `batch_delay` for further ones: a write and a wake-up for each record
    /// would cost more than the record. While the writer keeps the lock, the thread wakes after each `batch_delay`, and
    /// no record has to wake it.
    pub(super) fn wait(&self, batch_delay: Duration) -> Wake {
        let mut state = self.state();
        loop {
            while state.items.is_empty() && !state.is_closed && !state.keeps_lock {
                state.sleep = Sleep::First;
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            state = self.wait_for_further(state, batch_delay);
            if !state.items.is_empty() {
                return Wake::Write;
            }
            if state.is_closed {
                return Wake::End;
            }
            if !std::mem::take(&mut state.was_drained) && state.keeps_lock {
                return Wake::ReleaseLock;
            }
        }
    }

    fn wait_for_further<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        batch_delay: Duration,
    ) -> MutexGuard<'a, State> {
        let until = Instant::now() + batch_delay;
        // Calls may have written what they asked the thread to write.
        state.must_flush &= !state.items.is_empty();
        while !state.must_flush && !state.is_closed && state.items.len() < MAX_BATCH {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state.sleep = Sleep::Further;
            let woken = self.wake.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.sleep = Sleep::Awake;
        state
    }

    /// Sets whether the writer keeps the lock of its file.
    pub(super) fn set_keeps_lock(&self, keeps_lock: bool) {
        let mut state = self.state();
        state.keeps_lock = keeps_lock;
        if keeps_lock && state.sleep == Sleep::First {
            self.wake_thread(&mut state);
        }
    }

    /// Closes the queue for new entries.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        self.permits.close();
        self.wake_thread(&mut state);
    }

    fn wake_thread(&self, state: &mut State) {
        // Only if it sleeps, and only once: a notification is a system call.
        if std::mem::take(&mut state.sleep) != Sleep::Awake {
            self.wake.notify_one();
        }
    }
}

impl Permit<'_> {
    /// Adds the entry. Returns false if the queue is closed.
    pub(super) fn push(self, item: Item, flush_by: FlushBy) -> bool {
        let mut state = self.0.state();
        if state.is_closed {
            return false;
        }
        state.items.push_back(item);
        let wakes = match (flush_by, state.sleep) {
            (FlushBy::Caller, _) => false,
            (FlushBy::ThreadNow, _) => {
                state.must_flush = true;
                true
            }
            (FlushBy::ThreadLater, Sleep::Further) => state.items.len() >= MAX_BATCH,
            (FlushBy::ThreadLater, _) => true,
        };
        if wakes {
            self.0.wake_thread(&mut state);
        }
        true
    }
}
