//! From the log's queue into a store: on a thread of its own, batch by batch.

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

/// So many records go into one transaction at most.
const BATCH: usize = 1_000;
/// How often a store that is busy is asked again.
const TRIES: u32 = 3;
/// After so much time, or so many records, it is looked whether old ones have to go.
const PRUNE_AFTER: Duration = Duration::from_mins(1);
const PRUNE_AFTER_RECORDS: usize = 50_000;

/// A thread that writes the records of a queue to a store until the queue's sink is closed.
#[derive(Debug)]
pub struct Drain(BackgroundWriter);

impl Drain {
    /// Starts the thread. Records are read and redacted there: no call waits for that.
    pub fn start(queue: LogQueue, store: Arc<dyn Store>, retention: Retention) -> io::Result<Self> {
        BackgroundWriter::start_async("log", drain(queue, store, retention)).map(Self)
    }

    /// Waits, for a while, until all is written; says whether it was. Close the sink first. Blocks: for the
    /// end of a program.
    #[must_use]
    pub fn finish(self, patience: Duration) -> bool {
        self.0.finish(patience)
    }
}

/// Writes the records of a queue to a store until the queue's sink is closed, and removes old ones.
pub async fn drain(mut queue: LogQueue, store: Arc<dyn Store>, retention: Retention) {
    let mut pruning = Pruning { last: Instant::now(), records: 0, retention, task: None };
    pruning.start(&store);
    let mut missing = 0;
    while let Some(records) = queue.next_batch(BATCH).await {
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
                // Told once, not for every batch.
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
    for _ in 1..TRIES {
        match store.append(records).await {
            Err(error) if error.is_busy() => {}
            done => return done,
        }
    }
    store.append(records).await
}

/// Removes old records beside the writing of new ones: both take turns, so neither waits for long.
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
        // What is left is removed the next time.
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

#[cfg(test)]
mod tests;
