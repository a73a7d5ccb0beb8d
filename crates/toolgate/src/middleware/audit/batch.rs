//! Batches of rendered records, without their places in the hash chain.

use std::ops::Range;

use serde_json::json;

use super::{
    output::{About, AuditLine},
    seal::{ChainedLines, MAX_CHAIN_BYTES, Point, Seal},
};

/// Records to be written together.
#[derive(Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    records: Vec<(Range<usize>, About)>,
}

/// Largest capacity that is kept for the next batch, in bytes.
const MAX_KEPT_CAPACITY: usize = 1 << 20;

impl Batch {
    pub(super) fn clear(&mut self) {
        self.records.clear();
        self.bytes.clear();
        self.bytes.shrink_to(MAX_KEPT_CAPACITY);
    }

    pub(super) fn push(&mut self, record: &[u8], about: About) {
        self.add(|bytes| {
            bytes.extend_from_slice(record);
            about
        });
    }

    /// Adds the record that `write` renders.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>) -> About) {
        let start = self.bytes.len();
        let about = write(&mut self.bytes);
        self.records.push((start..self.bytes.len(), about));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn records(&self) -> impl Iterator<Item = (&[u8], &About)> {
        let bytes = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        self.records.iter().map(move |(range, about)| (bytes(range), about))
    }

    /// The lines for further outputs, if the records could not be chained.
    pub(super) fn lines(&self) -> Vec<AuditLine<'_>> {
        let lines = self.records().filter_map(|(bytes, about)| {
            Some(AuditLine { json: std::str::from_utf8(bytes).ok()?, about: *about })
        });
        lines.collect()
    }
}

impl ChainedLines {
    /// Appends all records of a batch.
    pub(super) fn push_all(&mut self, seal: &Seal, point: &mut Point, batch: &Batch) {
        self.bytes.reserve(batch.bytes.len() + batch.records.len() * MAX_CHAIN_BYTES);
        for (record, about) in batch.records() {
            self.push(seal, point, record, *about);
        }
    }

    /// The lines for further outputs.
    pub(super) fn as_lines(&self) -> Vec<AuditLine<'_>> {
        let lines = self.lines.iter().filter_map(|(range, about)| {
            let json = std::str::from_utf8(self.bytes.get(range.clone())?).ok()?;
            Some(AuditLine { json, about: *about })
        });
        lines.collect()
    }
}

fn now() -> String {
    format!("{:.6}", jiff::Timestamp::now())
}

/// The first record of a chain or of a file.
pub(super) fn begin(algorithm: &str, previous: &Point, head: Option<&str>) -> String {
    let mut record = json!({
        "ts": now(),
        "event": "begin",
        "algorithm": algorithm,
        "previous_seq": previous.seq,
        "previous_hash": previous.hash.as_str(),
    });
    if let (Some(head), Some(record)) = (head, record.as_object_mut()) {
        record.insert("head".to_owned(), head.into());
    }
    record.to_string()
}

/// A record that describes the invalid bytes before it.
pub(super) fn torn(bytes: u64, sha256: &str) -> String {
    json!({"ts": now(), "event": "torn", "bytes": bytes, "sha256": sha256}).to_string()
}

/// A record of how many records were lost.
pub(super) fn lost(records: u64) -> (String, About) {
    let record = json!({"ts": now(), "event": "lost", "records": records});
    (record.to_string(), About::now("lost"))
}
