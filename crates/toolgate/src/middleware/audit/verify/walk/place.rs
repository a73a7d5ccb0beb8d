//! The place of a record in the chain: the one that it follows, or what is wrong with it.

use super::super::{
    super::seal::{Chained, Hash},
    report::What,
};
use super::{Aside, Gap, Last, Walk};

/// So many gaps are remembered, in case what is missing comes later.
const MOST_GAPS: usize = 1000;

impl Walk {
    /// Puts the record into its place in the chain, or says why it has none. Whether it is what was written.
    pub(super) fn place(&mut self, record: &Chained<'_>, unread: u64) -> bool {
        let Some(last) = &self.last else { return false };
        let point = record.point;
        if self.is_foreign || (last.point == point && self.report.records == 1) {
            // Nobody can tell; that was told.
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
            // It follows the one before, whose number must be what is wrong.
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

    /// In its place by its number, but not by its digest.
    fn altered_or_unknown(&mut self, record: &Chained<'_>, unread: u64) -> bool {
        if unread > 0 && record.point.seq > self.last.as_ref().map_or(0, |last| last.point.seq) + 1
        {
            // What it follows cannot be read, which was told.
            self.believe(record);
            return true;
        }
        let Some(last) = &self.last else { return false };
        let computed = self.seal.link(&last.point.hash, record.body);
        let at = self.find(Some(record.point.seq), What::Altered);
        self.last = Some(Last { point: record.point, computed: Some(computed), finding: Some(at) });
        false
    }

    fn after_gap(&mut self, record: &Chained<'_>, unread: u64) -> bool {
        let Some(last) = &self.last else { return false };
        let (from, before) = (last.point.seq + 1, last.point.hash);
        let missing = (record.point.seq - from).saturating_sub(unread);
        let at = self.find(Some(record.point.seq), What::Missing(missing));
        if self.gaps.len() < MOST_GAPS {
            self.gaps.push(Gap { from, to: record.point.seq - 1, before, finding: at });
        }
        self.last = Some(Last { point: record.point, computed: None, finding: Some(at) });
        true
    }

    /// A number that was passed already.
    fn late(&mut self, record: &Chained<'_>) -> bool {
        let seq = record.point.seq;
        let gap = self.gaps.iter().position(|gap| (gap.from..=gap.to).contains(&seq));
        let what = if gap.is_some() { What::OutOfOrder } else { What::Duplicated };
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
            if let Some(What::Missing(count)) =
                self.report.findings.get_mut(gap_finding).map(|finding| &mut finding.what)
            {
                *count = count.saturating_sub(1);
            }
        }
        self.aside = Some(Aside { hash: record.point.hash, finding: at });
        is_first
    }

    /// The record is taken for what it says it is.
    pub(super) fn believe(&mut self, record: &Chained<'_>) {
        self.last = Some(Last { point: record.point, computed: None, finding: None });
    }

    /// The record that this finding is about is in its place, but was altered.
    fn correct(&mut self, at: usize) {
        if let Some(finding) = self.report.findings.get_mut(at) {
            finding.what = What::Altered;
        }
        self.gaps.retain(|gap| gap.finding != at);
    }
}
