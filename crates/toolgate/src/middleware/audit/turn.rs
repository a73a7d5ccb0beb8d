//! Whose turn it is to write: the audit's own thread, or a call that waits for its record.
//!
//! To hand an intent to another thread and to be woken by it costs several times what the record does. So a
//! call writes its intent itself, and whatever else is in the queue with it, if that takes no time to speak of:
//! to a regular file, which nobody else writes to at the moment.

use std::{
    sync::{
        Mutex, TryLockError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use super::{
    queue::Queue,
    writer::{Turn, Writer},
};

/// The queue and who writes what is in it: one at a time.
pub(super) struct Desk {
    pub(super) queue: Queue,
    writer: Mutex<Writer>,
    /// Whether calls may write.
    is_quick: bool,
    /// The disk was slow: the thread waits for it, until it was quick again.
    is_slow: AtomicBool,
    /// How many calls were announced and had not ended at the last write.
    under_way: AtomicUsize,
    /// How long a record waits for others to be written with.
    moment: Duration,
}

/// So often a call writes what others have left to it; then it is the thread's.
const ROUNDS: usize = 2;

/// A write that takes longer must not hold up the thread that calls run on.
const SLOW: Duration = Duration::from_millis(10);

/// With more calls than these under way, an intent waits so long for those that come with it, where the thread
/// writes them: fewer wake-ups for all of them.
const CROWD: usize = 4;
const TOGETHER: Duration = Duration::from_micros(100);

impl Desk {
    pub(super) fn new(places: usize, writer: Writer, moment: Duration) -> Self {
        Self {
            queue: Queue::new(places),
            is_quick: writer.is_quick(),
            writer: Mutex::new(writer),
            is_slow: AtomicBool::new(false),
            under_way: AtomicUsize::new(0),
            moment,
        }
    }

    /// Whether a call may write itself.
    pub(super) fn is_quick(&self) -> bool {
        self.is_quick && !self.is_slow.load(Ordering::Relaxed)
    }

    /// Writes what is in the queue now, or leaves it to whoever does.
    pub(super) fn write_now(&self) {
        let mut has_left = false;
        for _ in 0..ROUNDS {
            let mut writer = match self.writer.try_lock() {
                Ok(writer) => writer,
                Err(TryLockError::Poisoned(writer)) => writer.into_inner(),
                // Who writes looks for what was left when done. If that was just before it was left here,
                // it is not written by anybody now.
                Err(TryLockError::WouldBlock) if !has_left => {
                    self.queue.leave();
                    has_left = true;
                    continue;
                }
                Err(TryLockError::WouldBlock) => return,
            };
            let began = Instant::now();
            let turn = self.take_turn(&mut writer, false);
            drop(writer);
            if began.elapsed() > SLOW {
                self.is_slow.store(true, Ordering::Relaxed);
            }
            if turn == Turn::Busy {
                break;
            }
            if !self.queue.is_left() {
                return;
            }
        }
        self.queue.hurry();
    }

    /// What the thread does, until the queue is closed.
    pub(super) fn run(&self) {
        while self.queue.wait(self.moment) {
            if self.queue.is_hurried() && self.is_crowded() {
                std::thread::sleep(TOGETHER);
            }
            loop {
                let began = Instant::now();
                self.take_turn(&mut self.writer(), true);
                if self.is_slow.load(Ordering::Relaxed) && began.elapsed() < SLOW {
                    self.is_slow.store(false, Ordering::Relaxed);
                }
                if !self.queue.is_left() {
                    break;
                }
            }
        }
        self.writer().finish();
    }

    fn is_crowded(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > CROWD
    }

    fn take_turn(&self, writer: &mut Writer, may_wait: bool) -> Turn {
        let turn = writer.write(&self.queue, may_wait);
        self.under_way.store(writer.under_way(), Ordering::Relaxed);
        turn
    }

    fn writer(&self) -> std::sync::MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
