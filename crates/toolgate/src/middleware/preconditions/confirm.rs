//! Gets the confirmation of a call in a way that the client supports.

use serde_json::json;
use toolgate_wire::{
    Json, Limits,
    mcp::{member, method},
};

use super::{
    Fallback, Gate, NAME, Question,
    argument::ArgumentKey,
    binding::Binding,
    person, preview,
    seals::{Purpose, SealError, purpose_of},
};
use crate::{
    attribution::OWN,
    call::Call,
    client_input::{ClientInput, ElicitError, InputRound},
    context::Context,
    failure::Failure,
    outcome::{Outcome, ToolResult},
    registry::{Class, Code},
};

/// The key of toolgate's question among the input requests of a call.
const QUESTION: &str = "toolgate_confirm";

/// How a call was confirmed, in the call's extensions for its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Approval {
    /// The kind of confirmation.
    pub how: ConfirmedBy,
}

/// The kinds of confirmations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfirmedBy {
    /// The client's user, asked by elicitation.
    Elicitation,
    /// The client's user, asked by the result of the call (2026-07-28).
    InputResponse,
    /// A person outside of the client.
    Approval,
    /// A token that the caller got before.
    Token,
    /// `true` from the caller.
    Boolean,
    /// An earlier round of the same call.
    EarlierRound,
}

impl ConfirmedBy {
    /// The name in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation",
            Self::InputResponse => "input_response",
            Self::Approval => "approval",
            Self::Token => "token",
            Self::Boolean => "boolean",
            Self::EarlierRound => "carried",
        }
    }
}

/// A call that needs a confirmation.
#[derive(Clone, Copy)]
pub(super) struct ConfirmationRequest<'a> {
    pub(super) gate: &'a Gate,
    pub(super) call: &'a Call,
    pub(super) binding: &'a Binding,
    pub(super) question: &'a Question,
    /// The rule that asks.
    pub(super) rule: &'a str,
}

/// Whether the call comes with a confirmation. Does not use it up.
pub(super) fn has_confirmation(gate: &Gate, cx: &Context) -> bool {
    confirmation_of(cx).is_some_and(|json| match json.bool() {
        Some(yes) => yes && gate.config.boolean,
        None => json.text().is_some(),
    })
}

/// The caller's confirmation, in `_meta` or as an argument.
pub(super) fn confirmation_of(cx: &Context) -> Option<&Json> {
    let argument = cx.extensions().get::<ArgumentKey>().map(|key| &key.0);
    let given = cx.control().confirm.as_ref().or(argument);
    given.filter(|json| json.bool() != Some(false) && json.as_str() != "null")
}

/// Checks a state of toolgate on a call that needs no confirmation any more. The call runs only if the state was
/// issued for it.
pub(super) fn check_round(gate: &Gate, cx: &mut Context, call: &Call) -> Result<(), Outcome> {
    const RULE: &str = "requestState";
    let Some(round) = cx.gateway_input().cloned() else { return Ok(()) };
    let state = round.state.as_ref().and_then(Json::text).unwrap_or_default();
    let made_up = || refused(SealError::Tampered, RULE);
    let purpose = purpose_of(&state).filter(|purpose| *purpose != Purpose::Token);
    let purpose = purpose.ok_or_else(made_up)?;
    let binding = Binding::of(cx, call).map_err(|_| made_up())?;
    let inner = gate.seals.redeem(purpose, &state, &binding);
    let inner = inner.map_err(|error| refused(error, RULE))?;
    if purpose == Purpose::ServerState {
        cx.forward_input(InputRound {
            state: server_state(inner),
            responses: round.responses.clone(),
        });
    }
    Ok(())
}

