//! Settings of the rate limit: `limits.rate` and `limits.quota`.

#[cfg(feature = "rate-limit")]
use std::time::Duration;
use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize};

use crate::selector::Selector;

/// The maximum of every limit and burst. Larger numbers would limit nothing, and their durations would overflow.
const MAX_CALLS: u32 = 1_000_000;

/// What is limited: `limits.rate` and `limits.quota`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct RateLimitConfig {
    /// Limits of calls per second, minute or hour.
    pub rate: Vec<RateRule>,
    /// Limits of calls per day.
    pub quota: Vec<QuotaRule>,
}

impl RateLimitConfig {
    /// Whether anything is limited.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !self.rate.is_empty() || !self.quota.is_empty()
    }
}

/// `{ tools = "search/*", per = "principal", limit = "10/s", burst = 20 }`
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RateRule {
    /// The tools that the rule limits. All of them count together, unless `per` contains `tool`.
    pub tools: Selectors,
    /// Which calls are counted together: those with the same value of all of these.
    #[serde(default)]
    pub per: Dimensions,
    /// The number of calls per second, minute or hour: `"10/s"`, `"100/m"` or `"1000/h"`.
    pub limit: Rate,
    /// The number of calls that may come at once; default: the number in `limit`.
    #[serde(default, deserialize_with = "burst")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 1_000_000)))]
    pub burst: Option<u32>,
}

/// `{ tools = "search/*", per = "principal", limit = "500/day" }`
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct QuotaRule {
    /// The tools that the rule limits. All of them count together, unless `per` contains `tool`.
    pub tools: Selectors,
    /// Which calls are counted together: those with the same value of all of these.
    #[serde(default)]
    pub per: Dimensions,
    /// The number of calls per day, which ends at midnight UTC: `"500/day"`.
    pub limit: Daily,
}

/// One selector, or a list of them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "OneOrMany<Selector>"))]
pub struct Selectors(pub Vec<Selector>);

/// What a person may write as one thing or as a list.
#[derive(Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    fn into_vec(self) -> Vec<T> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

impl<'de> Deserialize<'de> for Selectors {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Read as texts first: an untagged enum would swallow what is wrong with a selector.
        let texts = OneOrMany::<String>::deserialize(deserializer)?.into_vec();
        let selectors: Result<Vec<Selector>, _> = texts.iter().map(|text| text.parse()).collect();
        match selectors.map_err(serde::de::Error::custom)? {
            none if none.is_empty() => Err(serde::de::Error::custom(
                "an empty list of tools limits nothing: write `*/*` for all of them",
            )),
            selectors => Ok(Self(selectors)),
        }
    }
}

impl fmt::Display for Selectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&names.join(", "))
    }
}

/// One thing that tells calls apart.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Dimension {
    /// The caller.
    Principal,
    /// The namespace.
    Namespace,
    /// The tool.
    Tool,
    /// The connection.
    Session,
}

/// What tells calls apart: each combination is counted on its own. In order, each once.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "OneOrMany<Dimension>"))]
pub struct Dimensions(pub(super) Vec<Dimension>);

impl Dimensions {
    /// Tells calls apart by all of these.
    #[must_use]
    pub fn new(by: impl IntoIterator<Item = Dimension>) -> Self {
        let mut by: Vec<Dimension> = by.into_iter().collect();
        by.sort_unstable();
        by.dedup();
        Self(by)
    }
}

impl Default for Dimensions {
    fn default() -> Self {
        Self(vec![Dimension::Principal])
    }
}

impl<'de> Deserialize<'de> for Dimensions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let by = OneOrMany::<Dimension>::deserialize(deserializer).map_err(|_| {
            serde::de::Error::custom(
                "write `principal`, `namespace`, `tool` or `session`, or a list of them",
            )
        })?;
        match Self::new(by.into_vec()) {
            Self(none) if none.is_empty() => Err(serde::de::Error::custom(
                "an empty `per` counts no calls: write `namespace` to count all calls together",
            )),
            per => Ok(per),
        }
    }
}

impl fmt::Display for Dimensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, by) in self.0.iter().enumerate() {
            f.write_str(if at > 0 { " and " } else { "" })?;
            f.write_str(match by {
                Dimension::Principal => "principal",
                Dimension::Namespace => "namespace",
                Dimension::Tool => "tool",
                Dimension::Session => "session",
            })?;
        }
        Ok(())
    }
}

/// So many calls in a second, a minute or an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct Rate {
    pub(super) calls: u32,
    unit: char,
}

impl Rate {
    /// After how long one more call may come.
    #[cfg(feature = "rate-limit")]
    pub(super) fn interval(self) -> Duration {
        let seconds = match self.unit {
            'h' => 3600,
            'm' => 60,
            _ => 1,
        };
        Duration::from_secs(seconds) / self.calls.max(1)
    }
}

/// A text that is no limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadLimit {
    /// Not a rate.
    #[error(
        "`{0}` is not a rate: write `10/s`, `100/m` or `1000/h`, with at least 1 and at most {MAX_CALLS} calls"
    )]
    Rate(String),
    /// A quota where a rate belongs.
    #[error(
        "`{0}` is a quota: write it in `limits.quota`, or write a rate as `10/s`, `100/m` or `1000/h`"
    )]
    Quota(String),
    /// Not a quota.
    #[error(
        "`{0}` is not a quota: write `500/day`, with at least 1 and at most {MAX_CALLS} calls; rates as `10/s` belong in `limits.rate`"
    )]
    Daily(String),
}

fn number(text: &str) -> Option<u32> {
    let number = text.parse().ok().filter(|number| (1..=MAX_CALLS).contains(number));
    number.filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

impl FromStr for Rate {
    type Err = BadLimit;

    fn from_str(text: &str) -> Result<Self, BadLimit> {
        let bad = || BadLimit::Rate(text.to_owned());
        let (calls, unit) = text.split_once('/').ok_or_else(bad)?;
        let unit = match unit {
            "s" => 's',
            "m" => 'm',
            "h" => 'h',
            "d" | "day" => return Err(BadLimit::Quota(text.to_owned())),
            _ => return Err(bad()),
        };
        Ok(Self { calls: number(calls).ok_or_else(bad)?, unit })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.calls, self.unit)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// So many calls in a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(with = "String"))]
pub struct Daily(pub(super) u32);

impl FromStr for Daily {
    type Err = BadLimit;

    fn from_str(text: &str) -> Result<Self, BadLimit> {
        let calls = text.strip_suffix("/day").and_then(number);
        calls.map(Self).ok_or_else(|| BadLimit::Daily(text.to_owned()))
    }
}

impl fmt::Display for Daily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/day", self.0)
    }
}

impl<'de> Deserialize<'de> for Daily {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

fn burst<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    match u32::deserialize(deserializer)? {
        burst if (1..=MAX_CALLS).contains(&burst) => Ok(Some(burst)),
        burst => Err(serde::de::Error::custom(format!(
            "a burst of `{burst}` is refused: write at least 1 and at most {MAX_CALLS}"
        ))),
    }
}
