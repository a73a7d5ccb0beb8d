//! Rate limit: limits the number of calls per second, minute, hour or day, for each caller.
#![doc = include_str!("README.md")]

mod config;
#[cfg(feature = "rate-limit")]
mod counters;
#[cfg(feature = "rate-limit")]
mod layer;
#[cfg(feature = "rate-limit")]
mod limiter;
#[cfg(feature = "rate-limit")]
mod rounds;

pub use config::{
    BadLimit, Daily, Dimension, Dimensions, QuotaRule, Rate, RateLimitConfig, RateRule, Selectors,
};
#[cfg(feature = "rate-limit")]
pub use counters::Counters;
#[cfg(feature = "rate-limit")]
pub use layer::RateLimit;

#[cfg(not(feature = "rate-limit"))]
use crate::layer_spec::LEFT_OUT;
use crate::layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec};

/// The layer's name.
pub const NAME: &str = "rate-limit";

/// The declaration of the layer.
#[derive(Debug)]
pub struct RateLimitSpec;

impl LayerSpec for RateLimitSpec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn why(&self) -> &'static str {
        "counts only calls that the access checks allow"
    }

    fn needed_for(&self, inputs: &LayerInputs) -> Option<&'static str> {
        let config = inputs.get::<RateLimitConfig>();
        config.filter(|config| config.is_on()).map(|_| "`limits.rate` or `limits.quota`")
    }

    fn missing_feature(&self) -> Option<&'static str> {
        (!cfg!(feature = "rate-limit")).then_some("rate-limit")
    }

    #[cfg(feature = "rate-limit")]
    fn add_state(&self, inputs: &mut LayerInputs) -> Result<(), BadSettings> {
        inputs.add_default::<Counters>();
        Ok(())
    }

    #[cfg(not(feature = "rate-limit"))]
    fn build(&self, _: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        Ok(BuiltLayer::off(LEFT_OUT))
    }

    #[cfg(feature = "rate-limit")]
    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        let config = inputs.get::<RateLimitConfig>().filter(|config| config.is_on());
        let counters = inputs.get_or_default::<Counters>();
        let layer = config.map(|config| RateLimit::new(config, counters)).transpose()?;
        Ok(BuiltLayer::if_some(layer, "there is neither `limits.rate` nor `limits.quota`"))
    }
}

/// Why the settings of the rate limit were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadRateLimit {
    /// A rule refuses every call, or limits none.
    #[error("the rule `{0}` of `limits.rate` is refused: name tools, and a burst of at least 1")]
    Empty(String),
    /// Two rules count the same calls.
    #[error(
        "`limits` has two rules that count the same calls, `{0}`: remove one of them, or tell them \
         apart by `tools`, `per` or `limit`"
    )]
    DuplicateRule(String),
    /// There is no rule.
    #[error("there is no rule in `limits.rate` or `limits.quota`: add one, or leave the layer out")]
    Nothing,
}