/// The approval of this call, or the response to the caller.
pub(super) async fn confirm(
    gate: &Gate,
    cx: &mut Context,
    call: &Call,
    question: &Question,
    rule: &str,
) -> Result<Approval, Outcome> {
    let binding = Binding::of(cx, call).map_err(|twice| {
        let message = format!("The argument `{}` occurs twice", twice.0);
        let failure = Failure::new(Code::InvalidArguments, message);
        Outcome::from(failure.suggest("Give each argument once.").by(NAME, "readable"))
    })?;
    let request = ConfirmationRequest { gate, call, binding: &binding, question, rule };
    if let Some(approval) = existing_approval(request, cx)? {
        return Ok(approval);
    }
    match cx.client_input().clone() {
        ClientInput::ViaResult => Err(ask_by_result(request)),
        ClientInput::ViaElicitation(client) => {
            let asked = client.elicit(params(request, ElicitationMode::Unnamed));
            let cancel = cx.cancel().clone();
            let answer = tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(cancelled()),
                answer = tokio::time::timeout(gate.config.ttl, asked) => answer,
            };
            match answer {
                Ok(Ok(answer)) => read(&answer, ConfirmedBy::Elicitation, rule),
                Ok(Err(ElicitError::Unsupported)) => fall_back(request, cx).await,
                Ok(Err(ElicitError::Disconnected)) => Err(cancelled()),
                Err(_) => Err(refused(SealError::Expired, rule)),
            }
        }
        ClientInput::Unavailable => fall_back(request, cx).await,
    }
}

pub(super) fn cancelled() -> Outcome {
    Failure::new(Code::Cancelled, "the client cancelled the call")
        .with_executed(crate::Executed::No)
        .into()
}

/// The approval that the call contains, if it does.
fn existing_approval(
    request: ConfirmationRequest<'_>,
    cx: &mut Context,
) -> Result<Option<Approval>, Outcome> {
    let ConfirmationRequest { gate, binding, rule, .. } = request;
    let redeem = |purpose, text: &str| {
        let inner = gate.seals.redeem(purpose, text, binding);
        inner.map(str::to_owned).map_err(|error| refused(error, rule))
    };
    if let Some(round) = cx.gateway_input().cloned() {
        let state = round.state.as_ref().and_then(Json::text).unwrap_or_default().into_owned();
        if purpose_of(&state) == Some(Purpose::ServerState) {
            let inner = redeem(Purpose::ServerState, &state)?;
            cx.forward_input(InputRound {
                state: server_state(&inner),
                responses: round.responses,
            });
            return Ok(Some(Approval { how: ConfirmedBy::EarlierRound }));
        }
        let answer = round.responses.as_ref().and_then(|responses| responses.get(QUESTION));
        // Ask again if the repeated call contains no answer.
        let Some(answer) = answer else { return Ok(None) };
        redeem(Purpose::Question, &state)?;
        return read(&answer, ConfirmedBy::InputResponse, rule).map(Some);
    }
    let Some(given) = confirmation_of(cx) else { return Ok(None) };
    match (given.bool(), given.text()) {
        (Some(true), _) if gate.config.boolean => Ok(Some(Approval { how: ConfirmedBy::Boolean })),
        // `true` is not enough here: ask as without a confirmation.
        (Some(_), _) => Ok(None),
        // A token of an earlier config is invalid too if the agent may not confirm.
        (None, Some(token)) if gate.config.fallback.gives_token() => {
            redeem(Purpose::Token, &token)?;
            Ok(Some(Approval { how: ConfirmedBy::Token }))
        }
        (None, _) => Err(refused(SealError::Tampered, rule)),
    }
}

/// Reads the answer to a question. Only an explicit acceptance confirms.
fn read(answer: &Json, how: ConfirmedBy, rule: &str) -> Result<Approval, Outcome> {
    let confirmed = answer.get("content").and_then(|content| content.get("confirm"));
    let confirmed = confirmed.and_then(|json| json.bool());
    let action = answer.get("action");
    let action = action.as_ref().and_then(Json::text).unwrap_or_default();
    match (action.as_ref(), confirmed) {
        ("accept", Some(true)) => Ok(Approval { how }),
        ("cancel", _) => {
            let text = "The user closed the question without an answer: nothing was run";
            Err(Failure::new(Code::ConfirmCancelled, text).by(NAME, rule).into())
        }
        _ => {
            let text = "The user did not confirm the call: nothing was run";
            Err(Failure::new(Code::ConfirmDeclined, text).by(NAME, rule).into())
        }
    }
}

fn refused(error: SealError, rule: &str) -> Outcome {
    let (code, text) = match error {
        SealError::Tampered => (Code::ConfirmTampered, "toolgate did not issue this confirmation"),
        SealError::Expired => (Code::ConfirmExpired, "The confirmation came too late"),
        SealError::Replayed => (Code::ConfirmReplayed, "The confirmation was used before"),
        SealError::Mismatch => (Code::ConfirmMismatch, "The confirmation is for another call"),
        SealError::Crowded => (Code::Overloaded, "Too many calls were confirmed in a short time"),
    };
    let failure = Failure::new(code, format!("{text}: nothing was run")).by(NAME, rule);
    failure.with_executed(crate::Executed::No).into()
}

