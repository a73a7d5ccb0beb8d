//! A request over Streamable HTTP: its POST, and the event stream that carries side messages and the response.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use toolgate::{Boxed, Failure};
use toolgate_wire::{
    Id, Json, Message, Sender, Shape, error_response,
    mcp::{Era, code, method},
    response,
};

use super::{
    events::UpstreamNotification,
    failures::{connection_lost, protocol_violation, unavailable},
    pending::{PendingId, PendingOutcome, SideEvent, cancellation, numeric_id, with_token},
    request::{
        IdRewrite, Interest, Requester, StartFailure, UpstreamEvent, UpstreamRequest, is_idempotent,
    },
    resume::Resume,
    streamable_http::{PostResult, StreamableHttp},
};
use crate::http_client::{BodyError, EventStream};

/// A request whose response comes on an event stream.
pub(crate) struct EventRequest {
    http: Arc<StreamableHttp>,
    /// The id that the response has.
    expected: Id,
    /// The id in the table of pending requests, while the request is in it.
    pending_id: Option<Id>,
    /// The response, if the server sends it on another stream.
    response: Option<oneshot::Receiver<PendingOutcome>>,
    side_events: Option<mpsc::Receiver<SideEvent>>,
    /// Whether the gateway has replaced the progress token.
    has_own_token: bool,
    interest: Interest,
    phase: Phase,
    resume: Resume,
}

/// What the request waits for.
enum Phase {
    Sending(Boxed<'static, Result<PostResult, StartFailure>>),
    Reading(Box<EventStream>),
    /// The stream broke off, and the gateway asks for the rest.
    Resuming(Boxed<'static, Result<Option<EventStream>, StartFailure>>),
    /// The response comes on another stream.
    Elsewhere,
    Over,
}

impl std::fmt::Debug for EventRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventRequest").field("id", &self.expected).finish_non_exhaustive()
    }
}

/// What the POST or its stream gave.
enum StreamEvent {
    Event(Box<toolgate_wire::sse::Event>),
    Ended(String),
    Unreadable(BodyError),
    Posted(Result<PostResult, StartFailure>),
    Resumed(Box<Result<Option<EventStream>, StartFailure>>),
}

/// A request that the server has accepted.
pub(super) enum StartedExchange {
    Answered(Box<Message>),
    Streaming(Box<EventRequest>),
}

impl EventRequest {
    /// Posts a request.
    pub(super) async fn start(
        http: &Arc<StreamableHttp>,
        request: UpstreamRequest<'_>,
        clients_id: Option<&Id>,
        compose: impl FnOnce(IdRewrite) -> Bytes,
    ) -> Result<StartedExchange, StartFailure> {
        // Ids must be unique within a session, and clients choose theirs independently of each other.
        let is_numbered = http.has_session() || clients_id.is_none();
        let entry = if is_numbered {
            http.pending.insert(request.interest.clone(), PendingId::Number)
        } else {
            None
        };
        let rewrite = entry.as_ref().map_or_else(IdRewrite::default, |entry| IdRewrite {
            id: Some(entry.id.clone()),
            token: request.interest.token.as_ref().map(|_| entry.id.as_json().clone()),
        });
        let id = rewrite.id.clone().or_else(|| clients_id.cloned());
        let has_own_token = entry.is_some();
        let (pending_id, response, side_events) = match entry {
            Some(entry) => (Some(entry.id), Some(entry.response), entry.side_events),
            None => (None, None, None),
        };
        let mut sent = Self {
            http: Arc::clone(http),
            expected: id.unwrap_or_else(|| numeric_id(0)),
            pending_id,
            // A legacy server may respond on any of its open streams.
            response: response.filter(|_| http.has_session()),
            side_events,
            has_own_token,
            interest: request.interest.clone(),
            phase: Phase::Over,
            resume: Resume::default(),
        };
        let (body, is_idempotent) = (compose(rewrite), is_idempotent(request.method));
        let may_notify = sent.interest.requester != Requester::Gateway
            || request.method == method::RESOURCES_SUBSCRIBE;
        let needs_stream = http.era() == Era::Legacy && http.has_session() && may_notify;
        if needs_stream && sent.side_events.is_some() {
            // The server's requests may come on its other stream before it responds to the POST.
            let (http, expected) = (Arc::clone(http), sent.expected.clone());
            sent.phase = Phase::Sending(Box::pin(async move {
                http.wait_for_stream().await;
                let answered = http.post(is_idempotent, http.session_headers(), body).await;
                http.read_response(answered, &expected).await
            }));
            return Ok(StartedExchange::Streaming(Box::new(sent)));
        }
        if needs_stream {
            http.wait_for_stream().await;
        }
        let answered = match http.era() {
            Era::Modern => http.post(is_idempotent, &http.request_headers(&request), body).await,
            Era::Legacy => http.post(is_idempotent, http.session_headers(), body).await,
        };
        match http.read_response(answered, &sent.expected).await {
            Ok(PostResult::Response(message)) => {
                sent.finish();
                return Ok(StartedExchange::Answered(message));
            }
            Ok(PostResult::Stream(stream)) => sent.phase = Phase::Reading(stream),
            Ok(PostResult::Accepted) => sent.phase = Phase::Elsewhere,
            Err(failure) => {
                sent.finish();
                return Err(failure);
            }
        }
        Ok(StartedExchange::Streaming(Box::new(sent)))
    }

