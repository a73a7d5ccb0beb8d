//! Masks values in a server's message: whole ones, their starts and ends, and shortened ones.

use std::ops::Range;

/// The replacement of a value.
const MASK: &str = "[value]";

/// Shorter values (`on`, `5`, `id`) are masked only in quotes, because they are common words.
const MIN_VALUE: usize = 4;
/// Longer values are masked by their ends too, because validators shorten them in the middle.
const MAX_WHOLE: usize = 16;
/// Smallest part of an end that counts as one.
const MIN_END: usize = 8;
/// Smallest part of an end that counts beside an ellipsis.
const MIN_STUMP: usize = 3;

/// A message and the ranges in it that have to be masked.
pub(in crate::middleware) struct Mask<'a> {
    message: &'a str,
    hidden: Vec<Range<usize>>,
    ellipses: Vec<Range<usize>>,
}

impl<'a> Mask<'a> {
    pub(in crate::middleware) fn new(message: &'a str) -> Self {
        let all = |dots: &'static str| {
            let found = message.match_indices(dots);
            found.map(|(at, dots)| at..at + dots.len())
        };
        let mut mask = Self {
            message,
            hidden: Vec::new(),
            ellipses: all("...").chain(all("\u{2026}")).collect(),
        };
        mask.hide_inputs();
        mask
    }

    /// Masks the value in Pydantic's messages: `[type=int_parsing, input_value='abc', input_type=str]`, however it is
    /// quoted, escaped or shortened.
    fn hide_inputs(&mut self) {
        let mut line_start = 0;
        for line in self.message.split_inclusive('\n') {
            if let Some(at) = line.find("input_value=") {
                let from = at + "input_value=".len();
                let rest = line.get(from..).unwrap_or_default();
                // The value may contain `, input_type`; the last one is the validator's.
                let length = rest
                    .rfind(", input_type")
                    .unwrap_or_else(|| rest.trim_end_matches(['\r', '\n']).len());
                let start = line_start + from;
                self.hidden.push(start..start + length);
            }
            line_start += line.len();
        }
    }

    /// Masks a value wherever it occurs.
    pub(in crate::middleware) fn hide(&mut self, value: &str) {
        match value.chars().take(MAX_WHOLE + 1).count() {
            0 => return,
            count if count < MIN_VALUE => {
                for quote in ['\'', '"', '`'] {
                    self.hide_whole(&format!("{quote}{value}{quote}"));
                }
                return;
            }
            count if count <= MAX_WHOLE => self.hide_whole(value),
            _ => self.hide_ends(value),
        }
        self.hide_stumps(value);
    }

    fn hide_whole(&mut self, value: &str) {
        let found = self.message.match_indices(value);
        self.hidden.extend(found.map(|(at, found)| at..at + found.len()));
    }

    /// Masks the longest start and the longest end of the value that occur in the message. The whole value is both.
    fn hide_ends(&mut self, value: &str) {
        let start = value.get(..start_of(value)).unwrap_or_default();
        let mut from = 0;
        while let Some(at) = self.message.get(from..).and_then(|rest| rest.find(start)) {
            let at = from + at;
            from = at + common_start(self.message.get(at..).unwrap_or_default(), value);
            self.hidden.push(at..from);
        }
        let end = value.get(end_of(value)..).unwrap_or_default();
        let mut to = self.message.len();
        while let Some(at) = self.message.get(..to).and_then(|rest| rest.rfind(end)) {
            let stop = at + end.len();
            to = stop - common_end(self.message.get(..stop).unwrap_or_default(), value);
            self.hidden.push(to..stop);
        }
    }

    /// Masks the parts of a value on both sides of an ellipsis, even short ones.
    fn hide_stumps(&mut self, value: &str) {
        for dots in &self.ellipses {
            let before = self.message.get(..dots.start).unwrap_or_default();
            let after = self.message.get(dots.end..).unwrap_or_default();
            let ends = value.char_indices().map(|(at, c)| at + c.len_utf8());
            let stumps = ends.take(MAX_WHOLE).skip(MIN_STUMP - 1);
            let stumps = stumps.filter_map(|end| value.get(..end));
            if let Some(stump) = stumps.filter(|stump| before.ends_with(stump)).last() {
                self.hidden.push(dots.start - stump.len()..dots.start);
            }
            let starts = value.char_indices().rev().map(|(at, _)| at);
            let stumps = starts.take(MAX_WHOLE).skip(MIN_STUMP - 1);
            let stumps = stumps.filter_map(|start| value.get(start..));
            if let Some(stump) = stumps.filter(|stump| after.starts_with(stump)).last() {
                self.hidden.push(dots.end..dots.end + stump.len());
            }
        }
    }

    /// The message with each range masked once.
    pub(in crate::middleware) fn finish(mut self) -> String {
        self.hidden.retain(|range| !range.is_empty());
        self.hidden.sort_unstable_by_key(|range| range.start);
        let mut clean = String::with_capacity(self.message.len());
        let mut told = 0;
        for range in self.hidden {
            // Merge adjacent and overlapping ranges.
            if told == 0 || range.start > told {
                clean.push_str(self.message.get(told..range.start).unwrap_or_default());
                clean.push_str(MASK);
            }
            told = told.max(range.end);
        }
        clean.push_str(self.message.get(told..).unwrap_or_default());
        clean
    }
}

