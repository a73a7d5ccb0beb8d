//! Timeout: cancels a call that takes too long. The server receives the cancellation.
#![doc = include_str!("README.md")]

#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::{
    call::Call,
    context::Context,
    duration,
    failure::Failure,
    layer::Next,
    layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec},
    middleware::{Hooks, Middleware, Order},
    outcome::Outcome,
    registry::Code,
};

/// The layer's name.
pub const NAME: &str = "timeout";

/// The setting `limits.timeout`.
#[derive(Clone, Copy, Debug)]
pub struct CallTime(pub Duration);

/// The declaration of the layer.
#[derive(Debug)]
pub struct TimeoutSpec;

impl LayerSpec for TimeoutSpec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn why(&self) -> &'static str {
        "each attempt has its own timeout"
    }

    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        let limit = inputs.get::<CallTime>().map(|limit| Timeout::new(limit.0));
        Ok(BuiltLayer::if_some(limit, "`limits.timeout` is off"))
    }
}

/// The default timeout of a call. It is long because builds and test runs are calls too.
pub const DEFAULT: Duration = Duration::from_secs(5 * 60);

/// Cancels a call after a time.
///
/// ```
/// use std::time::Duration;
/// use toolgate::{Code, middleware::timeout::Timeout, testing::{self, Harness}};
///
/// let harness = Harness::new(Timeout::new(Duration::from_secs(5))).hangs();
/// assert_eq!(testing::run_paused(harness.call("slow", ())).code(), Some(Code::TimedOut));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Timeout {
    after: Duration,
}

impl Timeout {
    /// Creates a layer that cancels calls after this time.
    #[must_use]
    pub fn new(after: Duration) -> Self {
        Self { after }
    }
}

impl Middleware for Timeout {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decides(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        format!("a call is cancelled after {}", duration::format(self.after))
    }

    fn hooks(&self) -> Hooks {
        Hooks::CALL
    }

    fn order(&self) -> &'static [Order] {
        &[Order::Inside(super::retry::NAME, "each attempt has its own timeout")]
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        // The timeout drops the rest of the chain. That cancels the call, and the endpoint notifies the server.
        let Ok(outcome) = tokio::time::timeout(self.after, next.call(cx, call)).await else {
            let after = duration::format(self.after);
            return Failure::new(Code::TimedOut, format!("Tool execution timed out after {after}"))
                .suggest(
                    "Ask for less at once; the call may have run in part. Only the operator can raise limits.timeout.",
                )
                .by(NAME, format!("limits.timeout = {after}"))
                .into();
        };
        outcome
    }
}
