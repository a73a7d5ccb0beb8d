//! The sink: a bounded queue and a thread of its own that redacts and writes.

use std::{
    fmt, io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use tokio::sync::mpsc::{self, error::TrySendError};

use super::{AuditConfig, Event, OnFull, RedactConfig, Redactor, Target, file::AuditFile};

/// Why a sink could not be opened.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot open the audit {what} `{path}`: {source}; check the path and its permissions, or choose another with `--audit`"
)]
pub struct OpenError {
    what: &'static str,
    path: String,
    source: io::Error,
}

/// How many records took which way.
#[derive(Debug, Default)]
pub struct AuditCounts {
    written: AtomicU64,
    lost: AtomicU64,
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
}

/// A handle on the sink. Cheap to clone; the last one to go closes it.
#[derive(Clone)]
pub struct AuditSink(Arc<Inner>);

struct Inner {
    queue: Mutex<Option<mpsc::Sender<Event>>>,
    sender: mpsc::WeakSender<Event>,
    on_full: OnFull,
    counts: Arc<AuditCounts>,
    reopen: Arc<AtomicBool>,
    writer: Mutex<Option<JoinHandle<()>>>,
    describe: String,
}

impl AuditSink {
    /// Opens the sink and starts its thread. `None` when the config says `off`.
    pub fn open(config: &AuditConfig, redact: &RedactConfig) -> Result<Option<Self>, OpenError> {
        let redactor = Redactor::new(redact).map_err(|source| OpenError {
            what: "key file",
            path: redact.key_file.as_ref().map(|p| p.display().to_string()).unwrap_or_default(),
            source,
        })?;
        let (output, describe) = match &config.file {
            Target::Off => return Ok(None),
            Target::Stderr => (Output::Stderr, "stderr".to_owned()),
            Target::File(path) => {
                let file = AuditFile::open(path, config.rotate_bytes, config.keep_files);
                let path = path.display().to_string();
                match file {
                    Ok(file) => (Output::File(file), path),
                    Err(source) => {
                        return Err(OpenError { what: "file", path, source });
                    }
                }
            }
        };
        Self::start(config, redactor, output, describe).map(Some)
    }

    fn start(
        config: &AuditConfig,
        redactor: Redactor,
        output: Output,
        describe: String,
    ) -> Result<Self, OpenError> {
        let (sender, receiver) = mpsc::channel(config.queue.max(1));
        let counts = Arc::new(AuditCounts::default());
        let reopen = Arc::new(AtomicBool::new(false));
        let mut writer = Writer {
            receiver,
            redactor,
            output,
            counts: Arc::clone(&counts),
            reopen: Arc::clone(&reopen),
            reported_lost: 0,
        };
        let thread = std::thread::Builder::new().name("audit".to_owned());
        let handle = match thread.spawn(move || writer.run()) {
            Ok(handle) => Some(handle),
            Err(source) => {
                let (what, path) = ("thread for", describe);
                return Err(OpenError { what, path, source });
            }
        };
        Ok(Self(Arc::new(Inner {
            sender: sender.downgrade(),
            queue: Mutex::new(Some(sender)),
            on_full: config.on_full,
            counts,
            reopen,
            writer: Mutex::new(handle),
            describe,
        })))
    }

    /// Takes the event over. Given up while it waits for room, it leaves the event where it is.
    pub(super) async fn record(&self, event: &mut Option<Event>) {
        let Some(ready) = event.take() else { return };
        let Some(sender) = self.0.sender.upgrade() else {
            return self.lose();
        };
        match sender.try_send(ready) {
            Ok(()) => {}
            Err(TrySendError::Full(back)) if self.0.on_full == OnFull::Wait => {
                *event = Some(back);
                let permit = sender.reserve().await;
                match (permit, event.take()) {
                    (Ok(permit), Some(event)) => permit.send(event),
                    _ => self.lose(),
                }
            }
            Err(_) => self.lose(),
        }
    }

    /// Records without waiting, whatever the setting: for the places that cannot wait.
    pub(super) fn try_record(&self, event: Event) {
        let sender = self.0.sender.upgrade();
        if sender.is_none_or(|sender| sender.try_send(event).is_err()) {
            self.lose();
        }
    }

