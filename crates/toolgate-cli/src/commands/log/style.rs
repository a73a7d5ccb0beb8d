//! Terminal output: colours, times and sizes.

use std::{borrow::Cow, io::IsTerminal as _};

use jiff::{Timestamp, Zoned, tz::TimeZone};
pub(in crate::commands) use toolgate::printable::line as clean;

pub(in crate::commands) use crate::wrapped::wrapped;

/// The colours, width and time zone of the output.
#[derive(Clone, Debug)]
pub(in crate::commands) struct Style {
    pub(in crate::commands) colours: bool,
    /// The width in characters; `None` if lines are not cut.
    pub(in crate::commands) width: Option<usize>,
    pub(in crate::commands) zone: TimeZone,
}

/// The purpose of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Paint {
    Plain,
    Good,
    Warn,
    Bad,
    Quiet,
    Strong,
}

impl Style {
    pub(in crate::commands) fn of_stdout() -> Self {
        let stdout = std::io::stdout();
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let terminal = || {
            let size = rustix::termios::tcgetwinsize(&stdout).ok()?;
            Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
        };
        Self {
            colours: stdout.is_terminal() && !is_set("NO_COLOR"),
            width: columns.or_else(terminal),
            zone: TimeZone::system(),
        }
    }

    /// The same for standard error.
    pub(in crate::commands) fn of_stderr() -> Self {
        let stderr = std::io::stderr();
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let size = rustix::termios::tcgetwinsize(&stderr).ok();
        let columns = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
        Self {
            colours: stderr.is_terminal() && !is_set("NO_COLOR"),
            width: columns,
            zone: TimeZone::system(),
        }
    }

    pub(in crate::commands) fn paint<'t>(&self, paint: Paint, text: &'t str) -> Cow<'t, str> {
        let code = match paint {
            Paint::Plain => return Cow::Borrowed(text),
            Paint::Good => "32",
            Paint::Warn => "33",
            Paint::Bad => "31",
            Paint::Quiet => "2",
            Paint::Strong => "1",
        };
        if self.colours && !text.is_empty() {
            Cow::Owned(format!("\u{1b}[{code}m{text}\u{1b}[0m"))
        } else {
            Cow::Borrowed(text)
        }
    }

    /// The time in the time zone of the reader.
    pub(in crate::commands) fn local(&self, at_us: i64) -> Zoned {
        let at = Timestamp::from_microsecond(at_us).unwrap_or(Timestamp::UNIX_EPOCH);
        at.to_zoned(self.zone.clone())
    }

    /// `17:48:03.123`
    pub(in crate::commands) fn time(&self, at_us: i64) -> String {
        self.local(at_us).strftime("%H:%M:%S%.3f").to_string()
    }
}

/// The colour of an outcome.
pub(in crate::commands) fn paint_of(outcome: &str) -> Paint {
    match outcome {
        "ok" => Paint::Good,
        "denied" | "preview" | "input_required" => Paint::Warn,
        "cancelled" => Paint::Quiet,
        _ => Paint::Bad,
    }
}

/// `1.2 ms`, with three digits.
pub(in crate::commands) fn took(us: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let us_f = us as f64;
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..100_000 => format!("{:.1} ms", us_f / 1e3),
        100_000..1_000_000 => format!("{:.0} ms", us_f / 1e3),
        1_000_000..100_000_000 => format!("{:.1} s", us_f / 1e6),
        _ => format!("{}m {:02}s", us / 60_000_000, us / 1_000_000 % 60),
    }
}

/// `1.2 kB`
pub(in crate::commands) fn size(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let bytes_f = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes_f / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes_f / 1e6),
        _ => format!("{:.1} GB", bytes_f / 1e9),
    }
}

/// How long ago, rounded.
pub(in crate::commands) fn ago(at_us: i64, now: Timestamp) -> String {
    let seconds = (now.as_microsecond() - at_us) / 1_000_000;
    match seconds {
        i64::MIN..0 => "in the future".to_owned(),
        0..120 => format!("{seconds}s ago"),
        120..7_200 => format!("{}m ago", seconds / 60),
        7_200..172_800 => format!("{}h ago", seconds / 3_600),
        _ => format!("{}d ago", seconds / 86_400),
    }
}

/// The last 8 characters of an id: ids of the same minute begin alike.
pub(in crate::commands) fn short(id: &str) -> &str {
    let start = id.char_indices().rev().nth(7).map_or(0, |(at, _)| at);
    id.get(start..).unwrap_or(id)
}

/// Cuts a text to `width` characters, with an ellipsis at the end.
pub(in crate::commands) fn fit(text: &str, width: usize) -> Cow<'_, str> {
    if text.chars().count() <= width {
        return Cow::Borrowed(text);
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    Cow::Owned(cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        let told = [0, 999, 1_204, 99_999, 123_456, 2_340_000, 99_900_000, 125_000_000].map(took);
        assert_eq!(
            told,
            ["0 µs", "999 µs", "1.2 ms", "100.0 ms", "123 ms", "2.3 s", "99.9 s", "2m 05s"]
        );
        let told = [0, 999, 1_204, 1_500_000, 2_000_000_000].map(size);
        assert_eq!(told, ["0 B", "999 B", "1.2 kB", "1.5 MB", "2.0 GB"]);
    }

    #[test]
    fn what_is_too_long_ends_with_an_ellipsis() {
        assert_eq!((fit("abcd", 4).as_ref(), fit("abcde", 4).as_ref()), ("abcd", "abc…"));
        assert_eq!(short("019c1429-7d00-7000-8000-00000a1b2c3d"), "0a1b2c3d");
        assert_eq!(short("é"), "é");
    }
}
