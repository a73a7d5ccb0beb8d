//! Writes audit records to the store on a separate thread, so that the thread of the audit never waits for the store.

use std::{
    error::Error,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::mpsc;
use toolgate::{
    background::BackgroundWriter,
    middleware::audit::{AuditConfig, AuditLine, AuditOutput},
};
use toolgate_store::{AuditRecord, Store};

/// The most batches that wait for the store. Further batches are refused, and the audit counts them.
const MAX_QUEUED_BATCHES: usize = 256;
/// How often a batch is tried if the store is busy.
const MAX_TRIES: u32 = 3;

/// An output of the audit that queues records for the thread that writes to the store.
#[derive(Debug)]
pub(crate) struct AuditStore {
    queue: Mutex<Option<mpsc::Sender<Vec<AuditRecord>>>>,
    writer: BackgroundWriter,
    lost: Arc<AtomicU64>,
}

impl AuditStore {
    /// Starts the thread that writes.
    pub(crate) fn start(store: Arc<dyn Store>) -> io::Result<Arc<Self>> {
        let (queue, mut batches) = mpsc::channel::<Vec<AuditRecord>>(MAX_QUEUED_BATCHES);
        let lost = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&lost);
        let writer = BackgroundWriter::start_async("audit-store", async move {
            while let Some(batch) = batches.recv().await {
                if let Err(error) = write(&*store, &batch).await {
                    counter.fetch_add(batch.len() as u64, Ordering::Relaxed);
                    tracing::error!("cannot write audit records to the store: {error}");
                }
            }
        })?;
        Ok(Arc::new(Self { queue: Mutex::new(Some(queue)), writer, lost }))
    }

    /// Closes the queue and waits until all records are written, at most for `timeout`. Blocks the thread: call it only
    /// at the end of the program.
    pub(crate) fn finish(&self, timeout: Duration) {
        drop(self.queue.lock().take());
        self.writer.finish(timeout);
        let lost = self.lost.load(Ordering::Relaxed);
        if lost > 0 {
            tracing::error!(lost, "audit records did not reach the store");
        }
    }
}

async fn write(store: &dyn Store, batch: &[AuditRecord]) -> Result<(), toolgate_store::StoreError> {
    for _ in 1..MAX_TRIES {
        match store.append_audit(batch).await {
            Err(error) if error.is_busy() => {}
            done => return done,
        }
    }
    store.append_audit(batch).await
}

impl AuditOutput for AuditStore {
    fn name(&self) -> &'static str {
        "the store"
    }

    fn is_wanted(&self, config: &AuditConfig) -> bool {
        config.store
    }

    fn write(&self, lines: &[AuditLine<'_>]) -> Result<(), Box<dyn Error + Send + Sync>> {
        let records = lines.iter().map(|line| AuditRecord {
            at_us: line.about.at.as_microsecond(),
            event: line.about.event.to_owned(),
            call_id: line.about.call_id.map(|id| id.to_string()),
            outcome: line.about.outcome.map(str::to_owned),
            line: line.json.to_owned(),
        });
        let queue = self.queue.lock();
        let queue = queue.as_ref().ok_or("the store is closed")?;
        queue.try_send(records.collect()).map_err(|_| "too many records wait for the store".into())
    }
}
