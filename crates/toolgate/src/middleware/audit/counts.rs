//! The numbers of audit records that were written and lost.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of written, lost and missed records.
#[derive(Debug, Default)]
pub struct AuditCounts {
    written: AtomicU64,
    lost: AtomicU64,
    missed: AtomicU64,
}

impl AuditCounts {
    /// Records that the output wrote.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Records that were lost because the queue was full or the output failed.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Records that a further output failed to write.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    pub(super) fn add_written(&self, count: u64) {
        self.written.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn add_lost(&self, count: u64) -> u64 {
        self.lost.fetch_add(count, Ordering::Relaxed) + count
    }

    pub(super) fn add_missed(&self, count: u64) {
        self.missed.fetch_add(count, Ordering::Relaxed);
    }
}
