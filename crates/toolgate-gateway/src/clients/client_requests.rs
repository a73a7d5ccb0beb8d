//! Questions to a client of the time before 2026-07-28: requests of ours that it answers while its own call waits.

use std::{collections::HashMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use toolgate::{Boxed, Elicit, ElicitError};
use toolgate_wire::{
    Id, Json, Message, Object,
    mcp::{code, member, method},
    notification, request,
};

use super::side_channel::SideChannel;
use crate::ids::random_id;

/// So many questions wait for one client's answer.
const MOST: usize = 100;

/// Questions that wait for one client's answer.
#[derive(Debug, Default)]
pub(crate) struct ClientRequests(Mutex<PendingReply>);

/// The ids of our questions on one connection. Only the client that is asked sees them: a server that makes a request
/// cannot use one, and so has none of its questions answered in place of ours.
#[derive(Debug, Default)]
pub(crate) struct ClientRequestIds {
    /// What each begins with, drawn when the first is needed.
    prefix: Option<String>,
    asked: u64,
}

impl ClientRequestIds {
    /// The next id; `None` if the system gives no randomness, and so nothing can be asked safely.
    pub(crate) fn next(&mut self) -> Option<Id> {
        if self.prefix.is_none() {
            self.prefix = Some(format!("toolgate-q-{}-", random_id().ok()?));
        }
        self.asked += 1;
        Some(Id::string(&format!("{}{}", self.prefix.as_deref()?, self.asked)))
    }

    /// Whether an id is, or could become, one of these.
    pub(crate) fn has(&self, id: &Id) -> bool {
        let prefix = self.prefix.as_deref();
        prefix.is_some_and(|prefix| id.as_json().text().is_some_and(|id| id.starts_with(prefix)))
    }
}

#[derive(Debug, Default)]
struct PendingReply {
    ids: ClientRequestIds,
    by_id: HashMap<Id, oneshot::Sender<Result<Json, Json>>>,
}

impl ClientRequests {
    fn lock(&self) -> MutexGuard<'_, PendingReply> {
        self.0.lock()
    }

    /// Takes an answer of the client; `false`: nobody waits for it.
    pub(crate) fn take(&self, message: &Message) -> bool {
        let waiting = message.id().and_then(|id| self.lock().by_id.remove(id));
        let Some(waiting) = waiting else { return false };
        let answer = message.result().map(|result| result.owned());
        let error = || message.error().map_or_else(Json::null, |error| error.owned());
        drop(waiting.send(answer.ok_or_else(error)));
        true
    }

    /// Whether an id is one that only questions of ours have. A server's own request never has one.
    pub(crate) fn has(&self, id: &Id) -> bool {
        self.lock().ids.has(id)
    }

    /// Takes a response of the client that is for us, also one that comes too late; `false`: it is for the server.
    pub(crate) fn is_ours(&self, message: &Message) -> bool {
        self.take(message) || message.id().is_some_and(|id| self.has(id))
    }

    /// Asks, and waits for the result or the error of the answer; `None` if the client is gone. Given up, the question
    /// is taken back.
    pub(crate) async fn ask(
        &self,
        side: &SideChannel,
        method: &str,
        params: Option<&Json>,
    ) -> Option<Result<Json, Json>> {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut waiting = self.lock();
            if waiting.by_id.len() >= MOST {
                let why = format!("{MOST} questions wait for the client's answer, and no more can");
                let mut error = Object::new();
                error.set("code", Json::value(&(code::INTERNAL_ERROR).into()));
                error.set("message", Json::string(&why));
                return Some(Err(error.finish()));
            }
            let id = waiting.ids.next()?;
            waiting.by_id.insert(id.clone(), sender);
            id
        };
        let mut open = OpenRequest { questions: self, side, id: Some(id.clone()) };
        if !side.send(request(&id, method, params)).await {
            return None;
        }
        let answer = answer.await;
        open.id = None;
        answer.ok()
    }
}

/// A question without an answer yet. Dropped, it is taken back.
struct OpenRequest<'a> {
    questions: &'a ClientRequests,
    side: &'a SideChannel,
    id: Option<Id>,
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        self.questions.lock().by_id.remove(&id);
        let mut params = Object::new();
        params.set(member::REQUEST_ID, id.as_json().clone());
        params.set("reason", Json::string("the call that it was about is over"));
        self.side.try_send(notification(method::NOTIFICATIONS_CANCELLED, Some(&params.finish())));
    }
}

/// Asks the client of one call, for layers that want something confirmed.
#[derive(Debug)]
pub(crate) struct Elicitor {
    pub(crate) session: Arc<super::legacy_session::LegacySession>,
    pub(crate) side: SideChannel,
}

impl Elicit for Elicitor {
    fn elicit(&self, params: Json) -> Boxed<'_, Result<Json, ElicitError>> {
        Box::pin(async move {
            let asked =
                self.session.questions.ask(&self.side, method::ELICITATION_CREATE, Some(&params));
            match asked.await {
                Some(Ok(answer)) => Ok(answer),
                Some(Err(_)) => Err(ElicitError::Unsupported),
                None => Err(ElicitError::Disconnected),
            }
        })
    }
}
