//! The state of a pane and its screen at one moment, and the position of a typed line on it.

use toolgate::{Executed, Failure};

use crate::engine::{Batch, Command, Server, not_found, text};

/// The maximum number of rows between a typed line and the output after it: a shell may print something in between.
const MAX_ROWS_BETWEEN: usize = 3;

/// The tmux format of the state. Only its last value may contain spaces.
const FORMAT: &str = "#{?pane_dead,1,0} #{?pane_in_mode,1,0} #{?pane_synchronized,1,0} #{?pane_input_off,1,0} \
    #{pane_pid} #{cursor_x} #{cursor_y} #{pane_width} #{pane_height} #{session_id} #{pane_tty} \
    #{pane_current_command}";

/// A pane and its screen at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct PromptScreen {
    pub(super) pid: u32,
    pub(super) session: String,
    pub(super) tty: String,
    pub(super) current: String,
    pub(super) height: usize,
    /// Why the pane takes no input, if it does not.
    closed: Option<(&'static str, &'static str)>,
    width: usize,
    cursor: (usize, usize),
    rows: Vec<String>,
}

/// The position of a typed line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TypedLine {
    /// How many rows above the cursor it begins.
    above: usize,
    /// The column in which it begins.
    col: usize,
    /// The text before it: the last row of the prompt.
    prompt: String,
}

impl PromptScreen {
    /// Reads state and screen in one round trip.
    pub(super) async fn of(server: &Server, pane: &str) -> Result<Self, Failure> {
        let this = format!("#{{==:#{{pane_id}},{pane}}}");
        let facts = Command::new("list-panes").option("-f", this).option("-F", FORMAT).target(pane);
        let screen = Command::new("capture-pane").flag("-p").target(pane);
        let mut printed = server.run(Batch::read([facts, screen])).await?.into_iter();
        let facts = text(printed.next().unwrap_or_default());
        let screen = text(printed.next().unwrap_or_default());
        Self::parse(facts.trim_end_matches('\n'), &screen).ok_or_else(|| not_found::pane(pane))
    }

    fn parse(facts: &str, screen: &str) -> Option<Self> {
        let mut words = facts.splitn(12, ' ');
        let flags = [words.next()?, words.next()?, words.next()?, words.next()?];
        let reasons = [
            ("its program has ended", "Call respawn_pane to start a shell in it."),
            ("it is in copy mode or another mode of tmux", "Call exit_copy_mode first."),
            (
                "its window types into all panes at once (synchronize-panes)",
                "Turn that off with set_option, or use another pane.",
            ),
            ("its input is turned off", "Use another pane."),
        ];
        let closed = flags.iter().zip(reasons).find(|(flag, _)| **flag == "1");
        let mut number = || words.next()?.parse::<usize>().ok();
        let pid = u32::try_from(number()?).ok()?;
        let (x, y, width, height) = (number()?, number()?, number()?, number()?);
        Some(Self {
            pid,
            closed: closed.map(|(_, reason)| reason),
            cursor: (x, y),
            width,
            height,
            session: words.next()?.to_owned(),
            tty: words.next()?.to_owned(),
            current: words.next().unwrap_or_default().to_owned(),
            rows: screen.split('\n').map(str::to_owned).collect(),
        })
    }

    /// Refuses a pane that takes no input.
    pub(super) fn check(&self, pane: &str) -> Result<(), Failure> {
        self.closed.map_or(Ok(()), |closed| refuse(pane, closed))
    }

    /// Refuses a shell that waits for the rest of a command.
    pub(super) fn check_prompt(&self, pane: &str) -> Result<(), Failure> {
        let reason = (
            "its shell waits for the rest of a command that was begun",
            "Finish it with send_keys, or press C-c there with send_keys and enter=false.",
        );
        if self.continues() { refuse(pane, reason) } else { self.check(pane) }
    }

