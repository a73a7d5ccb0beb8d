//! Turns what a program wrote to its terminal into lines of text.
//!
//! Lines are those of the program, however narrow the pane is. The last ones, as many as the pane is high, can still be
//! overwritten, as progress bars do. What is written to the alternate screen is no output.

use std::{collections::VecDeque, mem};

use vte::{Params, Parser, Perform};

use super::command_output::CommandOutput;

/// How many bytes are kept, from the end: more than a result may contain.
const MAX_OUTPUT_BYTES: usize = 1024 * 1024;
/// The longest line, in characters.
const MAX_LINE_CHARS: usize = MAX_OUTPUT_BYTES / 2;
/// The maximum number of rows that can be overwritten.
const MAX_LIVE_ROWS: usize = 500;

/// The number of our OSC sequences, which terminals ignore.
pub(super) const OSC: &str = "7717";

/// The progress of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Waiting,
    Running,
    /// The command ended with this exit status.
    Ended(i32),
}

/// Reads a pane's bytes and keeps those between the marks of one command.
pub(super) struct OutputReader {
    parser: Parser,
    terminal: Terminal,
}

impl OutputReader {
    /// For the command with these marks, in a pane of this height.
    pub(super) fn new(nonce: &str, height: usize) -> Self {
        Self { parser: Parser::new(), terminal: Terminal::new(nonce, height) }
    }

    pub(super) fn read(&mut self, bytes: &[u8]) -> Phase {
        self.parser.advance(&mut self.terminal, bytes);
        self.terminal.phase
    }

    /// Some bytes were missed: all output before them is discarded, so that the text has no gap.
    pub(super) fn missed(&mut self) {
        self.terminal.forget();
        self.terminal.missed = true;
        self.terminal.phase = Phase::Running;
        self.parser = Parser::new();
    }

    pub(super) fn finish(self) -> CommandOutput {
        self.terminal.finish()
    }
}

struct Terminal {
    nonce: Vec<u8>,
    phase: Phase,
    height: usize,
    done: VecDeque<String>,
    done_bytes: usize,
    /// The rows that can still be overwritten; never empty.
    live: VecDeque<Vec<char>>,
    row: usize,
    col: usize,
    saved: (usize, usize),
    /// The row that absolute positions count from.
    home: Option<usize>,
    alternate: bool,
    missed: bool,
    left_lines: usize,
    left_bytes: usize,
}

impl Terminal {
    fn new(nonce: &str, height: usize) -> Self {
        Self {
            nonce: nonce.as_bytes().to_vec(),
            phase: Phase::Waiting,
            height: height.clamp(1, MAX_LIVE_ROWS),
            done: VecDeque::new(),
            done_bytes: 0,
            live: VecDeque::from([Vec::new()]),
            row: 0,
            col: 0,
            saved: (0, 0),
            home: None,
            alternate: false,
            missed: false,
            left_lines: 0,
            left_bytes: 0,
        }
    }

    fn listens(&self) -> bool {
        self.phase == Phase::Running && !self.alternate
    }

    /// Adds rows down to the cursor, and completes the rows that can no longer be overwritten.
    fn settle(&mut self) {
        while self.live.len() <= self.row {
            self.live.push_back(Vec::new());
        }
        while self.live.len() > self.height {
            let first = self.live.pop_front().unwrap_or_default();
            self.keep(first.into_iter().collect());
            self.row = self.row.saturating_sub(1);
            self.saved.0 = self.saved.0.saturating_sub(1);
            self.home = self.home.map(|home| home.saturating_sub(1));
        }
    }

    /// Changes the cursor's line at the cursor's column.
    fn edit<T: Default>(&mut self, change: impl FnOnce(&mut Vec<char>, usize) -> T) -> T {
        self.settle();
        let col = self.col;
        self.live.get_mut(self.row).map(|line| change(line, col)).unwrap_or_default()
    }

    /// Adds a line that can no longer be overwritten.
    fn keep(&mut self, line: String) {
        self.done_bytes += line.len() + 1;
        self.done.push_back(line);
        while self.done_bytes > MAX_OUTPUT_BYTES {
            let Some(first) = self.done.pop_front() else { break };
            self.done_bytes -= first.len() + 1;
            self.left_lines += 1;
            self.left_bytes += first.len() + 1;
        }
    }

