//! One walk over all lines: the chain is followed, and what breaks it is told apart.

mod place;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::{
    super::{
        head::{Found, Mark},
        seal::{Chained, Hash, Point, Seal},
    },
    report::{Finding, Report, UnderWay, What},
};

/// So many findings are told one by one.
const MOST_FINDINGS: usize = 10_000;

pub(super) struct Walk {
    seal: Seal,
    head: Found,
    report: Report,
    /// The files so far; the last one is being read.
    files: Vec<PathBuf>,
    line: u64,
    /// How many bytes of the file are behind.
    offset: u64,
    /// The record that the next one follows.
    last: Option<Last>,
    /// A record that has no place in the chain, right before this one.
    aside: Option<Aside>,
    gaps: Vec<Gap>,
    region: Option<Region>,
    /// Lines since the last record that may have been one.
    unread: u64,
    under_way: HashMap<String, UnderWay>,
    head_seen: bool,
    /// Records here are made with a key that is not ours.
    is_foreign: bool,
    /// Records that fit.
    good: u64,
}

/// The last record in its place.
struct Last {
    point: Point,
    /// What its digest should be, where that is not what stands there.
    computed: Option<Hash>,
    /// Where it was found wanting.
    finding: Option<usize>,
}

struct Aside {
    hash: Hash,
    finding: usize,
}

/// Numbers that were left out.
struct Gap {
    from: u64,
    to: u64,
    before: Hash,
    finding: usize,
}

/// Lines that are no records, as long as no later one names them.
struct Region {
    bytes: u64,
    sha: Sha256,
    first: Finding,
    lines: u64,
    /// Whether its last line has no newline.
    is_open: bool,
}

/// What a record says, as far as it matters here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Said {
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

impl Walk {
    pub(super) fn new(seal: Seal, head: Found) -> Self {
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
        // Cut off, and moved aside before anybody could say so. If it was more than a record that was never
        // finished, its number is missing.
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
        match Chained::parse(line).filter(|_| !is_open) {
            Some(record) => self.record(line, &record),
            None => self.no_record(line, is_open),
        }
    }

