//! Checks layouts before tmux reads them: tmux 3.3a crashes on an invalid layout, and ends all programs in it.

use toolgate::Failure;

use crate::tool::invalid_arguments;

const LAYOUTS: &[&str] =
    &["even-horizontal", "even-vertical", "main-horizontal", "main-vertical", "tiled"];
/// The layouts that tmux 3.5 added. An older tmux reads them as invalid custom layouts.
const LAYOUTS_OF_3_5: &[&str] = &["main-horizontal-mirrored", "main-vertical-mirrored"];

/// The maximum nesting of cells.
const MAX_DEPTH: usize = 64;
/// The largest size that tmux allows.
const MAX_SIZE: u32 = 10_000;

/// Refuses a layout that tmux of this version cannot read.
pub(super) fn check(layout: &str, version: Option<&str>) -> Result<(), Failure> {
    let readable = LAYOUTS.contains(&layout)
        || LAYOUTS_OF_3_5.contains(&layout) && version.is_some_and(knows_later)
        || is_custom(layout);
    if readable {
        return Ok(());
    }
    Err(invalid_arguments(format!("invalid layout: {layout}")).suggest(
        "Use even-horizontal, even-vertical, main-horizontal, main-vertical, tiled, or a layout as window_layout \
         of get_window_info tells it.",
    ))
}

fn knows_later(version: &str) -> bool {
    let number = version.trim_end_matches(|char: char| char.is_ascii_alphabetic());
    let parts = number.split_once('.').map(|(one, two)| (one.parse::<u32>(), two.parse::<u32>()));
    matches!(parts, Some((Ok(one), Ok(two))) if (one, two) >= (3, 5))
}

/// Whether the text is a valid `CHECKSUM,CELL`, as tmux writes it.
fn is_custom(layout: &str) -> bool {
    let Some((sum, cells)) = layout.split_once(',') else {
        return false;
    };
    let sum_fits = sum.len() == 4 && u16::from_str_radix(sum, 16) == Ok(checksum(cells));
    sum_fits && cell(cells, 0) == Some("")
}

fn checksum(cells: &str) -> u16 {
    cells.bytes().fold(0, |sum: u16, byte| sum.rotate_right(1).wrapping_add(u16::from(byte)))
}

/// Reads `WxH,X,Y`, then `,PANE` or two or more cells in brackets; returns the rest.
fn cell(text: &str, depth: usize) -> Option<&str> {
    if depth > MAX_DEPTH {
        return None;
    }
    let (width, rest) = number(text)?;
    let (height, rest) = number(rest.strip_prefix('x')?)?;
    let (_, rest) = number(rest.strip_prefix(',')?)?;
    let (_, rest) = number(rest.strip_prefix(',')?)?;
    if width == 0 || height == 0 {
        return None;
    }
    let end = match rest.chars().next() {
        Some('{') => '}',
        Some('[') => ']',
        _ => return Some(pane(rest)),
    };
    let mut rest = cell(rest.get(1..)?, depth + 1)?.strip_prefix(',')?;
    loop {
        rest = cell(rest, depth + 1)?;
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return rest.strip_prefix(end),
        }
    }
}

/// Skips a pane number. A number before an `x` begins the next cell.
fn pane(text: &str) -> &str {
    match text.strip_prefix(',').and_then(number) {
        Some((_, rest)) if !rest.starts_with('x') => rest,
        _ => text,
    }
}

fn number(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    // Pane numbers may be larger than any size.
    let number = digits.parse().ok()?;
    (digits.len() <= 9 && (number <= MAX_SIZE || !rest.starts_with('x'))).then_some((number, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summed(cells: &str) -> String {
        format!("{:04x},{cells}", checksum(cells))
    }

    #[test]
    fn what_tmux_writes_can_be_read() {
        for layout in [
            "2758,120x40,0,0{39x40,0,0,0,39x40,40,0,2,40x40,80,0,1}",
            &summed("120x40,0,0,7"),
            &summed("120x40,0,0[120x20,0,0{60x20,0,0,1,59x20,61,0,22},120x19,0,21,3]"),
            "tiled",
        ] {
            assert!(check(layout, None).is_ok(), "{layout}");
        }
        assert!(check("main-vertical-mirrored", Some("3.5a")).is_ok());
    }

    #[test]
    fn what_would_crash_tmux_is_refused() {
        for layout in [
            "nope",
            "",
            "even",
            "0000,120x40,0,0,7",
            "2758",
            &summed(""),
            &summed("0x0,0,0,0"),
            &summed("120x40,0,0{}"),
            &summed("120x40,0,0{120x40,0,0,1}"),
            &summed("120x40,0,0{60x40,0,0,1,59x40,61,0,2]"),
            &summed("120x40,0,0{60x40,0,0,1,59x40,61,0,2"),
            &summed("120x40,0,0,1x"),
            &summed("99999x40,0,0,1"),
            &summed(&"1x1,0,0{".repeat(5000)),
        ] {
            assert!(check(layout, Some("3.3a")).is_err(), "{layout}");
        }
        assert!(check("main-vertical-mirrored", Some("3.3a")).is_err());
        assert!(check("main-vertical-mirrored", None).is_err());
    }
}
