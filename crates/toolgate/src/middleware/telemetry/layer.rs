//! The layer itself: makes spans and metrics.

#[cfg(test)]
mod tests;

use toolgate_wire::mcp::method;

use super::{Instruments, NAME, ending::MeasuredEnd, running::Running};
use crate::{
    call::{Answer, Call, Listing, Request, ToolList},
    context::Context,
    failure::Failure,
    layer::Next,
    middleware::{Middleware, Order, audit::Redactor},
    outcome::Outcome,
};

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

    fn decides(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        match &self.redactor {
            Some(_) => "spans and metrics of every request, with redacted arguments".to_owned(),
            None => "spans and metrics of every request, without arguments".to_owned(),
        }
    }

    fn order(&self) -> &'static [Order] {
        &[
            Order::Outside(crate::middleware::response_limit::NAME, TIMED),
            Order::Outside(crate::middleware::call_id::NAME, TIMED),
            Order::Outside(crate::middleware::error_results::NAME, TIMED),
            Order::Outside(crate::middleware::log::NAME, "its records name the span"),
            Order::Outside(crate::middleware::audit::NAME, "its records name the span"),
            Order::Outside(crate::middleware::trail::NAME, "its records name the span"),
            Order::Outside(crate::middleware::overrides::NAME, TIMED),
            Order::Outside(crate::middleware::validate::NAME, REFUSED),
            Order::Outside(crate::middleware::filter::NAME, REFUSED),
            Order::Outside(crate::middleware::flags::NAME, REFUSED),
            Order::Outside(crate::middleware::policy::NAME, REFUSED),
            Order::Outside(crate::middleware::safety::NAME, REFUSED),
            Order::Outside(crate::middleware::scopes::NAME, REFUSED),
            Order::Outside(crate::middleware::preconditions::CONFIRM_ARGUMENT, TIMED),
            Order::Outside(crate::middleware::preconditions::NAME, REFUSED),
            Order::Outside(crate::middleware::rate_limit::NAME, REFUSED),
            Order::Outside(
                crate::middleware::retry::NAME,
                "a call counts once, however often it is tried",
            ),
            Order::Outside(
                crate::middleware::timeout::NAME,
                "calls that took too long are counted too",
            ),
            Order::Outside(crate::middleware::sanitize::NAME, TIMED),
        ]
    }

    /// A name is a label only if some listing had it.
    fn needs_tools(&self) -> bool {
        true
    }

    fn follows_traces(&self) -> bool {
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
            // No client sent this request: the gateway itself lists the tools.
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
