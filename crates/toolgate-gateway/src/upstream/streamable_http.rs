//! Streamable HTTP: each request is a POST of its own, answered with JSON or with a stream of messages.

mod handshake;
mod notifications;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use hyper::{
    Method, StatusCode,
    header::{HeaderName, HeaderValue},
};
use tokio_util::sync::CancellationToken;
use toolgate::{Code, Executed, Failure};
use toolgate_wire::{Id, Json, Limits, Message, Sender, Shape, headers};

use super::{
    event_request::{EventRequest, Phase},
    events::Events,
    in_flight::{
        IdRewrite, InFlightRequest, StartFailure, UpstreamRequest, is_safe, lost, nonsense,
        unavailable,
    },
    pending::{PendingId, PendingRequests, id_of},
    resume::Resume,
};
use crate::http_client::{BodyError, EventStream, HttpClient, HttpResponse, SendError};

const VERSION: HeaderName = HeaderName::from_static(headers::PROTOCOL_VERSION);
const SESSION: HeaderName = HeaderName::from_static(headers::SESSION_ID);
const METHOD: HeaderName = HeaderName::from_static(headers::METHOD);
const NAME: HeaderName = HeaderName::from_static(headers::NAME);
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// How long a request waits for the stream of the server's notifications to open.
const LISTEN_WAIT: Duration = Duration::from_secs(1);

/// How long a notification may take to be accepted.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that is reached by POSTs.
#[derive(Debug)]
pub(crate) struct StreamableHttp {
    pub(super) server: Arc<str>,
    client: Arc<HttpClient>,
    pub(super) limits: Limits,
    pub(super) events: Events,
    agreed: OnceLock<Agreed>,
    pub(super) flights: Arc<PendingRequests>,
    /// Cancelled once the server has answered the GET for its notifications, or the wait for that is over.
    listening: CancellationToken,
}

/// What the handshake has settled.
#[derive(Debug)]
struct Agreed {
    is_modern: bool,
    /// Headers of each request: the version, and the session if there is one.
    headers: Vec<(HeaderName, HeaderValue)>,
    has_session: bool,
}

impl StreamableHttp {
    pub(crate) fn new(
        server: Arc<str>,
        client: Arc<HttpClient>,
        limits: Limits,
        events: Events,
    ) -> Self {
        let (flights, listening) = (Arc::default(), CancellationToken::new());
        Self { server, client, limits, events, agreed: OnceLock::new(), flights, listening }
    }

    /// From here on requests carry what was agreed on.
    pub(crate) fn agree(&self, is_modern: bool, version: &str, session: Option<HeaderValue>) {
        let mut headers = Vec::with_capacity(2);
        if let Ok(version) = HeaderValue::from_str(version) {
            headers.push((VERSION, version));
        }
        let has_session = session.is_some();
        if let Some(mut session) = session {
            session.set_sensitive(true);
            headers.push((SESSION, session));
        }
        let _ = self.agreed.set(Agreed { is_modern, headers, has_session });
    }

    pub(super) fn has_session(&self) -> bool {
        self.agreed.get().is_some_and(|agreed| agreed.has_session)
    }

    pub(super) fn is_modern(&self) -> bool {
        self.agreed.get().is_some_and(|agreed| agreed.is_modern)
    }

    fn headers(&self) -> &[(HeaderName, HeaderValue)] {
        self.agreed.get().map_or(&[], |agreed| &agreed.headers)
    }

    /// The headers of one request, from 2026-07-28 on: they say what the body says.
    fn mirrored(&self, ask: &UpstreamRequest<'_>) -> Vec<(HeaderName, HeaderValue)> {
        let mut all = Vec::with_capacity(self.headers().len() + 2 + ask.mirrored.len());
        all.extend_from_slice(self.headers());
        all.extend(HeaderValue::from_str(ask.method).ok().map(|method| (METHOD, method)));
        let name = ask.name.and_then(|name| HeaderValue::from_str(&headers::encode(name)).ok());
        all.extend(name.map(|name| (NAME, name)));
        all.extend_from_slice(ask.mirrored);
        all
    }

