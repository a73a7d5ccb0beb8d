//! Further rounds of calls that waited for input, which are not counted again.
//!
//! A call that ends with a question (input required, a confirmation, an approval) was counted when it started. The
//! state, token or approved repetition with which the client continues makes the next round free, once, for the same
//! principal, tool and arguments. Only what toolgate issued makes a round free.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use toolgate_wire::{Json, mcp::member};

use crate::{
    call::Call,
    context::Context,
    fingerprint::Fingerprint,
    identity::Principal,
    middleware::preconditions::{self, binding::Binding},
    outcome::Outcome,
    registry::{Class, Code},
};

/// Largest number of open rounds per principal. The call of a forgotten round counts again.
const MAX_ROUNDS: usize = 256;
/// Largest number of principals with open rounds.
const MAX_PRINCIPALS: usize = 10_000;
/// Time in which a client has to continue.
const ROUND_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

type Digest = [u8; 32];

/// The open rounds of all principals.
#[derive(Default)]
pub(super) struct Rounds(HashMap<Principal, VecDeque<Open>>);

/// A call that may continue.
struct Open {
    /// The credentials of which any is enough.
    keys: Vec<Digest>,
    until: Duration,
}

/// What a call continues with.
#[derive(Clone, Copy)]
enum Credential<'a> {
    /// `requestState`, or none if the server sent none.
    State(Option<&'a Json>),
    /// A confirmation token.
    Token(&'a str),
    /// `true` as the confirmation.
    Yes,
    /// Nothing but the same call.
    Repeated,
}

impl Credential<'_> {
    fn of(cx: &Context) -> Credential<'_> {
        if let Some(round) = cx.returned_input() {
            return Credential::State(round.state.as_ref());
        }
        match preconditions::confirmation(cx) {
            // Tokens contain no characters that need escapes.
            Some(json) if json.bool().is_none() => {
                Credential::Token(json.as_str().trim_matches('"'))
            }
            Some(_) => Credential::Yes,
            None => Credential::Repeated,
        }
    }

    fn digest(self, binding: &Binding) -> Digest {
        let mut fingerprint = Fingerprint::default();
        fingerprint.part(&binding.0);
        let (kind, text) = match self {
            Self::State(state) => ("state", state.map(Json::text)),
            Self::Token(token) => ("token", Some(Some(token.into()))),
            Self::Yes => ("yes", None),
            Self::Repeated => ("repeated", None),
        };
        fingerprint.part(kind.as_bytes());
        // A state that is not a valid text cannot be compared and counts as missing.
        fingerprint.part(text.flatten().as_deref().unwrap_or_default().as_bytes());
        fingerprint.finish()
    }
}

impl Rounds {
    /// Whether the call continues one that was counted. Uses that round up.
    pub(super) fn take(&mut self, cx: &Context, call: &Call, now: Duration) -> bool {
        let Some(open) = self.0.get_mut(cx.principal()) else { return false };
        open.retain(|round| round.until > now);
        if open.is_empty() {
            self.0.remove(cx.principal());
            return false;
        }
        let Ok(binding) = Binding::of(cx, call) else { return false };
        let key = Credential::of(cx).digest(&binding);
        let Some(at) = open.iter().position(|round| round.keys.contains(&key)) else {
            return false;
        };
        open.remove(at);
        true
    }

    /// Remembers a call that may continue after this outcome.
    pub(super) fn expect(&mut self, cx: &Context, call: &Call, outcome: &Outcome, now: Duration) {
        if !may_go_on(outcome) {
            return;
        }
        let Ok(binding) = Binding::of(cx, call) else { return };
        let keys = expected(outcome, &binding);
        if keys.is_empty()
            || (self.0.len() >= MAX_PRINCIPALS && !self.0.contains_key(cx.principal()))
        {
            return;
        }
        let open = self.0.entry(cx.principal().clone()).or_default();
        if open.len() >= MAX_ROUNDS {
            open.pop_front();
        }
        open.push_back(Open { keys, until: now + ROUND_LIFETIME });
    }
}

/// Whether a call may continue after this outcome.
pub(super) fn may_go_on(outcome: &Outcome) -> bool {
    outcome.class() == Class::InputRequired || outcome.code() == Some(Code::ConfirmRequired)
}

/// The credentials with which a call may continue after this outcome.
fn expected(outcome: &Outcome, binding: &Binding) -> Vec<Digest> {
    if outcome.class() == Class::InputRequired {
        let state = outcome.result().and_then(|result| result.json().get(member::REQUEST_STATE));
        return vec![Credential::State(state.as_ref()).digest(binding)];
    }
    let Some(failure) = outcome.failure() else { return Vec::new() };
    let mut keys = vec![Credential::Yes.digest(binding)];
    for (name, fact) in failure.facts() {
        match *name {
            "preview" => {
                let token = fact.get("confirm_token").and_then(serde_json::Value::as_str);
                keys.extend(token.map(|token| Credential::Token(token).digest(binding)));
            }
            // A person decides in another terminal; the client repeats the same call.
            "approval" => keys.push(Credential::Repeated.digest(binding)),
            _ => {}
        }
    }
    keys
}
