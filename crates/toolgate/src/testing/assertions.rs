//! Assertions on outcomes.

use serde_json::Value;

use crate::{Class, Code, Executed, Failure, Outcome};

/// The failure of a call that was refused with this code before the tool ran.
///
/// ```
/// use toolgate::{Code, Tier, middleware::safety::Safety, testing::{self, Harness, assert_denied, tool}};
///
/// let harness = Harness::new(Safety::new(Tier::Readonly)).tool(tool("drop", Tier::Destructive));
/// let outcome = testing::run_paused(harness.call("drop", ()));
/// let failure = assert_denied(&outcome, Code::TierDenied);
/// assert_eq!(failure.decided_by(), Some("safety"));
/// ```
///
/// # Panics
///
/// If the call was not refused, was refused with another code, or may have run.
#[track_caller]
pub fn assert_denied(outcome: &Outcome, code: Code) -> &Failure {
    let Some(failure) = outcome.failure() else {
        panic!("the call was not refused, it ended as `{}`", outcome.class());
    };
    let (class, found) = (outcome.class(), failure.code());
    assert!(
        class == Class::Denied && found == code,
        "the call ended as `{class}` with `{found}`, not refused with `{code}`: {failure}",
        found = found.name(),
        code = code.name(),
    );
    let executed = outcome.executed();
    assert!(executed == Executed::No, "records say that the tool ran: {}", executed.name());
    failure
}

/// The result that a client would receive, as a value.
///
/// # Panics
///
/// If the client would receive no result.
#[track_caller]
#[must_use]
pub fn result_value(outcome: &Outcome) -> Value {
    let Some(result) = outcome.result() else {
        let failure = outcome.failure().map_or("it has no answer", Failure::message);
        panic!("the call has no result, it ended as `{}`: {failure}", outcome.class());
    };
    result.json().to_value().expect("a result is JSON")
}

/// All texts of the result that a client would receive, joined by line ends.
///
/// # Panics
///
/// If the client would receive no result.
#[track_caller]
#[must_use]
pub fn text(outcome: &Outcome) -> String {
    let result = result_value(outcome);
    let parts = result.get("content").and_then(Value::as_array);
    let texts = parts.into_iter().flatten().filter_map(|part| part.get("text")?.as_str());
    texts.collect::<Vec<_>>().join("\n")
}
