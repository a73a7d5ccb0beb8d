//! The writer: redacts, chains and writes what is in the queue.

use std::{
    collections::HashSet,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::oneshot;

use super::{
    AuditCounts, AuditOutput, Kind, Redactor,
    batch::{Batch, begin, lost},
    file::AuditFile,
    output::About,
    queue::{Announced, Intent, Item, Queue},
    seal::{Point, Seal, Sealed},
};
use crate::context::CallId;

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
            out.push(seal, &mut point, record.as_bytes(), About::now("begin"));
        }
        out.push_all(seal, &mut point, batch);
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

    /// Gets hold of the file, unless another process has it.
    fn try_hold(&mut self) -> bool {
        match self {
            Self::File(file) => file.try_hold(),
            _ => true,
        }
    }

    /// Lets the file go, if it is still held.
    fn let_go(&mut self) {
        if let Self::File(file) = self {
            file.let_go();
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
    redactor: Arc<Redactor>,
    seal: Seal,
    kinds: Vec<Kind>,
    output: Output,
    further: Vec<Arc<dyn AuditOutput>>,
    counts: Arc<AuditCounts>,
    reopen: Arc<AtomicBool>,
    /// Calls whose intent is written and whose end is not.
    under_way: HashSet<CallId>,
    reported_lost: u64,
    desk: Paper,
}

/// What is used again for each write.
#[derive(Default)]
struct Paper {
    items: Vec<Item>,
    batch: Batch,
    out: Sealed,
    waiting: Vec<(CallId, oneshot::Sender<bool>)>,
}

/// How a turn at writing went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Done,
    /// Nothing was done: another process is writing.
    Busy,
}

/// How long a record waits for others to be written with.
pub(super) const MOMENT: Duration = Duration::from_millis(2);

impl Writer {
    pub(super) fn new(
        (redactor, seal): (Arc<Redactor>, Seal),
        (output, further): (Output, Vec<Arc<dyn AuditOutput>>),
        kinds: Vec<Kind>,
        (counts, reopen): (Arc<AuditCounts>, Arc<AtomicBool>),
    ) -> Self {
        Self {
            redactor,
            seal,
            kinds,
            output,
            further,
            counts,
            reopen,
            under_way: HashSet::new(),
            reported_lost: 0,
            desk: Paper::default(),
        }
    }

    /// Whether a write takes no time to speak of: to a regular file, and nowhere else.
    pub(super) fn is_quick(&self) -> bool {
        matches!(self.output, Output::File(_)) && self.further.is_empty()
    }

    /// How many calls are announced and have not ended.
    pub(super) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Writes what is in the queue, and tells those who wait for it. Unless it may wait, it only does so if no
    /// other process is writing.
    pub(super) fn write(&mut self, queue: &Queue, may_wait: bool) -> Turn {
        self.reopen();
        if !may_wait && !self.output.try_hold() {
            return Turn::Busy;
        }
        let mut paper = std::mem::take(&mut self.desk);
        queue.take(&mut paper.items);
        paper.batch.clear();
        let lost = self.note_lost(&mut paper.batch);
        let mut count = 0;
        for item in paper.items.drain(..) {
            count += u64::from(self.tell(item, &mut paper.batch, &mut paper.waiting));
        }
        let is_written =
            paper.batch.is_empty() || self.put(&paper.batch, &mut paper.out, count, lost);
        // Where there was nothing to write.
        self.output.let_go();
        for (call, waits) in paper.waiting.drain(..) {
            if !is_written {
                self.under_way.remove(&call);
            }
            // Whoever gave the call up meanwhile does not care.
            let _ = waits.send(is_written);
        }
        self.hand_on(&paper.batch, &paper.out);
        self.desk = paper;
        Turn::Done
    }

    /// The last thing that is written.
    pub(super) fn finish(&mut self) {
        let mut paper = std::mem::take(&mut self.desk);
        paper.batch.clear();
        let lost = self.note_lost(&mut paper.batch);
        if !paper.batch.is_empty() {
            self.put(&paper.batch, &mut paper.out, 0, lost);
            self.hand_on(&paper.batch, &paper.out);
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
            Item::Intent(Intent { call, record, written }) => {
                match record {
                    Announced::Told(record, about) => batch.push(&record, about),
                    Announced::Whole(event) => {
                        batch.add(|record| event.begun().intent(&self.redactor, record));
                    }
                }
                self.under_way.insert(call);
                waiting.push((call, written));
                true
            }
            Item::Rejected(rejection) => {
                let is_told = self.kinds.contains(&Kind::Decisions);
                if is_told {
                    batch.add(|record| rejection.write(record));
                }
                is_told
            }
            Item::Call(event) => {
                let has_intent = self.under_way.remove(&event.call_id());
                // What began must have an end, whatever is of interest.
                let is_told = has_intent || self.kinds.contains(&event.kind());
                if is_told {
                    batch.add(|record| event.outcome(&self.redactor, has_intent, record));
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
            let (record, about) = lost(missing - self.reported_lost);
            batch.push(record.as_bytes(), about);
        }
        missing
    }

    fn reopen(&mut self) {
        if self.reopen.load(Ordering::Relaxed)
            && self.reopen.swap(false, Ordering::Relaxed)
            && let Err(error) = self.output.reopen()
        {
            // The old file is still open and takes the records until the new one can be opened.
            self.reopen.store(true, Ordering::Relaxed);
            tracing::error!(%error, "cannot open the audit file anew");
        }
    }

    fn put(&mut self, batch: &Batch, out: &mut Sealed, count: u64, reported: u64) -> bool {
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
