//! Limits results to the last lines, and counts exactly what is left out.

use serde::Serialize;

/// The maximum text of a result in bytes. It is below the chain's limit for results (1 MB), which would cut text that
/// is not counted here.
pub(crate) const MAX_TEXT_BYTES: usize = 950_000;

/// The bytes of a line's quotes and comma in a result, which contains each line twice: as JSON, and as JSON inside a
/// string.
pub(crate) const LINE_OVERHEAD: usize = 8;

/// The bytes of a character in a result.
pub(crate) fn cost(char: char) -> usize {
    match char {
        '"' | '\\' => 6,
        control if control.is_ascii_control() => 13,
        plain => 2 * plain.len_utf8(),
    }
}

/// The bytes of a line in a result.
pub(crate) fn line_cost(line: &str) -> usize {
    line.chars().map(cost).sum::<usize>() + LINE_OVERHEAD
}

/// The bytes of a value in a result.
pub(crate) fn value_cost(value: &impl Serialize) -> usize {
    let json = serde_json::to_string(value).unwrap_or_default();
    // A result holds the value as JSON and again inside a JSON string, which escapes quotes and backslashes once more.
    2 * (json.len() + 1) + json.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count()
}

/// The text of a list. A list that does not fit twice is complete in the structured content, where rows can be counted,
/// and only its end is in the text.
pub(crate) fn list_text(rows: &[impl Serialize]) -> String {
    let whole: Vec<String> =
        rows.iter().map(|row| serde_json::to_string(row).unwrap_or_default()).collect();
    let escaped = |row: &String| {
        row.len() + 1 + row.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count()
    };
    let mut room = MAX_TEXT_BYTES.saturating_sub(whole.iter().map(|row| row.len() + 1).sum());
    let fits = |row: &&String| {
        let fits = escaped(row) <= room;
        room = room.saturating_sub(escaped(row));
        fits
    };
    let left_off = whole.len() - whole.iter().rev().take_while(fits).count();
    let kept = format!("[{}]", whole.get(left_off..).unwrap_or_default().join(","));
    match left_off {
        0 => kept,
        _ => format!("[... truncated {left_off} rows; structuredContent has them ...]\n{kept}"),
    }
}

/// The lines that fit, and the counts of what does not.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) lines: Vec<String>,
    /// How many lines were left out.
    pub(crate) left_lines: usize,
    /// How many bytes were left out, with newlines.
    pub(crate) left_bytes: usize,
}

/// Keeps the last lines: at most `most` lines of at most `bytes` bytes with their newlines, and no more than fit into a
/// result. If the last line alone is too long, its end is kept.
pub(crate) fn tail(lines: Vec<String>, most: Option<usize>, bytes: Option<usize>) -> Tail {
    tail_in(MAX_TEXT_BYTES, lines, most, bytes)
}

/// Like [`tail`], with `room` bytes instead of a whole result.
pub(crate) fn tail_in(
    mut room: usize,
    mut lines: Vec<String>,
    most: Option<usize>,
    bytes: Option<usize>,
) -> Tail {
    let size =
        |lines: &[String]| lines.iter().map(|line| line.len() + 1).sum::<usize>().saturating_sub(1);
    let (all, before) = (lines.len(), size(&lines));
    let (most, bytes) = (most.unwrap_or(usize::MAX), bytes.unwrap_or(usize::MAX));
    let (mut kept, mut used) = (0, 0_usize);
    for line in lines.iter().rev().take(most) {
        let more = used + line.len() + usize::from(kept > 0);
        let cost = line_cost(line);
        if more > bytes || cost > room {
            break;
        }
        (kept, used, room) = (kept + 1, more, room - cost);
    }
    // The last line is always kept, at least its end.
    let cut = kept == 0;
    lines.drain(..all.saturating_sub(kept.max(1)));
    if cut && let Some(line) = lines.last_mut() {
        let (mut left, mut room) = (bytes, room.saturating_sub(LINE_OVERHEAD));
        let fits = |char: &char| {
            let fits = char.len_utf8() <= left && cost(*char) <= room;
            (left, room) = (left.saturating_sub(char.len_utf8()), room.saturating_sub(cost(*char)));
            fits
        };
        let kept: usize = line.chars().rev().take_while(fits).map(char::len_utf8).sum();
        line.drain(..line.len() - kept);
    }
    Tail { left_lines: all - lines.len(), left_bytes: before - size(&lines), lines }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, most: Option<usize>, bytes: Option<usize>) -> (String, usize, usize) {
        let lines = text.split('\n').map(str::to_owned).collect();
        let tail = tail(lines, most, bytes);
        (tail.lines.join("\n"), tail.left_lines, tail.left_bytes)
    }

    #[test]
    fn the_end_is_kept_and_the_rest_is_counted() {
        assert_eq!(of("a\nb\nc", None, None), ("a\nb\nc".to_owned(), 0, 0));
        assert_eq!(of("a\nb\nc", Some(2), None), ("b\nc".to_owned(), 1, 2));
        assert_eq!(of("a\nb\nc", None, Some(3)), ("b\nc".to_owned(), 1, 2));
        assert_eq!(of("a\nb\nc", None, Some(4)), ("b\nc".to_owned(), 1, 2));
        assert_eq!(of("a\nééé", None, Some(3)), ("é".to_owned(), 1, 6));
        assert_eq!(tail(Vec::new(), Some(1), Some(1)), Tail::default());
    }

    #[test]
    fn a_list_that_has_no_room_twice_is_told_once() {
        assert_eq!(list_text(&["a", "b"]), r#"["a","b"]"#);
        assert_eq!(list_text(&[""; 0]), "[]");
        let long = vec!["x".repeat(9_996); 60];
        let (header, kept) =
            list_text(&long).split_once('\n').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        assert_eq!(header, "[... truncated 25 rows; structuredContent has them ...]");
        assert_eq!(serde_json::from_str::<Vec<String>>(&kept).unwrap().len(), 35);
    }

    #[test]
    fn there_is_only_so_much_room_in_a_result() {
        let lines = |lines: &[&str]| lines.iter().map(ToString::to_string).collect();
        let some = tail_in(40, lines(&["one", "two", "\"\"\""]), None, None);
        assert_eq!((some.lines, some.left_lines), (lines(&["two", "\"\"\""]), 1));
        let long = tail_in(16, lines(&["first", "0123456789"]), None, None);
        assert_eq!((long.lines, long.left_lines, long.left_bytes), (lines(&["6789"]), 1, 12));
    }
}
