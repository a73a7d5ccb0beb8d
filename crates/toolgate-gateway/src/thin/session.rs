//! The session with the gateway: made by the client's `initialize`, made anew if the gateway has lost it.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{Method, StatusCode, header::HeaderValue};
use toolgate::{Code, Failure, Ran};
use toolgate_wire::{Message, Shape};

use tokio::time::timeout;

use crate::batch;

use super::{
    FAREWELL, answers, failures,
    headers::{Headers, SESSION, VERSION, negotiated},
    hub::Hub,
};

/// What was agreed with the gateway.
#[derive(Debug, Default)]
pub(super) struct Session {
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
    /// Counts the sessions that there were.
    number: u64,
    initialize: Option<Message>,
    initialized: Option<Bytes>,
}

impl Session {
    /// The headers of its messages, and its number if it can be lost.
    pub(super) fn headers(&self) -> (Headers, Option<u64>) {
        let mut headers = Vec::with_capacity(3);
        headers.extend(self.version.clone().map(|version| (VERSION, version)));
        headers.extend(self.id.clone().map(|id| (SESSION, id)));
        (headers, self.id.is_some().then_some(self.number))
    }

    /// Whether there is one.
    pub(super) fn is_open(&self) -> bool {
        self.version.is_some()
    }

    /// Whether it speaks the version that has batches.
    pub(super) fn takes_batches(&self) -> bool {
        let version = self.version.as_ref().and_then(|version| version.to_str().ok());
        batch::are_allowed(version)
    }

    fn begin(&mut self, agreed: Agreed) {
        (self.id, self.version) = (agreed.id, Some(agreed.version));
        self.number += 1;
    }
}

/// What an answer to `initialize` settles.
#[derive(Debug)]
struct Agreed {
    id: Option<HeaderValue>,
    version: HeaderValue,
}

impl Hub {
    /// Posts the client's `initialize` and waits for the answer: whatever comes after belongs to the session.
    pub(super) async fn initialize(self: &Arc<Self>, message: Message) {
        let Some(id) = message.id().cloned() else { return };
        // A client that starts over leaves nothing behind.
        self.listen(None);
        let _ = timeout(FAREWELL, self.end_session()).await;
        match self.agree(&message).await {
            Ok((answer, agreed)) => {
                if let Some(agreed) = agreed {
                    let mut session = self.session();
                    session.begin(agreed);
                    session.initialize = Some(message);
                }
                self.say(answer.line().clone()).await;
            }
            Err(failure) => self.refuse(Some(&id), &failure).await,
        }
    }

    /// Posts `initialize`; what is agreed on is none if the gateway refuses.
    async fn agree(
        self: &Arc<Self>,
        initialize: &Message,
    ) -> Result<(Message, Option<Agreed>), Failure> {
        let Some(id) = initialize.id() else {
            return Err(Failure::internal("a request without an id"));
        };
        let body = initialize.line().clone();
        let answer = self.gateway.send(Method::POST, None, &[], body).await;
        let answer = answer.map_err(|error| failures::unanswered(&self.url, &error))?;
        let session = answer.headers.session();
        let (answer, stream) = answers::read(self, answer, id, None).await?;
        if let Some(stream) = stream {
            self.spawn_aside(answers::read_on(Arc::clone(self), stream));
        }
        if answer.shape() != Shape::Response {
            return Ok((answer, None));
        }
        let version = negotiated(&answer).ok_or_else(|| {
            failures::nonsense(&self.url, "an answer to initialize that names no version")
        })?;
        Ok((answer, Some(Agreed { id: session, version })))
    }

    /// Keeps the client's `notifications/initialized` for a session that has to be made anew.
    pub(super) fn note_initialized(&self, line: &Bytes) {
        self.session().initialized = Some(line.clone());
    }

    /// The gateway does not know the session of this number any more, so it has not run what it was sent: makes a
    /// new one, as the client did, unless somebody has.
    pub(super) async fn renew(self: &Arc<Self>, lost: u64) -> Result<(), Failure> {
        let _alone = self.renewing.lock().await;
        let (initialize, initialized) = {
            let session = self.session();
            if session.number != lost {
                return Ok(());
            }
            (session.initialize.clone(), session.initialized.clone())
        };
        let gone = |why: &str| {
            let text = format!("the gateway has lost the session, and gives no new one: {why}");
            Failure::new(Code::ServerUnavailable, text)
                .ran(Ran::No)
                .suggest("restart the client, so that it initializes again")
        };
        let initialize = initialize.ok_or_else(|| gone("it was never initialized"))?;
        let (_, agreed) = self.agree(&initialize).await?;
        let agreed = agreed.ok_or_else(|| gone("it refused initialize"))?;
        let mut fresh = Session::default();
        fresh.begin(agreed);
        if let Some(initialized) = initialized {
            self.post(&fresh.headers().0, initialized).await?;
        }
        // Only now may others use it.
        let number = {
            let mut session = self.session();
            (session.id, session.version) = (fresh.id, fresh.version);
            session.number += 1;
            session.number
        };
        tracing::info!("the gateway had lost the session; there is a new one");
        self.renewed.send_replace(number);
        Ok(())
    }

    /// Posts what has no answer.
    pub(super) async fn post(&self, headers: &Headers, line: Bytes) -> Result<StatusCode, Failure> {
        let answer = self.gateway.send(Method::POST, None, headers, line).await;
        let answer = answer.map_err(|error| failures::unanswered(&self.url, &error))?;
        Ok(answer.status)
    }

    /// Tells the gateway that the session is over.
    pub(super) async fn end_session(&self) {
        let headers = {
            let mut session = self.session();
            let (headers, number) = session.headers();
            (session.id, session.version, session.initialized) = (None, None, None);
            number.map(|_| headers)
        };
        let Some(headers) = headers else { return };
        let answer = self.gateway.send(Method::DELETE, None, &headers, Bytes::new()).await;
        if let Err(error) = answer {
            tracing::debug!(%error, "the session could not be ended");
        }
    }
}
