//! The link to the gateway: each message is a POST, which the gateway answers with one JSON message or with a stream of
//! events.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use toolgate::{Code, Failure};
use toolgate_wire::{Id, Limits, Message, Sender, Shape, error_response, mcp::code, split_batch};

use super::{
    failures,
    headers::{self, BridgeHeaders},
};
use crate::{
    http_client::{BodyError, EventStream, HttpClient, HttpResponse},
    upstream::resume::Resume,
    write_queue::WriteQueue,
};

/// The maximum size of a refusal in bytes.
const MAX_REFUSAL: usize = 64 * 1024;

/// The gateway, and the queue of its messages to the client.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) gateway: HttpClient,
    /// The gateway's address, as error messages show it.
    pub(super) url: String,
    pub(super) limits: Limits,
    pub(super) to_client: Arc<WriteQueue>,
}

impl Link {
    /// Posts a message or a batch.
    pub(super) async fn post(
        &self,
        headers: &BridgeHeaders,
        body: Bytes,
    ) -> Result<HttpResponse, Failure> {
        let answer = self.gateway.send(Method::POST, None, headers, body).await;
        answer.map_err(|error| failures::unanswered(&self.url, &error))
    }

    /// Opens a stream of events. `Err(Some(status))`: the gateway answered with something else; `Err(None)`: it did not
    /// answer.
    pub(super) async fn open(
        &self,
        headers: &BridgeHeaders,
    ) -> Result<EventStream, Option<StatusCode>> {
        match self.gateway.send(Method::GET, None, headers, Bytes::new()).await {
            Ok(answer)
                if answer.status.is_success() && answer.is_content_type("text/event-stream") =>
            {
                Ok(EventStream::new(answer, self.limits.max_bytes))
            }
            Ok(answer) => Err(Some(answer.status)),
            Err(error) => {
                tracing::debug!(%error, "a stream of the gateway could not be opened");
                Err(None)
            }
        }
    }

    /// Reads until the response to this request arrives, and passes the messages before it to the client. If the stream
    /// breaks off, the bridge resumes it with the headers in `resume`, if there are any.
    pub(super) async fn read(
        &self,
        answer: HttpResponse,
        id: &Id,
        resume: Option<&BridgeHeaders>,
    ) -> Result<Message, Failure> {
        if !answer.status.is_success() {
            return self.refusal(answer, id).await;
        }
        if answer.is_content_type("text/event-stream") {
            let stream = EventStream::new(answer, self.limits.max_bytes);
            return self.read_stream(stream, id, resume).await;
        }
        let (url, is_json) = (&self.url, answer.is_content_type("application/json"));
        if answer.status == StatusCode::ACCEPTED || answer.status == StatusCode::NO_CONTENT {
            return Err(failures::nonsense(url, "no answer to a request"));
        }
        let body = answer.whole(self.limits.max_bytes).await;
        let body = body.map_err(|error| failures::unread(url, &error))?;
        match Message::receive(body, &self.limits, Sender::Server) {
            Ok(message) if answers(&message, id) => Ok(message),
            Ok(_) => Err(failures::nonsense(url, "a message that is no answer to the request")),
            Err(_) if is_json => Err(failures::nonsense(url, "JSON that is no JSON-RPC message")),
            Err(_) => Err(failures::nonsense(url, "something that is no MCP")),
        }
    }