    /// A line that is not of the chain.
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
                self.find(None, What::Unchained);
            }
            return;
        }
        let first = self.finding(None, What::Unreadable);
        let region = self.region.get_or_insert_with(|| {
            let sha = Sha256::new();
            Region { bytes: 0, sha, first, lines: 0, is_open: false }
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

    /// Lines that are no records, and that none names.
    fn unnamed(&mut self, region: Region) {
        self.unread += region.lines;
        self.add(region.first);
    }

    fn record(&mut self, line: &[u8], record: &Chained<'_>) {
        self.report.records += 1;
        let said: Said = serde_json::from_slice(line).unwrap_or_default();
        self.end_region(&said);
        let unread = std::mem::take(&mut self.unread);
        if said.event == "begin" {
            self.made_with(&said, record.point.seq);
        }
        if self.last.is_none() {
            self.begin(record, &said);
        }
        if self.place(record, unread) {
            self.read(&said, record.point.seq);
        }
        if let Found::Mark(Mark { point, size }) = self.head
            && point == record.point
            && size == self.offset
        {
            self.head_seen = true;
        }
    }

    /// Whether records from here on can be checked with what we have.
    fn made_with(&mut self, said: &Said, seq: u64) {
        let was_foreign = self.is_foreign;
        self.is_foreign = said.algorithm != self.seal.algorithm();
        if self.is_foreign && !was_foreign {
            let is_keyed = self.seal.algorithm() != "sha256";
            self.find(Some(seq), if is_keyed { What::OtherKey } else { What::NeedsKey });
        }
    }

    /// The first record that is here says where the chain came from.
    fn begin(&mut self, record: &Chained<'_>, said: &Said) {
        let hash = Hash::parse(said.previous_hash.as_bytes());
        let Some(hash) = hash.filter(|_| said.event == "begin") else {
            self.find(Some(record.point.seq), What::NoBeginning);
            // What it follows is not here; it is believed.
            return self.believe(record);
        };
        self.report.earlier = said.previous_seq;
        let point = Point { seq: said.previous_seq, hash };
        if self.head.mark().is_some_and(|mark| mark.point == point) {
            self.head_seen = true;
        }
        self.last = Some(Last { point, computed: None, finding: None });
    }

    /// What a record in its place says.
    fn read(&mut self, said: &Said, seq: u64) {
        match said.event.as_str() {
            "intent" => {
                let call = UnderWay {
                    file: self.files.last().cloned().unwrap_or_default(),
                    line: self.line,
                    ts: said.ts.clone(),
                    call_id: said.call_id.clone(),
                    server: said.server.clone(),
                    tool: said.tool.clone(),
                };
                self.under_way.insert(said.call_id.clone(), call);
            }
            "call" => drop(self.under_way.remove(&said.call_id)),
            "lost" => self.report.lost += said.records,
            "begin" => {
                if let Some(head) = &said.head {
                    self.find(Some(seq), What::HeadWas(head.clone()));
                }
            }
            _ => {}
        }
    }

    /// Ends a run of lines that are no records: named by this one, or a finding.
    fn end_region(&mut self, said: &Said) {
        // The chain may have to begin before it can name them.
        if said.event == "begin" {
            return;
        }
        let Some(region) = self.region.take() else { return };
        let sha = Hash::of_bytes(&region.sha.clone().finalize());
        let is_named = said.bytes == region.bytes && said.sha256 == sha.as_str();
        if said.event == "torn" && is_named {
            self.report.torn += region.lines;
        } else {
            self.unnamed(region);
        }
    }

    pub(super) fn finish(mut self, head: &Path) -> Report {
        let last = self.last.as_ref().map_or(0, |last| last.point.seq);
        self.report.last_seq = last;
        match self.region.take() {
            // A crash, and perhaps another one while the first was being told of.
            Some(region) if region.is_open && region.lines <= 2 => self.report.incomplete = true,
            Some(region) if self.report.records == 0 => self.report.unchained += region.lines,
            Some(region) => self.unnamed(region),
            None => {}
        }
        self.report.findings.retain(|finding| finding.what != What::Missing(0));
        self.compare_head(head, last);
        let all_altered = self.good == 0 && self.report.findings.len() > 1;
        if all_altered && self.seal.algorithm() != "sha256" && self.report.records > 1 {
            // Not one record fits: it is the key that does not.
            let file = self.files.first().cloned().unwrap_or_default();
            self.report.findings = vec![Finding { file, line: 0, seq: None, what: What::OtherKey }];
        }
        let order =
            |file: &PathBuf| self.files.iter().position(|one| one == file).unwrap_or(usize::MAX);
        self.report.findings.sort_by_key(|finding| (order(&finding.file), finding.line));
        let mut under_way: Vec<UnderWay> = self.under_way.into_values().collect();
        under_way.sort_by(|a, b| (&a.ts, &a.call_id).cmp(&(&b.ts, &b.call_id)));
        self.report.under_way = under_way;
        self.report
    }

    fn compare_head(&mut self, head: &Path, last: u64) {
        let what = match self.head {
            Found::Missing if self.report.records == 0 => return,
            Found::Missing => What::NoHead,
            Found::Unreadable if self.is_foreign => return,
            Found::Mark(mark) if mark.point.seq > last => {
                let finding = self.finding(Some(last), What::CutOff(mark.point.seq - last));
                return self.add(finding);
            }
            // What else is wrong says more.
            Found::Mark(_) if !self.report.findings.is_empty() || self.head_seen => return,
            Found::Mark(mark) if mark.point.seq == 0 => return,
            Found::Unreadable | Found::Mark(_) => What::HeadAltered,
        };
        self.add(Finding { file: head.to_owned(), line: 0, seq: None, what });
    }

    fn finding(&self, seq: Option<u64>, what: What) -> Finding {
        let file = self.files.last().cloned().unwrap_or_default();
        Finding { file, line: self.line, seq, what }
    }

    fn add(&mut self, finding: Finding) {
        if self.report.findings.len() < MOST_FINDINGS {
            self.report.findings.push(finding);
        } else {
            self.report.more += 1;
        }
    }

    fn find(&mut self, seq: Option<u64>, what: What) -> usize {
        self.add(self.finding(seq, what));
        // The place of one that is only counted is nowhere.
        if self.report.more > 0 { usize::MAX } else { self.report.findings.len() - 1 }
    }
}
