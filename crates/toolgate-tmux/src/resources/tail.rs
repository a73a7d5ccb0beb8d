//! The output of a pane that is new since a client has last read it.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use toolgate::Failure;

use crate::{
    engine::{Batch, Command, Server, Socket, TmuxError, text},
    mask::ScreenRows,
};

/// How many rows of a pane's history are searched.
const MAX_HISTORY_ROWS: usize = 20_000;
/// How many rows are remembered to find a position again.
const POSITION_ROWS: usize = 20;
/// How many panes are remembered. A client that reads more of them starts from the beginning.
const MAX_PANES: usize = 256;

/// The first line if the new output cannot be determined.
const LOST: &str = "[... lines were missed, or the screen was cleared; this is the screen ...]";

/// How far a client has read, by pane.
#[derive(Debug, Default)]
pub(super) struct TailPositions(Mutex<HashMap<(Socket, String), TailPosition>>);

/// The last row that was read. If its text grows later, the row is read again.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TailPosition {
    pid: String,
    /// The row's number, counted from the first row of the history.
    row: usize,
    /// The row's text, after the texts of the rows above it.
    rows: Vec<String>,
}

/// The rows of a pane: history and screen.
#[derive(Debug)]
struct Screen {
    pid: String,
    /// How many rows of the history are not captured, above the first row here.
    skipped: usize,
    /// Whether tmux may have dropped old rows since the last capture: row numbers mean nothing then.
    trimmed: bool,
    /// The index in `rows` of the first row on the screen.
    top: usize,
    rows: Vec<String>,
    /// The same rows, with the places where tmux wrapped lines.
    grid: ScreenRows,
}

impl TailPositions {
    /// The new output; the screen at the first time. Secrets are masked if that is set.
    pub(super) async fn read(
        &self,
        server: &Server,
        pane: &str,
        mask: bool,
    ) -> Result<String, Failure> {
        let now = Screen::of(server, pane).await?;
        let key = (server.socket().clone(), pane.to_owned());
        let mut positions = self.positions();
        if positions.len() >= MAX_PANES && !positions.contains_key(&key) {
            positions.clear();
        }
        let before = positions.insert(key, now.position());
        Ok(now.since(before.as_ref(), mask))
    }

    fn positions(&self) -> MutexGuard<'_, HashMap<(Socket, String), TailPosition>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A text that differs whenever the pane has changed, as far as tmux shows.
pub(super) async fn stamp(server: &Server, pane: &str) -> Result<String, Failure> {
    let facts = Command::new("display-message").flag("-p").target(pane).argument(Screen::FACTS);
    let capture = Command::new("capture-pane").flag("-p").target(pane);
    let printed = server.run(Batch::read([facts, capture])).await?;
    Ok(printed.into_iter().map(text).collect::<Vec<_>>().join("\n"))
}

impl Screen {
    const FACTS: &str = "#{history_size} #{history_limit} #{pane_height} #{pane_pid}";

    async fn of(server: &Server, pane: &str) -> Result<Self, Failure> {
        let facts = Command::new("display-message").flag("-p").target(pane).argument(Self::FACTS);
        let capture = |flag: &'static str| {
            let capture = Command::new("capture-pane").flag("-p").flag(flag).target(pane);
            capture.option("-S", format!("-{MAX_HISTORY_ROWS}"))
        };
        let batch = Batch::read([facts, capture("-N"), capture("-J")]);
        let mut printed = server.run(batch).await?.into_iter().map(text);
        let mut next = || printed.next().unwrap_or_default();
        Self::new(&next(), &next(), &next())
            .ok_or_else(|| TmuxError::Garbled("a pane has no size").into())
    }

    fn new(facts: &str, captured: &str, joined: &str) -> Option<Self> {
        let mut words = facts.split(' ');
        let mut number = || words.next()?.parse::<usize>().ok();
        let (history, limit, height) = (number()?, number()?, number()?);
        let pid = words.next()?.to_owned();
        let grid = ScreenRows::new(captured, joined);
        let rows = captured.split('\n').map(|row| row.trim_end_matches(' ').to_owned());
        let mut rows: Vec<String> = rows.collect();
        while rows.pop_if(|row| row.is_empty()).is_some() {}
        let skipped = history.saturating_sub(MAX_HISTORY_ROWS);
        // At its limit, tmux drops a tenth of the history.
        let trimmed = history + height >= limit.saturating_sub(limit / 10);
        Some(Self { pid, skipped, trimmed, top: history - skipped, rows, grid })
    }