    pub(super) async fn next(&mut self) -> Result<UpstreamEvent, Failure> {
        loop {
            let event = {
                let phase = next_stream_event(&mut self.phase);
                match (&mut self.side_events, &mut self.response) {
                    (None, None) => phase.await,
                    (side_events, response) => tokio::select! {
                        biased;
                        Some(side) = next_of(side_events) => return Ok(*side),
                        event = phase => event,
                        message = response_of(response) => {
                            self.finish();
                            return Ok(UpstreamEvent::Response(message));
                        }
                    },
                }
            };
            // On the heap: streams are rare, and the future of each call should be small.
            if let Some(event) = Box::pin(self.handle(event)).await? {
                return Ok(event);
            }
        }
    }

    async fn handle(&mut self, event: StreamEvent) -> Result<Option<UpstreamEvent>, Failure> {
        match event {
            StreamEvent::Event(event) => return self.handle_event(*event).await,
            StreamEvent::Posted(Ok(PostResult::Response(message))) => {
                self.finish();
                return Ok(Some(UpstreamEvent::Response(*message)));
            }
            StreamEvent::Posted(Ok(PostResult::Stream(stream))) => {
                self.phase = Phase::Reading(stream);
            }
            StreamEvent::Posted(Ok(PostResult::Accepted)) => self.phase = Phase::Elsewhere,
            StreamEvent::Posted(Err(StartFailure::Failed(failure))) => {
                self.finish();
                return Err(failure);
            }
            StreamEvent::Posted(Err(StartFailure::SessionLost)) => {
                self.finish();
                return Ok(Some(UpstreamEvent::SessionLost));
            }
            StreamEvent::Posted(Err(StartFailure::Closed(why))) => {
                self.finish();
                return Err(unavailable(&self.http.server, &why));
            }
            StreamEvent::Resumed(resumed) => match *resumed {
                Ok(Some(stream)) => self.phase = Phase::Reading(Box::new(stream)),
                Ok(None) => {
                    self.finish();
                    return Err(self.lost("its stream broke off"));
                }
                Err(StartFailure::Failed(failure)) => self.resume(&failure.to_string())?,
                Err(_) => {
                    self.finish();
                    return Err(self.lost("it has forgotten the session"));
                }
            },
            StreamEvent::Ended(why) => self.resume(&why)?,
            StreamEvent::Unreadable(error) => {
                self.finish();
                return Err(self.http.body_failure(&error));
            }
        }
        Ok(None)
    }

    fn lost(&self, why: &str) -> Failure {
        connection_lost(&self.http.server, why, self.http.pending.loss_stage())
    }

    /// Asks for the rest of a stream that broke off, if the server offers that. Does not repeat the request.
    fn resume(&mut self, why: &str) -> Result<(), Failure> {
        let (Some(pause), Some(last)) = (self.resume.attempt(), self.resume.last_event().cloned())
        else {
            self.finish();
            return Err(self.lost(why));
        };
        let http = Arc::clone(&self.http);
        self.phase = Phase::Resuming(Box::pin(async move {
            tokio::time::sleep(pause).await;
            http.listen(Some(&last)).await
        }));
        Ok(())
    }

    async fn handle_event(
        &mut self,
        event: toolgate_wire::sse::Event,
    ) -> Result<Option<UpstreamEvent>, Failure> {
        self.resume.note(&event);
        if event.data.is_empty() {
            return Ok(None);
        }
        let server = Arc::clone(&self.http.server);
        let message = match Message::receive(event.data, &self.http.limits, Sender::Server) {
            Ok(message) => message,
            Err(refused) if refused.is_unanswerable() => {
                tracing::warn!(%server, "a message of the server is dropped: {}", refused.error);
                return Ok(None);
            }
            Err(refused) => {
                self.finish();
                let why = format!("sent an event that cannot be read: {}", refused.error);
                return Err(protocol_violation(&server, &why));
            }
        };
        match message.shape() {
            Shape::Response | Shape::Error => {
                let fits = message.id().is_none_or(|id| *id == self.expected);
                if let Phase::Reading(stream) = std::mem::replace(&mut self.phase, Phase::Over)
                    && fits
                {
                    stream.drain();
                }
                self.finish();
                if fits {
                    return Ok(Some(UpstreamEvent::Response(message)));
                }
                Err(protocol_violation(&server, "answered with the id of another request"))
            }
            Shape::Notification => Ok(self.handle_notification(message)),
            Shape::Request => self.handle_request(message).await,
        }
    }

