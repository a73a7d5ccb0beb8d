//! One request over HTTP whose answer comes on a stream of its own, with whatever is said and asked before it.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use toolgate::{Boxed, Executed, Failure};
use toolgate_wire::{Id, Json, Message, Sender, Shape, error_response, response};

use super::{
    events::UpstreamNotification,
    in_flight::{Interest, StartFailure, UpstreamEvent, lost, nonsense, unavailable},
    pending::{PendingOutcome, cancelled, id_of, with_token},
    resume::Resume,
    streamable_http::{PostResult, StreamableHttp},
};
use crate::http_client::{BodyError, EventStream};

/// A request whose answer comes on a stream of its own.
pub(crate) struct EventRequest {
    pub(super) link: Arc<StreamableHttp>,
    pub(super) expected: Id,
    pub(super) entered: Option<Id>,
    /// The answer, should it come on another stream.
    pub(super) answer: Option<oneshot::Receiver<PendingOutcome>>,
    pub(super) steps: Option<mpsc::Receiver<UpstreamEvent>>,
    pub(super) is_known: bool,
    pub(super) hears: Interest,
    pub(super) phase: Phase,
    pub(super) resume: Resume,
}

/// Where it is.
pub(super) enum Phase {
    Sending(Boxed<'static, Result<PostResult, StartFailure>>),
    Reading(Box<EventStream>),
    /// The stream broke off and is asked for again.
    Resuming(Boxed<'static, Result<Option<EventStream>, StartFailure>>),
    /// The answer comes on another stream.
    Elsewhere,
    Over,
}

impl std::fmt::Debug for EventRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventRequest").field("id", &self.expected).finish_non_exhaustive()
    }
}

/// What one look at the stream gave.
enum Seen {
    Event(Box<toolgate_wire::sse::Event>),
    Ended(String),
    Unreadable(BodyError),
    Began(Result<PostResult, StartFailure>),
    Resumed(Box<Result<Option<EventStream>, StartFailure>>),
}

impl EventRequest {
    pub(super) async fn next(&mut self) -> Result<UpstreamEvent, Failure> {
        loop {
            let seen = {
                let phase = look(&mut self.phase);
                match (&mut self.steps, &mut self.answer) {
                    (None, None) => phase.await,
                    (steps, answer) => tokio::select! {
                        biased;
                        Some(step) = next_of(steps) => return Ok(step),
                        seen = phase => seen,
                        message = answer_of(answer) => {
                            self.land();
                            return Ok(UpstreamEvent::Answer(message));
                        }
                    },
                }
            };
            // On the heap: streams are rare, and calls should be small.
            if let Some(step) = Box::pin(self.took(seen)).await? {
                return Ok(step);
            }
        }
    }

    async fn took(&mut self, seen: Seen) -> Result<Option<UpstreamEvent>, Failure> {
        match seen {
            Seen::Event(event) => return self.event(*event).await,
            Seen::Began(Ok(PostResult::Response(message))) => {
                self.land();
                return Ok(Some(UpstreamEvent::Answer(*message)));
            }
            Seen::Began(Ok(PostResult::Stream(stream))) => self.phase = Phase::Reading(stream),
            Seen::Began(Ok(PostResult::Accepted)) => self.phase = Phase::Elsewhere,
            Seen::Began(Err(StartFailure::Failed(failure))) => {
                self.land();
                return Err(failure);
            }
            Seen::Began(Err(StartFailure::SessionLost)) => {
                self.land();
                return Ok(Some(UpstreamEvent::SessionLost));
            }
            Seen::Began(Err(StartFailure::Closed(why))) => {
                self.land();
                return Err(unavailable(&self.link.server, &why));
            }
            Seen::Resumed(resumed) => match *resumed {
                Ok(Some(stream)) => self.phase = Phase::Reading(Box::new(stream)),
                Ok(None) => {
                    self.land();
                    return Err(lost(&self.link.server, "its stream broke off", Executed::Maybe));
                }
                Err(StartFailure::Failed(failure)) => self.resume(&failure.to_string())?,
                Err(_) => {
                    self.land();
                    return Err(lost(
                        &self.link.server,
                        "it has forgotten the session",
                        Executed::Maybe,
                    ));
                }
            },
            Seen::Ended(why) => self.resume(&why)?,
            Seen::Unreadable(error) => {
                self.land();
                return Err(self.link.unread(&error));
            }
        }
        Ok(None)
    }

    /// Goes on with a stream that broke off, if the server offers that: the request is not repeated.
    fn resume(&mut self, why: &str) -> Result<(), Failure> {
        let (Some(pause), Some(last)) = (self.resume.attempt(), self.resume.last_event().cloned())
        else {
            self.land();
            return Err(lost(&self.link.server, why, Executed::Maybe));
        };
        let link = Arc::clone(&self.link);
        self.phase = Phase::Resuming(Box::pin(async move {
            tokio::time::sleep(pause).await;
            link.listen(Some(&last)).await
        }));
        Ok(())
    }