    fn forget(&mut self) {
        let live = mem::replace(&mut self.live, VecDeque::from([Vec::new()]));
        let bytes: usize = live.iter().flatten().map(|char| char.len_utf8()).sum();
        self.left_lines += self.done.len() + live.len() - 1;
        self.left_bytes += self.done_bytes + bytes;
        self.done.clear();
        (self.done_bytes, self.row, self.col, self.home) = (0, 0, 0, None);
    }

    fn put(&mut self, char: char) {
        self.edit(|line, col| {
            if line.len() < col {
                line.resize(col, ' ');
            }
            match line.get_mut(col) {
                Some(cell) => *cell = char,
                None => line.push(char),
            }
        });
        self.col += 1;
        if self.col > MAX_LINE_CHARS {
            self.left_bytes += self.edit(|line, _| {
                line.drain(..MAX_LINE_CHARS / 2).map(char::len_utf8).sum::<usize>()
            });
            self.col -= MAX_LINE_CHARS / 2;
        }
    }

    fn down(&mut self, rows: usize) {
        self.row += rows.min(self.height);
        self.settle();
    }

    /// Moves the cursor to a position from the top of the screen. Rows that were written before stay.
    fn go(&mut self, row: usize, col: usize) {
        let home = self.home.unwrap_or_else(|| self.start_screen());
        self.row = (home + row.clamp(1, self.height) - 1).min(home + self.height);
        self.col = col.clamp(1, MAX_LIVE_ROWS) - 1;
        self.settle();
    }

    /// Starts an empty screen below all rows.
    fn start_screen(&mut self) -> usize {
        self.row = self.live.len() - usize::from(self.live.back().is_some_and(Vec::is_empty));
        self.col = 0;
        self.settle();
        self.home = Some(self.row);
        self.row
    }

    fn erase_line(&mut self, how: usize) {
        self.edit(|line, col| match how {
            0 => line.truncate(col),
            1 => line.iter_mut().take(col + 1).for_each(|cell| *cell = ' '),
            _ => line.clear(),
        });
    }

    fn erase_below(&mut self) {
        self.erase_line(0);
        self.live.truncate(self.row + 1);
    }

    fn finish(mut self) -> CommandOutput {
        for line in mem::take(&mut self.live) {
            self.keep(line.into_iter().collect());
        }
        // After the last newline there is no line.
        self.done.pop_back_if(|last| last.is_empty());
        CommandOutput {
            lines: self.done.into(),
            left_lines: self.left_lines,
            left_bytes: self.left_bytes,
            missed: self.missed,
        }
    }
}

impl Perform for Terminal {
    fn print(&mut self, char: char) {
        if self.listens() {
            self.put(char);
        }
    }

    fn execute(&mut self, byte: u8) {
        if !self.listens() {
            return;
        }
        match byte {
            b'\n' | 0x0b | 0x0c => {
                self.col = 0;
                self.down(1);
            }
            b'\r' => self.col = 0,
            0x08 => self.col = self.col.saturating_sub(1),
            b'\t' => self.put('\t'),
            _ => {}
        }
    }

    fn osc_dispatch(&mut self, params: &[&[u8]], _bell: bool) {
        let [number, nonce, what] = params else { return };
        if *number != OSC.as_bytes() || *nonce != self.nonce {
            return;
        }
        let status = std::str::from_utf8(what).ok().and_then(|what| what.parse().ok());
        self.phase = match (self.phase, status) {
            (Phase::Ended(status), _) | (_, Some(status)) => Phase::Ended(status),
            (_, None) => Phase::Running,
        };
    }

