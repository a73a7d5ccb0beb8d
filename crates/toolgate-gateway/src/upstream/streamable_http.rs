//! The Streamable HTTP transport to a server: each request is a POST, answered with JSON or with an event stream.

use std::{
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use bytes::Bytes;
use hyper::{
    Method, StatusCode,
    header::{HeaderName, HeaderValue},
};
use tokio_util::sync::CancellationToken;
use toolgate::{Boxed, Code, Executed, Failure};
use toolgate_wire::{
    Id, Json, Limits, Message, Sender, Shape, error_response, headers,
    mcp::{Era, code, method},
    response,
};

use super::{
    events::{ReplyChannel, ReplyTo, SharedListener},
    failures::{connection_lost, protocol_violation, unavailable},
    pending::{PendingOutcome, PendingRequests, RouteResult},
    request::{Interest, StartFailure, UpstreamEvent, UpstreamRequest},
};
use crate::http_client::{BodyError, EventStream, HttpClient, HttpResponse, SendError};

const VERSION: HeaderName = HeaderName::from_static(headers::PROTOCOL_VERSION);
const SESSION: HeaderName = HeaderName::from_static(headers::SESSION_ID);
const METHOD: HeaderName = HeaderName::from_static(headers::METHOD);
const NAME: HeaderName = HeaderName::from_static(headers::NAME);
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// How long a request waits for the stream of the server's notifications to open.
const STREAM_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the server may take to accept a notification.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of the body of an accepted notification that the gateway reads.
const MAX_NOTIFICATION_RESPONSE_BYTES: usize = 64 * 1024;

/// The Streamable HTTP transport of one connection.
#[derive(Debug)]
pub(crate) struct StreamableHttp {
    pub(super) server: Arc<str>,
    client: Arc<HttpClient>,
    pub(super) limits: Limits,
    pub(super) listener: SharedListener,
    negotiated: OnceLock<HandshakeResult>,
    pub(super) pending: Arc<PendingRequests>,
    /// Cancelled once the server has answered the GET for its notifications, or the wait for that is over.
    stream_opened: CancellationToken,
}

/// The result of the handshake.
#[derive(Debug)]
struct HandshakeResult {
    era: Era,
    /// Headers of each request: the version, and the session if there is one.
    headers: Vec<(HeaderName, HeaderValue)>,
    has_session: bool,
}

impl StreamableHttp {
    pub(crate) fn new(
        server: Arc<str>,
        client: Arc<HttpClient>,
        limits: Limits,
        listener: SharedListener,
    ) -> Self {
        let (pending, stream_opened) = (Arc::default(), CancellationToken::new());
        Self {
            server,
            client,
            limits,
            listener,
            negotiated: OnceLock::new(),
            pending,
            stream_opened,
        }
    }

    /// Sets what further requests carry.
    pub(crate) fn set_negotiated(&self, era: Era, version: &str, session: Option<HeaderValue>) {
        let mut headers = Vec::with_capacity(2);
        if let Ok(version) = HeaderValue::from_str(version) {
            headers.push((VERSION, version));
        }
        let has_session = session.is_some();
        if let Some(mut session) = session {
            session.set_sensitive(true);
            headers.push((SESSION, session));
        }
        let _ = self.negotiated.set(HandshakeResult { era, headers, has_session });
    }

    pub(super) fn has_session(&self) -> bool {
        self.negotiated.get().is_some_and(|negotiated| negotiated.has_session)
    }

    /// The negotiated era; legacy until the handshake is over.
    pub(super) fn era(&self) -> Era {
        self.negotiated.get().map_or(Era::Legacy, |negotiated| negotiated.era)
    }

    pub(super) fn session_headers(&self) -> &[(HeaderName, HeaderValue)] {
        self.negotiated.get().map_or(&[], |negotiated| &negotiated.headers)
    }

    /// The headers of one request of 2026-07-28, which repeat parts of the body.
    pub(super) fn request_headers(
        &self,
        request: &UpstreamRequest<'_>,
    ) -> Vec<(HeaderName, HeaderValue)> {
        let mut all =
            Vec::with_capacity(self.session_headers().len() + 2 + request.param_headers.len());
        all.extend_from_slice(self.session_headers());
        all.extend(HeaderValue::from_str(request.method).ok().map(|method| (METHOD, method)));
        let name = request.name.and_then(|name| HeaderValue::from_str(&headers::encode(name)).ok());
        all.extend(name.map(|name| (NAME, name)));
        all.extend_from_slice(request.param_headers);
        all
    }

    /// Posts a request. An idempotent one may be sent twice.
    pub(super) async fn post(
        &self,
        is_idempotent: bool,
        headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Result<HttpResponse, SendError> {
        if is_idempotent {
            self.client.post_idempotent(None, headers, body).await
        } else {
            self.client.send(Method::POST, None, headers, body).await
        }
    }

    /// Sends a notification, or the response to a request of the server.
    pub(crate) async fn send_line(&self, line: Bytes) -> Result<(), Failure> {
        let late = || unavailable(&self.server, "it does not answer");
        let sending = self.post_line(line);
        tokio::time::timeout(NOTIFICATION_TIMEOUT, sending).await.unwrap_or_else(|_| Err(late()))
    }

    async fn post_line(&self, line: Bytes) -> Result<(), Failure> {
        let sent = if self.era() == Era::Modern {
            let method = Message::parse(line.clone(), &self.limits);
            let method = method.map(|message| message.method().to_owned()).unwrap_or_default();
            let headers = self.request_headers(&UpstreamRequest::own(&method));
            self.client.send(Method::POST, None, &headers, line).await
        } else {
            self.client.send(Method::POST, None, self.session_headers(), line).await
        };
        let answer = sent.map_err(|error| self.send_failure(error))?;
        if answer.status.is_success() {
            // Reads the body to its end, so that the HTTP connection can be used again.
            let _ = answer.whole(MAX_NOTIFICATION_RESPONSE_BYTES).await;
            return Ok(());
        }
        let status = answer.status;
        Err(unavailable(&self.server, &format!("it answered a notification with {status}")))
    }

    /// Waits until the stream of the server's notifications is open: servers drop what they send on it before that.
    /// The gateway waits once for a server that does not answer the GET in time.
    pub(super) async fn wait_for_stream(&self) {
        if !self.stream_opened.is_cancelled() {
            let _ = tokio::time::timeout(STREAM_TIMEOUT, self.stream_opened.cancelled()).await;
            self.stream_opened.cancel();
        }
    }

    /// Opens the stream on which a legacy server sends what belongs to no request; `None`: the server has no such stream.
    pub(crate) async fn listen(
        &self,
        last_event: Option<&HeaderValue>,
    ) -> Result<Option<EventStream>, StartFailure> {
        let opened = self.open_stream(last_event).await;
        self.stream_opened.cancel();
        opened
    }

    async fn open_stream(
        &self,
        last_event: Option<&HeaderValue>,
    ) -> Result<Option<EventStream>, StartFailure> {
        let mut headers = self.session_headers().to_vec();
        headers.extend(last_event.map(|id| (LAST_EVENT, id.clone())));
        let sent = self.client.send(Method::GET, None, &headers, Bytes::new()).await;
        let answer = sent.map_err(|error| self.send_failure(error))?;
        match answer.status {
            StatusCode::OK if answer.is_content_type("text/event-stream") => {
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
    pub(crate) async fn end_session(&self) {
        if self.has_session() {
            let _ =
                self.client.send(Method::DELETE, None, self.session_headers(), Bytes::new()).await;
        }
    }

    /// The failure of a response whose body could not be read.
    pub(super) fn body_failure(&self, error: &BodyError) -> Failure {
        match error {
            BodyError::TooLarge(_) => protocol_violation(&self.server, &format!("sent {error}")),
            BodyError::Broken(why) => connection_lost(&self.server, why, self.pending.loss_stage()),
        }
    }

    fn send_failure(&self, error: SendError) -> Failure {
        match error {
            SendError::NotSent(why) => unavailable(&self.server, &why),
            SendError::Lost(why) => connection_lost(&self.server, &why, self.pending.loss_stage()),
        }
    }

    /// Reads the response to a POST.
    pub(super) async fn read_response(
        &self,
        sent: Result<HttpResponse, SendError>,
        expected: &Id,
    ) -> Result<PostResult, StartFailure> {
        let answer = sent.map_err(|error| self.send_failure(error))?;
        let status = answer.status;
        if status == StatusCode::OK && answer.is_content_type("text/event-stream") {
            let stream = EventStream::new(answer, self.limits.max_bytes);
            return Ok(PostResult::Stream(Box::new(stream)));
        }
        if status == StatusCode::ACCEPTED && self.has_session() {
            return Ok(PostResult::Accepted);
        }
        let has_text = answer.is_content_type("application/json");
        let body = answer.whole(self.limits.max_bytes).await;
        let body = body.map_err(|error| self.body_failure(&error))?;
        let message = (has_text && !body.is_empty())
            .then(|| Message::receive(body, &self.limits, Sender::Server));
        if status == StatusCode::OK {
            let message = message
                .ok_or_else(|| {
                    protocol_violation(&self.server, "answered with neither JSON nor events")
                })?
                .map_err(|refused| {
                    let why = refused.error;
                    protocol_violation(
                        &self.server,
                        &format!("sent an answer that cannot be read: {why}"),
                    )
                })?;
            return self
                .check_response(message, expected)
                .map(|m| PostResult::Response(Box::new(m)));
        }
        let message = message.and_then(Result::ok).filter(|m| m.shape() == Shape::Error);
        let code = message.as_ref().and_then(|m| m.member("code")).and_then(|code| code.i64());
        let is_forgotten = status == StatusCode::NOT_FOUND && code != Some(code::METHOD_NOT_FOUND)
            || status == StatusCode::BAD_REQUEST && message.as_ref().is_some_and(says_no_session);
        match message {
            _ if self.has_session() && is_forgotten => Err(StartFailure::SessionLost),
            // Also with another id or none: the body of this POST answers no other request.
            Some(message) => Ok(PostResult::Response(Box::new(message))),
            None => Err(refused(&self.server, status).into()),
        }
    }

    fn check_response(&self, message: Message, expected: &Id) -> Result<Message, StartFailure> {
        let is_answer = matches!(message.shape(), Shape::Response | Shape::Error);
        if is_answer && message.id().is_none_or(|id| id == expected) {
            return Ok(message);
        }
        Err(protocol_violation(&self.server, "answered with the id of another request").into())
    }

    /// Sends `initialize`. Gives the response and the session that the server opened.
    pub(crate) async fn initialize(
        &self,
        line: Bytes,
        id: &Id,
    ) -> Result<(Message, Option<HeaderValue>), StartFailure> {
        let answer = self.client.send(Method::POST, None, &[], line).await;
        let answer = answer.map_err(|error| self.send_failure(error))?;
        let session = answer.headers.session();
        match self.read_response(Ok(answer), id).await? {
            PostResult::Response(message) => Ok((*message, session)),
            PostResult::Accepted => {
                Err(protocol_violation(&self.server, "did not answer initialize").into())
            }
            PostResult::Stream(mut stream) => loop {
                let event = stream.next().await;
                let event =
                    event.map_err(|error| protocol_violation(&self.server, &error.to_string()))?;
                let Some(event) = event else {
                    return Err(protocol_violation(
                        &self.server,
                        "ended its stream before it answered",
                    )
                    .into());
                };
                if let Ok(message) = Message::receive(event.data, &self.limits, Sender::Server)
                    && matches!(message.shape(), Shape::Response | Shape::Error)
                    && message.id() == Some(id)
                {
                    return Ok((message, session));
                }
            },
        }
    }

    /// Asks whether the server speaks 2026-07-28.
    pub(crate) async fn discover(&self, line: Bytes, id: &Id) -> Result<Message, StartFailure> {
        let headers = [
            (VERSION, HeaderValue::from_static("2026-07-28")),
            (METHOD, HeaderValue::from_static(method::SERVER_DISCOVER)),
        ];
        let sent = self.client.post_idempotent(None, &headers, line).await;
        match self.read_response(sent, id).await? {
            PostResult::Response(message) => Ok(*message),
            PostResult::Accepted => Err(protocol_violation(&self.server, "did not answer").into()),
            PostResult::Stream(mut stream) => {
                while let Ok(Some(event)) = stream.next().await {
                    if let Ok(message) = Message::receive(event.data, &self.limits, Sender::Server)
                        && message.id() == Some(id)
                        && message.method().is_empty()
                    {
                        return Ok(message);
                    }
                }
                Err(protocol_violation(&self.server, "ended its stream before it answered").into())
            }
        }
    }

    /// Handles a message of the stream that belongs to no request. A request on it may still be about a call in flight.
    pub(crate) async fn handle_message(self: &Arc<Self>, message: Message) {
        match (message.shape(), message.method()) {
            (Shape::Notification, method::NOTIFICATIONS_PROGRESS) => {
                self.pending.deliver_progress(&message);
            }
            (Shape::Notification, method::NOTIFICATIONS_CANCELLED) => {
                self.pending.cancel_server_request(&message);
            }
            (Shape::Notification, method::NOTIFICATIONS_MESSAGE) => {
                // A log message does not name its call: with several clients the gateway could pick the wrong one.
                let event = UpstreamEvent::Notification(message);
                let routed = self.pending.deliver_to_only_client(event, |interest| interest.logs);
                if let Some(message) = routed.into_undelivered_notification() {
                    self.listener.on_message(message);
                }
            }
            (Shape::Notification, _) => self.listener.on_message(message),
            (Shape::Request, _) => self.handle_request(message).await,
            (Shape::Response | Shape::Error, _) => {
                // Some servers respond on any open stream.
                if let Some(id) = message.id().cloned() {
                    self.pending.finish(&id, PendingOutcome::Response(message));
                }
            }
        }
    }

    async fn handle_request(self: &Arc<Self>, message: Message) {
        let Some(id) = message.id().cloned() else { return };
        let (method, params) = (message.method().to_owned(), message.params());
        let line = if method == method::PING {
            response(&id, &Json::empty_object())
        } else {
            let accepts = |interest: &Interest| interest.can_answer(&method, params.as_ref());
            let event = UpstreamEvent::ServerRequest(message);
            match self.pending.deliver_to_only_client(event, accepts) {
                RouteResult::Delivered => return,
                RouteResult::NoClient(UpstreamEvent::ServerRequest(message))
                    if self.listener.on_request(message.clone(), self.reply_channel()) =>
                {
                    return;
                }
                _ => {
                    let text = format!("no client that is here can be asked `{method}`");
                    error_response(Some(&id), code::METHOD_NOT_FOUND, &text, None)
                }
            }
        };
        if let Err(failure) = self.send_line(line).await {
            tracing::debug!("a question of the server stays without an answer: {failure}");
        }
    }
}

impl StreamableHttp {
    fn reply_channel(self: &Arc<Self>) -> ReplyTo {
        let weak: Weak<Self> = Arc::downgrade(self);
        ReplyTo::Http(weak)
    }
}

impl ReplyChannel for StreamableHttp {
    fn reply(&self, line: Bytes) -> Boxed<'_, ()> {
        Box::pin(async move { drop(self.send_line(line).await) })
    }
}

/// Restarted servers of the official SDKs refuse an unknown session with 400 and one of these messages. Any other refusal
/// is not a lost session: the request may have run.
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

/// The failure for an HTTP status without a JSON-RPC error.
fn refused(server: &str, status: StatusCode) -> Failure {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let message = format!("The server `{server}` refuses us: {status}");
            Failure::new(Code::ServerRejected, message)
                .suggest("Ask the operator to check the `headers` of this server in the config.")
                .with_executed(Executed::No)
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            let message = format!("The server `{server}` has too much to do: it answered {status}");
            Failure::new(Code::Overloaded, message).with_executed(Executed::No)
        }
        status if status.is_client_error() => {
            let message = format!("The server `{server}` refuses the request: {status}");
            Failure::new(Code::ServerRejected, message).with_executed(Executed::No)
        }
        status => protocol_violation(server, &format!("answered {status}")),
    }
}

/// What the server answered to a POST.
pub(super) enum PostResult {
    Response(Box<Message>),
    Stream(Box<EventStream>),
    /// The response comes on another stream.
    Accepted,
}
