//! What tools ask of the client, in rounds: a request during the call for legacy clients, `input_required` for modern ones.

#![expect(deprecated, reason = "the suite asks for roots and sampling too")]

use std::{
    collections::HashMap,
    sync::{Mutex, atomic::AtomicU64, atomic::Ordering},
};

use rmcp::{
    ErrorData, RoleServer,
    model::{ClientCapabilities, ErrorCode, InputRequests, InputRequiredResult, InputResponses},
    service::RequestContext,
};
use serde_json::Value;

use crate::{
    questions::{Answers, Script, can_answer, request},
    server::is_modern,
};

/// What became of a call that asks.
pub(crate) enum Asked {
    Answered(Answers),
    More(InputRequiredResult),
}

/// The states of calls that wait for a client to come back, each good for one time.
#[derive(Debug, Default)]
pub(crate) struct States {
    kept: Mutex<HashMap<String, (usize, Answers)>>,
    next: AtomicU64,
}

impl States {
    fn keep(&self, round: usize, answers: Answers) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        // Not to be guessed by a test that counts: the number alone would be another call's state.
        let noise = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), number);
        let state = format!("state-{number}-{noise:016x}");
        self.kept.lock().unwrap().insert(state.clone(), (round, answers));
        state
    }

    fn take(&self, state: &str) -> Option<(usize, Answers)> {
        self.kept.lock().unwrap().remove(state)
    }
}

fn needed(question: &Value) -> ClientCapabilities {
    match question["method"].as_str() {
        Some("elicitation/create") => ClientCapabilities::builder().enable_elicitation().build(),
        Some("sampling/createMessage") => ClientCapabilities::builder().enable_sampling().build(),
        _ => ClientCapabilities::builder().enable_roots().build(),
    }
}

/// The error of a call that needs what the client did not say that it can do.
pub(crate) fn missing(
    context: &RequestContext<RoleServer>,
    needed: ClientCapabilities,
) -> ErrorData {
    if is_modern(context) {
        return ErrorData::missing_required_client_capability(needed);
    }
    ErrorData::new(
        ErrorCode::INVALID_REQUEST,
        "the client lacks a capability that this needs",
        None,
    )
}

/// Whether this answers the question at all. What it says is for the tool to read.
fn fits(question: &Value, answer: &Value) -> bool {
    match question["method"].as_str() {
        Some("elicitation/create") => {
            matches!(answer["action"].as_str(), Some("accept" | "decline" | "cancel"))
        }
        Some("sampling/createMessage") => {
            answer["role"].is_string() && answer.get("content").is_some()
        }
        _ => answer["roots"].is_array(),
    }
}

impl Script {
    /// Goes on with the call as far as the answers that came with it reach.
    pub(crate) async fn run(
        mut self,
        states: &States,
        context: &RequestContext<RoleServer>,
        responses: Option<InputResponses>,
        state: Option<String>,
    ) -> Result<Asked, ErrorData> {
        let capabilities = context.client_capabilities().unwrap_or_default();
        for round in &mut self.rounds {
            if self.leaves_out {
                round.retain(|(_, question)| can_answer(&capabilities, question));
            }
            for (_, question) in round {
                if !can_answer(&capabilities, question) {
                    return Err(missing(context, needed(question)));
                }
            }
        }
        if is_modern(context) {
            self.answered(states, responses, state)
        } else {
            self.ask(context).await.map(Asked::Answered)
        }
    }

    fn answered(
        self,
        states: &States,
        responses: Option<InputResponses>,
        state: Option<String>,
    ) -> Result<Asked, ErrorData> {
        let unknown =
            || ErrorData::invalid_params("this request state is not one that was given out", None);
        let (at, mut answers) = match state {
            Some(state) if self.keeps_state => states.take(&state).ok_or_else(unknown)?,
            Some(_) => return Err(unknown()),
            None => (0, Answers::new()),
        };
        // Without its state, an answer of a call that keeps one may belong to any round.
        let responses = responses.filter(|_| !self.keeps_state || at > 0).unwrap_or_default();
        let round = at.max(1) - 1;
        let Some(questions) = self.rounds.get(round) else { return Err(unknown()) };
        for (key, question) in questions {
            if let Some(answer) = responses.get(*key).filter(|answer| fits(question, answer)) {
                answers.insert((*key).to_owned(), answer.clone());
            }
        }
        let is_done = |questions: &[(&str, Value)]| {
            questions.iter().all(|(key, _)| answers.contains_key(*key))
        };
        let open = self.rounds.iter().position(|questions| !is_done(questions));
        let Some(open) = open else { return Ok(Asked::Answered(answers)) };
        let mut requests = InputRequests::new();
        for (key, question) in self.rounds.get(open).into_iter().flatten() {
            requests.insert((*key).to_owned(), request(question)?);
        }
        let state = self.keeps_state.then(|| states.keep(open + 1, answers));
        Ok(Asked::More(InputRequiredResult::new(Some(requests), state)))
    }
}