    /// Sends a request.
    pub(crate) async fn start(
        self: &Arc<Self>,
        ask: UpstreamRequest<'_>,
        own_id: Option<&Id>,
        compose: impl FnOnce(IdRewrite) -> Bytes,
    ) -> Result<InFlightRequest, StartFailure> {
        // Ids must differ within a session, and clients choose theirs without asking each other.
        let is_numbered = self.has_session() || own_id.is_none();
        let seat = if is_numbered {
            self.flights.enter(ask.hears.clone(), PendingId::Number)
        } else {
            None
        };
        let hop = seat.as_ref().map_or_else(IdRewrite::default, |seat| IdRewrite {
            id: Some(seat.id.clone()),
            token: ask.hears.token.as_ref().map(|_| seat.id.as_json().clone()),
        });
        let expected = hop.id.clone().or_else(|| own_id.cloned()).unwrap_or_else(|| id_of(0));
        let is_known = seat.is_some();
        // A legacy server may answer on whichever stream is open.
        let (entered, answer, steps) = match seat {
            Some(seat) => (Some(seat.id), Some(seat.answer), seat.steps),
            None => (None, None, None),
        };
        let mut flight = EventRequest {
            link: Arc::clone(self),
            expected,
            entered,
            answer: answer.filter(|_| self.has_session()),
            steps,
            is_known,
            hears: ask.hears.clone(),
            phase: Phase::Over,
            resume: Resume::default(),
        };
        let (body, is_safe) = (compose(hop), is_safe(ask.method));
        let needs_stream = !self.is_modern() && self.has_session() && !flight.hears.is_ours;
        if needs_stream && flight.steps.is_some() {
            // What the server asks may come on its other stream, before this one has begun.
            let (link, expected) = (Arc::clone(self), flight.expected.clone());
            flight.phase = Phase::Sending(Box::pin(async move {
                link.until_listening().await;
                let answered = link.post(is_safe, link.headers(), body).await;
                link.received(answered, &expected).await
            }));
            return Ok(InFlightRequest::Events(Box::new(flight)));
        }
        if needs_stream {
            self.until_listening().await;
        }
        let answered = if self.is_modern() {
            self.post(is_safe, &self.mirrored(&ask), body).await
        } else {
            self.post(is_safe, self.headers(), body).await
        };
        match self.received(answered, &flight.expected).await {
            Ok(PostResult::Response(message)) => {
                flight.land();
                Ok(InFlightRequest::Landed(Some(message)))
            }
            Ok(PostResult::Stream(stream)) => {
                flight.phase = Phase::Reading(stream);
                Ok(InFlightRequest::Events(Box::new(flight)))
            }
            Ok(PostResult::Accepted) => {
                flight.phase = Phase::Elsewhere;
                Ok(InFlightRequest::Events(Box::new(flight)))
            }
            Err(failure) => {
                flight.land();
                Err(failure)
            }
        }
    }

