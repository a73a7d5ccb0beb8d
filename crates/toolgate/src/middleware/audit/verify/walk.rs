//! Follows the chain through all lines and classifies its faults.

mod place;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::{
    super::{
        head::{HeadMark, HeadState},
        seal::{ChainLine, Hash, Point, Seal},
    },
    report::{Finding, FindingKind, Report, UnfinishedCall},
};

/// Largest number of listed findings.
const MAX_FINDINGS: usize = 10_000;

pub(super) struct ChainVerifier {
    seal: Seal,
    head: HeadState,
    report: Report,
    /// The files so far. The last one is being read.
    files: Vec<PathBuf>,
    line: u64,
    /// Bytes of the file that are verified.
    offset: u64,
    /// The record before the next one.
    last: Option<Last>,
    /// The previous record, if it has no place in the chain.
    aside: Option<MisplacedRecord>,
    gaps: Vec<Gap>,
    region: Option<UnreadableLines>,
    /// Lines since the last record that may have been records.
    unread: u64,
    under_way: HashMap<String, UnfinishedCall>,
    head_seen: bool,
    /// The records here were written with another key.
    is_foreign: bool,
    /// Records with a valid digest.
    good: u64,
}

/// The last record in its place.
struct Last {
    point: Point,
    /// The computed digest, if it differs from the one in the line.
    computed: Option<Hash>,
    /// The index of its finding.
    finding: Option<usize>,
}

struct MisplacedRecord {
    hash: Hash,
    finding: usize,
}

/// A range of missing numbers.
struct Gap {
    from: u64,
    to: u64,
    before: Hash,
    finding: usize,
}

/// Lines that are not records, until a later record describes them.
struct UnreadableLines {
    bytes: u64,
    sha: Sha256,
    first: Finding,
    lines: u64,
    /// Whether its last line has no newline.
    is_open: bool,
}

/// The members of a record that verification needs.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RecordFields {
    event: String,
    ts: String,
    call_id: String,
    server: String,
    tool: String,
    algorithm: String,
    previous_seq: u64,
    previous_hash: String,
    head: Option<String>,
    bytes: u64,
    sha256: String,
    records: u64,
}

impl ChainVerifier {
    pub(super) fn new(seal: Seal, head: HeadState) -> Self {
        Self {
            seal,
            head,
            report: Report::default(),
            files: Vec::new(),
            line: 0,
            offset: 0,
            last: None,
            aside: None,
            gaps: Vec::new(),
            region: None,
            unread: 0,
            under_way: HashMap::new(),
            head_seen: false,
            is_foreign: false,
            good: 0,
        }
    }

    pub(super) fn enter(&mut self, file: &Path) {
        self.files.push(file.to_owned());
        (self.line, self.offset) = (0, 0);
        // The line was cut off, and the file was rotated before a record could describe it. If it was a complete
        // record, its number is missing.
        if let Some(region) = self.region.take_if(|region| region.is_open) {
            self.report.torn += region.lines;
        }
    }

    pub(super) fn line(&mut self, bytes: &[u8]) {
        self.line += 1;
        self.offset += bytes.len() as u64;
        let (line, is_open) = match bytes.strip_suffix(b"\n") {
            Some(line) => (line, false),
            None => (bytes, true),
        };
        match ChainLine::parse(line).filter(|_| !is_open) {
            Some(record) => self.record(line, &record),
            None => self.no_record(line, is_open),
        }
    }

    /// Handles a line that is not part of the chain.
    fn no_record(&mut self, line: &[u8], is_open: bool) {
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok();
        if is_json && !is_open {
            let region = self.region.take();
            if self.report.records == 0 {
                self.report.unchained += region.map_or(0, |region| region.lines) + 1;
            } else {
                if let Some(region) = region {
                    self.unnamed(region);
                }
                self.unread += 1;
                self.find(None, FindingKind::Unchained);
            }
            return;
        }
        let first = self.finding(None, FindingKind::Unreadable);
        let region = self.region.get_or_insert_with(|| {
            let sha = Sha256::new();
            UnreadableLines { bytes: 0, sha, first, lines: 0, is_open: false }
        });
        if region.lines > 0 {
            region.sha.update(b"\n");
            region.bytes += 1;
        }
        region.sha.update(line);
        region.bytes += line.len() as u64;
        region.lines += 1;
        region.is_open = is_open;
    }

    /// Adds findings for lines that are not records and that no record describes.
    fn unnamed(&mut self, region: UnreadableLines) {
        self.unread += region.lines;
        self.add(region.first);
    }

    fn record(&mut self, line: &[u8], record: &ChainLine<'_>) {
        self.report.records += 1;
        let fields: RecordFields = serde_json::from_slice(line).unwrap_or_default();
        self.end_region(&fields);
        let unread = std::mem::take(&mut self.unread);
        if fields.event == "begin" {
            self.made_with(&fields, record.point.seq);
        }
        if self.last.is_none() {
            self.begin(record, &fields);
        }
        if self.place(record, unread) {
            self.read(&fields, record.point.seq);
        }
        if let HeadState::Mark(HeadMark { point, size }) = self.head
            && point == record.point
            && size == self.offset
        {
            self.head_seen = true;
        }
    }