    fn lose(&self) {
        self.0.counts.lost.fetch_add(1, Ordering::Relaxed);
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
        drop(self.0.queue.lock().ok().and_then(|mut queue| queue.take()));
        let handle = self.0.writer.lock().ok().and_then(|mut writer| writer.take());
        let Some(handle) = handle else { return };
        let deadline = std::time::Instant::now() + patience;
        while !handle.is_finished() && std::time::Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        if !handle.is_finished() {
            tracing::error!(sink = self.0.describe, "the audit sink did not finish in time");
        }
    }
}

impl fmt::Debug for AuditSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AuditSink({})", self.0.describe)
    }
}

#[cfg(test)]
type Probe = Box<dyn FnMut(&[u8]) -> io::Result<()> + Send>;

enum Output {
    Stderr,
    File(AuditFile),
    #[cfg(test)]
    Probe(Probe),
}

impl Output {
    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        match self {
            Self::Stderr => io::Write::write_all(&mut io::stderr().lock(), lines),
            Self::File(file) => file.append(lines),
            #[cfg(test)]
            Self::Probe(write) => write(lines),
        }
    }
}

struct Writer {
    receiver: mpsc::Receiver<Event>,
    redactor: Redactor,
    output: Output,
    counts: Arc<AuditCounts>,
    reopen: Arc<AtomicBool>,
    reported_lost: u64,
}

/// So many records go into one write at most.
const BATCH: usize = 256;

/// How long a record waits for others to be written with.
const MOMENT: Duration = Duration::from_millis(2);

impl Writer {
    fn run(&mut self) {
        let mut events = Vec::with_capacity(BATCH);
        let mut lines = Vec::new();
        while self.receiver.blocking_recv_many(&mut events, BATCH) > 0 {
            self.gather(&mut events);
            lines.clear();
            let lost = self.note_lost(&mut lines);
            let count = events.len() as u64;
            for event in events.drain(..) {
                event.write(&self.redactor, &mut lines);
            }
            self.put(&lines, count, lost);
            if lines.capacity() > 1 << 20 {
                lines = Vec::new();
            }
        }
        lines.clear();
        let lost = self.note_lost(&mut lines);
        if !lines.is_empty() {
            self.put(&lines, 0, lost);
        }
    }

    /// Waits a moment for further records: a write and a wake-up for each one of them would cost more
    /// than the records themselves.
    fn gather(&mut self, events: &mut Vec<Event>) {
        if events.len() < BATCH && !self.receiver.is_closed() {
            std::thread::sleep(MOMENT);
        }
        while events.len() < BATCH
            && let Ok(event) = self.receiver.try_recv()
        {
            events.push(event);
        }
    }

    /// The records after a gap begin with one that tells how many are missing. Says how many were
    /// missing then: more may go while this is written.
    fn note_lost(&mut self, lines: &mut Vec<u8>) -> u64 {
        let lost = self.counts.lost();
        if lost > self.reported_lost {
            let note = serde_json::json!({
                "ts": format!("{:.6}", jiff::Timestamp::now()),
                "event": "lost",
                "records": lost - self.reported_lost,
            });
            lines.extend_from_slice(note.to_string().as_bytes());
            lines.push(b'\n');
        }
        lost
    }

    fn put(&mut self, lines: &[u8], count: u64, reported: u64) {
        if self.reopen.swap(false, Ordering::Relaxed)
            && let Output::File(file) = &mut self.output
            && let Err(error) = file.reopen()
        {
            // The old file is still open and takes the records until the new one can be opened.
            self.reopen.store(true, Ordering::Relaxed);
            tracing::error!(%error, "cannot open the audit file anew");
        }
        match self.output.write(lines) {
            Ok(()) => {
                self.reported_lost = reported;
                self.counts.written.fetch_add(count, Ordering::Relaxed);
            }
            Err(error) => {
                let lost = self.counts.lost.fetch_add(count, Ordering::Relaxed) + count;
                tracing::error!(%error, lost, "cannot write audit records");
            }
        }
    }
}

#[cfg(test)]
impl AuditSink {
    /// A sink that hands its lines to `write`, on its own thread.
    pub(super) fn probe(
        config: &AuditConfig,
        write: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
    ) -> Self {
        let redactor = Redactor::new(&RedactConfig::default()).unwrap();
        let output = Output::Probe(Box::new(write));
        Self::start(config, redactor, output, "probe".to_owned()).unwrap()
    }
}
