//! The sink: a bounded queue and a thread of its own that redacts and writes.

use std::{
    fmt, io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::oneshot;

use super::{
    AuditConfig, AuditOutput, Event, Intents, OnFull, RedactConfig, Redactor, Rejection, Target,
    event::Begun,
    file::AuditFile,
    queue::{Announced, Intent, Item, Pace},
    seal::Seal,
    turn::Desk,
    writer::{MOMENT, Output, Run, Writer},
};
use crate::{background::BackgroundWriter, call::Call, context::Context};

/// Arguments of so many bytes are read and redacted on the call's own thread; larger ones on the audit's.
const SMALL: usize = 4096;

/// So much memory is taken for a record at first.
const RECORD: usize = 512;

/// Why a sink could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A file cannot be used.
    #[error(
        "cannot open the audit {what} `{path}`: {source}; check the path and its permissions, or choose another with `--audit`"
    )]
    File {
        /// Which one.
        what: &'static str,
        /// Where it should be.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// The settings contradict each other.
    #[error("the audit refuses its settings: {0}")]
    Settings(&'static str),
}

impl OpenError {
    fn key_file(path: Option<&Path>, source: io::Error) -> Self {
        let path = path.map(|path| path.display().to_string()).unwrap_or_default();
        Self::File { what: "key file", path, source }
    }
}

/// How many records took which way.
#[derive(Debug, Default)]
pub struct AuditCounts {
    written: AtomicU64,
    lost: AtomicU64,
    missed: AtomicU64,
}

impl AuditCounts {
    /// Records that reached their sink.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Records that did not: the queue was full, or the sink failed.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Records that a further output did not take.
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

/// A handle on the sink. Cheap to clone; the last one to go closes it.
#[derive(Clone)]
pub struct AuditSink(Arc<Inner>);

struct Inner {
    desk: Arc<Desk>,
    redactor: Arc<Redactor>,
    on_full: OnFull,
    intents: Intents,
    required: bool,
    records_decisions: bool,
    records_readonly: bool,
    counts: Arc<AuditCounts>,
    reopen: Arc<AtomicBool>,
    writer: BackgroundWriter,
    describe: String,
}

impl AuditSink {
    /// Opens the sink and starts its thread. `None` when the config says `off`.
    pub fn open(config: &AuditConfig, redact: &RedactConfig) -> Result<Option<Self>, OpenError> {
        Self::open_with(config, redact, &[])
    }

    /// The same, with further outputs: those of them that the config asks for.
    pub fn open_with(
        config: &AuditConfig,
        redact: &RedactConfig,
        further: &[Arc<dyn AuditOutput>],
    ) -> Result<Option<Self>, OpenError> {
        Self::made(config, redact, further, true)
    }

    /// A sink that says where records would go and writes none: for commands that only explain.
    pub fn unopened(
        config: &AuditConfig,
        redact: &RedactConfig,
    ) -> Result<Option<Self>, OpenError> {
        Self::made(config, redact, &[], false)
    }

    fn made(
        config: &AuditConfig,
        redact: &RedactConfig,
        further: &[Arc<dyn AuditOutput>],
        opens: bool,
    ) -> Result<Option<Self>, OpenError> {
        let redactor = Redactor::new(redact)
            .map_err(|source| OpenError::key_file(redact.key_file.as_deref(), source))?;
        if let Some(fault) = config.fault() {
            return Err(OpenError::Settings(fault));
        }
        let seal = Seal::read(config.key_file.as_deref())
            .map_err(|source| OpenError::key_file(config.key_file.as_deref(), source))?;
        let further: Vec<_> = further.iter().filter(|one| one.is_wanted(config)).cloned().collect();
        let (output, mut describe) = match &config.file {
            Target::Off if further.is_empty() => return Ok(None),
            Target::Off => (Output::Nowhere(Run::START), String::new()),
            Target::Stderr => (Output::Stderr(Run::START), "stderr".to_owned()),
            Target::File(path) if !opens => {
                (Output::Nowhere(Run::START), path.display().to_string())
            }
            Target::File(path) => {
                let file = AuditFile::open(path, config.rotate_bytes, config.keep_files);
                let path = path.display().to_string();
                match file {
                    Ok(file) if file.is_regular() => (Output::File(file), path),
                    Ok(device) => (Output::Device(device, Run::START), path),
                    Err(source) => {
                        return Err(OpenError::File { what: "file", path, source });
                    }
                }
            }
        };
        for one in &further {
            let and = if describe.is_empty() { "" } else { " and " };
            describe = format!("{describe}{and}{}", one.name());
        }
        Self::start(config, (redactor, seal), (output, further), (describe, MOMENT)).map(Some)
    }

    fn start(
        config: &AuditConfig,
        (redactor, seal): (Redactor, Seal),
        (output, further): (Output, Vec<Arc<dyn AuditOutput>>),
        (describe, moment): (String, Duration),
    ) -> Result<Self, OpenError> {
        let counts = Arc::new(AuditCounts::default());
        let reopen = Arc::new(AtomicBool::new(false));
        let redactor = Arc::new(redactor);
        let writer = Writer::new(
            (Arc::clone(&redactor), seal),
            (output, further),
            config.record.clone(),
            (Arc::clone(&counts), Arc::clone(&reopen)),
        );
        let desk = Arc::new(Desk::new(config.queue, writer, moment));
        let at_desk = Arc::clone(&desk);
        let writer = match BackgroundWriter::start("audit", move || at_desk.run()) {
            Ok(writer) => writer,
            Err(source) => {
                let (what, path) = ("thread for", describe);
                return Err(OpenError::File { what, path, source });
            }
        };
        Ok(Self(Arc::new(Inner {
            desk,
            redactor,
            on_full: if config.required { OnFull::Wait } else { config.on_full },
            intents: config.intents(),
            required: config.required,
            records_decisions: config.records(super::Kind::Decisions),
            // No record, no call: then there is one for every call.
            records_readonly: config.readonly || config.required,
            counts,
            reopen,
            writer,
            describe,
        })))
    }

    /// Takes the event over. Given up while it waits for room, it leaves the event where it is.
    pub(super) async fn record(&self, event: &mut Option<Box<Event>>) {
        let queue = &self.0.desk.queue;
        let place = match queue.try_place() {
            None if self.0.on_full == OnFull::Wait => queue.place().await,
            place => place,
        };
        let Some(event) = event.take() else { return };
        if !place.is_some_and(|place| place.fill(Item::Call(event), Pace::Later)) {
            self.lose();
        }
    }

    /// Records that a call is about to run, and waits until that is written. Says whether it was.
    pub(super) async fn announce(&self, cx: &Context, call: &Call) -> bool {
        let desk = &self.0.desk;
        let is_small = call.sent_arguments().is_none_or(|arguments| arguments.len() <= SMALL);
        let is_ours = is_small && desk.is_quick();
        let record = if is_ours {
            let mut record = Vec::with_capacity(RECORD);
            let about = Begun::now(cx, call).intent(&self.0.redactor, &mut record);
            Announced::Told(record, about)
        } else {
            Announced::Whole(Event::begin(cx, call))
        };
        let place = match desk.queue.try_place() {
            None if self.0.on_full == OnFull::Wait => desk.queue.place().await,
            place => place,
        };
        let (ack, mut written) = oneshot::channel();
        let item = Item::Intent(Intent { call: cx.call_id(), record, written: ack });
        let who = if is_ours { Pace::Myself } else { Pace::AtOnce };
        if !place.is_some_and(|place| place.fill(item, who)) {
            self.lose();
            return false;
        }
        if is_ours {
            let unwritten = Unwritten(desk);
            // Whatever else is about to come to this point on this thread comes along.
            tokio::task::yield_now().await;
            std::mem::forget(unwritten);
            match written.try_recv() {
                Ok(is_written) => return is_written,
                Err(_) => desk.write_now(),
            }
        }
        written.await.unwrap_or(false)
    }

    /// Which calls are announced.
    pub(super) fn intents(&self) -> Intents {
        self.0.intents
    }

    /// Whether a call that cannot be announced must not run.
    pub(super) fn is_required(&self) -> bool {
        self.0.required
    }

    /// Whether refusals are recorded.
    pub(super) fn records_decisions(&self) -> bool {
        self.0.records_decisions
    }

    /// Whether calls of readonly tools are recorded.
    pub(super) fn records_readonly(&self) -> bool {
        self.0.records_readonly
    }

    /// Records without waiting, whatever the setting: for the places that cannot wait.
    pub(super) fn try_record(&self, event: Box<Event>) {
        let place = self.0.desk.queue.try_place();
        if !place.is_some_and(|place| place.fill(Item::Call(event), Pace::Later)) {
            self.lose();
        }
    }

    /// Records a request that a transport rejected. Never waits.
    pub fn reject(&self, rejection: Rejection) {
        let place = self.0.desk.queue.try_place();
        let item = Item::Rejected(Box::new(rejection));
        if !place.is_some_and(|place| place.fill(item, Pace::Later)) {
            self.lose();
        }
    }

    fn lose(&self) {
        self.0.counts.add_lost(1);
    }

    /// The file is opened anew before the next record: something moved it aside.
    pub fn reopen(&self) {
        self.0.reopen.store(true, Ordering::Relaxed);
    }

    /// How many records were written and lost so far.
    #[must_use]
    pub fn counts(&self) -> &AuditCounts {
        &self.0.counts
    }

    /// Where the records go.
    #[must_use]
    pub fn describe(&self) -> &str {
        &self.0.describe
    }

    /// Takes no more records and waits, for a while, until those in the queue are written. Blocks:
    /// for the end of a program.
    pub fn close(&self, patience: Duration) {
        self.0.desk.queue.close();
        self.0.writer.finish(patience);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.desk.queue.close();
    }
}

/// An intent in the queue that nobody is going to write, if the call that was to do it is given up.
struct Unwritten<'a>(&'a Desk);

impl Drop for Unwritten<'_> {
    fn drop(&mut self) {
        self.0.queue.hurry();
    }
}

impl fmt::Debug for AuditSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AuditSink({})", self.0.describe)
    }
}

#[cfg(test)]
impl AuditSink {
    /// Gone as soon as the thread is, and all sinks.
    pub(super) fn desk(&self) -> std::sync::Weak<Desk> {
        Arc::downgrade(&self.0.desk)
    }

    /// A sink that hands its lines to `write`, on its own thread.
    pub(super) fn probe(
        config: &AuditConfig,
        write: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
    ) -> Self {
        Self::slow_probe(config, MOMENT, write)
    }

    /// The same with a writer that waits so long for further records.
    pub(super) fn slow_probe(
        config: &AuditConfig,
        moment: Duration,
        write: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
    ) -> Self {
        let redactor = Redactor::new(&RedactConfig::default()).unwrap();
        let output = Output::Probe(Box::new(write), Run::START);
        let seal = (redactor, Seal::plain());
        Self::start(config, seal, (output, Vec::new()), ("probe".to_owned(), moment)).unwrap()
    }
}