/// The end of the shortest start of the value that counts.
fn start_of(value: &str) -> usize {
    let next = value.char_indices().nth(MIN_END);
    next.map_or(value.len(), |(at, _)| at)
}

/// The beginning of the shortest end of the value that counts.
fn end_of(value: &str) -> usize {
    let first = value.char_indices().rev().nth(MIN_END - 1);
    first.map_or(0, |(at, _)| at)
}

/// Length of the common start, in bytes of whole characters.
fn common_start(message: &str, value: &str) -> usize {
    let same = message.bytes().zip(value.bytes());
    let same = same.take_while(|(a, b)| a == b).count();
    (0..=same).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0)
}

/// Length of the common end, in bytes of whole characters.
fn common_end(message: &str, value: &str) -> usize {
    let same = message.bytes().rev().zip(value.bytes().rev());
    let same = same.take_while(|(a, b)| a == b).count();
    (0..=same)
        .rev()
        .find(|from_end| message.is_char_boundary(message.len() - from_end))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(message: &str, values: &[&str]) -> String {
        let mut mask = Mask::new(message);
        for value in values {
            mask.hide(value);
        }
        mask.finish()
    }

    #[test]
    fn a_value_goes_wherever_it_stands() {
        assert_eq!(masked("hunter2hunter2, hunter2", &["hunter2"]), "[value], [value]");
        assert_eq!(masked("`value` is bad: value", &["value"]), "`[value]` is bad: [value]");
        assert_eq!(masked("abcdef", &["abcd", "cdef"]), "[value]");
        assert_eq!(masked("nothing of it", &["hunter2", ""]), "nothing of it");
    }

    #[test]
    fn a_short_value_goes_in_quotes_only() {
        assert_eq!(
            masked("'on' is no number; based on it", &["on"]),
            "[value] is no number; based on it"
        );
    }

    #[test]
    fn a_long_value_goes_by_its_ends() {
        let value = "correct horse battery staple";
        assert_eq!(masked(&format!("<{value}>"), &[value]), "<[value]>");
        assert_eq!(masked("correct hor<cut>", &[value]), "[value]<cut>");
        assert_eq!(masked("<cut>ry staple", &[value]), "<cut>[value]");
        assert_eq!(masked("correct horse...ery staple", &[value]), "[value]...[value]");
        assert_eq!(
            masked("'corre…ple'", &[value]),
            "'[value]…[value]'",
            "what an ellipsis leaves is short"
        );
        assert_eq!(masked("that is correct", &[value]), "that is correct", "a word is no start");
    }

    #[test]
    fn cuts_are_on_characters() {
        // Differing characters may share their first or last byte.
        assert_eq!(masked("пароль пароп!", &["пароль пароль пароль"]), "[value]п!");
        assert_eq!(masked("Ѡabcdefghijklmnopq", &["xРabcdefghijklmnopq"]), "Ѡ[value]");
    }

    #[test]
    fn what_pydantic_quotes_goes_even_if_nobody_knows_the_value() {
        assert_eq!(
            masked(
                "n\n  bad [type=int_parsing, input_value='a, input_type', input_type=str]\nnext",
                &[]
            ),
            "n\n  bad [type=int_parsing, input_value=[value], input_type=str]\nnext"
        );
        assert_eq!(masked("x input_value={'a': 1\r\nnext", &[]), "x input_value=[value]\r\nnext");
    }

    #[test]
    fn repetition_costs_no_more_than_the_message_is_long() {
        let (message, value) = ("a".repeat(1 << 20), "a".repeat(1 << 19));
        assert_eq!(masked(&message, &[&value]), "[value]");
    }
}