/// Whether the params of an elicitation name their mode: 2026-07-28 requires it, some legacy versions do not know it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ElicitationMode {
    Named,
    Unnamed,
}

/// The params of `elicitation/create`.
fn params(request: ConfirmationRequest<'_>, mode: ElicitationMode) -> Json {
    let ConfirmationRequest { gate, call, question, .. } = request;
    let why = if question.why.is_empty() { String::new() } else { format!("\n{}", question.why) };
    let mut params = json!({
        "message": format!("{OWN}Run this call?{why}\n{}", preview::shown(gate, call)),
        "requestedSchema": {
            "type": "object",
            "properties": {"confirm": {
                "type": "boolean",
                "title": "Run it",
                "description": "Yes runs exactly this call, once.",
            }},
            "required": ["confirm"],
        },
    });
    if mode == ElicitationMode::Named
        && let Some(params) = params.as_object_mut()
    {
        params.insert("mode".to_owned(), "form".into());
    }
    Json::value(&params)
}

fn ask_by_result(request: ConfirmationRequest<'_>) -> Outcome {
    let ConfirmationRequest { gate, binding, .. } = request;
    let state = match gate.seals.issue(Purpose::Question, binding, gate.config.ttl, "") {
        Ok(state) => state,
        Err(why) => return Failure::internal(why).into(),
    };
    let mut asked = toolgate_wire::Object::new();
    asked.set("method", Json::string(method::ELICITATION_CREATE));
    asked.set("params", params(request, ElicitationMode::Named));
    let mut requests = toolgate_wire::Object::new();
    requests.set(QUESTION, asked.finish());
    let mut result = toolgate_wire::Object::new();
    result.set(member::RESULT_TYPE, Json::string("input_required"));
    result.set(member::INPUT_REQUESTS, requests.finish());
    result.set(member::REQUEST_STATE, Json::string(&state));
    Outcome::asked(ToolResult::new(result.finish()))
}

/// The fallback for a client that cannot ask its user.
async fn fall_back(
    request: ConfirmationRequest<'_>,
    cx: &mut Context,
) -> Result<Approval, Outcome> {
    let ConfirmationRequest { gate, binding, .. } = request;
    if gate.config.fallback.gives_token() {
        let token = gate.seals.issue(Purpose::Token, binding, gate.config.ttl, "");
        let token = token.map_err(|why| Outcome::from(Failure::internal(why)))?;
        return Err(preview::unconfirmed(request, Some(&token)));
    }
    match (&gate.approvals, gate.config.fallback) {
        (Some(approvals), Fallback::Approval) => person::approval(request, &**approvals, cx).await,
        // Without an approvals store no person can be asked.
        _ => Err(preview::unconfirmed(request, None)),
    }
}

/// Seals the `requestState` of a server that asks for input during a confirmed call, so that the client's next round
/// needs no second confirmation.
pub(super) fn seal_server_state(
    gate: &Gate,
    cx: &Context,
    call: &Call,
    mut outcome: Outcome,
) -> Outcome {
    if outcome.class() != Class::InputRequired {
        return outcome;
    }
    let (Ok(binding), Some(result)) = (Binding::of(cx, call), outcome.result().cloned()) else {
        return outcome;
    };
    let Some(mut object) = result.json().object() else { return outcome };
    let inner =
        object.get(member::REQUEST_STATE).map_or_else(String::new, |s| s.as_str().to_owned());
    match gate.seals.issue(Purpose::ServerState, &binding, gate.config.ttl, &inner) {
        Ok(state) => {
            object.set(member::REQUEST_STATE, Json::string(&state));
            outcome.set_result(result.with_json(object.finish()));
            outcome
        }
        Err(why) => Failure::internal(why).with_executed(crate::Executed::Maybe).into(),
    }
}

fn server_state(inner: &str) -> Option<Json> {
    if inner.is_empty() { None } else { Json::parse(inner.to_owned(), &Limits::default()).ok() }
}
