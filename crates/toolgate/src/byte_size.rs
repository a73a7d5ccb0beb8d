//! Sizes in settings: `1_000_000`, `"500kB"`, `"64MiB"`.

use serde::{Deserialize, Deserializer, de::Error as _};

/// The units, with the number of bytes that each stands for.
const UNITS: [(&str, u64); 9] = [
    ("b", 1),
    ("kb", 1000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

/// The pattern of a size with a unit, for editors.
#[cfg(feature = "schema")]
pub const SIZE_PATTERN: &str = "^[0-9_]+( *([kKmMgGtT][iI]?)?[bB])?$";

/// The error for a text that is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a number of bytes: write digits, as `1_000_000`, or a unit behind them, as `500kB`, `1MB` or `64MiB`"
)]
pub struct BadByteSize(String);

/// Parses `1000000`, `1_000_000`, `500kB`, `1 MB`, `64MiB`. `k`, `M`, `G` and `T` are powers of 1000, `Ki`, `Mi`, `Gi` and
/// `Ti` of 1024.
pub fn parse(text: &str) -> Result<u64, BadByteSize> {
    let bad = || BadByteSize(text.to_owned());
    let plain = text.trim().replace('_', "");
    let split = plain.find(|c: char| !c.is_ascii_digit()).unwrap_or(plain.len());
    let (number, unit) = plain.split_at(split);
    let number: u64 = number.parse().map_err(|_| bad())?;
    let unit = unit.trim_start().to_ascii_lowercase();
    let unit = if unit.is_empty() { "b" } else { &unit };
    let (_, bytes) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(bad)?;
    number.checked_mul(*bytes).ok_or_else(bad)
}

/// For `#[serde(deserialize_with)]` on a number of bytes.
pub fn deserialize<'de, D: Deserializer<'de>, T: TryFrom<u64>>(
    deserializer: D,
) -> Result<T, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a number of bytes, as 1_000_000 or \"64MiB\"")]
    enum Either {
        Number(u64),
        Text(String),
    }
    let bytes = match Either::deserialize(deserializer)? {
        Either::Number(bytes) => bytes,
        Either::Text(text) => parse(&text).map_err(D::Error::custom)?,
    };
    T::try_from(bytes).map_err(|_| {
        D::Error::custom(format!("`{bytes}` bytes are more than this machine can address"))
    })
}

/// The JSON Schema of a number of bytes.
#[cfg(feature = "schema")]
#[must_use]
pub fn schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"anyOf": [
        {"type": "integer", "minimum": 0},
        {"type": "string", "pattern": SIZE_PATTERN, "examples": ["64MiB"]},
    ]})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_a_unit_or_none() {
        for (text, bytes) in [
            ("5", 5),
            ("1_000_000", 1_000_000),
            ("1MB", 1_000_000),
            ("1 mb", 1_000_000),
            ("500kB", 500_000),
            ("64MiB", 64 << 20),
            ("2GiB", 2 << 30),
            ("12B", 12),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "MB", "1.5MB", "-1", "1 million", "1M", "99999999999999TB"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_setting_takes_both_forms() {
        #[derive(Deserialize)]
        struct Settings {
            #[serde(deserialize_with = "deserialize")]
            bytes: u32,
        }
        let read = |text: &str| serde_json::from_str::<Settings>(text).map(|read| read.bytes);
        assert_eq!(read(r#"{"bytes": 7}"#).unwrap(), 7);
        assert_eq!(read(r#"{"bytes": "7kB"}"#).unwrap(), 7000);
        assert!(read(r#"{"bytes": "7GB"}"#).unwrap_err().to_string().contains("more than"));
        assert!(read(r#"{"bytes": true}"#).unwrap_err().to_string().contains("64MiB"));
    }
}
