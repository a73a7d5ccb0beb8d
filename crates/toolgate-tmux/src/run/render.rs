//! What a program wrote to its terminal, as lines of text.
//!
//! Lines are those of the program, however narrow the pane is. The last ones, as many as the pane is high, can still be
//! written over, as progress bars do; what goes to the alternate screen is no output.

use std::{collections::VecDeque, mem};

use vte::{Params, Parser, Perform};

/// The most bytes that are kept, the last ones: more than any result may have.
const KEPT: usize = 1024 * 1024;
/// The longest line, in characters.
const LONGEST: usize = KEPT / 2;
/// Rows that can be written over, at most.
const TALLEST: usize = 500;

/// The number of our OSC sequences, which terminals pass over.
pub(super) const OSC: &str = "7717";

/// Text, and how much of it was left off at its beginning.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) lines: Vec<String>,
    pub(crate) left_lines: usize,
    pub(crate) left_bytes: usize,
    /// Whether some was never seen, so that the counts are too small.
    pub(crate) missed: bool,
}

impl Text {
    /// Keeps the last lines: as many as are asked for, and as fit into a result.
    pub(crate) fn shorten(&mut self, most: usize, mut bytes: usize) {
        let mut from = self.lines.len();
        for line in self.lines.iter().rev().take(most) {
            let cost = line.chars().map(cost).sum::<usize>() + LINE;
            if cost > bytes {
                break;
            }
            bytes -= cost;
            from -= 1;
        }
        self.left_lines += from;
        let mut left = self.lines.drain(..from).peekable();
        let mut last = String::new();
        while let Some(line) = left.next() {
            self.left_bytes += line.len() + 1;
            last = if left.peek().is_none() { line } else { String::new() };
        }
        drop(left);
        // Of one line that is too long by itself, the end.
        if self.lines.is_empty() && !last.is_empty() {
            let fits = |char: &char| {
                let fits = cost(*char) + LINE <= bytes;
                bytes = bytes.saturating_sub(cost(*char));
                fits
            };
            let kept: usize = last.chars().rev().take_while(fits).map(char::len_utf8).sum();
            let (_, end) = last.split_at(last.len() - kept);
            self.left_bytes -= end.len() + 1;
            self.left_lines -= 1;
            self.lines.push(end.to_owned());
        }
    }
}

/// The bytes of a line's quotes and comma in a result, which tells all twice: as JSON, and as JSON in a text.
const LINE: usize = 8;

fn cost(char: char) -> usize {
    match char {
        '"' | '\\' => 6,
        control if control.is_ascii_control() => 13,
        plain => 2 * plain.len_utf8(),
    }
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Waiting,
    Running,
    /// With this exit status.
    Ended(i32),
}

/// Reads a pane's bytes and keeps what comes between the marks of one run.
pub(super) struct Recording {
    parser: Parser,
    page: Page,
}

impl Recording {
    /// For the run with these marks, in a pane of this height.
    pub(super) fn new(nonce: &str, height: usize) -> Self {
        Self { parser: Parser::new(), page: Page::new(nonce, height) }
    }

    pub(super) fn read(&mut self, bytes: &[u8]) -> Phase {
        self.parser.advance(&mut self.page, bytes);
        self.page.phase
    }

    /// Some bytes were never seen: what came before them is left off, since no text has a hole in it.
    pub(super) fn missed(&mut self) {
        self.page.forget();
        self.page.missed = true;
        self.page.phase = Phase::Running;
        self.parser = Parser::new();
    }

    pub(super) fn finish(self) -> Text {
        self.page.finish()
    }
}

struct Page {
    nonce: Vec<u8>,
    phase: Phase,
    height: usize,
    done: VecDeque<String>,
    done_bytes: usize,
    /// The rows that can still be written over; never empty.
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

impl Page {
    fn new(nonce: &str, height: usize) -> Self {
        Self {
            nonce: nonce.as_bytes().to_vec(),
            phase: Phase::Waiting,
            height: height.clamp(1, TALLEST),
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

    /// Sees to it that the cursor's row is there, and that no more rows are than can be written over.
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

    /// Changes the cursor's line, at the cursor's column.
    fn edit<T: Default>(&mut self, change: impl FnOnce(&mut Vec<char>, usize) -> T) -> T {
        self.settle();
        let col = self.col;
        self.live.get_mut(self.row).map(|line| change(line, col)).unwrap_or_default()
    }

    /// A line that is not written over any more.
    fn keep(&mut self, line: String) {
        self.done_bytes += line.len() + 1;
        self.done.push_back(line);
        while self.done_bytes > KEPT {
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
        if self.col > LONGEST {
            self.left_bytes +=
                self.edit(|line, _| line.drain(..LONGEST / 2).map(char::len_utf8).sum::<usize>());
            self.col -= LONGEST / 2;
        }
    }

    fn down(&mut self, rows: usize) {
        self.row += rows.min(self.height);
        self.settle();
    }

    /// To a place that is counted from the top of the screen: what was written before stays.
    fn go(&mut self, row: usize, col: usize) {
        let home = self.home.unwrap_or_else(|| self.turn());
        self.row = (home + row.clamp(1, self.height) - 1).min(home + self.height);
        self.col = col.clamp(1, TALLEST) - 1;
        self.settle();
    }

    /// A new page below all that was written.
    fn turn(&mut self) -> usize {
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

    fn finish(mut self) -> Text {
        for line in mem::take(&mut self.live) {
            self.keep(line.into_iter().collect());
        }
        // After the last newline there is no line.
        self.done.pop_back_if(|last| last.is_empty());
        Text {
            lines: self.done.into(),
            left_lines: self.left_lines,
            left_bytes: self.left_bytes,
            missed: self.missed,
        }
    }
}

impl Perform for Page {
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
            'C' => self.col = (self.col + count).min(LONGEST),
            'D' => self.col = self.col.saturating_sub(count),
            'G' | '`' => self.col = (count - 1).min(LONGEST),
            'H' | 'f' => self.go(count, number(1).max(1)),
            'd' => self.go(count, self.col + 1),
            'J' if number(0) >= 2 => drop(self.turn()),
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
            b'c' => drop(self.turn()),
            _ => {}
        }
    }
}
