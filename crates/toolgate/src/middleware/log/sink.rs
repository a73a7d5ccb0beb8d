//! The queue between calls and the log's writer, bounded in records and in bytes.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::{
    Semaphore,
    mpsc::{self, error::TrySendError},
};

use super::{
    LogConfig,
    event::{Extent, LogEvent},
    record::CallRecord,
};
use crate::middleware::audit::{OnFull, Redactor};

/// Numbers of written, lost and stripped records.
#[derive(Debug, Default)]
pub struct LogCounts {
    written: AtomicU64,
    lost: AtomicU64,
    bare: AtomicU64,
}

impl LogCounts {
    /// Records that were written to the store.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Records that were lost, because the queue was full or closed or the store failed.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Records without arguments and result, because the queue's byte limit was reached.
    #[must_use]
    pub fn bare(&self) -> u64 {
        self.bare.load(Ordering::Relaxed)
    }

    fn lose(&self, records: u64) {
        self.lost.fetch_add(records, Ordering::Relaxed);
    }
}

/// Largest byte limit: two terabytes.
const MAX_UNITS: u32 = u32::MAX >> 1;

/// The queue's input. Cheap to clone.
#[derive(Clone)]
pub struct LogSink(Arc<Inner>);

struct Inner {
    /// The only sender that keeps the queue open.
    queue: Mutex<Option<mpsc::Sender<LogEvent>>>,
    sender: mpsc::WeakSender<LogEvent>,
    on_full: OnFull,
    /// Permits for bytes, in units.
    room: Arc<Semaphore>,
    units: u32,
    counts: Arc<LogCounts>,
    extent: Extent,
    listings: bool,
}

impl LogSink {
    /// A sink and its queue. The queue's reader parses and redacts the records.
    #[must_use]
    pub fn channel(config: &LogConfig, redactor: Redactor) -> (Self, LogQueue) {
        let (sender, receiver) = mpsc::channel(config.queue.max(1));
        let counts = Arc::new(LogCounts::default());
        let units = units(config.queue_bytes).min(MAX_UNITS);
        let extent = Extent { results: config.results, result_bytes: config.result_bytes };
        let sink = Self(Arc::new(Inner {
            sender: sender.downgrade(),
            queue: Mutex::new(Some(sender)),
            on_full: config.on_full,
            room: Arc::new(Semaphore::new(units as usize)),
            units,
            counts: Arc::clone(&counts),
            extent,
            listings: config.listings,
        }));
        let events = Vec::new();
        (sink, LogQueue { receiver, events, redactor, extent, counts })
    }

    /// The numbers of records so far.
    #[must_use]
    pub fn counts(&self) -> &LogCounts {
        &self.0.counts
    }

    /// Closes the sink. The queue ends when its records have been taken.
    pub fn close(&self) {
        drop(self.0.queue.lock().ok().and_then(|mut queue| queue.take()));
    }

    pub(super) fn wants_results(&self) -> bool {
        self.0.extent.results
    }

    pub(super) fn wants_listings(&self) -> bool {
        self.0.listings
    }

    /// Takes the event out of the option and queues it. Cancelled while it waits for the queue, it leaves the event in
    /// the option.
    pub(super) async fn record(&self, event: &mut Option<LogEvent>) {
        let waits = self.0.on_full == OnFull::Wait;
        if let Some(event) = event
            && !self.has_room(event)
        {
            let units = units(event.weight());
            if waits && units <= self.0.units {
                match Arc::clone(&self.0.room).acquire_many_owned(units).await {
                    Ok(permit) => event.hold(permit),
                    Err(_) => self.bare(event),
                }
            } else {
                self.bare(event);
            }
        }
        let Some(ready) = event.take() else { return };
        let Some(sender) = self.0.sender.upgrade() else { return self.0.counts.lose(1) };
        match sender.try_send(ready) {
            Ok(()) => {}
            Err(TrySendError::Full(back)) if waits => {
                *event = Some(back);
                match (sender.reserve().await, event.take()) {
                    (Ok(permit), Some(event)) => permit.send(event),
                    _ => self.0.counts.lose(1),
                }
            }
            Err(_) => self.0.counts.lose(1),
        }
    }

    /// Like `record`, but never waits, whatever `on_full` says. For code that cannot wait, such as `Drop`.
    pub(super) fn try_record(&self, mut event: LogEvent) {
        if !self.has_room(&mut event) {
            self.bare(&mut event);
        }
        let sender = self.0.sender.upgrade();
        if sender.is_none_or(|sender| sender.try_send(event).is_err()) {
            self.0.counts.lose(1);
        }
    }

    /// Reserves the event's bytes until the event is dropped. Returns false if the byte limit is reached.
    fn has_room(&self, event: &mut LogEvent) -> bool {
        if event.has_room() {
            return true;
        }
        let permit = Arc::clone(&self.0.room).try_acquire_many_owned(units(event.weight()));
        permit.map(|permit| event.hold(permit)).is_ok()
    }

    fn bare(&self, event: &mut LogEvent) {
        self.0.counts.bare.fetch_add(1, Ordering::Relaxed);
        event.strip();
    }
}

/// Bytes per permit.
fn units(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

impl fmt::Debug for LogSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogSink({:?})", self.0.counts)
    }
}

/// How long the reader waits for further records: a transaction for a few costs more than the records.
const BATCH_DELAY: Duration = Duration::from_millis(20);

/// The queue's output: records in the order in which their calls ended.
pub struct LogQueue {
    receiver: mpsc::Receiver<LogEvent>,
    /// Events that were taken from the queue and not returned yet.
    events: Vec<LogEvent>,
    redactor: Redactor,
    extent: Extent,
    counts: Arc<LogCounts>,
}

impl LogQueue {
    /// Waits for records and returns up to `max` of them; `None` when the sink is closed or dropped and no record is
    /// left. Cancel safe.
    ///
    /// Parses and redacts the records, so call it on a thread that no call waits for.
    pub async fn next_batch(&mut self, max: usize) -> Option<Vec<CallRecord>> {
        let max = max.max(1);
        if self.events.is_empty() && self.receiver.recv_many(&mut self.events, max).await == 0 {
            return None;
        }
        if self.events.len() < max && !self.receiver.is_closed() && self.receiver.is_empty() {
            tokio::time::sleep(BATCH_DELAY).await;
        }
        while self.events.len() < max
            && let Ok(event) = self.receiver.try_recv()
        {
            self.events.push(event);
        }
        let count = self.events.len().min(max);
        let events = self.events.drain(..count);
        Some(events.map(|event| event.into_record(&self.redactor, self.extent)).collect())
    }

    /// Counts records that the writer stored.
    pub fn wrote(&self, records: usize) {
        self.counts.written.fetch_add(records as u64, Ordering::Relaxed);
    }

    /// Counts records that the writer could not store.
    pub fn lost(&self, records: usize) {
        self.counts.lose(records as u64);
    }

    /// The numbers of records so far.
    #[must_use]
    pub fn counts(&self) -> &LogCounts {
        &self.counts
    }
}

impl fmt::Debug for LogQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogQueue({:?})", self.counts)
    }
}
