//! Telemetry: a span and measurements for every call, listing and request.
#![doc = include_str!("README.md")]

mod config;
mod ending;
mod instruments;
mod labels;
mod running;
#[cfg(test)]
mod tests;

use ending::MeasuredEnd;
use running::Running;
use toolgate_wire::mcp::method;

pub use config::TelemetryConfig;
pub use instruments::{Instruments, SCOPE};

use super::audit::Redactor;
use crate::{
    call::{Answer, Call, Listing, Request, ToolList},
    context::Context,
    failure::Failure,
    layer::Next,
    middleware::{Middleware, Order},
    outcome::Outcome,
};

/// The layer's name.
pub const NAME: &str = crate::middleware::TELEMETRY;

const REFUSED: &str = "calls that are refused are counted too";
const TIMED: &str = "what a caller waits for is measured whole";

/// Makes spans and metrics.
#[derive(Debug)]
pub struct Telemetry {
    instruments: Instruments,
    redactor: Option<Redactor>,
}

impl Telemetry {
    /// With these instruments.
    #[must_use]
    pub fn new(instruments: Instruments) -> Self {
        Self { instruments, redactor: None }
    }

    /// With the arguments of calls in their spans, as the redactor leaves them.
    #[must_use]
    pub fn telling_arguments(mut self, redactor: Redactor) -> Self {
        self.redactor = Some(redactor);
        self
    }
}

impl Middleware for Telemetry {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe(&self) -> String {
        match &self.redactor {
            Some(_) => "spans and metrics of every request, with redacted arguments".to_owned(),
            None => "spans and metrics of every request, without arguments".to_owned(),
        }
    }

    fn order(&self) -> &'static [Order] {
        &[
            Order::Outside(super::response_limit::NAME, TIMED),
            Order::Outside(super::call_id::NAME, TIMED),
            Order::Outside(super::error_results::NAME, TIMED),
            Order::Outside(super::log::NAME, "its records name the span"),
            Order::Outside(super::audit::NAME, "its records name the span"),
            Order::Outside(super::trail::NAME, "its records name the span"),
            Order::Outside(super::overrides::NAME, TIMED),
            Order::Outside(crate::middleware::VALIDATE, REFUSED),
            Order::Outside(super::filter::NAME, REFUSED),
            Order::Outside(super::flags::NAME, REFUSED),
            Order::Outside(super::policy::NAME, REFUSED),
            Order::Outside(super::safety::NAME, REFUSED),
            Order::Outside(super::scopes::NAME, REFUSED),
            Order::Outside(super::preconditions::CONFIRM_ARGUMENT, TIMED),
            Order::Outside(super::preconditions::NAME, REFUSED),
            Order::Outside(crate::middleware::RATE_LIMIT, REFUSED),
            Order::Outside(super::retry::NAME, "a call counts once, however often it is tried"),
            Order::Outside(super::timeout::NAME, "calls that took too long are counted too"),
            Order::Outside(crate::middleware::SANITIZE, TIMED),
        ]
    }

    /// A name is a label only if some listing had it.
    fn needs_tools(&self) -> bool {
        true
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        let running = Running::call(&self.instruments, cx, &call, self.redactor.as_ref());
        let outcome = next.call(cx, call).await;
        running.end(MeasuredEnd::of(&outcome), outcome.failure().and_then(Failure::rule));
        outcome
    }

    async fn list(
        &self,
        cx: &mut Context,
        listing: Listing,
        next: Next<'_>,
    ) -> Result<ToolList, Failure> {
        if cx.request_id().is_none() {
            // Nobody asked: the door itself wants to know what the chain shows.
            return next.list(cx, listing).await;
        }
        let running = Running::request(&self.instruments, cx, method::TOOLS_LIST);
        let listed = next.list(cx, listing).await;
        let failure = listed.as_ref().err();
        let ending = failure.map_or(MeasuredEnd::OK, MeasuredEnd::of_failure);
        running.end(ending, failure.and_then(Failure::rule));
        listed
    }

    async fn request(&self, cx: &mut Context, request: Request, next: Next<'_>) -> Answer {
        let running = Running::request(&self.instruments, cx, &request.method);
        let answer = next.request(cx, request).await;
        running.end(MeasuredEnd::of_answer(&answer), None);
        answer
    }
}
