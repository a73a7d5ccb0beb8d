//! What a pane showed at one time, and which lines are new at a later time.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::OnceLock,
};

use crate::pane_capture::{PaneCapture, PaneLine, PaneState};

/// How many lines are remembered: the last ones.
const MAX_LINES: usize = 200;
/// How many bits of a line's hash are remembered.
const HASH_MASK: u64 = 0x00FF_FFFF;

/// The lines of a screen, remembered by row. Rows are counted from the oldest row of the history, so that a line keeps
/// its row when it scrolls. When tmux drops old rows or wraps all rows anew, the position is found by comparing lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Baseline {
    pub(crate) history: i64,
    pub(crate) cursor: i64,
    pub(crate) height: i64,
    pub(crate) width: i64,
    /// Rows above this one are not remembered.
    pub(crate) first: i64,
    /// Row and hash of each line with text, from the top.
    pub(crate) lines: Vec<(i64, u64)>,
}

/// The lines that are new since a baseline.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NewLines<'a> {
    /// Exactly these lines.
    Exactly(Vec<&'a PaneLine>),
    /// Some lines may be missing or not new: this is the best guess.
    Lost(Vec<&'a PaneLine>),
    /// The capture has too few rows to tell: capture more.
    LookFurther,
}

impl Baseline {
    /// Remembers the lines on the screen.
    pub(crate) fn of(look: &PaneCapture) -> Self {
        let visible = look.visible();
        let visible = visible.get(visible.len().saturating_sub(MAX_LINES)..).unwrap_or_default();
        let written = visible.iter().filter(|line| !line.text.is_empty());
        let first = visible.first().map_or(look.state.history, |line| line.row);
        Self {
            first,
            lines: written.map(|line| (line.row, hash(&line.text))).collect(),
            ..Self::nothing(&look.state)
        }
    }

    /// Remembers only the position of the screen: every later line is new.
    pub(crate) fn nothing(state: &PaneState) -> Self {
        let PaneState { history, cursor, height, width, .. } = *state;
        Self { history, cursor, height, width, first: history, lines: Vec::new() }
    }

    /// The first row to capture, as [`PaneCapture::at`] counts, if up to `scrolled` rows have scrolled since.
    pub(crate) fn from(&self, scrolled: i64) -> i64 {
        self.first - self.history - scrolled
    }

    /// Whether the history was cleared: it shrank, and neither a taller screen nor its limit explains that.
    pub(crate) fn is_cleared(&self, now: &PaneState) -> bool {
        let taller = (now.height - self.height).max(0);
        now.width == self.width && now.history < self.history - taller && !now.may_be_trimmed()
    }

    /// The lines of a later capture that are new.
    pub(crate) fn since<'a>(&self, look: &'a PaneCapture) -> NewLines<'a> {
        let now = &look.state;
        if now.width != self.width {
            return if look.is_whole() { self.rewrapped(look) } else { NewLines::LookFurther };
        }
        if self.is_cleared(now) {
            return if look.is_whole() { self.shifted(look, 1, 1) } else { NewLines::LookFurther };
        }
        if !now.may_be_trimmed() {
            let reaches = look.first <= self.first;
            return if reaches { self.scrolled(look) } else { NewLines::LookFurther };
        }
        let reaches = look.first <= (self.first - now.step()).max(0);
        if reaches && self.stayed(look) {
            return NewLines::Exactly(self.news(look, 0));
        }
        if look.is_whole() {
            return self.shifted(look, 0, now.step());
        }
        NewLines::LookFurther
    }

    /// Whether every line is in its row, and would not match just as well if rows had been dropped: repeated output
    /// looks the same a few hundred rows later.
    fn stayed(&self, look: &PaneCapture) -> bool {
        let all = |shift: i64| self.score(look, shift) == self.lines.len();
        let still = (look.state.history, look.state.cursor) == (self.history, self.cursor);
        all(0) && (still || !all(look.state.step()))
    }

    /// The lines that changed on a screen that does not scroll; `None` if it is another screen.
    pub(crate) fn written_over<'a>(&self, look: &'a PaneCapture) -> Option<Vec<&'a PaneLine>> {
        let PaneState { history, height, width, .. } = look.state;
        let same = (history, height, width) == (self.history, self.height, self.width);
        same.then(|| self.news(look, 0))
    }

    /// The new lines if every row kept its number.
    fn scrolled<'a>(&self, look: &'a PaneCapture) -> NewLines<'a> {
        let news = self.news(look, 0);
        // It scrolled, and none of the remembered lines is left: the screen was cleared in between.
        let above = self.lines.iter().any(|(row, _)| *row < self.cursor);
        let lost = look.state.history > self.history && above && self.score(look, 0) == 0;
        if lost { NewLines::Lost(news) } else { NewLines::Exactly(news) }
    }

    /// The new lines if at least `least` rows were dropped at the top. The number is found by comparing lines.
    fn shifted<'a>(&self, look: &'a PaneCapture, least: i64, step: i64) -> NewLines<'a> {
        let step = usize::try_from(step).unwrap_or(1).max(1);
        let most = self.lines.last().map_or(self.first, |(row, _)| *row);
        let end = look.state.history + look.state.height;
        let overlaps = |shift: &i64| self.first - shift <= end;
        let shifts = (least..=most).step_by(step).filter(overlaps);
        match best(shifts.filter_map(|shift| Some((self.likely(look, shift)?, shift)))) {
            Some((shift, true)) => NewLines::Exactly(self.news(look, shift)),
            Some((shift, false)) => NewLines::Lost(self.news(look, shift)),
            None => {
                NewLines::Lost(look.lines.iter().filter(|line| !line.text.is_empty()).collect())
            }
        }
    }

    /// The score of a shift if it is unlikely to be an accident: half of the lines that would remain match, and more
    /// than one, since prompts repeat.
    fn likely(&self, look: &PaneCapture, shift: i64) -> Option<usize> {
        let left = self.lines.iter().filter(|(row, _)| *row >= shift).count();
        let score = self.score(look, shift);
        (2 * score >= left && score >= self.lines.len().min(2)).then_some(score)
    }

    /// The new lines after the width changed, which changes all row numbers: lines are compared in their order.
    fn rewrapped<'a>(&self, look: &'a PaneCapture) -> NewLines<'a> {
        let written = look.lines.iter().filter(|line| !line.text.is_empty());
        let written: Vec<(&PaneLine, u64)> = written.map(|line| (line, hash(&line.text))).collect();
        let known: Vec<u64> = self.lines.iter().map(|(_, hash)| *hash).collect();
        let score = |at: usize| {
            let here = written.get(at..).unwrap_or_default().iter().zip(&known);
            here.filter(|((_, now), then)| now == *then).count()
        };
        let places = if self.history == 0 && !look.state.may_be_trimmed() {
            0..=0
        } else {
            0..=i64::try_from(written.len()).unwrap_or(i64::MAX)
        };
        let places = places.filter_map(|at| Some((score(usize::try_from(at).ok()?), at)));
        let found = if known.is_empty() { Some((0, true)) } else { best(places) };
        let Some((at, sure)) = found else {
            return NewLines::Lost(Vec::new());
        };
        let at = usize::try_from(at).unwrap_or_default();
        let old = |nth: usize, hash: u64| nth < at || known.get(nth - at) == Some(&hash);
        let news = written.iter().enumerate().filter(|(nth, (_, hash))| !old(*nth, *hash));
        let news = news.map(|(_, (line, _))| *line).collect();
        if sure { NewLines::Exactly(news) } else { NewLines::Lost(news) }
    }

    /// How many lines are unchanged if `shift` rows were dropped at the top.
    fn score(&self, look: &PaneCapture, shift: i64) -> usize {
        let same = |row: i64, known: u64| {
            let at = look.lines.binary_search_by_key(&(row - shift), |line| line.row).ok();
            at.and_then(|at| look.lines.get(at)).is_some_and(|line| hash(&line.text) == known)
        };
        self.lines.iter().filter(|(row, known)| same(*row, *known)).count()
    }

    /// The lines that changed if `shift` rows were dropped at the top. Empty lines count where the cursor has passed.
    fn news<'a>(&self, look: &'a PaneCapture, shift: i64) -> Vec<&'a PaneLine> {
        let known = |row: i64| {
            let at = self.lines.binary_search_by_key(&row, |(row, _)| *row).ok()?;
            self.lines.get(at).map(|(_, hash)| *hash)
        };
        let is_new = |line: &&PaneLine| {
            let row = line.row + shift;
            if line.text.is_empty() {
                return row > self.cursor && line.row < look.state.cursor;
            }
            row >= self.first && known(row) != Some(hash(&line.text))
        };
        look.lines.iter().filter(is_new).collect()
    }
}

