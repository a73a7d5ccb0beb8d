//! Suspended calls: a legacy server requested input during a call of a client of 2026-07-28. The gateway answers the call
//! with a result that asks for the input, and resumes the call when the client repeats it with the input.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use toolgate::{DuplicateKey, Executed, Failure, Fingerprint};
use toolgate_wire::{
    self as wire, Id, Json, Message, Object,
    mcp::{member, method},
};

use crate::{
    ids::random_id,
    upstream::in_flight::InFlightRequest,
    usage::{Account, Reservation, UsageKind},
};

/// The prefix of each `requestState` of the gateway. Servers never see these states.
const MARK: &str = "tgp1.";
/// The key of the request in `inputRequests`.
const REQUEST_KEY: &str = "toolgate_question";
/// How long a call stays suspended.
const INPUT_TIMEOUT: Duration = Duration::from_mins(10);

/// The suspended calls, by the random id in their `requestState`.
#[derive(Debug, Default)]
pub(crate) struct SuspendedCalls(Mutex<HashMap<Arc<str>, SuspendedCall>>);

/// A suspended call, with the server's request that it waits for.
#[derive(Debug)]
pub(crate) struct SuspendedCall {
    pub(crate) in_flight: InFlightRequest,
    question: Message,
    binding: [u8; 32],
    account: Arc<Account>,
    until: Instant,
    places: [Reservation; 2],
}

/// Why a call cannot be resumed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SuspendError(pub(crate) &'static str);

/// Whether the gateway made this `requestState`.
pub(crate) fn is_ours(state: &Json) -> bool {
    state.text().is_some_and(|state| state.starts_with(MARK))
}

/// The digest that binds a state to its caller and request. It covers all params except those that the resuming request
/// adds.
pub(crate) fn binding(
    caller: &str,
    method: &str,
    name: &str,
    params: Option<&Json>,
) -> Result<[u8; 32], DuplicateKey> {
    let mut fingerprint = Fingerprint::default();
    for part in [caller, method, name] {
        fingerprint.part(part.as_bytes());
    }
    let mut asked = params.and_then(Json::object).unwrap_or_default();
    for round in ["_meta", "requestState", "inputResponses"] {
        asked.remove(round);
    }
    fingerprint.value(&asked.finish())?;
    Ok(fingerprint.finish())
}

impl SuspendedCalls {
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, SuspendedCall>> {
        self.0.lock()
    }

    /// Suspends a call; returns the result that asks the client for input.
    pub(crate) fn suspend(
        &self,
        in_flight: InFlightRequest,
        question: Message,
        binding: [u8; 32],
        account: Arc<Account>,
    ) -> Result<Json, Failure> {
        let id = random_id().map_err(Failure::internal)?;
        let result = asking(&question, &id);
        let until = Instant::now() + INPUT_TIMEOUT;
        let mut waiting = self.lock();
        waiting.retain(|_, suspended| suspended.until > Instant::now());
        let take = |kind, amount| {
            account.take(kind, amount).map_err(|full| full.failure().with_executed(Executed::Maybe))
        };
        let places = [
            take(UsageKind::SuspendedCalls, 1)?,
            take(UsageKind::SuspendedBytes, question.line().len())?,
        ];
        let suspended = SuspendedCall { in_flight, question, binding, account, until, places };
        waiting.insert(id, suspended);
        Ok(result)
    }

    /// Removes a suspended call to resume it, if the request matches its binding.
    pub(crate) fn take(
        &self,
        state: &Json,
        binding: &[u8; 32],
    ) -> Result<SuspendedCall, SuspendError> {
        let text = state.text().unwrap_or_default();
        let id = text.strip_prefix(MARK).unwrap_or_default();
        let mut waiting = self.lock();
        match waiting.get(id) {
            None => Err(SuspendError(
                "the gateway did not issue this state, it was used before, or it has expired",
            )),
            Some(suspended) if suspended.until <= Instant::now() => {
                waiting.remove(id);
                Err(SuspendError("the state came too late"))
            }
            Some(suspended) if suspended.binding != *binding => {
                Err(SuspendError("the state is for another call"))
            }
            Some(_) => waiting.remove(id).ok_or(SuspendError("the state was used before")),
        }
    }

    /// Drops the calls whose time is over.
    pub(crate) fn sweep(&self) {
        self.lock().retain(|_, suspended| suspended.until > Instant::now());
    }

    /// Drops all suspended calls.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }
}

impl SuspendedCall {
    /// The id of the server's request and the client's answer; `None` if the client sent no answer.
    pub(crate) fn answer(&self, responses: Option<&Json>) -> Option<(Id, Json)> {
        let answer =
            responses?.get(REQUEST_KEY).filter(|json| json.kind() == wire::Kind::Object)?;
        Some((self.question.id()?.clone(), answer))
    }

