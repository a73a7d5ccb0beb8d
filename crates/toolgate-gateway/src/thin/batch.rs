//! Batches, which were legal in 2025-03-26: posted as they are, and answered as they are.

use std::sync::Arc;

use bytes::Bytes;
use hyper::Method;
use toolgate::{Code, Failure};
use toolgate_wire::{Id, Json, Message, Sender, Shape, error_response};

use super::{answers, failures, hub::Hub};
use crate::outbound::http::EventStream;

/// Posts a batch whose messages these are.
pub(super) async fn post(hub: Arc<Hub>, line: Bytes, messages: Vec<Bytes>) {
    let messages = messages
        .into_iter()
        .filter_map(|one| Message::receive(one, &hub.limits, Sender::Client).ok());
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
        let failure = failures::status(&hub.url, answer.status);
        let body = answer.whole(answers::REFUSAL).await.map_err(|_| failure.clone())?;
        // The gateway refuses a batch as a whole with one error.
        let error = Message::receive(body, &hub.limits, Sender::Server).ok();
        let error = error.filter(|said| said.shape() == Shape::Error).ok_or(failure)?;
        hub.say(error.line().clone()).await;
        return Ok(());
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
