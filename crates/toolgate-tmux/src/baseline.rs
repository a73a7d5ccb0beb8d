//! What was on a pane's grid at one time, and what is new at a later one.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::OnceLock,
};

use crate::grid::{Line, Look, State};

/// So many lines are remembered at most, the last ones.
const MOST: usize = 200;
/// A line is remembered by so many bits.
const BITS: u64 = 0x00FF_FFFF;

/// The lines of a screen, remembered by row. Rows are counted from the oldest row of history, so that a line keeps
/// its row when it scrolls; when tmux drops old rows or wraps all anew, the lines themselves are looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Baseline {
    pub(crate) history: i64,
    pub(crate) cursor: i64,
    pub(crate) height: i64,
    pub(crate) width: i64,
    /// What is above this row is not remembered.
    pub(crate) first: i64,
    /// Row and hash of lines with text, from the top.
    pub(crate) lines: Vec<(i64, u64)>,
}

/// What is new.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Since<'a> {
    /// Exactly these lines.
    Exactly(Vec<&'a Line>),
    /// Lines may be missing, or be old: this is the best guess.
    Lost(Vec<&'a Line>),
    /// More has to be looked at.
    LookFurther,
}

impl Baseline {
    /// Remembers the screen.
    pub(crate) fn of(look: &Look) -> Self {
        let visible = look.visible();
        let visible = visible.get(visible.len().saturating_sub(MOST)..).unwrap_or_default();
        let written = visible.iter().filter(|line| !line.text.is_empty());
        let first = visible.first().map_or(look.state.history, |line| line.row);
        Self {
            first,
            lines: written.map(|line| (line.row, hash(&line.text))).collect(),
            ..Self::nothing(&look.state)
        }
    }

    /// Remembers where the screen is, and nothing of it: whatever is there later is new.
    pub(crate) fn nothing(state: &State) -> Self {
        let State { history, cursor, height, width, .. } = *state;
        Self { history, cursor, height, width, first: history, lines: Vec::new() }
    }

    /// From where to look, as [`Look::at`] counts, so that so many rows may have scrolled since.
    pub(crate) fn from(&self, scrolled: i64) -> i64 {
        self.first - self.history - scrolled
    }

    /// Whether the history was cleared: it shrank, and neither a taller screen nor its limit explains that.
    pub(crate) fn is_cleared(&self, now: &State) -> bool {
        let taller = (now.height - self.height).max(0);
        now.width == self.width && now.history < self.history - taller && !now.may_be_trimmed()
    }

    /// What is new in a later look.
    pub(crate) fn since<'a>(&self, look: &'a Look) -> Since<'a> {
        let now = &look.state;
        if now.width != self.width {
            return if look.is_whole() { self.rewrapped(look) } else { Since::LookFurther };
        }
        let reaches = look.first <= self.first;
        if self.is_cleared(now) {
            return if look.is_whole() { self.shifted(look, 1, 1) } else { Since::LookFurther };
        }
        if !now.may_be_trimmed() {
            return if reaches { self.scrolled(look) } else { Since::LookFurther };
        }
        if reaches && self.score(look, 0) == self.lines.len() {
            return Since::Exactly(self.news(look, 0));
        }
        if look.is_whole() {
            return self.shifted(look, 0, now.step());
        }
        Since::LookFurther
    }

    /// What was written over on a screen that does not scroll; nothing if it is another screen.
    pub(crate) fn written_over<'a>(&self, look: &'a Look) -> Option<Vec<&'a Line>> {
        let State { history, height, width, .. } = look.state;
        let same = (history, height, width) == (self.history, self.height, self.width);
        same.then(|| self.news(look, 0))
    }

    /// Every row is where it was.
    fn scrolled<'a>(&self, look: &'a Look) -> Since<'a> {
        let news = self.news(look, 0);
        // It scrolled, and nothing is left of what was there: then it was cleared in between.
        let above = self.lines.iter().any(|(row, _)| *row < self.cursor);
        let lost = look.state.history > self.history && above && self.score(look, 0) == 0;
        if lost { Since::Lost(news) } else { Since::Exactly(news) }
    }

    /// Rows were dropped at the top, no fewer than these: the lines themselves tell how many.
    fn shifted<'a>(&self, look: &'a Look, least: i64, step: i64) -> Since<'a> {
        let step = usize::try_from(step).unwrap_or(1).max(1);
        let last = self.lines.last().map_or(self.first, |(row, _)| *row);
        let end = look.state.history + look.state.height;
        let overlaps = |shift: &i64| self.first - shift <= end;
        let shifts = (least..=last).step_by(step).filter(overlaps);
        match best(shifts.filter_map(|shift| Some((self.likely(look, shift)?, shift)))) {
            Some((shift, true)) => Since::Exactly(self.news(look, shift)),
            Some((shift, false)) => Since::Lost(self.news(look, shift)),
            None => Since::Lost(look.lines.iter().filter(|line| !line.text.is_empty()).collect()),
        }
    }

    /// The score of a shift, if it is no accident: half of the lines that would still be there are, and more than
    /// one, for prompts are everywhere.
    fn likely(&self, look: &Look, shift: i64) -> Option<usize> {
        let left = self.lines.iter().filter(|(row, _)| *row >= shift).count();
        let score = self.score(look, shift);
        (2 * score >= left && score >= self.lines.len().min(2)).then_some(score)
    }

    /// The width changed and rows are other rows: lines are looked for in their order.
    fn rewrapped<'a>(&self, look: &'a Look) -> Since<'a> {
        let written = look.lines.iter().filter(|line| !line.text.is_empty());
        let written: Vec<(&Line, u64)> = written.map(|line| (line, hash(&line.text))).collect();
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
            return Since::Lost(Vec::new());
        };
        let at = usize::try_from(at).unwrap_or_default();
        let old = |nth: usize, hash: u64| nth < at || known.get(nth - at) == Some(&hash);
        let news = written.iter().enumerate().filter(|(nth, (_, hash))| !old(*nth, *hash));
        let news = news.map(|(_, (line, _))| *line).collect();
        if sure { Since::Exactly(news) } else { Since::Lost(news) }
    }

    /// How many lines are as they were, if so many rows were dropped at the top.
    fn score(&self, look: &Look, shift: i64) -> usize {
        let same = |row: i64, known: u64| {
            let at = look.lines.binary_search_by_key(&(row - shift), |line| line.row).ok();
            at.and_then(|at| look.lines.get(at)).is_some_and(|line| hash(&line.text) == known)
        };
        self.lines.iter().filter(|(row, known)| same(*row, *known)).count()
    }

    /// The lines that are not as they were, if so many rows were dropped at the top. Empty ones count where the
    /// cursor has passed.
    fn news<'a>(&self, look: &'a Look, shift: i64) -> Vec<&'a Line> {
        let known = |row: i64| {
            let at = self.lines.binary_search_by_key(&row, |(row, _)| *row).ok()?;
            self.lines.get(at).map(|(_, hash)| *hash)
        };
        let is_new = |line: &&Line| {
            let row = line.row + shift;
            if line.text.is_empty() {
                return row > self.cursor && line.row < look.state.cursor;
            }
            row >= self.first && known(row) != Some(hash(&line.text))
        };
        look.lines.iter().filter(is_new).collect()
    }
}

/// The place with the highest score, the first of them, and whether it is the only one.
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

/// A text by a few bits. The key is this process's own: nobody can try out what was on a screen.
fn hash(text: &str) -> u64 {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    KEY.get_or_init(RandomState::new).hash_one(text) & BITS
}