    /// Suspends the call again, because the client came back without an answer.
    pub(crate) fn ask_again(self, suspended_calls: &SuspendedCalls) -> Result<Json, Failure> {
        let Self { in_flight, question, binding, account, places, .. } = self;
        drop(places);
        suspended_calls.suspend(in_flight, question, binding, account)
    }
}

fn asking(question: &Message, id: &str) -> Json {
    let mut asked = Object::new();
    asked.set("method", Json::string(question.method()));
    let mut params = question.body().unwrap_or_default();
    let is_elicitation = question.method() == method::ELICITATION_CREATE;
    if is_elicitation && !params.contains("mode") {
        params.set("mode", Json::string("form"));
    }
    // Ids of elicitations ended with 2025-11-25.
    params.remove(member::ELICITATION_ID);
    asked.set("params", params.finish());
    let mut requests = Object::new();
    requests.set(REQUEST_KEY, asked.finish());
    let mut result = Object::new();
    result.set(member::RESULT_TYPE, Json::string("input_required"));
    result.set(member::INPUT_REQUESTS, requests.finish());
    result.set(member::REQUEST_STATE, Json::string(&format!("{MARK}{id}")));
    result.finish()
}

#[cfg(test)]
mod tests {
    use toolgate_wire::Limits;

    use super::*;
    use crate::usage::{Share, Usage};

    fn question() -> Message {
        let line = r#"{"jsonrpc":"2.0","id":"s1","method":"elicitation/create","params":{"message":"?","requestedSchema":{}}}"#;
        Message::parse(line.into(), &Limits::default()).unwrap()
    }

    fn json(text: &'static str) -> Json {
        Json::parse(text, &Limits::default()).unwrap()
    }

    #[test]
    fn a_call_is_taken_up_once_and_by_nobody_else() {
        let suspended_calls = SuspendedCalls::default();
        let account = Usage::new(Share::new(1.0, 1), 1, 1);
        let bind = |who, params| binding(who, "tools/call", "t", Some(&json(params))).unwrap();
        let mine = bind("me", r#"{"name":"t","arguments":{"a":1,"b":2}}"#);
        let result = suspended_calls
            .suspend(
                InFlightRequest::Answered(None),
                question(),
                mine,
                account.account(&toolgate::Principal::local()),
            )
            .unwrap();
        assert_eq!(result.get("resultType").unwrap().as_str(), "\"input_required\"");
        let state = result.get("requestState").unwrap();
        assert!(is_ours(&state) && !is_ours(&json(r#""rs1.x""#)));
        let other = bind("you", r#"{"name":"t","arguments":{"a":1,"b":2}}"#);
        assert_eq!(
            suspended_calls.take(&state, &other).err(),
            Some(SuspendError("the state is for another call"))
        );
        let same = bind(
            "me",
            r#"{"requestState":"s","arguments":{ "b":2, "a":1 },"name":"t","_meta":{},"inputResponses":{}}"#,
        );
        let suspended = suspended_calls.take(&state, &same).unwrap();
        assert!(suspended_calls.take(&state, &same).is_err(), "used before");
        assert!(suspended.answer(None).is_none());
        let answer = json(r#"{"toolgate_question":{"action":"accept","content":{"x":1}}}"#);
        let (id, answer) = suspended.answer(Some(&answer)).unwrap();
        assert_eq!(id, Id::string("s1"));
        assert_eq!(answer.as_str(), r#"{"action":"accept","content":{"x":1}}"#);
    }
    /// [review 15] Arguments that serde cannot read (`1e400`, half characters) were bound as `{}`.
    #[test]
    fn arguments_are_bound_as_they_are_spelt() {
        let bind = |arguments: &str| {
            let params = Json::parse(format!(r#"{{"arguments":{arguments}}}"#), &Limits::default());
            binding("me", "tools/call", "t", Some(&params.unwrap()))
        };
        let odd = [
            "{}",
            r#"{"n":1e400}"#,
            r#"{"n":2e400}"#,
            r#"{"s":"\ud800"}"#,
            r#"{"s":"\ud801"}"#,
            r#"{"n":1}"#,
            r#"{"n":1.0}"#,
        ];
        for (at, one) in odd.iter().enumerate() {
            for other in &odd[at + 1..] {
                assert_ne!(bind(one).unwrap(), bind(other).unwrap(), "{one} {other}");
            }
        }
        assert!(bind(r#"{"a":1,"\u0061":2}"#).is_err(), "nobody can say what was asked for");
    }
}
