//! Finds the place of a record in the chain, or its fault.

use super::super::{
    super::seal::{ChainLine, Hash},
    report::FindingKind,
};
use super::{ChainVerifier, Gap, Last, MisplacedRecord};

/// Largest number of remembered gaps, whose records may follow later.
const MAX_GAPS: usize = 1000;

impl ChainVerifier {
    /// Puts the record into its place in the chain, or adds a finding. Returns whether its content is unaltered.
    pub(super) fn place(&mut self, record: &ChainLine<'_>, unread: u64) -> bool {
        let Some(last) = &self.last else { return false };
        let point = record.point;
        if self.is_foreign || (last.point == point && self.report.records == 1) {
            // It cannot be verified, and a finding says so already.
            self.believe(record);
            return true;
        }
        let follows = |hash: &Hash| record.follows(&self.seal, hash);
        let next = last.point.seq + 1;
        let fits = follows(&last.point.hash) || last.computed.is_some_and(|hash| follows(&hash));
        if fits && point.seq == next {
            self.aside = None;
            self.good += 1;
            self.believe(record);
            return true;
        }
        if fits && let Some(at) = last.finding {
            // It follows the previous record, so that one's number was altered.
            self.correct(at);
            self.believe(record);
            return true;
        }
        if let Some(aside) = &self.aside
            && follows(&aside.hash)
        {
            let at = aside.finding;
            self.aside = None;
            self.correct(at);
            self.believe(record);
            return true;
        }
        if point.seq == next || (unread > 0 && point.seq > next && point.seq <= next + unread) {
            return self.altered_or_unknown(record, unread);
        }
        if point.seq > next {
            return self.after_gap(record, unread);
        }
        self.late(record)
    }

    /// Handles a record whose number fits and whose digest does not.
    fn altered_or_unknown(&mut self, record: &ChainLine<'_>, unread: u64) -> bool {
        if unread > 0 && record.point.seq > self.last.as_ref().map_or(0, |last| last.point.seq) + 1
        {
            // The line before it is unreadable, and a finding says so already.
            self.believe(record);
            return true;
        }
        let Some(last) = &self.last else { return false };
        let computed = self.seal.link(&last.point.hash, record.body);
        let at = self.find(Some(record.point.seq), FindingKind::Altered);
        self.last = Some(Last { point: record.point, computed: Some(computed), finding: Some(at) });
        false
    }

    fn after_gap(&mut self, record: &ChainLine<'_>, unread: u64) -> bool {
        let Some(last) = &self.last else { return false };
        let (from, before) = (last.point.seq + 1, last.point.hash);
        let missing = (record.point.seq - from).saturating_sub(unread);
        let at = self.find(Some(record.point.seq), FindingKind::Missing(missing));
        if self.gaps.len() < MAX_GAPS {
            self.gaps.push(Gap { from, to: record.point.seq - 1, before, finding: at });
        }
        self.last = Some(Last { point: record.point, computed: None, finding: Some(at) });
        true
    }

    /// Handles a record whose number is not higher than the last one.
    fn late(&mut self, record: &ChainLine<'_>) -> bool {
        let seq = record.point.seq;
        let gap = self.gaps.iter().position(|gap| (gap.from..=gap.to).contains(&seq));
        let what = if gap.is_some() { FindingKind::OutOfOrder } else { FindingKind::Duplicated };
        let at = self.find(Some(seq), what);
        let mut is_first = false;
        if let Some(index) = gap
            && let Some(gap) = self.gaps.get_mut(index)
        {
            is_first = seq != gap.from || record.follows(&self.seal, &gap.before);
            let gap_finding = gap.finding;
            if gap.from == seq {
                (gap.from, gap.before) = (seq + 1, record.point.hash);
            }
            if let Some(FindingKind::Missing(count)) =
                self.report.findings.get_mut(gap_finding).map(|finding| &mut finding.what)
            {
                *count = count.saturating_sub(1);
            }
        }
        self.aside = Some(MisplacedRecord { hash: record.point.hash, finding: at });
        is_first
    }

    /// Accepts the record as the last one.
    pub(super) fn believe(&mut self, record: &ChainLine<'_>) {
        self.last = Some(Last { point: record.point, computed: None, finding: None });
    }

    /// Changes a finding: its record is in its place, but was altered.
    fn correct(&mut self, at: usize) {
        if let Some(finding) = self.report.findings.get_mut(at) {
            finding.what = FindingKind::Altered;
        }
        self.gaps.retain(|gap| gap.finding != at);
    }
}
