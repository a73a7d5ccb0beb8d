//! The writer: redacts, chains and writes the queued records. The audit's background thread and the calls share it.
//!
//! To hand an intent to another thread and to be woken by it costs several times as much as the record. So a call
//! writes its intent itself, together with the other queued records, if the write is quick: the output is a regular
//! file that no other process writes to at the moment.

use std::{
    collections::HashSet,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{
    AuditCounts, AuditKind, AuditOutput, Redactor,
    batch::{Batch, begin, lost},
    file::AuditFile,
    output::About,
    queue::{Intent, IntentRecord, Item, Queue, Wake},
    seal::{ChainedLines, Point, Seal},
};
use crate::context::CallId;

/// Times that a call takes the writer for records that other calls left to it. After that, the background thread does.
const MAX_PASSES: usize = 2;

/// A call that takes longer than this to write leaves later writes to the background thread.
const SLOW_WRITE: Duration = Duration::from_millis(10);

/// How long the background thread waits for further records before it writes.
pub(super) const BATCH_DELAY: Duration = Duration::from_millis(2);

/// The queue and its one writer, which the background thread and the calls take in turns.
pub(super) struct SharedWriter {
    pub(super) queue: Queue,
    writer: Mutex<Writer>,
    /// Whether the output allows calls to write.
    calls_may_write: bool,
    /// The last write was slow: only the background thread writes until a write is quick again.
    is_slow: AtomicBool,
    batch_delay: Duration,
}

impl SharedWriter {
    pub(super) fn new(queue_size: usize, writer: Writer, batch_delay: Duration) -> Self {
        Self {
            queue: Queue::new(queue_size),
            calls_may_write: writer.is_quick(),
            writer: Mutex::new(writer),
            is_slow: AtomicBool::new(false),
            batch_delay,
        }
    }

    /// Whether a call may write on its own thread.
    pub(super) fn is_quick(&self) -> bool {
        self.calls_may_write && !self.is_slow.load(Ordering::Relaxed)
    }

    /// Writes the queued records on the thread of a call, or leaves them to the current writer.
    pub(super) fn write_now(&self) {
        let mut was_busy = false;
        for _ in 0..MAX_PASSES {
            let mut writer = match self.writer.try_lock() {
                Ok(writer) => writer,
                Err(TryLockError::Poisoned(writer)) => writer.into_inner(),
                // The current writer checks the flag before it returns. It may have done so just before the flag
                // was set here, so try the lock once more.
                Err(TryLockError::WouldBlock) if !was_busy => {
                    self.queue.request_recheck();
                    was_busy = true;
                    continue;
                }
                Err(TryLockError::WouldBlock) => return,
            };
            let started = Instant::now();
            let result = self.write(&mut writer, FileLock::Try);
            drop(writer);
            if started.elapsed() > SLOW_WRITE {
                self.is_slow.store(true, Ordering::Relaxed);
            }
            if result == WriteResult::Busy {
                break;
            }
            if !self.queue.needs_recheck() {
                return;
            }
        }
        self.queue.flush_by_thread();
    }

    /// The background thread: writes until the queue is closed and empty.
    pub(super) fn run(&self) {
        loop {
            match self.queue.wait(self.batch_delay) {
                Wake::Write => {}
                Wake::ReleaseLock => {
                    self.release_lock();
                    // A call may have found the writer busy meanwhile.
                    if !self.queue.needs_recheck() {
                        continue;
                    }
                }
                Wake::End => break,
            }
            loop {
                let started = Instant::now();
                self.write(&mut self.writer(), FileLock::Wait);
                if self.is_slow.load(Ordering::Relaxed) && started.elapsed() < SLOW_WRITE {
                    self.is_slow.store(false, Ordering::Relaxed);
                }
                if !self.queue.needs_recheck() {
                    break;
                }
            }
        }
        self.writer().finish();
    }

    fn write(&self, writer: &mut Writer, lock: FileLock) -> WriteResult {
        let result = writer.write(&self.queue, lock);
        self.note_lock(writer);
        result
    }

    fn release_lock(&self) {
        let mut writer = self.writer();
        writer.release_lock();
        self.note_lock(&mut writer);
    }

    /// Tells the background thread whether there is a lock to release.
    fn note_lock(&self, writer: &mut Writer) {
        let keeps_lock = writer.parts.output.is_locked();
        if std::mem::replace(&mut writer.noted_lock, keeps_lock) != keeps_lock {
            self.queue.set_keeps_lock(keeps_lock);
        }
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a write waits for another process that holds the file's lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FileLock {
    Wait,
    /// Write nothing if another process holds it.
    Try,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteResult {
    Done,
    /// Nothing was written: another process holds the file's lock.
    Busy,
}

/// The output that chains the lines. Further outputs receive them afterwards.
pub(super) enum Output {
    /// Only the further outputs write.
    FurtherOnly(Run),
    Stderr(Run),
    File(Box<AuditFile>),
    /// A pipe or a device.
    Device(Box<AuditFile>, Run),
    #[cfg(test)]
    Probe(Probe, Run),
}

#[cfg(test)]
pub(super) type Probe = Box<dyn FnMut(&[u8]) -> io::Result<()> + Send>;

/// A hash chain that begins and ends with this process.
pub(super) struct Run {
    point: Point,
}

impl Run {
    pub(super) const START: Self = Self { point: Point::START };

    fn write(
        &mut self,
        batch: &Batch,
        seal: &Seal,
        out: &mut ChainedLines,
        write: impl FnOnce(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut point = self.point;
        if point == Point::START {
            let record = begin(seal.algorithm(), &point, None);
            out.push(seal, &mut point, record.as_bytes(), About::now("begin"));
        }
        out.push_all(seal, &mut point, batch);
        write(&out.bytes)?;
        self.point = point;
        Ok(())
    }
}

impl Output {
    fn write(&mut self, batch: &Batch, seal: &Seal, out: &mut ChainedLines) -> io::Result<()> {
        match self {
            Self::FurtherOnly(run) => run.write(batch, seal, out, |_| Ok(())),
            Self::Stderr(run) => run.write(batch, seal, out, |lines| {
                io::Write::write_all(&mut io::stderr().lock(), lines)
            }),
            Self::File(file) => file.append(batch, seal, out),
            Self::Device(file, run) => run.write(batch, seal, out, |lines| file.write_plain(lines)),
            #[cfg(test)]
            Self::Probe(write, run) => run.write(batch, seal, out, write),
        }
    }

    /// Locks the file for the next batch, unless that takes longer.
    fn try_lock(&mut self, seal: &Seal) -> bool {
        match self {
            Self::File(file) => file.try_lock_for_batch(seal),
            _ => true,
        }
    }

    fn file(&mut self) -> Option<&mut AuditFile> {
        match self {
            Self::File(file) => Some(file),
            _ => None,
        }
    }

    fn is_locked(&self) -> bool {
        matches!(self, Self::File(file) if file.is_locked())
    }

    fn reopen(&mut self, seal: &Seal) -> io::Result<()> {
        match self {
            Self::File(file) | Self::Device(file, _) => file.reopen(seal),
            _ => Ok(()),
        }
    }
}

/// What a writer needs from its sink.
pub(super) struct WriterParts {
    pub(super) redactor: Arc<Redactor>,
    pub(super) seal: Seal,
    /// The kinds of calls that are recorded.
    pub(super) kinds: Vec<AuditKind>,
    pub(super) output: Output,
    pub(super) further: Vec<Arc<dyn AuditOutput>>,
    pub(super) counts: Arc<AuditCounts>,
    /// Set when the file has to be reopened.
    pub(super) reopen: Arc<AtomicBool>,
}

/// Writes batches of records, one at a time.
pub(super) struct Writer {
    parts: WriterParts,
    /// Calls whose intent is written and whose end is not.
    in_flight: HashSet<CallId>,
    reported_lost: u64,
    /// Whether the background thread knows that the lock is kept.
    noted_lock: bool,
    buffers: WriteBuffers,
}

/// Buffers that each write reuses.
#[derive(Default)]
struct WriteBuffers {
    items: Vec<Item>,
    batch: Batch,
    out: ChainedLines,
    waiting: Vec<(CallId, oneshot::Sender<bool>)>,
}

impl Writer {
    pub(super) fn new(parts: WriterParts) -> Self {
        Self {
            parts,
            in_flight: HashSet::new(),
            reported_lost: 0,
            noted_lock: false,
            buffers: WriteBuffers::default(),
        }
    }

    /// Whether a write is quick enough for the thread of a call: to a regular file and to nothing else.
    fn is_quick(&self) -> bool {
        matches!(&self.parts.output, Output::File(file) if file.is_quick())
            && self.parts.further.is_empty()
    }

    /// Writes the queued records and notifies the calls that wait for their intents.
    fn write(&mut self, queue: &Queue, lock: FileLock) -> WriteResult {
        self.reopen();
        if lock == FileLock::Try && !self.parts.output.try_lock(&self.parts.seal) {
            return WriteResult::Busy;
        }
        let mut buffers = std::mem::take(&mut self.buffers);
        queue.drain_into(&mut buffers.items);
        buffers.batch.clear();
        let lost = self.note_lost(&mut buffers.batch);
        let mut count = 0;
        for item in buffers.items.drain(..) {
            count += u64::from(self.add(item, &mut buffers.batch, &mut buffers.waiting));
        }
        let is_written = buffers.batch.is_empty()
            || self.write_batch(&buffers.batch, &mut buffers.out, count, lost);
        for (call, waiter) in buffers.waiting.drain(..) {
            if !is_written {
                self.in_flight.remove(&call);
            }
            // The call may have been cancelled meanwhile.
            let _ = waiter.send(is_written);
        }
        // Only now, because no call waits for the head.
        if let Some(file) = self.parts.output.file() {
            file.after_batch(&self.parts.seal);
        }
        self.forward(&buffers.batch, &buffers.out);
        self.buffers = buffers;
        WriteResult::Done
    }

    /// Writes the records that were lost last, at the end of the thread.
    fn finish(&mut self) {
        let mut buffers = std::mem::take(&mut self.buffers);
        buffers.batch.clear();
        let lost = self.note_lost(&mut buffers.batch);
        if !buffers.batch.is_empty() {
            self.write_batch(&buffers.batch, &mut buffers.out, 0, lost);
            self.forward(&buffers.batch, &buffers.out);
        }
        if let Some(file) = self.parts.output.file() {
            // No thread is left that would release it.
            file.never_keep_lock();
        }
        self.release_lock();
    }

    fn release_lock(&mut self) {
        if let Some(file) = self.parts.output.file() {
            file.release(&self.parts.seal);
        }
    }

    /// Adds the record of an item to the batch. Returns false if its kind is not recorded.
    fn add(
        &mut self,
        item: Item,
        batch: &mut Batch,
        waiting: &mut Vec<(CallId, oneshot::Sender<bool>)>,
    ) -> bool {
        match item {
            Item::Intent(Intent { call, record, written }) => {
                match record {
                    IntentRecord::Rendered(record, about) => batch.push(&record, about),
                    IntentRecord::Unrendered(event) => {
                        batch.add(|record| event.start().intent(&self.parts.redactor, record));
                    }
                }
                self.in_flight.insert(call);
                waiting.push((call, written));
                true
            }
            Item::Rejected(rejection) => {
                let is_recorded = self.parts.kinds.contains(&AuditKind::Decisions);
                if is_recorded {
                    batch.add(|record| rejection.write(record));
                }
                is_recorded
            }
            Item::Call(event) => {
                let has_intent = self.in_flight.remove(&event.call_id());
                // A call with an intent gets its end recorded, whatever the kind.
                let is_recorded = has_intent || self.parts.kinds.contains(&event.kind());
                if is_recorded {
                    batch.add(|record| event.outcome(&self.parts.redactor, has_intent, record));
                }
                is_recorded
            }
        }
    }

    /// Adds a record of how many records were lost since the last such record. Returns the total that it covers:
    /// more may be lost during the write.
    fn note_lost(&mut self, batch: &mut Batch) -> u64 {
        let total = self.parts.counts.lost();
        if total > self.reported_lost {
            let (record, about) = lost(total - self.reported_lost);
            batch.push(record.as_bytes(), about);
        }
        total
    }

    fn reopen(&mut self) {
        if self.parts.reopen.load(Ordering::Relaxed)
            && self.parts.reopen.swap(false, Ordering::Relaxed)
            && let Err(error) = self.parts.output.reopen(&self.parts.seal)
        {
            // The old file stays open and receives the records until the new one can be opened.
            self.parts.reopen.store(true, Ordering::Relaxed);
            tracing::error!(%error, "cannot open the audit file anew");
        }
    }

    fn write_batch(
        &mut self,
        batch: &Batch,
        out: &mut ChainedLines,
        count: u64,
        reported: u64,
    ) -> bool {
        out.clear();
        match self.parts.output.write(batch, &self.parts.seal, out) {
            Ok(()) => {
                self.reported_lost = reported;
                self.parts.counts.add_written(count);
                true
            }
            Err(error) => {
                out.clear();
                let lost = self.parts.counts.add_lost(count);
                tracing::error!(%error, lost, "cannot write audit records");
                false
            }
        }
    }

    /// Forwards the lines to the further outputs: with their hashes, if the first output wrote them.
    fn forward(&self, batch: &Batch, out: &ChainedLines) {
        if self.parts.further.is_empty() || batch.is_empty() {
            return;
        }
        let lines = if out.lines.is_empty() { batch.lines() } else { out.as_lines() };
        for output in &self.parts.further {
            if let Err(error) = output.write(&lines) {
                self.parts.counts.add_missed(lines.len() as u64);
                tracing::error!(%error, output = output.name(), "cannot hand audit records on");
            }
        }
    }
}