    fn position(&self) -> TailPosition {
        let first = self.rows.len().saturating_sub(POSITION_ROWS);
        let rows = self.rows.get(first..).unwrap_or_default().to_vec();
        TailPosition { pid: self.pid.clone(), row: self.skipped + self.rows.len(), rows }
    }

    fn since(&self, before: Option<&TailPosition>, mask: bool) -> String {
        let (lost, from) = self.new_since(before);
        let text = if mask { self.grid.masked(from) } else { self.grid.plain(from) };
        if lost { format!("{LOST}\n{text}") } else { text }
    }

    /// Whether lines were lost, and the first new row.
    fn new_since(&self, before: Option<&TailPosition>) -> (bool, usize) {
        let Some(before) = before else {
            return (false, self.top);
        };
        let Some(end) = self.find(before) else {
            return (true, self.top);
        };
        let same = end == 0 || self.rows.get(end - 1) == before.rows.last();
        (false, if same { end } else { end - 1 })
    }

    /// The number of captured rows that were read before.
    fn find(&self, before: &TailPosition) -> Option<usize> {
        if before.pid != self.pid {
            return None;
        }
        let above = before.rows.split_last().map_or(&[][..], |(_, above)| above);
        let fits = |end: usize| {
            let Some(last) = end.checked_sub(1) else { return before.rows.is_empty() };
            let first = last.checked_sub(above.len());
            last <= self.rows.len()
                && first.and_then(|first| self.rows.get(first..last)) == Some(above)
        };
        if !self.trimmed {
            let end = before.row.checked_sub(self.skipped)?;
            return (end <= self.rows.len() && fits(end)).then_some(end);
        }
        let mut found = (1..=self.rows.len()).filter(|end| fits(*end));
        found.next().filter(|_| found.next().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(facts: &str, captured: &str) -> Screen {
        Screen::new(facts, captured, captured).unwrap()
    }

    #[test]
    fn new_rows_are_told_once_and_a_row_that_grew_again() {
        let first = rows("1 2000 3 7", "a\nb\n$\n");
        assert_eq!(first.since(None, false), "b\n$");
        let position = first.position();
        assert_eq!(rows("1 2000 3 7", "a\nb\n$\n").since(Some(&position), false), "");
        assert_eq!(rows("1 2000 3 7", "a\nb\n$ x").since(Some(&position), false), "$ x");
        assert_eq!(
            rows("3 2000 3 7", "a\nb\n$ x\n1\n$").since(Some(&position), false),
            "$ x\n1\n$"
        );
        assert_eq!(rows("2 2000 3 7", "a\nb\n$\n$\n").since(Some(&position), false), "$");
    }

    #[test]
    fn what_cannot_be_told_says_so() {
        let position = rows("1 2000 3 7", "a\nb\nc").position();
        for other in
            [rows("0 2000 3 7", "x"), rows("1 2000 3 7", "a\nx\nc"), rows("1 2000 3 8", "a\nb\nc")]
        {
            assert!(other.since(Some(&position), false).starts_with(LOST), "{other:?}");
        }
        // Near the limit of the history, the position is found by its text if that occurs once.
        assert_eq!(
            rows("9 10 1 7", "b\nc\nd").since(Some(&rows("9 10 1 7", "a\nb\nc").position()), false),
            LOST.to_owned() + "\n"
        );
        assert_eq!(
            rows("9 10 1 7", "b\nc\nd").since(Some(&rows("9 10 1 7", "b\nc").position()), false),
            "d"
        );
        let same = rows("9 10 1 7", "y\ny\ny").position();
        assert!(rows("9 10 1 7", "y\ny\ny\ny").since(Some(&same), false).starts_with(LOST));
    }
}
