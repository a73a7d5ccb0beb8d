//! Durations in settings: `250ms`, `60s`, `5m`, `1h`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};

/// The error for a text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration: write a number and a unit, as `250ms`, `60s`, `5m` or `1h`")]
pub struct BadDuration(String);

/// Parses `250ms`, `60s`, `5m`, `1h`. Zero is an error: some would read it as "never", others as "at once".
pub fn parse(text: &str) -> Result<Duration, BadDuration> {
    let bad = || BadDuration(text.to_owned());
    let split = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().map_err(|_| bad())?;
    let millis = match unit {
        "ms" => Some(number),
        "s" => number.checked_mul(1000),
        "m" => number.checked_mul(60 * 1000),
        "h" => number.checked_mul(60 * 60 * 1000),
        _ => None,
    };
    match millis {
        Some(millis) if millis > 0 => Ok(Duration::from_millis(millis)),
        _ => Err(bad()),
    }
}

/// Formats a duration in the largest unit that needs no fraction.
#[must_use]
pub fn format(duration: Duration) -> String {
    let millis = duration.as_millis();
    for (unit, size) in [("h", 3_600_000), ("m", 60_000), ("s", 1000)] {
        if millis >= size && millis.is_multiple_of(size) {
            return format!("{}{unit}", millis / size);
        }
    }
    format!("{millis}ms")
}

/// For `#[serde(serialize_with)]` on a `Duration`.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format(*duration))
}

/// For `#[serde(deserialize_with)]` on a `Duration`.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes() {
        for text in ["250ms", "60s", "5m", "1h", "90s"] {
            let written = format(parse(text).unwrap());
            assert_eq!(parse(&written), parse(text));
        }
        assert_eq!(format(Duration::from_mins(1)), "1m");
        for wrong in ["", "5", "s", "-1s", "0s", "1 s", "1d", "99999999999999999999h"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
