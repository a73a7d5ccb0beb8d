//! Batches, which were legal in 2025-03-26: posted as they are, and answered as they are.

use std::sync::Arc;

use bytes::Bytes;
use hyper::Method;
use toolgate::{Code, Failure};
use toolgate_wire::{Id, Json, Message, Shape, error_response};

use super::{answers, failures, hub::Hub};
use crate::outbound::http::EventStream;

/// Posts a batch whose messages these are.
pub(super) async fn post(hub: Arc<Hub>, line: Bytes, messages: Vec<Bytes>) {
    let messages = messages.into_iter().filter_map(|one| Message::parse(one, &hub.limits).ok());
    let requests = messages.filter(|message| message.shape() == Shape::Request);
    let ids: Vec<Id> = requests.filter_map(|request| request.id().cloned()).collect();
    let Err(failure) = exchange(&hub, line, ids.len()).await else { return };
    if ids.is_empty() {
        return tracing::warn!("a batch was not delivered: {failure}");
    }
    let rpc = failure.to_rpc();
    let error = |id| error_response(Some(id), rpc.code, &rpc.message, rpc.data.as_ref());
    let errors = ids.iter().map(error).filter_map(|line| Json::parse(line, &hub.limits).ok());
    hub.say(Json::list(&errors.collect::<Vec<_>>()).into_bytes()).await;
}

async fn exchange(hub: &Hub, line: Bytes, requests: usize) -> Result<(), Failure> {
    let (headers, _) = hub.session().headers();
    let answer = hub.gateway.send(Method::POST, None, &headers, line).await;
    let answer = answer.map_err(|error| failures::unanswered(&hub.url, &error))?;
    if !answer.status.is_success() {
        return Err(failures::status(&hub.url, answer.status));
    }
    let unread = |error| failures::unread(&hub.url, &error);
    if answers::is_stream(&answer) {
        let mut stream = EventStream::new(answer, hub.limits.max_bytes);
        while let Some(event) = stream.next().await.map_err(unread)? {
            answers::pass(hub, event.data).await;
        }
        return Ok(());
    }
    let body = answer.whole(hub.limits.max_bytes).await.map_err(unread)?;
    if body.is_empty() && requests > 0 {
        return Err(Failure::new(
            Code::ServerProtocol,
            "the gateway answered a batch with nothing",
        ));
    }
    answers::pass(hub, body).await;
    Ok(())
}
