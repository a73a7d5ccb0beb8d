//! Calls that came back for input, and may go on without being counted again.
//!
//! A call that ends with a question (input required, a confirmation, an approval) was counted when it began. What the
//! client brings back for it (the state, the token, or the same call once a person has approved it) makes the next round
//! free, once, for the same principal, tool and arguments. Whatever the gateway did not hand out makes nothing free.

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

/// So many open rounds of one principal are remembered; the call of an older one counts again.
const MOST: usize = 256;
/// Open rounds of so many principals are remembered.
const MOST_PRINCIPALS: usize = 10_000;
/// So long a client may take to come back.
const PATIENCE: Duration = Duration::from_hours(24);

type Digest = [u8; 32];

/// The open rounds of all principals.
#[derive(Default)]
pub(super) struct Rounds(HashMap<Principal, VecDeque<Open>>);

/// One call that may go on.
struct Open {
    /// Any of these lets it.
    keys: Vec<Digest>,
    until: Duration,
}

/// What a call brings back, or is expected to.
#[derive(Clone, Copy)]
enum Credential<'a> {
    /// `requestState`, or none where the server gave none.
    State(Option<&'a Json>),
    /// A token of a confirmation.
    Token(&'a str),
    /// A plain yes.
    Yes,
    /// Nothing: the same call again.
    Repeated,
}

impl Credential<'_> {
    fn of(cx: &Context) -> Credential<'_> {
        if let Some(round) = cx.returned_input() {
            return Credential::State(round.state.as_ref());
        }
        match preconditions::confirmation(cx) {
            // Tokens are plain text: no escapes to undo.
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
        // A state that is no text, or half a character, is none that can be compared: as if it were missing.
        fingerprint.part(text.flatten().as_deref().unwrap_or_default().as_bytes());
        fingerprint.finish()
    }
}

impl Rounds {
    /// Whether a call goes on with one that was counted; that round is used up.
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

    /// Remembers that a call that ended so may go on.
    pub(super) fn expect(&mut self, cx: &Context, call: &Call, outcome: &Outcome, now: Duration) {
        if !may_go_on(outcome) {
            return;
        }
        let Ok(binding) = Binding::of(cx, call) else { return };
        let keys = expected(outcome, &binding);
        if keys.is_empty()
            || (self.0.len() >= MOST_PRINCIPALS && !self.0.contains_key(cx.principal()))
        {
            return;
        }
        let open = self.0.entry(cx.principal().clone()).or_default();
        if open.len() >= MOST {
            open.pop_front();
        }
        open.push_back(Open { keys, until: now + PATIENCE });
    }
}

/// Whether a call that ended so may come back.
pub(super) fn may_go_on(outcome: &Outcome) -> bool {
    outcome.class() == Class::InputRequired || outcome.code() == Some(Code::ConfirmRequired)
}

/// What a call that ended so may come back with.
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
            // A person decides elsewhere: the same call again finds out.
            "approval" => keys.push(Credential::Repeated.digest(binding)),
            _ => {}
        }
    }
    keys
}
