//! The last lines of many, with true counts of what was left off.

/// The lines that fit, and what did not.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) lines: Vec<String>,
    /// How many lines were left off.
    pub(crate) left_lines: usize,
    /// How many bytes were left off, newlines counted.
    pub(crate) left_bytes: usize,
}

/// Keeps the last lines, at most so many, of at most so many bytes with a newline between them. Of a single line
/// that is too long, its end is kept.
pub(crate) fn tail(mut lines: Vec<String>, most: Option<usize>, bytes: Option<usize>) -> Tail {
    let size =
        |lines: &[String]| lines.iter().map(|line| line.len() + 1).sum::<usize>().saturating_sub(1);
    let (all, before) = (lines.len(), size(&lines));
    let (most, bytes) = (most.unwrap_or(usize::MAX), bytes.unwrap_or(usize::MAX));
    let (mut kept, mut used) = (0, 0_usize);
    for line in lines.iter().rev().take(most) {
        let more = used + line.len() + usize::from(kept > 0);
        if more > bytes {
            break;
        }
        (kept, used) = (kept + 1, more);
    }
    // The last line is told of in any case.
    let cut = kept == 0;
    lines.drain(..all.saturating_sub(kept.max(1)));
    if cut && let Some(line) = lines.last_mut() {
        let from = line.len().saturating_sub(bytes);
        let from = (from..=line.len()).find(|at| line.is_char_boundary(*at)).unwrap_or(line.len());
        line.drain(..from);
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
}
