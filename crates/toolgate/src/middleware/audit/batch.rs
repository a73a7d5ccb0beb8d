//! Records on their way to be written: finished but for their place in the chain.

use serde_json::json;

use super::{
    output::{About, AuditLine},
    seal::{Point, Sealed},
};

/// Some records.
#[derive(Default)]
pub(super) struct Batch {
    records: Vec<(String, About)>,
}

impl Batch {
    pub(super) fn clear(&mut self) {
        self.records.clear();
    }

    pub(super) fn push(&mut self, (record, about): (String, About)) {
        self.records.push((record, about));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn records(&self) -> impl Iterator<Item = (&str, &About)> {
        self.records.iter().map(|(record, about)| (record.as_str(), about))
    }

    /// The lines as outputs get them, where they could not be chained.
    pub(super) fn lines(&self) -> Vec<AuditLine<'_>> {
        self.records().map(|(json, about)| AuditLine { json, about: *about }).collect()
    }
}

impl Sealed {
    /// The lines as outputs get them.
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

/// The record that a chain, or a file of it, begins with.
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

/// The record that says what stands before it and is none.
pub(super) fn torn(bytes: u64, sha256: &str) -> String {
    json!({"ts": now(), "event": "torn", "bytes": bytes, "sha256": sha256}).to_string()
}

/// The record that says how many are missing.
pub(super) fn lost(records: u64) -> (String, About) {
    let record = json!({"ts": now(), "event": "lost", "records": records});
    (record.to_string(), About::now("lost"))
}
