//! Answers the client with what the gateway answers: requests are posted beside each other, everything else in order.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{sync::Semaphore, task::AbortHandle, time::timeout};
use toolgate::Failure;
use toolgate_wire::{Id, Json, Limits, Message, mcp::method};

use super::{
    headers::{self, ModernHeaders},
    session::BridgeSession,
    session_stream,
};
use crate::{
    refusal,
    transports::line_front::{Batch, ClientMessage, LineRequest, LineService, Started},
};

/// The gateway may take this long to take a notification, which other messages wait behind.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(30);
/// So many requests may wait for their responses.
const MAX_IN_FLIGHT: usize = 4096;
/// So many requests are posted at once, each on a connection of its own; further ones wait.
const MAX_POSTS: usize = 256;

/// The client's way to the gateway.
#[derive(Debug)]
pub(super) struct BridgeService {
    session: Arc<BridgeSession>,
    modern: ModernHeaders,
    /// Follows the session's stream.
    stream: Mutex<Option<AbortHandle>>,
    posts: Semaphore,
}

impl BridgeService {
    pub(super) fn new(session: BridgeSession) -> Self {
        Self {
            session: Arc::new(session),
            modern: ModernHeaders::default(),
            stream: Mutex::default(),
            posts: Semaphore::new(MAX_POSTS),
        }
    }

    /// Follows the session's stream in place of the one before.
    fn set_stream(&self, stream: Option<AbortHandle>) {
        let mut followed = self.stream.lock();
        if let Some(before) = std::mem::replace(&mut *followed, stream) {
            before.abort();
        }
    }

    async fn initialize(&self, message: Message) -> Result<Message, Failure> {
        self.set_stream(None);
        self.session.initialize(message).await
    }

    /// Posts a request, and gives the gateway's response.
    async fn exchange(&self, message: &Message) -> Result<Message, Failure> {
        let Ok(_permit) = self.posts.acquire().await else {
            return Err(Failure::internal("toolgate is ending"));
        };
        let Some(id) = message.id() else {
            return Err(Failure::internal("a request without an id"));
        };
        let link = &self.session.link;
        let Some(version) = headers::modern_version(message) else {
            let (answer, headers) = self.session.post(message.line()).await?;
            return link.read(answer, id, Some(&headers)).await;
        };
        let headers = self.modern.of(message, &version);
        let answer = link.post(&headers, message.line().clone()).await?;
        let response = link.read(answer, id, None).await?;
        self.modern.note(message, &response);
        Ok(response)
    }

    /// Posts what has no response, and waits until the gateway has it: the next message comes after it.
    async fn deliver(&self, message: &Message) {
        let delivered = async {
            let Some(version) = headers::modern_version(message) else {
                return Ok(self.session.post(message.line()).await?.0.status);
            };
            let headers = self.modern.of(message, &version);
            let answer = self.session.link.post(&headers, message.line().clone()).await?;
            Ok::<_, Failure>(answer.status)
        };
        let what = if message.method().is_empty() { "a response" } else { message.method() };
        match timeout(NOTIFICATION_TIMEOUT, delivered).await {
            Ok(Ok(status)) if status.is_success() => {}
            Ok(Ok(status)) => tracing::warn!("the gateway answered {status} to {what}"),
            Ok(Err(failure)) => tracing::warn!("{what} was not delivered: {failure}"),
            Err(_) => tracing::warn!("the gateway did not take {what} in time"),
        }
    }
}

fn line(id: &Id, response: Result<Message, Failure>) -> Bytes {
    match response {
        Ok(response) => response.line().clone(),
        Err(failure) => refusal::line(Some(id), &failure),
    }
}

impl LineService for BridgeService {
    fn limits(&self) -> Limits {
        self.session.link.limits
    }

    fn max_in_flight(&self) -> usize {
        MAX_IN_FLIGHT
    }

    fn takes_batches(&self) -> bool {
        self.session.takes_batches()
    }

    async fn start(
        self: &Arc<Self>,
        request: LineRequest,
    ) -> Started<impl Future<Output = Option<Bytes>> + Send + 'static> {
        let LineRequest { message, cancel } = request;
        let Some(id) = message.id().cloned() else { return Started::Done(None) };
        if message.method() == method::INITIALIZE {
            // Whatever comes after it belongs to the session.
            return Started::Done(Some(line(&id, self.initialize(message).await)));
        }
        let service = Arc::clone(self);
        Started::Running(async move {
            let response = cancel.run_until_cancelled(service.exchange(&message)).await;
            response.map(|response| line(&id, response))
        })
    }

    async fn message(self: &Arc<Self>, message: Message) {
        match message.method() {
            // The gateway is told within a session only: without one, the closed connection tells it.
            method::NOTIFICATIONS_CANCELLED if !self.session.is_open() => {}
            method::NOTIFICATIONS_INITIALIZED => {
                self.session.note_initialized(message.line());
                self.deliver(&message).await;
                let stream = tokio::spawn(session_stream::follow(Arc::clone(&self.session)));
                self.set_stream(Some(stream.abort_handle()));
            }
            _ => self.deliver(&message).await,
        }
    }

    /// The gateway answers a batch itself: it is posted as it came.
    async fn batch(self: &Arc<Self>, batch: Batch) -> Option<Bytes> {
        let is_request = |message: &ClientMessage| match message {
            ClientMessage::Request(_, in_flight) => Some(in_flight.id.clone()),
            _ => None,
        };
        let ids: Vec<Id> = batch.messages.iter().filter_map(is_request).collect();
        let passed = async {
            let (answer, _) = self.session.post(&batch.line).await?;
            self.session.link.pass_batch(answer, ids.len()).await
        };
        let failure = passed.await.err()?;
        if ids.is_empty() {
            tracing::warn!("a batch was not delivered: {failure}");
            return None;
        }
        let error = |id| Json::parse(refusal::line(Some(id), &failure), &self.limits()).ok();
        let errors: Vec<Json> = ids.iter().filter_map(error).collect();
        Some(Json::list(&errors).into_bytes())
    }

    async fn end(&self) {
        self.set_stream(None);
        self.session.end().await;
    }
}
