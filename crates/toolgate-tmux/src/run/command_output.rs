//! The output of a command, limited to what a result may contain.

use crate::result_size::{LINE_OVERHEAD, cost};

/// The output in lines, and the counts of what was left out at its beginning.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandOutput {
    pub(crate) lines: Vec<String>,
    pub(crate) left_lines: usize,
    pub(crate) left_bytes: usize,
    /// Whether some output was never received, so that the counts are too small.
    pub(crate) missed: bool,
}

impl CommandOutput {
    /// Keeps the last lines: at most `most`, of at most `bytes` bytes.
    pub(crate) fn shorten(&mut self, most: usize, mut bytes: usize) {
        let mut from = self.lines.len();
        for line in self.lines.iter().rev().take(most) {
            let cost = line.chars().map(cost).sum::<usize>() + LINE_OVERHEAD;
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
        // If a single line is too long, its end is kept.
        if self.lines.is_empty() && !last.is_empty() {
            let fits = |char: &char| {
                let fits = cost(*char) + LINE_OVERHEAD <= bytes;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &[&str]) -> CommandOutput {
        CommandOutput {
            lines: lines.iter().map(ToString::to_string).collect(),
            ..CommandOutput::default()
        }
    }

    #[test]
    fn the_last_lines_stay_and_the_others_are_counted() {
        let mut some = text(&["one", "two", "three"]);
        some.shorten(usize::MAX, 1000);
        assert_eq!(some, text(&["one", "two", "three"]));
        some.shorten(2, 1000);
        assert_eq!(some, CommandOutput { left_lines: 1, left_bytes: 4, ..text(&["two", "three"]) });
        some.shorten(2, 20);
        assert_eq!(some, CommandOutput { left_lines: 2, left_bytes: 8, ..text(&["three"]) });
    }

    #[test]
    fn of_one_line_that_is_too_long_the_end_stays() {
        let mut long = text(&["first", "0123456789"]);
        long.shorten(usize::MAX, 16);
        assert_eq!(long, CommandOutput { left_lines: 1, left_bytes: 12, ..text(&["6789"]) });
    }
}