    async fn read_stream(
        &self,
        mut stream: EventStream,
        id: &Id,
        resume: Option<&BridgeHeaders>,
    ) -> Result<Message, Failure> {
        let mut state = Resume::default();
        loop {
            let why = match stream.next().await {
                Ok(Some(event)) => {
                    state.note(&event);
                    match Message::receive(event.data.clone(), &self.limits, Sender::Server) {
                        Ok(message) if answers(&message, id) => {
                            stream.drain();
                            return Ok(message);
                        }
                        _ => self.pass(event.data).await,
                    }
                    continue;
                }
                Ok(None) => BodyError::Broken("its stream ended without the answer".to_owned()),
                Err(error) => error,
            };
            let failure = failures::unread(&self.url, &why);
            let Some(headers) = resume else { return Err(failure) };
            stream = loop {
                let Some(pause) = state.attempt() else { return Err(failure) };
                tokio::time::sleep(pause).await;
                match self.open(&headers::after(headers, state.last_event())).await {
                    Ok(stream) => break stream,
                    // The gateway has no such stream.
                    Err(Some(_)) => return Err(failure),
                    Err(None) => {}
                }
            };
        }
    }

    /// Passes the response to a batch to the client; `requests` is the number of requests in the batch. The gateway
    /// refuses a batch as a whole with one error.
    pub(super) async fn pass_batch(
        &self,
        answer: HttpResponse,
        requests: usize,
    ) -> Result<(), Failure> {
        let unread = |error: BodyError| failures::unread(&self.url, &error);
        if !answer.status.is_success() {
            let failure = failures::status(&self.url, answer.status);
            let body = answer.whole(MAX_REFUSAL).await.map_err(|_| failure.clone())?;
            let error = Message::receive(body, &self.limits, Sender::Server).ok();
            let error = error.filter(|error| error.shape() == Shape::Error).ok_or(failure)?;
            self.to_client.send(error.line().clone()).await;
            return Ok(());
        }
        if answer.is_content_type("text/event-stream") {
            let mut stream = EventStream::new(answer, self.limits.max_bytes);
            while let Some(event) = stream.next().await.map_err(unread)? {
                self.pass(event.data).await;
            }
            return Ok(());
        }
        let body = answer.whole(self.limits.max_bytes).await.map_err(unread)?;
        if body.is_empty() && requests > 0 {
            let text = "the gateway answered a batch with nothing";
            return Err(Failure::new(Code::ServerProtocol, text));
        }
        self.pass(body).await;
        Ok(())
    }

    /// The gateway's error response, or a failure of the bridge if the gateway sent none.
    async fn refusal(&self, answer: HttpResponse, id: &Id) -> Result<Message, Failure> {
        let failure = failures::status(&self.url, answer.status);
        if answer.status == StatusCode::UNAUTHORIZED {
            // The gateway cannot know how the operator gives the bridge a token.
            return Err(failure);
        }
        let body = answer.whole(MAX_REFUSAL).await.map_err(|_| failure.clone())?;
        let error = Message::parse(body, &self.limits).ok();
        let error = error.filter(|error| error.shape() == Shape::Error).ok_or(failure.clone())?;
        if error.id() == Some(id) {
            return Ok(error);
        }
        // The gateway refused before it read the id.
        let text = |key: &str| Some(error.member(key)?.text()?.into_owned());
        let code = error.member("code").and_then(|code| code.i64()).unwrap_or(code::INTERNAL_ERROR);
        let message = text("message").unwrap_or_else(|| failure.message().to_owned());
        let line = error_response(Some(id), code, &message, error.member("data").as_ref());
        Message::parse(line, &self.limits).map_err(|_| failure)
    }

    /// Passes a message of the gateway to the client.
    pub(super) async fn pass(&self, data: Bytes) {
        let is_good = |data: Bytes| Message::receive(data, &self.limits, Sender::Server).is_ok();
        match split_batch(&data, &self.limits) {
            _ if data.is_empty() => {}
            None if is_good(data.clone()) => self.to_client.send(data).await,
            Some(Ok(all)) if all.iter().cloned().all(is_good) => {
                self.to_client.send(data).await;
            }
            _ => tracing::warn!(
                "the gateway sent an event that is no JSON-RPC message; it is dropped"
            ),
        }
    }
}

fn answers(message: &Message, id: &Id) -> bool {
    matches!(message.shape(), Shape::Response | Shape::Error) && message.id() == Some(id)
}
