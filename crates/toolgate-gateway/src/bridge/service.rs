//! Answers the client with the gateway's responses: the bridge posts requests concurrently, and other messages in
//! order.

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
    transports::line_front::{Batch, ClientMessage, LineRequest, LineResponse, LineService},
};

/// How long the gateway may take to accept a notification. The client's next messages wait meanwhile.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum number of requests in flight.
const MAX_IN_FLIGHT: usize = 4096;
/// The maximum number of concurrent posts, each on a connection of its own; further requests wait.
const MAX_POSTS: usize = 256;

/// Answers the messages of the client.
#[derive(Debug)]
pub(super) struct BridgeService {
    session: Arc<BridgeSession>,
    modern: ModernHeaders,
    /// The task that follows the session's stream.
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

    /// Replaces the task that follows the session's stream.
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

    /// Posts a request, and returns the gateway's response.
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

    /// Posts a notification or a response, and waits until the gateway has accepted it, so that messages stay in order.
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
    ) -> LineResponse<impl Future<Output = Option<Bytes>> + Send + 'static> {
        let LineRequest { message, cancel } = request;
        let Some(id) = message.id().cloned() else { return LineResponse::Ready(None) };
        if message.method() == method::INITIALIZE {
            // The messages after `initialize` belong to the session: they wait until it is open.
            return LineResponse::Ready(Some(line(&id, self.initialize(message).await)));
        }
        let service = Arc::clone(self);
        LineResponse::Pending(async move {
            let response = cancel.run_until_cancelled(service.exchange(&message)).await;
            response.map(|response| line(&id, response))
        })
    }

    async fn message(self: &Arc<Self>, message: Message) {
        match message.method() {
            // Without a session, closing the connection cancels the request at the gateway.
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

    /// Posts a batch unchanged: the gateway answers the whole batch itself.
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
