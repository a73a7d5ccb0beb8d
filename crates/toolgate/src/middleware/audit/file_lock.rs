//! The lock on the audit file: when a process keeps it between two batches, and when it lets others have it.
//!
//! To lock the file, look whether it is still at its path, write the head and unlock costs more than the write of a
//! small batch. So a process whose batches follow each other quickly keeps the lock. A process that has to wait takes
//! the *turn* first, a lock on the head: the process that keeps the lock looks at intervals whether the turn is taken.

use std::{
    fs::{File, TryLockError},
    io,
    time::{Duration, Instant},
};

/// A batch that follows the one before within this time keeps the lock. Slower processes do not need it, and a process
/// that is stopped while it keeps the lock delays the others.
const QUICK: Duration = Duration::from_millis(1);

/// How often the process that keeps the lock looks whether another one waits, and whether the file was moved.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// The longest time for which a process keeps the lock: for other programs, which do not take the turn.
const MAX_KEPT: Duration = Duration::from_millis(100);

/// How long after a batch of another process each batch is locked by itself.
const SHARED_PERIOD: Duration = Duration::from_millis(100);

/// How often the head is written while the lock is kept.
const HEAD_INTERVAL: Duration = Duration::from_millis(5);

/// What this process knows of its lock on the file.
#[derive(Debug)]
pub(super) struct FileLockState {
    pub(super) is_held: bool,
    /// Another process waited for the lock: this one queues behind it.
    pub(super) gave_way: bool,
    /// Whether the lock may outlast a batch: not without a thread that releases it.
    may_keep: bool,
    locked_at: Instant,
    /// When the path and the turn were looked at last.
    path_checked: Instant,
    turn_checked: Instant,
    head_written: Instant,
    last_batch: Option<Instant>,
    shared_until: Option<Instant>,
}

impl FileLockState {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            is_held: false,
            gave_way: false,
            // Elsewhere a lock also keeps other processes from reading.
            may_keep: cfg!(unix),
            locked_at: now,
            path_checked: now,
            turn_checked: now,
            head_written: now,
            last_batch: None,
            shared_until: None,
        }
    }

    /// The file was locked, and is at its path.
    pub(super) fn locked(&mut self, now: Instant) {
        (self.is_held, self.gave_way) = (true, false);
        (self.locked_at, self.path_checked, self.turn_checked) = (now, now, now);
    }

    /// Another process wrote to the file since the last batch of this one.
    pub(super) fn others_wrote(&mut self, now: Instant) {
        self.shared_until = Some(now + SHARED_PERIOD);
    }

    pub(super) fn never_keep(&mut self) {
        self.may_keep = false;
    }

    /// Whether it is time to look whether the file is still at its path.
    pub(super) fn begin_path_check_if_due(&mut self, now: Instant) -> bool {
        begin_if_due(&mut self.path_checked, CHECK_INTERVAL, now)
    }

    /// What becomes of the lock after a batch. `is_wanted` tells whether another process waits for it.
    pub(super) fn after_batch(
        &mut self,
        now: Instant,
        is_wanted: impl FnOnce() -> bool,
    ) -> AfterBatch {
        let last = self.last_batch.replace(now);
        let is_quick = last.is_some_and(|last| now.duration_since(last) < QUICK);
        let is_shared = self.shared_until.is_some_and(|until| now < until);
        let is_old = now.duration_since(self.locked_at) >= MAX_KEPT;
        if !is_quick || is_shared || is_old || !self.may_keep {
            return AfterBatch::Release;
        }
        if begin_if_due(&mut self.turn_checked, CHECK_INTERVAL, now) && is_wanted() {
            self.gave_way = true;
            return AfterBatch::Release;
        }
        if begin_if_due(&mut self.head_written, HEAD_INTERVAL, now) {
            AfterBatch::KeepAndMark
        } else {
            AfterBatch::Keep
        }
    }
}

/// What becomes of the lock after a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterBatch {
    Keep,
    /// Keep the lock, and write the head.
    KeepAndMark,
    Release,
}

fn begin_if_due(last: &mut Instant, interval: Duration, now: Instant) -> bool {
    let is_due = now.duration_since(*last) >= interval;
    if is_due {
        *last = now;
    }
    is_due
}

/// Locks the file, unless another process holds a lock on it.
pub(super) fn try_lock(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_micros(100);

    /// Batches of one process, each a step after the one before.
    struct Batches {
        lock: FileLockState,
        now: Instant,
    }

    impl Batches {
        fn new() -> Self {
            let now = Instant::now();
            let mut lock = FileLockState::new(now);
            lock.locked(now);
            Self { lock, now }
        }

        fn next(&mut self, after: Duration, is_wanted: bool) -> AfterBatch {
            self.now += after;
            self.lock.after_batch(self.now, || is_wanted)
        }
    }

    #[test]
    fn only_batches_that_follow_quickly_keep_the_lock() {
        let mut batches = Batches::new();
        assert_eq!(batches.next(STEP, false), AfterBatch::Release, "there is no second one yet");
        assert_eq!(batches.next(STEP, false), AfterBatch::Keep);
        assert_eq!(batches.next(QUICK, false), AfterBatch::Release);
        batches.lock.never_keep();
        assert_eq!(batches.next(STEP, false), AfterBatch::Release);
    }

    #[test]
    fn a_process_that_waits_gets_the_lock_within_an_interval() {
        let mut batches = Batches::new();
        batches.next(STEP, true);
        let kept = (0..100).take_while(|_| batches.next(STEP, true) != AfterBatch::Release).count();
        assert!(STEP * u32::try_from(kept).unwrap() <= CHECK_INTERVAL, "{kept}");
        assert!(batches.lock.gave_way, "it queues behind the other");
        batches.lock.locked(batches.now);
        assert!(!batches.lock.gave_way);
    }

    #[test]
    fn after_a_batch_of_another_process_none_keeps_the_lock_for_a_while() {
        let mut batches = Batches::new();
        batches.next(STEP, false);
        batches.lock.others_wrote(batches.now);
        let steps = SHARED_PERIOD.as_micros() / STEP.as_micros();
        for _ in 1..steps {
            assert_eq!(batches.next(STEP, false), AfterBatch::Release);
        }
        batches.lock.locked(batches.now);
        assert_eq!(batches.next(STEP, false), AfterBatch::KeepAndMark);
    }

    #[test]
    fn the_head_is_written_at_intervals_and_no_lock_is_kept_for_long() {
        let mut batches = Batches::new();
        batches.next(STEP, false);
        let all: Vec<AfterBatch> = (0..2000).map(|_| batches.next(STEP, false)).collect();
        let kept = all.iter().position(|after| *after == AfterBatch::Release).unwrap();
        assert!(STEP * u32::try_from(kept).unwrap() <= MAX_KEPT, "{kept}");
        let marks = all[..kept].iter().filter(|after| **after == AfterBatch::KeepAndMark).count();
        let most = MAX_KEPT.as_micros() / HEAD_INTERVAL.as_micros();
        assert!((1..=most).contains(&(marks as u128)), "{marks}");
    }
}
