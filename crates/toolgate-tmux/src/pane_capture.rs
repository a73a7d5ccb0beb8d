//! A capture of a pane: its state and its lines at the same moment.

use toolgate::Failure;

use crate::engine::{Batch, Command, Server, TmuxError};

/// The tmux format of the state. Its values are numbers and ids, so none contains the separator.
const FORMAT: &str = "#{history_size}|#{cursor_y}|#{pane_height}|#{pane_width}|#{history_limit}|#{pane_dead}|\
     #{alternate_on}|#{pane_pid}|#{session_id}|#{pid}|#{start_time}|#{alternate_saved_y}";

/// The state of a pane at the moment of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PaneState {
    /// The number of rows in the history.
    pub(crate) history: i64,
    /// The cursor's row, counted from the oldest row of the history.
    pub(crate) cursor: i64,
    pub(crate) height: i64,
    pub(crate) width: i64,
    /// The maximum number of rows in the history.
    pub(crate) limit: i64,
    pub(crate) dead: bool,
    /// Whether a full-screen program shows the alternate screen.
    pub(crate) alternate: bool,
    pub(crate) pid: i64,
    /// The cursor's row on the normal screen while the alternate screen is shown.
    hidden_cursor: i64,
    /// A session that contains the pane, as `$1`.
    pub(crate) session: String,
    /// Process id and start time of the tmux server.
    pub(crate) server: (i64, i64),
}

impl PaneState {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('|');
        let mut number = || parts.next()?.parse::<i64>().ok();
        let (history, cursor, height, width, limit) =
            (number()?, number()?, number()?, number()?, number()?);
        let (dead, alternate) = (number()? == 1, number()? == 1);
        let pid = number()?;
        let session = parts.next()?.to_owned();
        let mut number = || parts.next()?.parse::<i64>().ok();
        let server = (number()?, number()?);
        let hidden_cursor = history + number()?;
        let cursor = history + cursor;
        Some(Self {
            history,
            cursor,
            height,
            width,
            limit,
            dead,
            alternate,
            pid,
            hidden_cursor,
            session,
            server,
        })
    }

    /// How many rows tmux drops at once when the history is full.
    pub(crate) fn step(&self) -> i64 {
        (self.limit / 10).max(1)
    }

    /// Whether rows may have been dropped at the top. Right after that, the history is one step below its limit.
    pub(crate) fn may_be_trimmed(&self) -> bool {
        self.history >= self.limit - self.step()
    }
}

/// A line as a program wrote it: wrapped rows are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PaneLine {
    /// The line's first row, counted from the oldest row of the history.
    pub(crate) row: i64,
    /// The text without trailing spaces.
    pub(crate) text: String,
}

/// The lines and the state of a pane at one moment.
#[derive(Clone, Debug)]
pub(crate) struct PaneCapture {
    pub(crate) state: PaneState,
    pub(crate) lines: Vec<PaneLine>,
    /// The first row that was captured.
    pub(crate) first: i64,
}

impl PaneCapture {
    /// Captures a pane from a row on, counted from the top of the screen (negative: history), or with its whole
    /// history. tmux runs the commands as one list, so state and text belong together.
    pub(crate) async fn at(
        server: &Server,
        pane: &str,
        from: Option<i64>,
    ) -> Result<Self, TmuxError> {
        let start = from.map_or_else(|| "-".to_owned(), |row| row.to_string());
        let capture = |flag| {
            Command::new("capture-pane").flag("-p").flag(flag).target(pane).option("-S", &start)
        };
        let CapturedText { state, rows, joined } = read(server, pane, capture).await?;
        let first = from.map_or(0, |row| (state.history + row).max(0));
        Ok(Self { lines: lines(&rows, &joined, first), state, first })
    }

    /// Captures the normal screen while the alternate screen is shown; `None` if it is not shown.
    pub(crate) async fn hidden(server: &Server, pane: &str) -> Result<Option<Self>, TmuxError> {
        let capture = |flag| Command::new("capture-pane").flag("-apq").flag(flag).target(pane);
        let CapturedText { mut state, rows, joined } = read(server, pane, capture).await?;
        if !state.alternate {
            return Ok(None);
        }
        state.cursor = state.hidden_cursor;
        let first = state.history;
        Ok(Some(Self { lines: lines(&rows, &joined, first), state, first }))
    }

