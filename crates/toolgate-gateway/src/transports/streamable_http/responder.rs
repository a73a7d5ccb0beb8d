//! Answers a request over HTTP: with JSON if the response comes soon and first, else with a stream of events that ends
//! with the response.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hyper::{
    Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER},
};
use tokio::sync::mpsc;
use toolgate::{Boxed, Code, Failure};
use toolgate_wire::{
    Id,
    mcp::{Era, code},
    sse,
};

use crate::{
    clients::{
        legacy_session::LegacySession,
        replay,
        side_channel::{STREAM_CAPACITY, SideChannel},
    },
    gateway::{
        Gateway,
        dispatch::dispatch,
        incoming_request::IncomingRequest,
        response::{JsonRpcResponse, ResponseText},
    },
    transports::http::{
        RejectReason,
        accept::Accepts,
        body::ResponseBody,
        events::{EventSender, stream},
    },
    usage::{LimitReached, LimitScope},
};

/// A call that takes longer than this gets a stream, if the client can resume streams.
const SOON: Duration = Duration::from_millis(250);
/// For other clients, a call that takes longer than this gets a stream, which keep-alive comments hold open.
const LATER: Duration = Duration::from_secs(15);
/// The first version whose clients understand an empty event at the start of a stream.
const KNOWS_PRIMING: &str = "2025-11-25";

/// Dispatches a request, and returns the HTTP response.
pub(super) async fn respond(
    gateway: Arc<Gateway>,
    mut incoming: IncomingRequest,
    accepts: Accepts,
    session: Option<Arc<LegacySession>>,
) -> Response<ResponseBody> {
    let follow = |session: &Arc<LegacySession>| session.begin(incoming.id(), &incoming.cancel);
    let Ok(followed) = session.as_ref().map(follow).transpose() else {
        let why = "the id is in use by a request that is not answered yet";
        let failure = Failure::new(Code::InvalidRequest, why);
        return json(
            StatusCode::BAD_REQUEST,
            JsonRpcResponse::failed(Some(incoming.id()), &failure),
        );
    };
    let mut messages = None;
    if accepts.events {
        let (sender, receiver) = mpsc::channel(STREAM_CAPACITY);
        incoming.side = SideChannel::Stream(sender);
        messages = Some(receiver);
    }
    let era = incoming.caller.era();
    let work: Boxed<'static, JsonRpcResponse> = Box::pin(async move {
        let response = dispatch(&gateway, &incoming).await;
        drop(followed);
        response
    });
    // A legacy client that loses its connection has not cancelled its request.
    let mut work = RequestFuture { future: Some(work), goes_on: session.is_some() };
    let Some(mut messages) = messages else { return finished(work.await, era) };
    let can_resume = session.as_ref().is_some_and(|session| &*session.version >= KNOWS_PRIMING);
    let patience = if can_resume { SOON } else { LATER };
    let first = tokio::select! {
        biased;
        response = &mut work => FirstEvent::Response(response),
        Some(line) = messages.recv() => FirstEvent::Message(line),
        () = tokio::time::sleep(patience) => FirstEvent::Timeout,
    };
    let line = match first {
        FirstEvent::Response(response) => match messages.try_recv() {
            Err(_) if accepts.json => return finished(response, era),
            line => {
                work.future = Some(Box::pin(std::future::ready(response)));
                line.ok()
            }
        },
        FirstEvent::Message(line) => Some(line),
        FirstEvent::Timeout => None,
    };
    let (events, body) = stream();
    let writer = ResponseStream {
        events,
        messages,
        replay: session.map(|session| session.replay.stream()),
        primes: can_resume,
        is_gone: false,
    };
    tokio::spawn(writer.run(work, line));
    event_stream(body)
}

/// What happened first after a request was started.
enum FirstEvent {
    Response(JsonRpcResponse),
    Message(Bytes),
    Timeout,
}

/// The future of a request. If it is dropped before its end, it continues as a task if `goes_on` is set, and is cancelled
/// otherwise.
struct RequestFuture {
    future: Option<Boxed<'static, JsonRpcResponse>>,
    goes_on: bool,
}

impl Future for RequestFuture {
    type Output = JsonRpcResponse;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<JsonRpcResponse> {
        let Some(future) = &mut self.future else { return Poll::Ready(JsonRpcResponse::nothing()) };
        let polled = future.as_mut().poll(cx);
        if polled.is_ready() {
            self.future = None;
        }
        polled
    }
}

