//! Cuts one text to a size in JSON, between characters and, if possible, between lines.

use super::Keep;

/// Size of the header line with its number, in bytes of JSON.
pub(super) const HEADER_ROOM: usize = 64;

/// The header line, which tells how much is missing.
pub(super) fn header(dropped: usize) -> String {
    format!("[... truncated {dropped} bytes ...]")
}

/// Size of one byte of text in JSON.
fn cost(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 2,
        byte if byte < b' ' => 6,
        _ => 1,
    }
}

/// The end or start of `text` that fits in `budget` bytes of JSON.
pub(super) fn part(text: &str, budget: usize, keep: Keep) -> &str {
    match keep {
        Keep::Tail => {
            let from = text.len() - fitting(text.bytes().rev(), budget);
            let from = (from..text.len()).find(|at| text.is_char_boundary(*at));
            let (gone, kept) = text.split_at(from.unwrap_or(text.len()));
            if gone.is_empty() || gone.ends_with('\n') { kept } else { at_line_start(kept) }
        }
        Keep::Head => {
            let to = fitting(text.bytes(), budget);
            let to = (0..=to).rev().find(|at| text.is_char_boundary(*at));
            text.get(..to.unwrap_or(0)).unwrap_or_default()
        }
    }
}

/// The number of bytes that fit in the budget.
fn fitting(bytes: impl Iterator<Item = u8>, budget: usize) -> usize {
    let mut left = budget;
    let fits = |byte| {
        let rest = left.checked_sub(cost(byte));
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    bytes.map(fits).take_while(|fits| *fits).count()
}

/// Drops a partial line, unless it is a large part of the kept text.
fn at_line_start(kept: &str) -> &str {
    match kept.find('\n') {
        Some(at) if at < kept.len() / 10 => kept.get(at + 1..).unwrap_or(kept),
        _ => kept,
    }
}

/// `text` cut to `budget` bytes of JSON, with the header line in place of the missing part, and the number of missing
/// bytes.
pub(super) fn shorten(text: &str, budget: usize, keep: Keep) -> (String, usize) {
    // The original JSON may have used longer escapes such as `\u00e9`.
    if text.len() <= budget && part(text, budget, keep).len() == text.len() {
        return (text.to_owned(), 0);
    }
    let kept = part(text, budget.saturating_sub(HEADER_ROOM), keep);
    let dropped = text.len() - kept.len();
    let header = header(dropped);
    let short = match keep {
        Keep::Tail => format!("{header}\n{kept}"),
        Keep::Head => format!("{kept}\n{header}"),
    };
    (short, dropped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boundary_is_on_a_character_and_within_the_budget() {
        let text = "aé漢😀\n\"\u{1}\u{8}\u{c}\u{7f}\\".repeat(50);
        for keep in [Keep::Tail, Keep::Head] {
            for budget in 0..300 {
                let kept = part(&text, budget, keep);
                let cost = toolgate_wire::Json::string(kept).len() - 2;
                assert!(cost <= budget, "{cost} > {budget}");
                match keep {
                    Keep::Tail => assert!(text.ends_with(kept)),
                    Keep::Head => assert!(text.starts_with(kept)),
                }
            }
        }
    }

    #[test]
    fn a_line_that_was_cut_is_dropped_when_that_is_cheap() {
        let text = "0123456789\n".repeat(100);
        let kept = part(&text, 500, Keep::Tail);
        assert!(kept.starts_with("0123456789\n"), "{kept:?}");
        // Keeps whole lines if the budget is exact.
        assert_eq!(part(&text, 20 * 12, Keep::Tail), "0123456789\n".repeat(20));
        let long = "x".repeat(1000);
        assert_eq!(part(&long, 500, Keep::Tail).len(), 500);
    }

    #[test]
    fn dropped_and_kept_add_up() {
        let text = "line of text\n".repeat(1000);
        let (short, dropped) = shorten(&text, 1000, Keep::Tail);
        let (header, kept) = short.split_once('\n').unwrap();
        assert_eq!(header, format!("[... truncated {dropped} bytes ...]"));
        assert_eq!(kept.len() + dropped, text.len());
        let (short, dropped) = shorten(&text, 1000, Keep::Head);
        assert!(short.ends_with(&format!("\n[... truncated {dropped} bytes ...]")));
        assert_eq!(shorten("short", 5, Keep::Tail), ("short".to_owned(), 0));
    }
}