    async fn event(
        &mut self,
        event: toolgate_wire::sse::Event,
    ) -> Result<Option<UpstreamEvent>, Failure> {
        self.resume.note(&event);
        if event.data.is_empty() {
            return Ok(None);
        }
        let server = Arc::clone(&self.link.server);
        let message = match Message::receive(event.data, &self.link.limits, Sender::Server) {
            Ok(message) => message,
            Err(refused) if refused.is_unanswerable() => {
                tracing::warn!(%server, "a message of the server is dropped: {}", refused.error);
                return Ok(None);
            }
            Err(refused) => {
                self.land();
                let why = format!("sent an event that cannot be read: {}", refused.error);
                return Err(nonsense(&server, &why));
            }
        };
        match message.shape() {
            Shape::Response | Shape::Error => {
                let fits = message.id().is_none_or(|id| *id == self.expected);
                if let Phase::Reading(stream) = std::mem::replace(&mut self.phase, Phase::Over)
                    && fits
                {
                    stream.leave();
                }
                self.land();
                if fits {
                    return Ok(Some(UpstreamEvent::Answer(message)));
                }
                Err(nonsense(&server, "answered with the id of another request"))
            }
            Shape::Notification => Ok(self.notification(message)),
            Shape::Request => self.question(message).await,
        }
    }

    fn notification(&mut self, message: Message) -> Option<UpstreamEvent> {
        match message.method() {
            "notifications/progress" => {
                let token = self.hears.token.clone()?;
                let told = if self.is_known { with_token(&message, token)? } else { message };
                Some(UpstreamEvent::Notice(told))
            }
            "notifications/cancelled" => {
                let id = message.member("requestId").and_then(Id::from_json)?;
                Some(UpstreamEvent::Withdrawn(id))
            }
            "notifications/message" => self.hears.logs.then_some(UpstreamEvent::Notice(message)),
            _ => match UpstreamNotification::of(message)? {
                UpstreamNotification::Other(message) => Some(UpstreamEvent::Notice(message)),
                event => {
                    self.link.events.happened(event);
                    None
                }
            },
        }
    }

    async fn question(&mut self, message: Message) -> Result<Option<UpstreamEvent>, Failure> {
        let Some(id) = message.id().cloned() else { return Ok(None) };
        let (method, params) = (message.method(), message.params());
        if self.hears.can_answer(method, params.as_ref()) {
            return Ok(Some(UpstreamEvent::Question(message)));
        }
        let line = if method == "ping" {
            response(&id, &Json::empty_object())
        } else {
            let text = format!("no client that is here can be asked `{method}`");
            error_response(Some(&id), -32601, &text, None)
        };
        self.link.tell(line).await?;
        Ok(None)
    }

    pub(super) async fn reply(&mut self, line: Bytes) -> Result<(), Failure> {
        self.link.tell(line).await
    }

    /// It is over: nothing is to be given up any more.
    pub(super) fn land(&mut self) {
        self.phase = Phase::Over;
        self.answer = None;
        if let Some(id) = self.entered.take() {
            self.link.flights.leave(&id);
        }
        self.expected = id_of(0);
        self.is_known = false;
    }
}

async fn look(phase: &mut Phase) -> Seen {
    match phase {
        Phase::Sending(send) => {
            let received = send.await;
            *phase = Phase::Over;
            Seen::Began(received)
        }
        Phase::Reading(stream) => match stream.next().await {
            Ok(Some(event)) => Seen::Event(Box::new(event)),
            Ok(None) => Seen::Ended("its stream broke off".to_owned()),
            // What is too large will be so the next time.
            Err(error @ BodyError::TooLarge(_)) => Seen::Unreadable(error),
            Err(BodyError::Broken(why)) => Seen::Ended(why),
        },
        Phase::Resuming(resume) => {
            let resumed = resume.await;
            *phase = Phase::Over;
            Seen::Resumed(Box::new(resumed))
        }
        Phase::Elsewhere => std::future::pending().await,
        Phase::Over => Seen::Ended("its stream is over".to_owned()),
    }
}

async fn next_of(steps: &mut Option<mpsc::Receiver<UpstreamEvent>>) -> Option<UpstreamEvent> {
    match steps {
        Some(steps) => steps.recv().await,
        None => None,
    }
}

/// The answer, if it comes on another stream. Cancel safe.
async fn answer_of(answer: &mut Option<oneshot::Receiver<PendingOutcome>>) -> Message {
    if let Some(waiting) = answer {
        let arrived = waiting.await;
        *answer = None;
        if let Ok(PendingOutcome::Answer(message)) = arrived {
            return message;
        }
    }
    std::future::pending().await
}

impl Drop for EventRequest {
    fn drop(&mut self) {
        let Some(id) = self.entered.take() else { return };
        self.link.flights.leave(&id);
        if self.link.is_modern() || !self.link.has_session() {
            // Closing the stream says it.
            return;
        }
        let link = Arc::clone(&self.link);
        let notice = cancelled(&id);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { drop(link.tell(notice).await) });
        }
    }
}