/// The first position with the highest score, and whether no other position has that score.
fn best(places: impl Iterator<Item = (usize, i64)>) -> Option<(i64, bool)> {
    let mut found: Option<(usize, i64, bool)> = None;
    for (score, at) in places.filter(|(score, _)| *score > 0) {
        match found {
            Some((most, ..)) if score < most => {}
            Some((most, first, _)) if score == most => found = Some((most, first, false)),
            _ => found = Some((score, at, true)),
        }
    }
    found.map(|(_, at, only)| (at, only))
}

/// A hash of a text in a few bits. Its key is random for each process, so that no caller can test guesses of screen
/// content.
fn hash(text: &str) -> u64 {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    KEY.get_or_init(RandomState::new).hash_one(text) & HASH_MASK
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    /// A simulated grid that behaves as tmux's does when lines are printed.
    struct Grid {
        rows: Vec<String>,
        dropped: usize,
        limit: usize,
    }

    const TEST_HEIGHT: usize = 6;

    impl Grid {
        fn print(&mut self, line: String) {
            if self.rows.len() >= TEST_HEIGHT {
                let history = self.rows.len() - TEST_HEIGHT;
                if history >= self.limit {
                    let step = (self.limit / 10).max(1);
                    self.rows.drain(..step);
                    self.dropped += step;
                }
            }
            self.rows.push(line);
        }

        fn look(&self, whole: bool) -> PaneCapture {
            let history = self.rows.len().saturating_sub(TEST_HEIGHT);
            let skipped = if whole { 0 } else { history.saturating_sub(10) };
            let number = |size: usize| i64::try_from(size).unwrap();
            let rows = self.rows.iter().enumerate().skip(skipped);
            let lines = rows.map(|(row, text)| PaneLine { row: number(row), text: text.clone() });
            let numbers = format!(
                "{history}|{}|{TEST_HEIGHT}|80|{}|0|0|1|$0|1|1|0",
                self.rows.len().min(TEST_HEIGHT).saturating_sub(1),
                self.limit
            );
            let state = PaneState::parse(&numbers).unwrap();
            PaneCapture { state, lines: lines.collect(), first: number(skipped) }
        }
    }

    fn since(baseline: &Baseline, grid: &Grid) -> Option<Vec<String>> {
        let texts =
            |lines: Vec<&PaneLine>| Some(lines.iter().map(|line| line.text.clone()).collect());
        let (look, whole) = (grid.look(false), grid.look(true));
        match baseline.since(&look) {
            NewLines::Exactly(lines) => texts(lines),
            NewLines::Lost(_) => None,
            NewLines::LookFurther => match baseline.since(&whole) {
                NewLines::Exactly(lines) => texts(lines),
                other => {
                    assert_ne!(other, NewLines::LookFurther, "there is no more to look at");
                    None
                }
            },
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Lines are printed in random portions: the new lines are exactly those, and `Lost` is returned only if the
        /// remembered lines are gone.
        #[test]
        fn what_is_new_is_told_exactly(
            limit in 10..60_usize,
            portions in vec(0..40_usize, 1..20),
        ) {
            let mut grid = Grid { rows: Vec::new(), dropped: 0, limit };
            let mut printed = 0;
            let mut baseline = Baseline::of(&grid.look(false));
            for portion in portions {
                let (last, dropped) = (baseline.lines.last().map_or(-1, |(row, _)| *row), grid.dropped);
                let new: Vec<String> = (printed..printed + portion).map(|n| format!("line {n}")).collect();
                printed += portion;
                new.iter().cloned().for_each(|line| grid.print(line));
                let gone = i64::try_from(grid.dropped - dropped).unwrap();
                match since(&baseline, &grid) {
                    Some(told) => prop_assert_eq!(told, new),
                    // A single line that is left may match by accident.
                    None => prop_assert!(last - gone < 1, "two lines were left"),
                }
                baseline = Baseline::of(&grid.look(false));
            }
        }

        /// With equal lines: if fewer new lines are returned than were printed, the result is `Lost`.
        #[test]
        fn what_repeats_is_not_taken_for_what_was_there(
            limit in 10..60_usize,
            portions in vec(0..40_usize, 1..20),
        ) {
            let rows = vec!["y".to_owned(); TEST_HEIGHT + limit / 2];
            let mut grid = Grid { rows, dropped: 0, limit };
            let mut baseline = Baseline::of(&grid.look(false));
            for portion in portions {
                (0..portion).for_each(|_| grid.print("y".to_owned()));
                let told = since(&baseline, &grid).map(|lines| lines.len());
                let step = (limit / 10).max(1);
                prop_assert!(
                    told.is_none_or(|told| told == portion || portion % step == 0),
                    "{told:?} instead of {portion}"
                );
                baseline = Baseline::of(&grid.look(false));
            }
        }
    }
}