    async fn post(
        &self,
        is_safe: bool,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Result<HttpResponse, SendError> {
        if is_safe {
            self.client.ask(None, headers, body).await
        } else {
            self.client.send(Method::POST, None, headers, body).await
        }
    }

    /// Sends a notification, or an answer to a question.
    pub(crate) async fn tell(&self, line: Bytes) -> Result<(), Failure> {
        let late = || unavailable(&self.server, "it does not answer");
        tokio::time::timeout(PATIENCE, self.told(line)).await.unwrap_or_else(|_| Err(late()))
    }

    async fn told(&self, line: Bytes) -> Result<(), Failure> {
        let sent = if self.is_modern() {
            let method = Message::parse(line.clone(), &self.limits);
            let method = method.map(|message| message.method().to_owned()).unwrap_or_default();
            let headers = self.mirrored(&UpstreamRequest::own(&method));
            self.client.send(Method::POST, None, &headers, line).await
        } else {
            self.client.send(Method::POST, None, self.headers(), line).await
        };
        let answer = sent.map_err(|error| self.sent_in_vain(error))?;
        if answer.status.is_success() {
            // Read to its end, so that the connection can be used again.
            let _ = answer.whole(64 * 1024).await;
            return Ok(());
        }
        let status = answer.status;
        Err(unavailable(&self.server, &format!("it answered a notification with {status}")))
    }

    /// Waits until the stream of the server's notifications is open: servers drop what they send on it before that.
    /// A server that does not answer the GET in time is not waited for again.
    async fn until_listening(&self) {
        if !self.listening.is_cancelled() {
            let _ = tokio::time::timeout(LISTEN_WAIT, self.listening.cancelled()).await;
            self.listening.cancel();
        }
    }

    /// Opens the stream on which a legacy server says what belongs to no request; `None`: it has none.
    pub(crate) async fn listen(
        &self,
        last_event: Option<&HeaderValue>,
    ) -> Result<Option<EventStream>, StartFailure> {
        let opened = self.open_stream(last_event).await;
        self.listening.cancel();
        opened
    }

    async fn open_stream(
        &self,
        last_event: Option<&HeaderValue>,
    ) -> Result<Option<EventStream>, StartFailure> {
        let mut headers = self.headers().to_vec();
        headers.extend(last_event.map(|id| (LAST_EVENT, id.clone())));
        let sent = self.client.send(Method::GET, None, &headers, Bytes::new()).await;
        let answer = sent.map_err(|error| self.sent_in_vain(error))?;
        match answer.status {
            StatusCode::OK if is(&answer, "text/event-stream") => {
                Ok(Some(EventStream::new(answer, self.limits.max_bytes)))
            }
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_ACCEPTABLE | StatusCode::OK => {
                Ok(None)
            }
            StatusCode::NOT_FOUND if !self.has_session() => Ok(None),
            StatusCode::NOT_FOUND => Err(StartFailure::SessionLost),
            status => {
                Err(unavailable(&self.server, &format!("it answered GET with {status}")).into())
            }
        }
    }

    /// Ends the session, if there is one.
    pub(crate) async fn leave(&self) {
        if self.has_session() {
            let _ = self.client.send(Method::DELETE, None, self.headers(), Bytes::new()).await;
        }
    }

    /// An answer that was not read to its end: too large to be, or broken off.
    pub(super) fn unread(&self, error: &BodyError) -> Failure {
        match error {
            BodyError::TooLarge(_) => nonsense(&self.server, &format!("sent {error}")),
            BodyError::Broken(why) => lost(&self.server, why, Executed::Maybe),
        }
    }

    fn not_sent(&self, error: SendError) -> StartFailure {
        StartFailure::Failed(self.sent_in_vain(error))
    }

    fn sent_in_vain(&self, error: SendError) -> Failure {
        match error {
            SendError::NotSent(why) => unavailable(&self.server, &why),
            SendError::Lost(why) => lost(&self.server, &why, Executed::Maybe),
        }
    }

    async fn received(
        &self,
        sent: Result<HttpResponse, SendError>,
        expected: &Id,
    ) -> Result<PostResult, StartFailure> {
        let answer = sent.map_err(|error| self.not_sent(error))?;
        let status = answer.status;
        if status == StatusCode::OK && is(&answer, "text/event-stream") {
            let stream = EventStream::new(answer, self.limits.max_bytes);
            return Ok(PostResult::Stream(Box::new(stream)));
        }
        if status == StatusCode::ACCEPTED && self.has_session() {
            return Ok(PostResult::Accepted);
        }
        let has_text = is(&answer, "application/json");
        let body = answer.whole(self.limits.max_bytes).await;
        let body = body.map_err(|error| self.unread(&error))?;
        let message = (has_text && !body.is_empty())
            .then(|| Message::receive(body, &self.limits, Sender::Server));
        if status == StatusCode::OK {
            let message = message
                .ok_or_else(|| nonsense(&self.server, "answered with neither JSON nor events"))?
                .map_err(|refused| {
                    let why = refused.error;
                    nonsense(&self.server, &format!("sent an answer that cannot be read: {why}"))
                })?;
            return self.fitting(message, expected).map(|m| PostResult::Response(Box::new(m)));
        }
        let message = message.and_then(Result::ok).filter(|m| m.shape() == Shape::Error);
        let code = message.as_ref().and_then(|m| m.member("code")).and_then(|code| code.i64());
        let is_forgotten = status == StatusCode::NOT_FOUND && code != Some(-32601)
            || status == StatusCode::BAD_REQUEST && message.as_ref().is_some_and(says_no_session);
        match message {
            _ if self.has_session() && is_forgotten => Err(StartFailure::SessionLost),
            // Whatever id it has: it answers this request and no other.
            Some(message) => Ok(PostResult::Response(Box::new(message))),
            None => Err(refused(&self.server, status).into()),
        }
    }

    fn fitting(&self, message: Message, expected: &Id) -> Result<Message, StartFailure> {
        let is_answer = matches!(message.shape(), Shape::Response | Shape::Error);
        if is_answer && message.id().is_none_or(|id| id == expected) {
            return Ok(message);
        }
        Err(nonsense(&self.server, "answered with the id of another request").into())
    }
}

/// Servers of the official SDKs that were started anew say 400, and one of these. Nothing else that is refused so is
/// taken for a lost session: it may have run.
fn says_no_session(error: &Message) -> bool {
    let text = error.member("message");
    let text = text.as_ref().and_then(Json::text).unwrap_or_default().to_ascii_lowercase();
    let rest = text.strip_prefix("bad request: ");
    rest.is_some_and(|rest| {
        rest.starts_with("server not initialized")
            || rest.starts_with("no valid session")
            || rest.starts_with("mcp-session-id")
            || rest.starts_with("missing session")
            || rest.starts_with("session not found")
    })
}

fn is(answer: &HttpResponse, kind: &str) -> bool {
    let start = answer.headers.content_type().get(..kind.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(kind.as_bytes()))
}

/// A status that says nothing in MCP's words.
fn refused(server: &str, status: StatusCode) -> Failure {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let message = format!("The server `{server}` refuses us: {status}");
            Failure::new(Code::ServerRejected, message)
                .suggest("Ask the operator to check the `headers` of this server in the config.")
                .with_executed(Executed::No)
        }
        // It is there, and busy.
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            let message = format!("The server `{server}` has too much to do: it answered {status}");
            Failure::new(Code::Overloaded, message).with_executed(Executed::No)
        }
        status if status.is_client_error() => {
            let message = format!("The server `{server}` refuses the request: {status}");
            Failure::new(Code::ServerRejected, message).with_executed(Executed::No)
        }
        status => nonsense(server, &format!("answered {status}")),
    }
}

pub(super) enum PostResult {
    Response(Box<Message>),
    Stream(Box<EventStream>),
    /// The answer comes on another stream.
    Accepted,
}
