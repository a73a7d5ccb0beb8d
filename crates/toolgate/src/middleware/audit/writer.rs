//! The audit's own thread: redacts, chains and writes what is in the queue.

use std::{
    collections::HashSet,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};

use super::{
    AuditCounts, AuditOutput, Event, Kind, Redactor,
    batch::{Batch, begin, lost},
    file::AuditFile,
    output::About,
    seal::{Point, Seal, Sealed},
};
use crate::context::CallId;

/// What waits in the queue.
pub(super) enum Item {
    /// A call that ended.
    Call(Event),
    /// A call that is about to run, and who waits until that is written.
    Intent(Event, oneshot::Sender<bool>),
}

/// Where lines go first.
pub(super) enum Output {
    /// Nowhere but to further outputs.
    Nowhere(Run),
    Stderr(Run),
    File(AuditFile),
    /// What is no regular file: a pipe, a device.
    Device(AuditFile, Run),
    #[cfg(test)]
    Probe(Probe, Run),
}

#[cfg(test)]
pub(super) type Probe = Box<dyn FnMut(&[u8]) -> io::Result<()> + Send>;

/// A chain that begins with the run and ends with it.
pub(super) struct Run {
    point: Point,
}

impl Run {
    pub(super) const START: Self = Self { point: Point::START };

    fn write(
        &mut self,
        batch: &Batch,
        seal: &Seal,
        out: &mut Sealed,
        write: impl FnOnce(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut point = self.point;
        if point == Point::START {
            let record = begin(seal.algorithm(), &point, None);
            out.push(seal, &mut point, &record, About::now("begin"));
        }
        for (record, about) in batch.records() {
            out.push(seal, &mut point, record, *about);
        }
        write(&out.bytes)?;
        self.point = point;
        Ok(())
    }
}

impl Output {
    fn write(&mut self, batch: &Batch, seal: &Seal, out: &mut Sealed) -> io::Result<()> {
        match self {
            Self::Nowhere(run) => run.write(batch, seal, out, |_| Ok(())),
            Self::Stderr(run) => run.write(batch, seal, out, |lines| {
                io::Write::write_all(&mut io::stderr().lock(), lines)
            }),
            Self::File(file) => file.append(batch, seal, out),
            Self::Device(file, run) => run.write(batch, seal, out, |lines| file.write_plain(lines)),
            #[cfg(test)]
            Self::Probe(write, run) => run.write(batch, seal, out, write),
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        match self {
            Self::File(file) | Self::Device(file, _) => file.reopen(),
            _ => Ok(()),
        }
    }
}

pub(super) struct Writer {
    pub(super) receiver: mpsc::Receiver<Item>,
    pub(super) redactor: Redactor,
    pub(super) seal: Seal,
    pub(super) kinds: Vec<Kind>,
    pub(super) output: Output,
    pub(super) further: Vec<Arc<dyn AuditOutput>>,
    pub(super) counts: Arc<AuditCounts>,
    pub(super) reopen: Arc<AtomicBool>,
    /// How long a record waits for others to be written with.
    pub(super) moment: Duration,
    /// Calls whose intent is written and whose end is not.
    pub(super) under_way: HashSet<CallId>,
    pub(super) reported_lost: u64,
}

/// So many records go into one write at most.
const BATCH: usize = 256;

/// How long a record waits for others to be written with.
pub(super) const MOMENT: Duration = Duration::from_millis(2);

/// With more calls than these under way, an intent waits so long for those that come with it: fewer wake-ups
/// for all of them.
const CROWD: usize = 4;
const TOGETHER: Duration = Duration::from_micros(100);

impl Writer {
    pub(super) fn run(&mut self) {
        let mut items = Vec::with_capacity(BATCH);
        let mut batch = Batch::default();
        let mut out = Sealed::default();
        let mut waiting = Vec::new();
        while self.receiver.blocking_recv_many(&mut items, BATCH) > 0 {
            self.gather(&mut items);
            batch.clear();
            let lost = self.note_lost(&mut batch);
            let mut count = 0;
            for item in items.drain(..) {
                count += u64::from(self.tell(item, &mut batch, &mut waiting));
            }
            let is_written = batch.is_empty() || self.put(&batch, &mut out, count, lost);
            for (call, waits) in waiting.drain(..) {
                if !is_written {
                    self.under_way.remove(&call);
                }
                // Whoever gave the call up meanwhile does not care.
                let _ = waits.send(is_written);
            }
            self.hand_on(&batch, &out);
        }
        batch.clear();
        let lost = self.note_lost(&mut batch);
        if !batch.is_empty() {
            self.put(&batch, &mut out, 0, lost);
            self.hand_on(&batch, &out);
        }
    }