    /// Whether the whole history was captured.
    pub(crate) fn is_whole(&self) -> bool {
        self.first == 0
    }

    /// The lines on the screen, down to the last one with text.
    pub(crate) fn visible(&self) -> &[PaneLine] {
        let top =
            self.lines.partition_point(|line| line.row <= self.state.history).saturating_sub(1);
        let written = self.lines.iter().rposition(|line| !line.text.is_empty());
        let end = written.map_or(top, |last| last + 1);
        self.lines.get(top..end).unwrap_or_default()
    }
}

/// The state of a pane, and its text twice.
struct CapturedText {
    state: PaneState,
    /// One line for each row, with trailing spaces.
    rows: String,
    /// One line for each line of the program: wrapped rows are joined.
    joined: String,
}

/// Reads state and lines in one round trip.
async fn read(
    server: &Server,
    pane: &str,
    capture: impl Fn(&'static str) -> Command,
) -> Result<CapturedText, TmuxError> {
    let state = Command::new("display-message").flag("-p").target(pane).argument(FORMAT);
    // Joined lines do not show how many rows they had. The same rows, with trailing spaces, do.
    let printed = server.run(Batch::read([state, capture("-N"), capture("-J")])).await?;
    let mut texts = printed.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let (Some(state), Some(rows), Some(joined)) = (texts.next(), texts.next(), texts.next()) else {
        return Err(TmuxError::Garbled("there are fewer answers than commands"));
    };
    let state = PaneState::parse(&state).ok_or(TmuxError::Garbled("a pane without a state"))?;
    Ok(CapturedText { state, rows, joined })
}

/// Counts the rows of each line: as many as together contain its text.
fn lines(rows: &str, joined: &str, first: i64) -> Vec<PaneLine> {
    let (mut rows, mut row) = (rows.split('\n'), first);
    let line = |text: &str| {
        let (start, mut left) = (row, text.len());
        for part in rows.by_ref() {
            row += 1;
            left = left.saturating_sub(part.len());
            if left == 0 {
                break;
            }
        }
        PaneLine { row: start, text: text.trim_end_matches(' ').to_owned() }
    };
    joined.split('\n').map(line).collect()
}

/// Fails if the pane's program has ended or was replaced.
pub(crate) fn check_life(pane: &str, pid: i64, now: &PaneState) -> Result<(), Failure> {
    if now.dead {
        return Err(died(pane));
    }
    if now.pid != pid {
        let message = format!(
            "pane {pane} was respawned (pid {pid} -> {}); cursor/baseline anchor is no longer valid",
            now.pid
        );
        return Err(Failure::tool("ExpectedToolError", message)
            .suggest("Call it again: it then is about the new program."));
    }
    Ok(())
}

/// The failure for a pane that does not exist any more, or whose program has ended.
pub(crate) fn died(pane: &str) -> Failure {
    let message = format!("pane {pane} died; cursor/baseline anchor is no longer valid");
    Failure::tool("ExpectedToolError", message).suggest("Call list_panes for available panes.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_wrapped_are_one_line() {
        let found = lines("aaaa\naa  \n\nb \nccc", "aaaaaa  \n\nb \nccc", 7);
        let found: Vec<_> = found.iter().map(|line| (line.row, line.text.as_str())).collect();
        assert_eq!(found, [(7, "aaaaaa"), (9, ""), (10, "b"), (11, "ccc")]);
    }

    #[test]
    fn a_state_is_read_whole_or_not_at_all() {
        let state = PaneState::parse("5|2|6|20|2000|0|1|77|$3|40|99|1").unwrap();
        assert_eq!((state.cursor, state.session.as_str(), state.server), (7, "$3", (40, 99)));
        assert!(state.alternate && !state.dead);
        assert_eq!(PaneState::parse("|||||||||||"), None);
    }
}