    /// Whether the prompt is one that shells show in the middle of a command: `> `, in zsh `quote> `.
    fn continues(&self) -> bool {
        let (x, y) = self.cursor;
        let row = self.rows.get(y).map_or("", String::as_str);
        let before: String = row.chars().take(x).collect();
        let Some(words) = before.trim_end().strip_suffix('>') else { return false };
        let known = [
            "quote",
            "dquote",
            "bquote",
            "cmdsubst",
            "heredoc",
            "pipe",
            "cmdand",
            "cmdor",
            "for",
            "while",
            "until",
            "if",
            "then",
            "else",
            "elif",
            "case",
            "function",
            "subsh",
            "cursh",
            "select",
            "repeat",
            "array",
            "braceparam",
            "mathsubst",
            "math",
            "cond",
            "foreach",
            "always",
            "errsubst",
        ];
        words.split(' ').filter(|word| !word.is_empty()).all(|word| known.contains(&word))
    }

    /// Finds a line that was typed and entered, just above the cursor.
    pub(super) fn find(&self, line: &str) -> Option<TypedLine> {
        let end = self.cursor.1;
        let rows = line.len().div_ceil(self.width.max(1)) + 1 + MAX_ROWS_BETWEEN;
        (1..=rows.min(end)).find_map(|above| {
            let joined = self.joined(end - above, end);
            let (prompt, _) = joined.split_once(line)?;
            (width(prompt) < self.width).then(|| TypedLine {
                above,
                col: width(prompt),
                prompt: prompt.to_owned(),
            })
        })
    }

    /// The text after the prompt, up to the cursor or to the end of its row.
    pub(super) fn half_typed(&self, prompt: &str, to_the_end: bool) -> String {
        let (x, y) = self.cursor;
        // If a line continues in the next row, its row is full.
        let fills = |row: &usize| self.rows.get(*row).is_some_and(|row| width(row) == self.width);
        let upwards = (0..=y).rev().take_while(|row| *row == y || fills(row));
        let begins = |row: &usize| self.joined(*row, row + 1).starts_with(prompt);
        let Some(row) = upwards.take(10).find(begins) else { return String::new() };
        let joined = self.joined(row, y + 1);
        let mut cells = (y - row) * self.width + x;
        let left = joined.chars().take_while(|char| {
            let fits = cells > 0;
            cells = cells.saturating_sub(cell(*char));
            fits
        });
        let left: String = left.collect();
        let typed = if to_the_end { joined.trim_end() } else { &left };
        typed.strip_prefix(prompt).unwrap_or_default().to_owned()
    }

    /// Whether the screen is empty right of the cursor.
    pub(super) fn ends_at_cursor(&self) -> bool {
        let (x, y) = self.cursor;
        self.rows.get(y).is_none_or(|row| width(row) <= x)
    }

    /// Rows as one text, each padded to the width of the pane.
    fn joined(&self, from: usize, to: usize) -> String {
        let mut joined = String::new();
        for row in self.rows.iter().take(to).skip(from) {
            joined.push_str(row);
            let rest = self.width.saturating_sub(width(row));
            joined.extend(std::iter::repeat_n(' ', rest));
        }
        joined
    }
}

fn refuse(pane: &str, (why, next): (&str, &'static str)) -> Result<(), Failure> {
    let message = format!("Nothing can be run in pane {pane} now: {why}");
    Err(Failure::tool("PaneNotReady", message).with_executed(Executed::No).suggest(next))
}

impl TypedLine {
    /// The last row of the prompt before the line.
    pub(super) fn prompt(&self) -> &str {
        &self.prompt
    }

    /// Escape sequences that remove the line and leave the cursor where it began, in the notation of `printf %b`.
    pub(super) fn erase(&self) -> String {
        format!("\\033[{}A\\033[{}G\\033[J", self.above, self.col + 1)
    }
}

fn width(text: &str) -> usize {
    text.chars().map(cell).sum()
}

/// How many columns a character takes: exact enough for prompts.
fn cell(char: char) -> usize {
    match u32::from(char) {
        0x0300..=0x036f | 0x200b..=0x200f | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe4f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1f6ff
        | 0x1f900..=0x1f9ff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}