    fn handle_notification(&mut self, message: Message) -> Option<UpstreamEvent> {
        match message.method() {
            method::NOTIFICATIONS_PROGRESS => {
                let token = self.interest.token.clone()?;
                let message =
                    if self.has_own_token { with_token(&message, token)? } else { message };
                Some(UpstreamEvent::Notification(message))
            }
            method::NOTIFICATIONS_CANCELLED => {
                let id = message.member("requestId").and_then(Id::from_json)?;
                Some(UpstreamEvent::ServerRequestCancelled(id))
            }
            method::NOTIFICATIONS_MESSAGE => {
                self.interest.logs.then_some(UpstreamEvent::Notification(message))
            }
            _ => match UpstreamNotification::of(message)? {
                UpstreamNotification::Other(message) => Some(UpstreamEvent::Notification(message)),
                notification => {
                    self.http.listener.on_notification(notification);
                    None
                }
            },
        }
    }

    async fn handle_request(&mut self, message: Message) -> Result<Option<UpstreamEvent>, Failure> {
        let Some(id) = message.id().cloned() else { return Ok(None) };
        let (method, params) = (message.method(), message.params());
        if self.interest.can_answer(method, params.as_ref()) {
            return Ok(Some(UpstreamEvent::ServerRequest(message)));
        }
        let line = if method == method::PING {
            response(&id, &Json::empty_object())
        } else {
            let text = format!("no client that is here can be asked `{method}`");
            error_response(Some(&id), code::METHOD_NOT_FOUND, &text, None)
        };
        self.http.send_line(line).await?;
        Ok(None)
    }

    pub(super) async fn reply(&mut self, line: Bytes) -> Result<(), Failure> {
        self.http.send_line(line).await
    }

    /// Ends the request: dropping it cancels nothing any more.
    fn finish(&mut self) {
        self.phase = Phase::Over;
        self.response = None;
        if let Some(id) = self.pending_id.take() {
            self.http.pending.remove(&id);
        }
        self.expected = numeric_id(0);
        self.has_own_token = false;
    }
}

async fn next_stream_event(phase: &mut Phase) -> StreamEvent {
    match phase {
        Phase::Sending(send) => {
            let received = send.await;
            *phase = Phase::Over;
            StreamEvent::Posted(received)
        }
        Phase::Reading(stream) => match stream.next().await {
            Ok(Some(event)) => StreamEvent::Event(Box::new(event)),
            Ok(None) => StreamEvent::Ended("its stream broke off".to_owned()),
            // The server would send the same event again.
            Err(error @ BodyError::TooLarge(_)) => StreamEvent::Unreadable(error),
            Err(BodyError::Broken(why)) => StreamEvent::Ended(why),
        },
        Phase::Resuming(resume) => {
            let resumed = resume.await;
            *phase = Phase::Over;
            StreamEvent::Resumed(Box::new(resumed))
        }
        Phase::Elsewhere => std::future::pending().await,
        Phase::Over => StreamEvent::Ended("its stream is over".to_owned()),
    }
}

async fn next_of(side_events: &mut Option<mpsc::Receiver<SideEvent>>) -> Option<SideEvent> {
    match side_events {
        Some(side_events) => side_events.recv().await,
        None => None,
    }
}

/// The response, if it comes on another stream. Cancel safe.
async fn response_of(response: &mut Option<oneshot::Receiver<PendingOutcome>>) -> Message {
    if let Some(receiver) = response {
        let outcome = receiver.await;
        *response = None;
        if let Ok(PendingOutcome::Response(message)) = outcome {
            return message;
        }
    }
    std::future::pending().await
}

impl Drop for EventRequest {
    fn drop(&mut self) {
        let Some(id) = self.pending_id.take() else { return };
        self.http.pending.remove(&id);
        if self.http.era() == Era::Modern || !self.http.has_session() {
            // The server takes the closed stream as the cancellation.
            return;
        }
        let http = Arc::clone(&self.http);
        let notification = cancellation(&id);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { drop(http.send_line(notification).await) });
        }
    }
}
