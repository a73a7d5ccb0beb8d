//! Questions of our own to the client, and how it can be asked.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;
use toolgate::{Asking, Boxed, Elicit, NoAnswer};
use toolgate_wire::{Id, Json, Message, Object, Shape, era, notification, request};

use crate::{outbox::Outbox, sessions::questions::QuestionIds};

/// Questions that wait for the client's answer.
#[derive(Debug)]
pub(crate) struct Questions {
    to_client: Arc<Outbox>,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    ids: QuestionIds,
    by_id: HashMap<Id, oneshot::Sender<Result<Json, NoAnswer>>>,
}

impl Questions {
    pub(crate) fn new(to_client: Arc<Outbox>) -> Self {
        Self { to_client, waiting: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self) -> Option<(Id, oneshot::Receiver<Result<Json, NoAnswer>>)> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.lock();
        let id = waiting.ids.next()?;
        waiting.by_id.insert(id.clone(), sender);
        Some((id, receiver))
    }

    /// Whether an id is one that only questions of ours have. A server's own question never has one.
    pub(crate) fn has(&self, id: &Id) -> bool {
        self.lock().ids.has(id)
    }

    /// Takes an answer of the client that is for us, also one that comes too late; `false`: it is for the
    /// server.
    pub(crate) fn take(&self, message: &Message) -> bool {
        let Some(id) = message.id() else { return false };
        if !matches!(message.shape(), Shape::Response | Shape::Error) {
            return false;
        }
        let mut waiting = self.lock();
        if let Some(asked) = waiting.by_id.remove(id) {
            drop(asked.send(message.result().ok_or(NoAnswer::Unable)));
        }
        waiting.ids.has(id)
    }
}

impl Elicit for Questions {
    fn elicit(&self, params: Json) -> Boxed<'_, Result<Json, NoAnswer>> {
        Box::pin(async move {
            let (id, answer) = self.enter().ok_or(NoAnswer::Unable)?;
            let mut open = Open { questions: self, id: Some(id.clone()) };
            self.to_client.push(request(&id, "elicitation/create", Some(&params))).await;
            let answer = answer.await;
            open.id = None;
            answer.unwrap_or(Err(NoAnswer::Gone))
        })
    }
}

/// A question without an answer yet. Dropped, it is taken back.
struct Open<'a> {
    questions: &'a Questions,
    id: Option<Id>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        self.questions.lock().by_id.remove(&id);
        let mut params = Object::new();
        params.set("requestId", id.as_json().clone());
        params.set("reason", Json::string("the call that it was about is over"));
        let notice = notification("notifications/cancelled", Some(&params.finish()));
        self.questions.to_client.push_now(notice);
    }
}

/// How the client of this request can be asked: by what the request says itself, from 2026-07-28 on, or by
/// what `initialize` said.
pub(crate) fn asking(
    questions: &Arc<Questions>,
    meta: Option<&Json>,
    initialize: Option<&Message>,
) -> Asking {
    let version = meta.and_then(|meta| meta.get(era::META_PROTOCOL_VERSION));
    if version.as_ref().and_then(Json::text).is_some_and(|version| era::is_modern(&version)) {
        let capabilities = meta.and_then(|meta| meta.get(era::META_CLIENT_CAPABILITIES));
        return if has_forms(capabilities) { Asking::Rounds } else { Asking::Nobody };
    }
    let capabilities = initialize.and_then(|message| message.member("capabilities"));
    if has_forms(capabilities) {
        Asking::Elicit(Arc::clone(questions) as Arc<dyn Elicit>)
    } else {
        Asking::Nobody
    }
}

/// Whether a client shows forms: `elicitation` with `form`, or with nothing said, as before there were modes.
fn has_forms(capabilities: Option<Json>) -> bool {
    let elicitation = capabilities.and_then(|json| json.get("elicitation"));
    let modes = elicitation.and_then(|json| json.object());
    modes.is_some_and(|modes| modes.is_empty() || modes.contains("form"))
}

#[cfg(test)]
mod tests {
    use toolgate_wire::Limits;

    use super::*;

    #[test]
    fn only_forms_can_be_asked_for() {
        let has = |text: &'static str| has_forms(Json::parse(text, &Limits::default()).ok());
        assert!(has(r#"{"elicitation":{}}"#) && has(r#"{"elicitation":{"form":{},"url":{}}}"#));
        assert!(!has("{}") && !has(r#"{"elicitation":{"url":{}}}"#));
        assert!(!has(r#"{"elicitation":true}"#) && !has(r#"{"elicitation":null}"#));
    }
}
