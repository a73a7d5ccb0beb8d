//! Writes the call log's queue into a store, in batches, on a thread of its own.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinHandle;
use toolgate::{
    background::BackgroundWriter,
    middleware::log::{CallRecord, LogQueue},
};

use crate::{
    error::StoreError,
    store::{Retention, Store},
};

/// The maximum number of records in a transaction.
const MAX_BATCH: usize = 1_000;
/// How often a batch is tried while the store is busy.
const MAX_TRIES: u32 = 3;
/// How often old records are removed: after this time, or this many records.
const PRUNE_AFTER: Duration = Duration::from_mins(1);
const PRUNE_AFTER_RECORDS: usize = 50_000;

/// The thread that writes a queue's records to a store until the queue's sink is closed.
#[derive(Debug)]
pub struct LogWriter(BackgroundWriter);

impl LogWriter {
    /// Starts the thread. It also redacts the records, so that no call waits for that.
    pub fn start(queue: LogQueue, store: Arc<dyn Store>, retention: Retention) -> io::Result<Self> {
        BackgroundWriter::start_async("log", write_log(queue, store, retention)).map(Self)
    }

    /// Waits until everything is written, at most for `time_limit`; whether it was. Close the sink first. Blocks: call it
    /// at the end of a program.
    #[must_use]
    pub fn finish(self, time_limit: Duration) -> bool {
        self.0.finish(time_limit)
    }
}

/// Writes the records of a queue to a store until the queue's sink is closed, and removes old records.
pub async fn write_log(mut queue: LogQueue, store: Arc<dyn Store>, retention: Retention) {
    let mut pruning = Pruning { last: Instant::now(), records: 0, retention, task: None };
    pruning.start(&store);
    let mut missing = 0;
    while let Some(records) = queue.next_batch(MAX_BATCH).await {
        let count = records.len();
        match write(&*store, &records).await {
            Ok(()) => {
                queue.wrote(count);
                if missing > 0 {
                    tracing::warn!(missing, "the log is written again; some records are missing");
                    missing = 0;
                }
                pruning.after(&store, count);
            }
            Err(error) => {
                queue.lost(count);
                // One warning for consecutive failures, not one for each batch.
                if missing == 0 {
                    tracing::error!("cannot write the log: {error}");
                }
                missing += count;
            }
        }
    }
    if missing > 0 {
        tracing::warn!(missing, "records of the log could not be written");
    }
}

async fn write(store: &dyn Store, records: &[CallRecord]) -> Result<(), StoreError> {
    for _ in 1..MAX_TRIES {
        match store.append(records).await {
            Err(error) if error.is_busy() => {}
            done => return done,
        }
    }
    store.append(records).await
}

/// Removes old records while new ones are written: both take turns, so that neither waits for long.
struct Pruning {
    last: Instant,
    records: usize,
    retention: Retention,
    task: Option<JoinHandle<()>>,
}

impl Pruning {
    fn after(&mut self, store: &Arc<dyn Store>, records: usize) {
        self.records += records;
        if self.records >= PRUNE_AFTER_RECORDS || self.last.elapsed() >= PRUNE_AFTER {
            self.start(store);
        }
    }

    fn start(&mut self, store: &Arc<dyn Store>) {
        if self.task.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        (self.last, self.records) = (Instant::now(), 0);
        let (store, retention) = (Arc::clone(store), self.retention);
        self.task = Some(tokio::spawn(async move {
            match store.prune(&retention).await {
                Ok(pruned) if pruned.total() > 0 => {
                    tracing::debug!(records = pruned.total(), "old records of the log removed");
                }
                Ok(_) => {}
                Err(error) => tracing::warn!("cannot remove old records of the log: {error}"),
            }
        }));
    }
}

impl Drop for Pruning {
    fn drop(&mut self) {
        // The next start removes what is left.
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests;
