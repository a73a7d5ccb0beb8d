//! Requests from the gateway to a legacy client (elicitation, sampling, roots), which the client answers while its own
//! call waits.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;
use toolgate_wire::{
    Id, Json, Message, Object,
    mcp::{code, member, method},
    notification, request,
};

use super::side_channel::SideChannel;
use crate::ids::random_id;

/// The number of requests that may wait for responses of one client.
const MAX_PENDING: usize = 100;

/// The requests that wait for responses of one client.
#[derive(Debug, Default)]
pub(crate) struct ClientRequests(Mutex<PendingClientRequests>);

/// A client's response to a request of the gateway.
#[derive(Clone, Debug)]
pub(crate) enum ClientReply {
    /// The `result`.
    Result(Json),
    /// The `error` object.
    Error(Json),
}

/// The ids of the gateway's own requests on one connection. They begin with a random prefix that only the client sees,
/// so that a server whose requests pass through cannot use one of them and receive a response meant for the gateway.
#[derive(Debug, Default)]
pub(crate) struct ClientRequestIds {
    /// The prefix of each id, made when the first id is needed.
    prefix: Option<String>,
    count: u64,
}

impl ClientRequestIds {
    /// The next id; `None` if the system gives no randomness, so that no safe id can be made.
    pub(crate) fn next(&mut self) -> Option<Id> {
        if self.prefix.is_none() {
            self.prefix = Some(format!("toolgate-q-{}-", random_id().ok()?));
        }
        self.count += 1;
        Some(Id::string(&format!("{}{}", self.prefix.as_deref()?, self.count)))
    }

    /// Whether an id has the prefix.
    pub(crate) fn has(&self, id: &Id) -> bool {
        let prefix = self.prefix.as_deref();
        prefix.is_some_and(|prefix| id.as_json().text().is_some_and(|id| id.starts_with(prefix)))
    }
}

#[derive(Debug, Default)]
struct PendingClientRequests {
    ids: ClientRequestIds,
    by_id: HashMap<Id, oneshot::Sender<ClientReply>>,
}

impl ClientRequests {
    fn lock(&self) -> MutexGuard<'_, PendingClientRequests> {
        self.0.lock()
    }

    /// Delivers a response of the client to the request that waits for it. `false` if no request waits for it.
    pub(crate) fn deliver(&self, message: &Message) -> bool {
        let waiting = message.id().and_then(|id| self.lock().by_id.remove(id));
        let Some(waiting) = waiting else { return false };
        let reply = match message.result() {
            Some(result) => ClientReply::Result(result.owned()),
            None => {
                ClientReply::Error(message.error().map_or_else(Json::null, |error| error.owned()))
            }
        };
        drop(waiting.send(reply));
        true
    }

    /// Whether only requests of the gateway can have this id.
    pub(crate) fn has(&self, id: &Id) -> bool {
        self.lock().ids.has(id)
    }

    /// Delivers a response if it belongs to the gateway, even if it comes too late. `false` if it belongs to the server.
    pub(crate) fn take_own_response(&self, message: &Message) -> bool {
        self.deliver(message) || message.id().is_some_and(|id| self.has(id))
    }

    /// Sends a request and waits for the response; `None` if the client is gone. If the future is dropped, the gateway
    /// cancels the request.
    pub(crate) async fn ask(
        &self,
        side: &SideChannel,
        method: &str,
        params: Option<&Json>,
    ) -> Option<ClientReply> {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut waiting = self.lock();
            if waiting.by_id.len() >= MAX_PENDING {
                let why = format!(
                    "{MAX_PENDING} questions wait for the client's answer, and no more can"
                );
                let mut error = Object::new();
                error.set("code", Json::value(&(code::INTERNAL_ERROR).into()));
                error.set("message", Json::string(&why));
                return Some(ClientReply::Error(error.finish()));
            }
            let id = waiting.ids.next()?;
            waiting.by_id.insert(id.clone(), sender);
            id
        };
        let mut open = OpenRequest { client_requests: self, side, id: Some(id.clone()) };
        if !side.send(request(&id, method, params)).await {
            return None;
        }
        let answer = answer.await;
        open.id = None;
        answer.ok()
    }
}

/// A request without a response yet. Dropping it cancels the request.
struct OpenRequest<'a> {
    client_requests: &'a ClientRequests,
    side: &'a SideChannel,
    id: Option<Id>,
}

impl Drop for OpenRequest<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        self.client_requests.lock().by_id.remove(&id);
        let mut params = Object::new();
        params.set(member::REQUEST_ID, id.as_json().clone());
        params.set("reason", Json::string("the call that it was about is over"));
        self.side.try_send(notification(method::NOTIFICATIONS_CANCELLED, Some(&params.finish())));
    }
}
