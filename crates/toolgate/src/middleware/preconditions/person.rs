//! Approvals by a person in another terminal, and the answers to the caller meanwhile.

use serde_json::json;

use super::{
    ApprovalError, ApprovalNote, ApprovalRequest, Approvals, Decision, DecisionInfo, NAME,
    confirm::{Approval, ConfirmationRequest, ConfirmedBy},
    preview,
};
use crate::{
    context::Context,
    failure::{Executed, Failure},
    outcome::Outcome,
    registry::Code,
};

/// Returns a person's approval of the call. The error is the response to the caller: the call waits for a decision, was
/// denied, or cannot be submitted.
pub(super) async fn approval(
    asked: ConfirmationRequest<'_>,
    approvals: &dyn Approvals,
    cx: &mut Context,
) -> Result<Approval, Outcome> {
    let ConfirmationRequest { gate, call, binding, question, rule } = asked;
    let session = cx.session();
    let (arguments, is_whole) = preview::arguments(&gate.redactor, call);
    let request = ApprovalRequest {
        call: binding.0,
        principal: session.principal.to_string(),
        namespace: session.namespace.to_string(),
        client: cx.client().map(ToString::to_string),
        server: call.id().server().to_owned(),
        tool: call.id().name().to_owned(),
        // A precondition may quote the arguments.
        why: preview::shown_text(&gate.redactor, &question.why),
        rule: rule.to_owned(),
        arguments,
        is_whole,
        ttl: gate.config.ttl,
        max_pending: gate.config.max_pending,
    };
    let decided = async {
        let decision = approvals.request(&request).await?;
        match gate.config.wait {
            Some(wait) if matches!(decision, Decision::Pending { .. }) => {
                approvals.wait(&request, wait).await
            }
            _ => Ok(decision),
        }
    };
    let cancel = cx.cancel().clone();
    let decision = tokio::select! {
        biased;
        decision = decided => decision.map_err(|error| failed(&error, &request, rule))?,
        () = cancel.cancelled() => return Err(super::confirm::cancelled()),
    };
    cx.extensions_mut().insert(ApprovalNote::from(&decision));
    match decision {
        Decision::Approved(DecisionInfo { .. }) => Ok(Approval { how: ConfirmedBy::Approval }),
        Decision::Pending { id, expires } => Err(preview::pending(asked, &id, expires)),
        Decision::Denied { decided, reason, until } => {
            Err(denied(&decided, reason.as_deref(), until, rule))
        }
    }
}

fn denied(
    decided: &DecisionInfo,
    reason: Option<&str>,
    until: jiff::Timestamp,
    rule: &str,
) -> Outcome {
    let because = reason.map_or_else(String::new, |reason| format!(" The reason: {reason}"));
    let text = format!("A person denied this call: nothing was run.{because}");
    let next = "Do not repeat the call. Tell the user that it was denied, and do something else.";
    let facts = json!({
        "id": decided.id,
        "state": "denied",
        "reason": reason,
        "denied_until": format!("{until:.0}"),
    });
    let failure = Failure::new(Code::ConfirmDeclined, text).suggest(next).by(NAME, rule);
    failure.with_fact("approval", facts).into()
}

fn failed(error: &ApprovalError, request: &ApprovalRequest, rule: &str) -> Outcome {
    let (code, text, next) = match error {
        ApprovalError::Full(most) => (
            Code::RateLimited,
            format!(
                "Nothing was run: {most} calls of `{}` wait for approval already, which is the bound \
                 (`confirm.max_pending`)",
                request.principal
            ),
            "Wait until a person has decided some of them, or until they expire.",
        ),
        ApprovalError::TooLarge { .. } => (
            Code::InvalidArguments,
            format!("Nothing was run: this call needs a person's approval, and {error}"),
            "Split the call into smaller ones that a person can read.",
        ),
        ApprovalError::Unavailable(why) => {
            tracing::error!("approvals cannot be kept, so calls that need one are refused: {why}");
            (
                Code::Internal,
                "Nothing was run: this call needs a person's approval, and approvals cannot be kept right now"
                    .to_owned(),
                "Tell the user; the operator finds the cause in the log of toolgate.",
            )
        }
    };
    Failure::new(code, text).suggest(next).by(NAME, rule).with_executed(Executed::No).into()
}
