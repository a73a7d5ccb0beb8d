//! The sink: a bounded queue and a background thread that redacts and writes records.

use std::{
    fmt, io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::oneshot;

use super::{
    AuditConfig, AuditCounts, AuditEvent, AuditOutput, AuditSync, Intents, OnFull, RedactConfig,
    Redactor, Rejection, Target,
    config::SYNC_NEEDS_FILE,
    event::CallStart,
    file::AuditFile,
    queue::{FlushBy, Intent, IntentRecord, Item, Permit, Queue},
    rotation::Retention,
    seal::Seal,
    writer::{BATCH_DELAY, Output, Run, SharedWriter, Writer, WriterParts},
};
use crate::{background::BackgroundWriter, call::Call, context::Context};

/// Largest arguments, in bytes, that a call redacts on its own thread. The writer redacts larger ones.
const MAX_INLINE_ARGUMENTS: usize = 4096;

/// Initial capacity of a record's buffer, in bytes.
const RECORD_CAPACITY: usize = 512;

/// Why a sink cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A file cannot be used.
    #[error(
        "cannot open the audit {what} `{path}`: {source}; check the path and its permissions, or choose another with `--audit`"
    )]
    File {
        /// The kind of file.
        what: &'static str,
        /// Its path.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The file with a key cannot be used.
    #[error(
        "cannot read the key file `{path}`: {source}; correct `key_file`, or create the file: head -c 32 /dev/urandom > {path}"
    )]
    KeyFile {
        /// Its path.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// The settings contradict each other.
    #[error("the audit refuses its settings: {0}")]
    Settings(&'static str),
}

impl OpenError {
    fn key_file(path: Option<&Path>, source: io::Error) -> Self {
        let path = path.map(|path| path.display().to_string()).unwrap_or_default();
        Self::KeyFile { path, source }
    }
}

/// A handle on the sink. Cheap to clone; dropping the last handle closes the sink.
#[derive(Clone)]
pub struct AuditSink(Arc<Inner>);

struct Inner {
    shared: Arc<SharedWriter>,
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

/// Whether a sink opens its file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenMode {
    Write,
    /// Only describes where records would go.
    DescribeOnly,
}

/// What hides and what chains the contents of records.
struct Secrets {
    redactor: Redactor,
    seal: Seal,
}

/// Where records go.
struct Outputs {
    first: Output,
    further: Vec<Arc<dyn AuditOutput>>,
    describe: String,
}

impl AuditSink {
    /// Opens the sink and starts its thread. `None` when the config says `off`.
    pub fn open(config: &AuditConfig, redact: &RedactConfig) -> Result<Option<Self>, OpenError> {
        Self::open_with(config, redact, &[])
    }

    /// Like [`AuditSink::open`], with those of the further outputs that the config asks for.
    pub fn open_with(
        config: &AuditConfig,
        redact: &RedactConfig,
        further: &[Arc<dyn AuditOutput>],
    ) -> Result<Option<Self>, OpenError> {
        Self::build(config, redact, further, OpenMode::Write)
    }

    /// A sink that describes where records would go and writes none. For commands that only explain.
    pub fn unopened(
        config: &AuditConfig,
        redact: &RedactConfig,
    ) -> Result<Option<Self>, OpenError> {
        Self::build(config, redact, &[], OpenMode::DescribeOnly)
    }

    fn build(
        config: &AuditConfig,
        redact: &RedactConfig,
        further: &[Arc<dyn AuditOutput>],
        mode: OpenMode,
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
            Target::Off => (Output::FurtherOnly(Run::START), String::new()),
            Target::Stderr => (Output::Stderr(Run::START), "stderr".to_owned()),
            Target::File(path) if mode == OpenMode::DescribeOnly => {
                (Output::FurtherOnly(Run::START), path.display().to_string())
            }
            Target::File(path) => {
                let file = AuditFile::open_with(path, Retention::from(config), config.sync);
                let path = path.display().to_string();
                match file {
                    Ok(file) if file.is_regular() => (Output::File(Box::new(file)), path),
                    Ok(_) if config.sync == AuditSync::Disk => {
                        return Err(OpenError::Settings(SYNC_NEEDS_FILE));
                    }
                    Ok(device) => (Output::Device(Box::new(device), Run::START), path),
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
        let outputs = Outputs { first: output, further, describe };
        Self::start(config, Secrets { redactor, seal }, outputs, BATCH_DELAY).map(Some)
    }

    fn start(
        config: &AuditConfig,
        secrets: Secrets,
        outputs: Outputs,
        batch_delay: Duration,
    ) -> Result<Self, OpenError> {
        let counts = Arc::new(AuditCounts::default());
        let reopen = Arc::new(AtomicBool::new(false));
        let redactor = Arc::new(secrets.redactor);
        let writer = Writer::new(WriterParts {
            redactor: Arc::clone(&redactor),
            seal: secrets.seal,
            kinds: config.record.clone(),
            output: outputs.first,
            further: outputs.further,
            counts: Arc::clone(&counts),
            reopen: Arc::clone(&reopen),
        });
        let describe = outputs.describe;
        let shared = Arc::new(SharedWriter::new(config.queue, writer, batch_delay));
        let background = Arc::clone(&shared);
        let writer = match BackgroundWriter::start("audit", move || background.run()) {
            Ok(writer) => writer,
            Err(source) => {
                let (what, path) = ("thread for", describe);
                return Err(OpenError::File { what, path, source });
            }
        };
        Ok(Self(Arc::new(Inner {
            shared,
            redactor,
            on_full: if config.required { OnFull::Wait } else { config.on_full },
            intents: config.intents(),
            required: config.required,
            records_decisions: config.records(super::AuditKind::Decisions),
            // `required` means a record for every call.
            records_readonly: config.readonly || config.required,
            counts,
            reopen,
            writer,
            describe,
        })))
    }

    /// Takes the event out of the option and queues it. Cancelled while it waits for the queue, it leaves the event
    /// in the option.
    pub(super) async fn record(&self, event: &mut Option<Box<AuditEvent>>) {
        let permit = self.permit().await;
        if let Some(event) = event.take() {
            self.push(permit, Item::Call(event), FlushBy::ThreadLater);
        }
    }

    /// Records that a call is about to run and waits until the intent is written. Returns false if it could not be.
    pub(super) async fn announce(&self, cx: &Context, call: &Call) -> bool {
        let shared = &self.0.shared;
        let is_small =
            call.sent_arguments().is_none_or(|arguments| arguments.len() <= MAX_INLINE_ARGUMENTS);
        let writes_inline = is_small && shared.is_quick();
        let record = if writes_inline {
            let mut record = Vec::with_capacity(RECORD_CAPACITY);
            let about = CallStart::now(cx, call).intent(&self.0.redactor, &mut record);
            IntentRecord::Rendered(record, about)
        } else {
            IntentRecord::Unrendered(AuditEvent::begin(cx, call))
        };
        let permit = self.permit().await;
        let (ack, mut written) = oneshot::channel();
        let item = Item::Intent(Intent { call: cx.call_id(), record, written: ack });
        let flush_by = if writes_inline { FlushBy::Caller } else { FlushBy::ThreadNow };
        if !self.push(permit, item, flush_by) {
            return false;
        }
        if writes_inline {
            let guard = FlushOnDrop(&shared.queue);
            // Other calls on this thread add their intents first, so that one write serves all of them.
            tokio::task::yield_now().await;
            std::mem::forget(guard);
            match written.try_recv() {
                Ok(is_written) => return is_written,
                Err(_) => shared.write_now(),
            }
        }
        written.await.unwrap_or(false)
    }

    /// The calls whose intents are recorded.
    pub(super) fn intents(&self) -> Intents {
        self.0.intents
    }

    /// Whether a call may only run after its intent was written.
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

    /// Like `record`, but never waits, whatever `on_full` says. For code that cannot wait, such as `Drop`.
    pub(super) fn try_record(&self, event: Box<AuditEvent>) {
        self.push(self.0.shared.queue.try_permit(), Item::Call(event), FlushBy::ThreadLater);
    }

    /// Records a request that a transport rejected. Never waits.
    pub fn reject(&self, rejection: Rejection) {
        let item = Item::Rejected(Box::new(rejection));
        self.push(self.0.shared.queue.try_permit(), item, FlushBy::ThreadLater);
    }

    /// A permit of the queue. Waits for it only with `OnFull::Wait`.
    async fn permit(&self) -> Option<Permit<'_>> {
        let queue = &self.0.shared.queue;
        match queue.try_permit() {
            None if self.0.on_full == OnFull::Wait => queue.permit().await,
            permit => permit,
        }
    }

    /// Queues an entry, or counts it as lost and returns false.
    fn push(&self, permit: Option<Permit<'_>>, item: Item, flush_by: FlushBy) -> bool {
        let is_queued = permit.is_some_and(|permit| permit.push(item, flush_by));
        if !is_queued {
            self.0.counts.add_lost(1);
        }
        is_queued
    }

    /// Reopens the file before the next record, because another program moved it.
    pub fn reopen(&self) {
        self.0.reopen.store(true, Ordering::Relaxed);
    }

    /// The numbers of records so far.
    #[must_use]
    pub fn counts(&self) -> &AuditCounts {
        &self.0.counts
    }

    /// Where the records go.
    #[must_use]
    pub fn describe(&self) -> &str {
        &self.0.describe
    }

    /// Closes the queue and waits up to `timeout` until the queued records are written. Blocks the thread: for the end
    /// of a program.
    pub fn close(&self, timeout: Duration) {
        self.0.shared.queue.close();
        self.0.writer.finish(timeout);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.queue.close();
    }
}

/// Leaves a queued intent to the background thread if the call that was to write it is cancelled.
struct FlushOnDrop<'a>(&'a Queue);

impl Drop for FlushOnDrop<'_> {
    fn drop(&mut self) {
        self.0.flush_by_thread();
    }
}

impl fmt::Debug for AuditSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AuditSink({})", self.0.describe)
    }
}

#[cfg(test)]
impl AuditSink {
    /// Upgrades until the thread has ended and all sinks are dropped.
    pub(super) fn shared(&self) -> std::sync::Weak<SharedWriter> {
        Arc::downgrade(&self.0.shared)
    }

    /// A sink that passes its lines to `write`, on the background thread.
    pub(super) fn probe(
        config: &AuditConfig,
        write: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
    ) -> Self {
        Self::slow_probe(config, BATCH_DELAY, write)
    }

    /// Like `probe`, with another batch delay.
    pub(super) fn slow_probe(
        config: &AuditConfig,
        batch_delay: Duration,
        write: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
    ) -> Self {
        let redactor = Redactor::new(&RedactConfig::default()).unwrap();
        let first = Output::Probe(Box::new(write), Run::START);
        let outputs = Outputs { first, further: Vec::new(), describe: "probe".to_owned() };
        let secrets = Secrets { redactor, seal: Seal::plain() };
        Self::start(config, secrets, outputs, batch_delay).unwrap()
    }
}