    /// Sets whether the key fits the following records.
    fn made_with(&mut self, fields: &RecordFields, seq: u64) {
        let was_foreign = self.is_foreign;
        self.is_foreign = fields.algorithm != self.seal.algorithm();
        if self.is_foreign && !was_foreign {
            let is_keyed = self.seal.algorithm() != "sha256";
            self.find(
                Some(seq),
                if is_keyed { FindingKind::OtherKey } else { FindingKind::NeedsKey },
            );
        }
    }

    /// Handles the first record, which names the record before it.
    fn begin(&mut self, record: &ChainLine<'_>, fields: &RecordFields) {
        let hash = Hash::parse(fields.previous_hash.as_bytes());
        let Some(hash) = hash.filter(|_| fields.event == "begin") else {
            self.find(Some(record.point.seq), FindingKind::NoBeginning);
            // The record before it is not available, so it cannot be verified.
            return self.believe(record);
        };
        self.report.earlier = fields.previous_seq;
        let point = Point { seq: fields.previous_seq, hash };
        if self.head.mark().is_some_and(|mark| mark.point == point) {
            self.head_seen = true;
        }
        self.last = Some(Last { point, computed: None, finding: None });
    }

    /// Handles the content of a record in its place.
    fn read(&mut self, fields: &RecordFields, seq: u64) {
        match fields.event.as_str() {
            "intent" => {
                let call = UnfinishedCall {
                    file: self.files.last().cloned().unwrap_or_default(),
                    line: self.line,
                    ts: fields.ts.clone(),
                    call_id: fields.call_id.clone(),
                    server: fields.server.clone(),
                    tool: fields.tool.clone(),
                };
                self.under_way.insert(fields.call_id.clone(), call);
            }
            "call" => drop(self.under_way.remove(&fields.call_id)),
            "lost" => self.report.lost += fields.records,
            "begin" => {
                if let Some(head) = &fields.head {
                    self.find(Some(seq), FindingKind::HeadWas(head.clone()));
                }
            }
            _ => {}
        }
    }

    /// Ends a sequence of lines that are not records: this record describes them, or they are a finding.
    fn end_region(&mut self, fields: &RecordFields) {
        // A `begin` record may precede the description.
        if fields.event == "begin" {
            return;
        }
        let Some(region) = self.region.take() else { return };
        let sha = Hash::of_bytes(&region.sha.clone().finalize());
        let is_named = fields.bytes == region.bytes && fields.sha256 == sha.as_str();
        if fields.event == "torn" && is_named {
            self.report.torn += region.lines;
        } else {
            self.unnamed(region);
        }
    }

    pub(super) fn finish(mut self, head: &Path) -> Report {
        let last = self.last.as_ref().map_or(0, |last| last.point.seq);
        self.report.last_seq = last;
        match self.region.take() {
            // A crash, and possibly a second one while its record was written.
            Some(region) if region.is_open && region.lines <= 2 => self.report.incomplete = true,
            Some(region) if self.report.records == 0 => self.report.unchained += region.lines,
            Some(region) => self.unnamed(region),
            None => {}
        }
        self.report.findings.retain(|finding| finding.what != FindingKind::Missing(0));
        self.compare_head(head, last);
        let all_altered = self.good == 0 && self.report.findings.len() > 1;
        if all_altered && self.seal.algorithm() != "sha256" && self.report.records > 1 {
            // No record has a valid digest, so the key is wrong.
            let file = self.files.first().cloned().unwrap_or_default();
            self.report.findings =
                vec![Finding { file, line: 0, seq: None, what: FindingKind::OtherKey }];
        }
        let order =
            |file: &PathBuf| self.files.iter().position(|one| one == file).unwrap_or(usize::MAX);
        self.report.findings.sort_by_key(|finding| (order(&finding.file), finding.line));
        let mut under_way: Vec<UnfinishedCall> = self.under_way.into_values().collect();
        under_way.sort_by(|a, b| (&a.ts, &a.call_id).cmp(&(&b.ts, &b.call_id)));
        self.report.under_way = under_way;
        self.report
    }

    fn compare_head(&mut self, head: &Path, last: u64) {
        let what = match self.head {
            HeadState::Missing if self.report.records == 0 => return,
            HeadState::Missing => FindingKind::NoHead,
            HeadState::Unreadable if self.is_foreign => return,
            HeadState::Mark(mark) if mark.point.seq > last => {
                let finding = self.finding(Some(last), FindingKind::CutOff(mark.point.seq - last));
                return self.add(finding);
            }
            // Other findings explain the fault better.
            HeadState::Mark(_) if !self.report.findings.is_empty() || self.head_seen => return,
            HeadState::Mark(mark) if mark.point.seq == 0 => return,
            HeadState::Unreadable | HeadState::Mark(_) => FindingKind::HeadAltered,
        };
        self.add(Finding { file: head.to_owned(), line: 0, seq: None, what });
    }

    fn finding(&self, seq: Option<u64>, what: FindingKind) -> Finding {
        let file = self.files.last().cloned().unwrap_or_default();
        Finding { file, line: self.line, seq, what }
    }

    fn add(&mut self, finding: Finding) {
        if self.report.findings.len() < MAX_FINDINGS {
            self.report.findings.push(finding);
        } else {
            self.report.more += 1;
        }
    }

    fn find(&mut self, seq: Option<u64>, what: FindingKind) -> usize {
        self.add(self.finding(seq, what));
        // A finding that is only counted has no index.
        if self.report.more > 0 { usize::MAX } else { self.report.findings.len() - 1 }
    }
}
