//! `--since`: times as people write them.

use std::str::FromStr;

use jiff::{Timestamp, Zoned, civil, tz::TimeZone};

/// A moment in the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SinceTime(Timestamp);

impl SinceTime {
    pub(super) fn as_microsecond(self) -> i64 {
        self.0.as_microsecond()
    }

    fn read(text: &str, now: &Zoned) -> Option<Self> {
        let zone = now.time_zone();
        let local = |at: civil::DateTime| at.to_zoned(zone.clone()).ok().map(|at| at.timestamp());
        let day = |date: civil::Date| local(date.at(0, 0, 0, 0));
        if let Some(ago) = ago(text) {
            return now.timestamp().checked_sub(ago).ok().map(Self);
        }
        let at = match text {
            "today" => day(now.date()),
            "yesterday" => day(now.date().yesterday().ok()?),
            _ => None,
        };
        let at = at.or_else(|| text.parse::<Timestamp>().ok());
        let at = at.or_else(|| day(text.parse().ok()?).filter(|_| !text.contains(':')));
        let at = at.or_else(|| local(text.parse().ok()?));
        let at = at.or_else(|| {
            let time: civil::Time = text.parse().ok()?;
            local(now.date().to_datetime(time))
        });
        at.map(Self)
    }
}

/// `30m`, `2h`, `7d`, `1w`: how long ago.
fn ago(text: &str) -> Option<std::time::Duration> {
    let days = |count: &str, days: u64| {
        let count: u64 = count.parse().ok()?;
        Some(std::time::Duration::from_secs(count.checked_mul(days * 24 * 3600)?))
    };
    match text.strip_suffix('d').map(|count| days(count, 1)) {
        Some(ago) => ago,
        None => match text.strip_suffix('w').map(|count| days(count, 7)) {
            Some(ago) => ago,
            None => toolgate::duration::parse(text).ok(),
        },
    }
}

impl FromStr for SinceTime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let now = Timestamp::now().to_zoned(TimeZone::system());
        Self::read(text, &now).ok_or_else(|| {
            format!(
                "`{text}` is not a time: write how long ago, as `30m`, `2h` or `7d`, or a date, as `2026-01-31` or \
                 `2026-01-31T12:00:00Z`"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let now: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        SinceTime::read(text, &now.to_zoned(zone)).map(|since| since.0.to_string())
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, at) in [
            ("30m", "2026-01-31T11:30:00Z"),
            ("2h", "2026-01-31T10:00:00Z"),
            ("7d", "2026-01-24T12:00:00Z"),
            ("1w", "2026-01-24T12:00:00Z"),
            ("today", "2026-01-30T22:00:00Z"),
            ("yesterday", "2026-01-29T22:00:00Z"),
            ("2026-01-30", "2026-01-29T22:00:00Z"),
            ("2026-01-30 12:30", "2026-01-30T10:30:00Z"),
            ("2026-01-30T12:30:15", "2026-01-30T10:30:15Z"),
            ("2026-01-30T12:30:15Z", "2026-01-30T12:30:15Z"),
            ("2026-01-30T12:30:15+01:00", "2026-01-30T11:30:15Z"),
            ("12:30", "2026-01-31T10:30:00Z"),
        ] {
            assert_eq!(read(text).as_deref(), Some(at), "{text}");
        }
        for wrong in ["", "soon", "5", "d", "-1d", "99999999999999d", "2026-13-01", "25:00"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
