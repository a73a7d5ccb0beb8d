//! What the gateway answers to a request: one JSON message, or a stream of events that holds it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hyper::{Method, StatusCode};
use tokio::time::timeout;
use toolgate::Failure;
use toolgate_wire::{Id, Message, Sender, Shape, error_response, split_batch};

use super::{
    failures,
    headers::{self, Headers},
    hub::Hub,
};
use crate::outbound::http::{Answer, BodyError, EventStream};

/// After the answer, the stream may take this long to end, so that its connection can be used again.
const REST: Duration = Duration::from_millis(100);
/// How often a stream that broke off is asked for again.
const RESUMES: u32 = 10;
/// How long to wait before that, where the gateway does not say.
const PAUSE: Duration = Duration::from_millis(500);
/// The longest that the gateway can make us wait.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// The most bytes of a refusal.
pub(super) const REFUSAL: usize = 64 * 1024;

/// Whether an answer is a stream of events.
pub(super) fn is_stream(answer: &Answer) -> bool {
    starts_with(answer, b"text/event-stream")
}

fn starts_with(answer: &Answer, kind: &[u8]) -> bool {
    answer
        .headers
        .content_type()
        .get(..kind.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(kind))
}

/// Reads on until the message comes that answers this request; what comes before goes to the client. A stream that
/// breaks off is asked for again with the headers in `resume`, if there are some.
pub(super) async fn read(
    hub: &Hub,
    answer: Answer,
    id: &Id,
    resume: Option<&Headers>,
) -> Result<(Message, Option<EventStream>), Failure> {
    if !answer.status.is_success() {
        return Ok((refusal(hub, answer, id).await?, None));
    }
    if is_stream(&answer) {
        let stream = EventStream::new(answer, hub.limits.max_bytes);
        return read_stream(hub, stream, id, resume).await;
    }
    let (url, is_json) = (&hub.url, starts_with(&answer, b"application/json"));
    if answer.status == StatusCode::ACCEPTED || answer.status == StatusCode::NO_CONTENT {
        return Err(failures::nonsense(url, "no answer to a request"));
    }
    let body = answer.whole(hub.limits.max_bytes).await;
    let body = body.map_err(|error| failures::unread(url, &error))?;
    match Message::receive(body, &hub.limits, Sender::Server) {
        Ok(message) if answers(&message, id) => Ok((message, None)),
        Ok(_) => Err(failures::nonsense(url, "a message that is no answer to the request")),
        Err(_) if is_json => Err(failures::nonsense(url, "JSON that is no JSON-RPC message")),
        Err(_) => Err(failures::nonsense(url, "something that is no MCP")),
    }
}

fn answers(message: &Message, id: &Id) -> bool {
    matches!(message.shape(), Shape::Response | Shape::Error) && message.id() == Some(id)
}

/// A refusal in the gateway's own words, or in ours.
async fn refusal(hub: &Hub, answer: Answer, id: &Id) -> Result<Message, Failure> {
    let failure = failures::status(&hub.url, answer.status);
    if answer.status == StatusCode::UNAUTHORIZED {
        // Only we know how a token is given here.
        return Err(failure);
    }
    let body = answer.whole(REFUSAL).await.map_err(|_| failure.clone())?;
    let error = Message::parse(body, &hub.limits).ok().filter(|said| said.shape() == Shape::Error);
    let Some(error) = error else { return Err(failure) };
    if error.id() == Some(id) {
        return Ok(error);
    }
    // It refused before it read whose request it was.
    let text = |key: &str| Some(error.member(key)?.text()?.into_owned());
    let code = error.member("code").and_then(|code| code.i64()).unwrap_or(-32603);
    let said = text("message").unwrap_or_else(|| failure.message().to_owned());
    let line = error_response(Some(id), code, &said, error.member("data").as_ref());
    Message::parse(line, &hub.limits).map_err(|_| failure)
}

async fn read_stream(
    hub: &Hub,
    mut stream: EventStream,
    id: &Id,
    resume: Option<&Headers>,
) -> Result<(Message, Option<EventStream>), Failure> {
    let mut last = None;
    let mut pause = PAUSE;
    let mut tries = 0;
    loop {
        let why = match stream.next().await {
            Ok(Some(event)) => {
                pause = event.retry.map_or(pause, Duration::from_millis).min(LONGEST_PAUSE);
                last = event.id.or(last);
                tries = 0;
                match Message::receive(event.data.clone(), &hub.limits, Sender::Server) {
                    Ok(message) if answers(&message, id) => return Ok((message, Some(stream))),
                    _ => pass(hub, event.data).await,
                }
                continue;
            }
            Ok(None) => BodyError::Broken("its stream ended without the answer".to_owned()),
            Err(error) => error,
        };
        let failure = failures::unread(&hub.url, &why);
        let (Some(resume), Some(after)) = (resume, last.as_ref().and_then(headers::after)) else {
            return Err(failure);
        };
        let asked: Headers = resume.iter().cloned().chain([after]).collect();
        stream = loop {
            tries += 1;
            if tries > RESUMES {
                return Err(failure);
            }
            tokio::time::sleep(pause).await;
            match hub.gateway.send(Method::GET, None, &asked, Bytes::new()).await {
                Ok(answer) if answer.status.is_success() && is_stream(&answer) => {
                    break EventStream::new(answer, hub.limits.max_bytes);
                }
                // It was answered: the stream is not there.
                Ok(_) => return Err(failure),
                Err(_) => {}
            }
        };
    }
}

/// Hands the client what the gateway sent besides the answer.
pub(super) async fn pass(hub: &Hub, data: Bytes) {
    let is_good = |data: Bytes| Message::receive(data, &hub.limits, Sender::Server).is_ok();
    match split_batch(&data, &hub.limits) {
        _ if data.is_empty() => {}
        None if is_good(data.clone()) => hub.say(data).await,
        Some(Ok(all)) if all.iter().cloned().all(is_good) => hub.say(data).await,
        _ => tracing::warn!("the gateway sent an event that is no JSON-RPC message; it is dropped"),
    }
}

/// Reads what comes after the answer, so that the connection can be used again.
pub(super) async fn read_on(hub: Arc<Hub>, mut stream: EventStream) {
    while let Ok(Ok(Some(event))) = timeout(REST, stream.next()).await {
        pass(&hub, event.data).await;
    }
}