    /// Waits a moment for further records: a write and a wake-up for each one of them would cost more
    /// than the records themselves. Hardly if somebody waits for one of them.
    fn gather(&mut self, items: &mut Vec<Item>) {
        let is_awaited = items.iter().any(|item| matches!(item, Item::Intent(..)));
        if items.len() < BATCH && !self.receiver.is_closed() {
            if !is_awaited {
                // Ended early by whoever sends an intent.
                std::thread::park_timeout(self.moment);
            } else if self.under_way.len() > CROWD {
                std::thread::sleep(TOGETHER);
            }
        }
        while items.len() < BATCH
            && let Ok(item) = self.receiver.try_recv()
        {
            items.push(item);
        }
    }

    /// Adds the record of an item, if it is to be recorded.
    fn tell(
        &mut self,
        item: Item,
        batch: &mut Batch,
        waiting: &mut Vec<(CallId, oneshot::Sender<bool>)>,
    ) -> bool {
        match item {
            Item::Intent(event, waits) => {
                batch.push(event.intent(&self.redactor));
                self.under_way.insert(event.call_id());
                waiting.push((event.call_id(), waits));
                true
            }
            Item::Call(event) => {
                let has_intent = self.under_way.remove(&event.call_id());
                // What began must have an end, whatever is of interest.
                let is_told = has_intent || self.kinds.contains(&event.kind());
                if is_told {
                    batch.push(event.outcome(&self.redactor, has_intent));
                }
                is_told
            }
        }
    }

    /// The records after a gap begin with one that tells how many are missing. Says how many were
    /// missing then: more may go while this is written.
    fn note_lost(&mut self, batch: &mut Batch) -> u64 {
        let missing = self.counts.lost();
        if missing > self.reported_lost {
            batch.push(lost(missing - self.reported_lost));
        }
        missing
    }

    fn put(&mut self, batch: &Batch, out: &mut Sealed, count: u64, reported: u64) -> bool {
        if self.reopen.swap(false, Ordering::Relaxed)
            && let Err(error) = self.output.reopen()
        {
            // The old file is still open and takes the records until the new one can be opened.
            self.reopen.store(true, Ordering::Relaxed);
            tracing::error!(%error, "cannot open the audit file anew");
        }
        out.clear();
        match self.output.write(batch, &self.seal, out) {
            Ok(()) => {
                self.reported_lost = reported;
                self.counts.add_written(count);
                true
            }
            Err(error) => {
                out.clear();
                let lost = self.counts.add_lost(count);
                tracing::error!(%error, lost, "cannot write audit records");
                false
            }
        }
    }

    /// Hands the lines to the further outputs: chained, if they could be written.
    fn hand_on(&self, batch: &Batch, out: &Sealed) {
        if self.further.is_empty() || batch.is_empty() {
            return;
        }
        let lines = if out.lines.is_empty() { batch.lines() } else { out.as_lines() };
        for output in &self.further {
            if let Err(error) = output.write(&lines) {
                self.counts.add_missed(lines.len() as u64);
                tracing::error!(%error, output = output.name(), "cannot hand audit records on");
            }
        }
    }
}
