//! The session with the gateway. The client's `initialize` opens it; the bridge opens a new one if the gateway has lost
//! it.

use std::time::Duration;

use bytes::Bytes;
use hyper::{Method, StatusCode, header::HeaderValue};
use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::watch, time::timeout};
use toolgate::{Code, Executed, Failure};
use toolgate_wire::{Message, Shape};

use super::{
    failures,
    headers::{BridgeHeaders, SESSION, VERSION, negotiated_version},
    link::Link,
};
use crate::{batch, http_client::HttpResponse};

/// The gateway may take this long to end the session.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The session of the client with the gateway.
#[derive(Debug)]
pub(super) struct BridgeSession {
    pub(super) link: Link,
    state: Mutex<BridgeState>,
    /// Held by the task that opens a session in place of a lost one.
    renewing: tokio::sync::Mutex<()>,
    /// The number of the newest session.
    pub(super) renewed: watch::Sender<u64>,
}

/// The session, and the client's messages that opened it.
#[derive(Debug, Default)]
struct BridgeState {
    negotiated: Option<NegotiatedSession>,
    /// The number of sessions opened so far.
    number: u64,
    initialize: Option<Message>,
    initialized: Option<Bytes>,
}

/// The headers of a session's messages.
#[derive(Debug, Default)]
pub(super) struct SessionHeaders {
    pub(super) headers: BridgeHeaders,
    /// The number of the session; `None` if it has no id, so that the gateway cannot lose it.
    pub(super) number: Option<u64>,
}

/// The session's id and version from the response to `initialize`.
#[derive(Debug)]
struct NegotiatedSession {
    id: Option<HeaderValue>,
    version: HeaderValue,
}

impl NegotiatedSession {
    fn headers(&self) -> BridgeHeaders {
        let id = self.id.clone().map(|id| (SESSION, id));
        [(VERSION, self.version.clone())].into_iter().chain(id).collect()
    }
}

impl BridgeSession {
    pub(super) fn new(link: Link) -> Self {
        let (renewing, renewed) = (tokio::sync::Mutex::default(), watch::channel(0).0);
        Self { link, state: Mutex::default(), renewing, renewed }
    }

    fn state(&self) -> MutexGuard<'_, BridgeState> {
        self.state.lock()
    }

    pub(super) fn headers(&self) -> SessionHeaders {
        let state = self.state();
        let Some(negotiated) = &state.negotiated else { return SessionHeaders::default() };
        let number = negotiated.id.is_some().then_some(state.number);
        SessionHeaders { headers: negotiated.headers(), number }
    }

    /// Whether the client has opened a session.
    pub(super) fn is_open(&self) -> bool {
        self.state().negotiated.is_some()
    }

    /// Whether the session's version has batches.
    pub(super) fn takes_batches(&self) -> bool {
        let state = self.state();
        let version =
            state.negotiated.as_ref().and_then(|negotiated| negotiated.version.to_str().ok());
        batch::are_allowed(version)
    }

    /// Opens the session with the client's `initialize`, and returns the gateway's response.
    pub(super) async fn initialize(&self, message: Message) -> Result<Message, Failure> {
        // If the client initializes again, its previous session ends.
        self.end().await;
        let (response, negotiated) = self.post_initialize(&message).await?;
        if negotiated.is_some() {
            let mut state = self.state();
            state.negotiated = negotiated;
            state.number += 1;
            state.initialize = Some(message);
        }
        Ok(response)
    }

    /// Keeps the client's `notifications/initialized`, to repeat it in a session that replaces a lost one.
    pub(super) fn note_initialized(&self, line: &Bytes) {
        self.state().initialized = Some(line.clone());
    }

    /// Sends `initialize`. The second value is `None` if the gateway refuses the session.
    async fn post_initialize(
        &self,
        initialize: &Message,
    ) -> Result<(Message, Option<NegotiatedSession>), Failure> {
        let Some(id) = initialize.id() else {
            return Err(Failure::internal("a request without an id"));
        };
        let answer = self.link.post(&Vec::new(), initialize.line().clone()).await?;
        let session = answer.headers.session();
        let response = self.link.read(answer, id, None).await?;
        if response.shape() != Shape::Response {
            return Ok((response, None));
        }
        let version = negotiated_version(&response).ok_or_else(|| {
            let what = "an answer to initialize that names no version";
            failures::nonsense(&self.link.url, what)
        })?;
        Ok((response, Some(NegotiatedSession { id: session, version })))
    }

    /// Posts a message or a batch, and returns the response with the headers that were sent. If the gateway has lost
    /// the session, it has not read the message: the bridge opens a new session and posts the message again.
    pub(super) async fn post(
        &self,
        body: &Bytes,
    ) -> Result<(HttpResponse, BridgeHeaders), Failure> {
        let SessionHeaders { headers, number } = self.headers();
        let answer = self.link.post(&headers, body.clone()).await?;
        match number {
            Some(number) if answer.status == StatusCode::NOT_FOUND => {
                drop(answer);
                self.renew(number).await?;
                let headers = self.headers().headers;
                Ok((self.link.post(&headers, body.clone()).await?, headers))
            }
            _ => Ok((answer, headers)),
        }
    }

    /// Replaces the lost session with this number by repeating the client's handshake, unless another task has done so
    /// already.
    pub(super) async fn renew(&self, lost: u64) -> Result<(), Failure> {
        let _alone = self.renewing.lock().await;
        let (initialize, initialized) = {
            let state = self.state();
            if state.number != lost {
                return Ok(());
            }
            (state.initialize.clone(), state.initialized.clone())
        };
        let gone = |why: &str| {
            let text = format!("the gateway has lost the session, and gives no new one: {why}");
            Failure::new(Code::ServerUnavailable, text)
                .with_executed(Executed::No)
                .suggest("restart the client, so that it initializes again")
        };
        let initialize = initialize.ok_or_else(|| gone("it was never initialized"))?;
        let (_, negotiated) = self.post_initialize(&initialize).await?;
        let negotiated = negotiated.ok_or_else(|| gone("it refused initialize"))?;
        if let Some(initialized) = initialized {
            self.link.post(&negotiated.headers(), initialized).await?;
        }
        // Other requests use the new session from here on.
        let number = {
            let mut state = self.state();
            state.negotiated = Some(negotiated);
            state.number += 1;
            state.number
        };
        tracing::info!("the gateway had lost the session; there is a new one");
        self.renewed.send_replace(number);
        Ok(())
    }

    /// Ends the session with the gateway.
    pub(super) async fn end(&self) {
        let negotiated = {
            let mut state = self.state();
            state.initialized = None;
            state.negotiated.take()
        };
        let Some(negotiated) = negotiated.filter(|negotiated| negotiated.id.is_some()) else {
            return;
        };
        let headers = negotiated.headers();
        let ending = self.link.gateway.send(Method::DELETE, None, &headers, Bytes::new());
        if !matches!(timeout(END_TIMEOUT, ending).await, Ok(Ok(_))) {
            tracing::debug!("the session could not be ended");
        }
    }
}