impl Drop for RequestFuture {
    fn drop(&mut self) {
        if let (true, Some(future)) = (self.goes_on, self.future.take())
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(future);
        }
    }
}

/// Writes the messages that belong to a request to its stream, and the response at the end.
struct ResponseStream {
    events: EventSender,
    messages: mpsc::Receiver<Bytes>,
    /// Records the messages for clients that can resume the stream.
    replay: Option<Arc<replay::ReplayStream>>,
    primes: bool,
    is_gone: bool,
}

impl ResponseStream {
    async fn run(mut self, mut work: RequestFuture, first: Option<Bytes>) {
        if let Some(replay) = self.replay.as_ref().filter(|_| self.primes) {
            let priming = format!("id: {}\nretry: 1000\ndata: \n\n", replay.first_id());
            self.is_gone = self.events.send(priming.into()).await.is_err();
        }
        if let Some(line) = first {
            self.send(&line).await;
        }
        let response = loop {
            tokio::select! {
                biased;
                Some(line) = self.messages.recv() => self.send(&line).await,
                response = &mut work => break response,
                () = self.events.closed(), if !self.is_gone => {
                    self.is_gone = true;
                    if self.replay.is_none() {
                        // From 2026-07-28 on, a client cancels a request by closing its stream: the work is dropped.
                        return;
                    }
                }
            }
        };
        while let Ok(line) = self.messages.try_recv() {
            self.send(&line).await;
        }
        if let Some(line) = response.into_line() {
            self.send(&line).await;
        }
        if let Some(replay) = &self.replay {
            replay.done();
        }
    }

    async fn send(&mut self, line: &Bytes) {
        let id = self.replay.as_ref().map(|replay| replay.add(line));
        if !self.is_gone {
            self.is_gone = self.events.send(sse::event(line, id.as_deref())).await.is_err();
        }
    }
}

/// A response as JSON. From 2026-07-28 on, the HTTP status follows the error code.
pub(super) fn finished(response: JsonRpcResponse, era: Era) -> Response<ResponseBody> {
    if let Some(scope) = response.limit {
        let status = match scope {
            LimitScope::Session | LimitScope::Principal => StatusCode::TOO_MANY_REQUESTS,
            LimitScope::Gateway => StatusCode::SERVICE_UNAVAILABLE,
        };
        let mut answer = json(status, response);
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        return answer;
    }
    let status = match response.code {
        Some(code::METHOD_NOT_FOUND) if era == Era::Modern => StatusCode::NOT_FOUND,
        Some(
            code::PARSE_ERROR
            | code::INVALID_REQUEST
            | code::UNSUPPORTED_PROTOCOL_VERSION..=code::HEADER_MISMATCH,
        ) if era == Era::Modern => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    };
    json(status, response)
}

/// The response to a request for a stream that exceeds a limit.
pub(super) fn full(full: &LimitReached) -> Response<ResponseBody> {
    let response = JsonRpcResponse::failed(None, &full.failure());
    finished(JsonRpcResponse { limit: Some(full.scope), ..response }, Era::Legacy)
}

/// A response as JSON.
pub(super) fn json(status: StatusCode, response: JsonRpcResponse) -> Response<ResponseBody> {
    match response.text {
        ResponseText::Whole(line) => super::bytes(status, ResponseBody::Whole(line)),
        ResponseText::Parts(parts) => super::bytes(status, ResponseBody::Parts(parts)),
        ResponseText::Nothing => super::empty(StatusCode::ACCEPTED),
    }
}

/// The response to a request that came back through a loop of gateways.
#[cold]
pub(super) fn looped(id: Option<&Id>, why: String) -> Response<ResponseBody> {
    let mut answer =
        json(StatusCode::BAD_REQUEST, JsonRpcResponse::refused(id, code::INVALID_REQUEST, why));
    answer.extensions_mut().insert(RejectReason("loop"));
    answer
}

const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// A response with a stream of events.
pub(super) fn event_stream(
    body: crate::transports::http::events::EventBody,
) -> Response<ResponseBody> {
    let mut answer = Response::new(ResponseBody::Stream(body));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(BUFFERING, HeaderValue::from_static("no"));
    answer
}