    fn csi_dispatch(&mut self, params: &Params, marks: &[u8], _ignore: bool, action: char) {
        if self.phase != Phase::Running {
            return;
        }
        let number = |at: usize| {
            let given = params.iter().nth(at).and_then(|group| group.first().copied());
            usize::from(given.unwrap_or_default())
        };
        if marks == b"?" && matches!(action, 'h' | 'l') {
            let screens = params.iter().flatten().any(|mode| matches!(mode, 47 | 1047 | 1049));
            self.alternate = if screens { action == 'h' } else { self.alternate };
        }
        if !marks.is_empty() || self.alternate {
            return;
        }
        let count = number(0).max(1);
        match action {
            'A' | 'F' => self.row = self.row.saturating_sub(count),
            'B' | 'E' => self.down(count),
            'C' => self.col = (self.col + count).min(MAX_LINE_CHARS),
            'D' => self.col = self.col.saturating_sub(count),
            'G' | '`' => self.col = (count - 1).min(MAX_LINE_CHARS),
            'H' | 'f' => self.go(count, number(1).max(1)),
            'd' => self.go(count, self.col + 1),
            'J' if number(0) >= 2 => drop(self.start_screen()),
            'J' if number(0) == 0 => self.erase_below(),
            'K' => self.erase_line(number(0)),
            'P' => self.edit(|line, col| {
                let end = (col + count).min(line.len());
                line.drain(col.min(end)..end);
            }),
            's' => self.saved = (self.row, self.col),
            'u' => (self.row, self.col) = self.saved,
            _ => {}
        }
        if matches!(action, 'E' | 'F') {
            self.col = 0;
        }
    }

    fn esc_dispatch(&mut self, marks: &[u8], _ignore: bool, byte: u8) {
        if !marks.is_empty() || !self.listens() {
            return;
        }
        match byte {
            b'7' => self.saved = (self.row, self.col),
            b'8' => (self.row, self.col) = self.saved,
            b'M' => self.row = self.row.saturating_sub(1),
            b'c' => drop(self.start_screen()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rendered(written: &str) -> Vec<String> {
        let mut recording = OutputReader::new("n", 5);
        let all = format!("before\x1b]7717;n;B\x07{written}\x1b]7717;n;3\x07after");
        // Pieces may end inside of characters and sequences.
        let phase = all.as_bytes().chunks(3).fold(Phase::Waiting, |_, piece| recording.read(piece));
        assert_eq!(phase, Phase::Ended(3));
        recording.finish().lines
    }

    #[test]
    fn what_is_written_over_is_gone_and_the_rest_stays() {
        assert_eq!(rendered(""), [""; 0]);
        assert_eq!(rendered("a\r\n\r\nb"), ["a", "", "b"]);
        assert_eq!(rendered("10%\r100%\r\nab\x08c\r\n"), ["100%", "ac"]);
        assert_eq!(rendered("one\r\ntwo\r\n\x1b[2A\x1b[2KONE\r\n\x1b[Bend"), ["ONE", "two", "end"]);
        assert_eq!(rendered("\x1b[1;31mré\x1b[0m\x1b]0;title\x07d\x1b(B\tx"), ["réd\tx"]);
        assert_eq!(rendered("a\r\n\x1b[?1049hvim\x1b[?1049lb"), ["a", "b"]);
        assert_eq!(
            rendered("old\r\n\x1b[H\x1b[2J\x1b[3Jnew\x1b[3;2Hlow"),
            ["old", "new", "", " low"]
        );
    }

    #[test]
    fn marks_of_others_are_nothing() {
        assert_eq!(rendered("a\x1b]7717;m;0\x07b\x1b]7717;n\x07c\x1b]133;D;0\x07"), ["abc"]);
    }

    #[test]
    fn rows_that_scrolled_away_cannot_be_written_over() {
        let rows = "1 2 3 4 5 6 7 8 9 ".replace(' ', "\r\n");
        let up = rendered(&format!("{rows}\x1b[99Ax"));
        assert_eq!(up, ["1", "2", "3", "4", "5", "x", "7", "8", "9"]);
    }

    #[test]
    fn what_was_missed_leaves_only_what_came_after() {
        let mut recording = OutputReader::new("n", 5);
        recording.read(b"\x1b]7717;n;B\x07a\r\nb\r\nc");
        recording.missed();
        recording.read(b"d\r\n");
        let text = recording.finish();
        assert_eq!((text.lines, text.left_lines, text.missed), (vec!["d".to_owned()], 2, true));
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(pieces in prop::collection::vec(
            prop_oneof![
                "[a-z]{0,9}", "\\PC{0,5}", "\r?\n", "\x1b\\[[0-9;?]{0,6}[A-Za-z@`]", "\x1b[78Mc(]", "[\x00-\x1f]",
            ],
            0..200,
        )) {
            rendered(&pieces.concat().replace("\x1b]", ""));
        }
    }
}
