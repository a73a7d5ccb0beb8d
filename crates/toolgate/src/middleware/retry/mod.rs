//! Retry: repeats a readonly call after a transient failure.
#![doc = include_str!("README.md")]

mod config;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use config::RetryConfig;

use crate::{
    call::Call,
    context::Context,
    duration,
    failure::Failure,
    layer::Next,
    layer_spec::{BadSettings, BuiltLayer, LayerInputs, LayerSpec},
    middleware::{Hooks, Middleware, Order},
    outcome::Outcome,
    registry::{self, Class, Code},
    selector::glob,
};

/// The layer's name.
pub const NAME: &str = "retry";

/// The declaration of the layer.
#[derive(Debug)]
pub struct RetrySpec;

impl LayerSpec for RetrySpec {
    fn name(&self) -> &'static str {
        NAME
    }

    fn why(&self) -> &'static str {
        "retries only permitted calls"
    }

    fn needed_for(&self, inputs: &LayerInputs) -> Option<&'static str> {
        inputs.get::<RetryConfig>().map(|_| "`[retry]`")
    }

    fn build(&self, inputs: &LayerInputs) -> Result<BuiltLayer, BadSettings> {
        let config = inputs.get::<RetryConfig>().cloned();
        Ok(BuiltLayer::if_some(config.map(Retry::new), "there is no `[retry]`"))
    }
}

/// Error messages longer than this are not compared with the patterns of `messages`.
const MAX_MESSAGE_BYTES: usize = 64 * 1024;

/// Repeats readonly calls after transient failures.
#[derive(Clone, Debug)]
pub struct Retry {
    config: RetryConfig,
}

impl Retry {
    /// Creates the layer with these settings.
    #[must_use]
    pub fn new(mut config: RetryConfig) -> Self {
        for message in &mut config.messages {
            *message = message.to_lowercase();
        }
        Self { config }
    }

    fn delay(&self, attempt: u32) -> Duration {
        let factor = 2_u32.saturating_pow(attempt);
        self.config.base_delay.saturating_mul(factor).min(self.config.max_delay)
    }
}

/// Whether the failure is transient. Not transient are: a denial, a timeout (the next attempt would take as long), a
/// cancellation (the client no longer wants the result) and an internal error.
fn is_transient(outcome: &Outcome) -> bool {
    let passes = outcome.failure().is_some_and(|f| f.retry() != registry::RetrySafety::Useless);
    passes
        && !matches!(
            outcome.class(),
            Class::Denied | Class::Cancelled | Class::TimedOut | Class::Internal
        )
}

impl Retry {
    /// Whether the operator listed this error of the server or the tool as transient, in `codes` or `messages`.
    fn is_named(&self, outcome: &Outcome) -> bool {
        if self.config.codes.is_empty() && self.config.messages.is_empty() {
            return false;
        }
        match (outcome.failure(), outcome.result()) {
            (Some(failure), _) => match failure.rpc() {
                Some(rpc) => self.config.codes.contains(&rpc.code) || self.fits(&rpc.message),
                None => failure.code() == Code::ToolFailed && self.fits(failure.message()),
            },
            (None, Some(result)) if result.is_error() => {
                let blocks = result.json().get("content").and_then(|json| json.array());
                let texts = blocks.iter().flatten().filter_map(|block| block.get("text"));
                texts.into_iter().any(|text| text.text().is_some_and(|text| self.fits(&text)))
            }
            _ => false,
        }
    }

    fn fits(&self, message: &str) -> bool {
        if message.len() > MAX_MESSAGE_BYTES || self.config.messages.is_empty() {
            return false;
        }
        let message = message.to_lowercase();
        self.config.messages.iter().any(|pattern| glob(pattern, &message))
    }
}

/// The outcome of a call that the client cancels between two attempts. It keeps only whether the failed
/// attempt executed.
fn given_up(last: &Outcome) -> Outcome {
    Failure::new(Code::Cancelled, "the call was cancelled before the retry")
        .by(NAME, "cancelled")
        .with_executed(last.executed())
        .into()
}

impl Middleware for Retry {
    fn name(&self) -> &'static str {
        NAME
    }

    fn decides(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        let named = match self.config.codes.len() + self.config.messages.len() {
            0 => String::new(),
            named => format!(", and after {named} kinds of errors of servers"),
        };
        format!(
            "readonly calls, up to {} more after a transient error{named}, first after {}",
            self.config.times,
            duration::format(self.config.base_delay)
        )
    }

    fn hooks(&self) -> Hooks {
        Hooks::CALL
    }

    fn order(&self) -> &'static [Order] {
        &[Order::Inside(super::audit::NAME, "a call is audited once, however often it is tried")]
    }

    fn needs_tools(&self) -> bool {
        true
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        let replay = match next.replayable(&call) {
            Ok(replay) => replay,
            Err(next) => return next.call(cx, call).await,
        };
        let cancel = cx.cancel().clone();
        for attempt in 0..self.config.times {
            let outcome = replay.attempt(cx, call.clone()).await;
            // The user's answer to a question of the server may be valid for one attempt only.
            let is_named = || cx.returned_input().is_none() && self.is_named(&outcome);
            if !is_transient(&outcome) && !is_named() {
                return outcome;
            }
            let delay = self.delay(attempt);
            tracing::debug!(tool = %call.id(), attempt, ?delay, "a readonly call is tried again");
            tokio::select! {
                biased;
                () = cancel.cancelled() => return given_up(&outcome),
                () = tokio::time::sleep(delay) => {}
            }
        }
        replay.attempt(cx, call).await
    }
}
