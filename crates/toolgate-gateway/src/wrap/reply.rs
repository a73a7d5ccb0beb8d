//! Where an answer goes: straight to the client, or into the array of a batch.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use toolgate::{Code, Failure, Reply};
use toolgate_wire::{Id, Json, Limits, Message, era, error_response, response};

use super::hub::Hub;
use crate::batch::Responses;

/// The responses of one batch, until the last one is there.
#[derive(Debug)]
pub(crate) struct Batch(Mutex<(usize, Option<Responses>)>);

impl Batch {
    pub(crate) fn new(expected: usize, limits: &Limits) -> Arc<Self> {
        Arc::new(Self(Mutex::new((expected, Some(Responses::new(limits))))))
    }

    /// Adds a response (or the lack of one) and gives the whole array when it was the last.
    fn add(&self, id: &Id, line: Option<&Bytes>) -> Option<Bytes> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (left, responses) = &mut *inner;
        *left = left.saturating_sub(1);
        if let (Some(responses), Some(line)) = (responses.as_mut(), line) {
            responses.add(Some(id), line);
        }
        if *left > 0 {
            return None;
        }
        responses.take().and_then(Responses::finish)
    }
}

/// One request that the client waits for. Dropped without an answer (a layer panicked), it answers
/// with an internal error: no call is left hanging.
#[derive(Debug)]
pub(crate) struct Owed {
    hub: Arc<Hub>,
    id: Id,
    batch: Option<Arc<Batch>>,
    is_modern: bool,
    open: bool,
}

impl Owed {
    /// The answer that `message` waits for; `None` if it is no request.
    pub(crate) fn new(
        hub: &Arc<Hub>,
        message: &Message,
        batch: Option<Arc<Batch>>,
    ) -> Option<Self> {
        let id = message.id()?.clone();
        let version = message.member("_meta").and_then(|meta| meta.get(era::META_PROTOCOL_VERSION));
        let version = version.as_ref().and_then(Json::text);
        let is_modern = version.is_some_and(|version| era::is_modern(&version));
        Some(Self { hub: Arc::clone(hub), id, batch, is_modern, open: true })
    }

    pub(crate) fn id(&self) -> &Id {
        &self.id
    }

    pub(crate) async fn reply(self, reply: Reply) {
        let line = match reply {
            Reply::Verbatim(line) => Some(line),
            Reply::Result(json) if self.is_modern => Some(response(&self.id, &complete(json))),
            Reply::Result(json) => Some(response(&self.id, &json)),
            Reply::Error(rpc) => {
                Some(error_response(Some(&self.id), rpc.code, &rpc.message, rpc.data.as_ref()))
            }
            Reply::Nothing => None,
        };
        self.send(line).await;
    }

    pub(crate) async fn refuse(self, failure: &Failure) {
        self.reply(Reply::Error(failure.to_rpc())).await;
    }

    /// Drops the request, whose id belongs to another one that is still in flight.
    pub(crate) fn forget(mut self) {
        self.open = false;
        if let Some(batch) = &self.batch
            && let Some(line) = batch.add(&self.id, None)
        {
            self.hub.to_client.push_now(line);
        }
    }

    /// Sends a finished line, or nothing.
    pub(crate) async fn send(mut self, line: Option<Bytes>) {
        self.open = false;
        self.hub.finish(&self.id);
        let line = match &self.batch {
            Some(batch) => batch.add(&self.id, line.as_ref()),
            None => line,
        };
        if let Some(line) = line {
            self.hub.to_client.push(line).await;
        }
    }
}

/// Layers write results as every era reads them; from 2026-07-28 on each one says its type too.
fn complete(json: Json) -> Json {
    match json.object() {
        Some(mut object) if !object.contains("resultType") => {
            object.set("resultType", Json::string("complete"));
            object.finish()
        }
        _ => json,
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        self.hub.finish(&self.id);
        let failure = Failure::new(Code::Internal, "toolgate failed while the call was under way");
        tracing::error!(id = %self.id, "a request was dropped without an answer");
        let rpc = failure.to_rpc();
        let line = error_response(Some(&self.id), rpc.code, &rpc.message, rpc.data.as_ref());
        let line = match &self.batch {
            Some(batch) => batch.add(&self.id, Some(&line)),
            None => Some(line),
        };
        if let Some(line) = line {
            self.hub.to_client.push_now(line);
        }
    }
}
