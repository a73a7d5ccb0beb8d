//! Settings of the breaker: the table `[breaker]`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration;
use crate::layer_spec::LayerTable;

/// `[breaker]`: stops calling a server that keeps failing, for a while.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct BreakerConfig {
    /// The number of consecutive failures that opens the circuit.
    pub failures: u32,
    /// The share of failures among the last `of` calls that opens the circuit, from 0 to 1.
    pub share: f64,
    /// The number of calls for `share`, 1 to 64. Fewer calls never open the circuit by their share.
    pub of: u32,
    /// How long calls are refused; doubles with each failed trial.
    #[serde(with = "duration")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub wait: Duration,
    /// The longest time that calls are refused.
    #[serde(with = "duration")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub max_wait: Duration,
    /// Whose failures are counted together.
    pub per: BreakerScope,
}

/// Whose failures are counted together.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum BreakerScope {
    /// All calls to a server.
    #[default]
    Server,
    /// The calls of one tool.
    Tool,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self {
            failures: 5,
            share: 0.5,
            of: 20,
            wait: Duration::from_secs(10),
            max_wait: Duration::from_secs(2 * 60),
            per: BreakerScope::Server,
        }
    }
}

/// Why the settings of the breaker were refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadBreaker {
    /// It would open before anything failed.
    #[error("`breaker.failures` is 0: set 1 or more, or leave `[breaker]` out")]
    Failures,
    /// No share.
    #[error("`breaker.share` must be above 0 and at most 1")]
    Share,
    /// Out of range.
    #[error("`breaker.of` must be 1 to 64")]
    Of,
    /// The wait is no wait.
    #[error("`breaker.wait` must be longer than 0 and no longer than `breaker.max_wait`")]
    Wait,
}

impl BreakerConfig {
    pub(super) fn checked(&self) -> Result<(), BadBreaker> {
        if self.failures == 0 {
            return Err(BadBreaker::Failures);
        }
        if !(self.share > 0.0 && self.share <= 1.0) {
            return Err(BadBreaker::Share);
        }
        if !(1..=64).contains(&self.of) {
            return Err(BadBreaker::Of);
        }
        if self.wait.is_zero() || self.wait > self.max_wait {
            return Err(BadBreaker::Wait);
        }
        Ok(())
    }
}

impl LayerTable for BreakerConfig {
    fn narrows(old: Option<&Self>, new: Option<&Self>) -> bool {
        old == new || old.is_none()
    }
}
