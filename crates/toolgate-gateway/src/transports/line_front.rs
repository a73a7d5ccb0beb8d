//! The front end for clients that send each message as a line. The front end reads the lines, tracks requests until
//! they are answered, and writes the responses. A [`LineService`] answers the messages.

use std::{future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

use bytes::Bytes;
use tokio::{
    io::AsyncRead,
    time::{Instant, sleep_until, timeout, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use toolgate::{Code, Failure};
use toolgate_wire::{
    Id, Limits, Message, RefusedMessage, Sender, Shape, is_batch, lines::Line, mcp::method,
    salvage_id, split_batch,
};

use crate::{
    batch::{self, Responses},
    clients::active_requests::{ActiveRequest, ActiveRequests},
    line_reader::LineReader,
    refusal,
    write_queue::WriteQueue,
};

/// After the client has closed the input, calls in flight may take this long to complete.
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

/// After the front end has cancelled all requests, their tasks may take this long to end.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// While the front end handles a message, it reads about this many bytes ahead, so that it notices the end of the
/// input.
const READ_AHEAD: usize = 256 * 1024;

/// Answers the messages of one client.
pub(crate) trait LineService: Send + Sync + Sized + 'static {
    /// The limits of one message.
    fn limits(&self) -> Limits;

    /// The maximum number of requests in flight.
    fn max_in_flight(&self) -> usize;

    /// Whether the client may send batches now.
    fn takes_batches(&self) -> bool;

    /// Starts a request. The front end handles the next message only after this returns: work that depends on the order
    /// of the messages belongs here. The future in [`LineResponse::Pending`] runs concurrently with other requests.
    fn start(
        self: &Arc<Self>,
        request: LineRequest,
    ) -> impl Future<Output = LineResponse<impl Future<Output = Option<Bytes>> + Send + 'static>> + Send;

    /// Handles a notification or a response of the client. The front end handles the next message only after this
    /// returns.
    ///
    /// Before it passes on `notifications/cancelled`, the front end cancels the request that the notification names.
    fn message(self: &Arc<Self>, message: Message) -> impl Future<Output = ()> + Send;

    /// Answers a batch with an array of responses; `None` if the batch gets no response.
    fn batch(self: &Arc<Self>, batch: Batch) -> impl Future<Output = Option<Bytes>> + Send {
        batch.answer_each(self)
    }

    /// Called after the client has disconnected and the requests in flight were cancelled.
    fn end(&self) -> impl Future<Output = ()> + Send;
}

/// A request of the client.
#[derive(Debug)]
pub(crate) struct LineRequest {
    pub(crate) message: Message,
    /// Cancelled when the client cancels the request or disconnects: the request then gets no response.
    pub(crate) cancel: CancellationToken,
}

/// The response of a service to a request: it is there, or it is a future.
pub(crate) enum LineResponse<F> {
    /// The request is complete; `None` if it gets no response.
    Ready(Option<Bytes>),
    /// A future that resolves to the response.
    Pending(F),
}

/// The messages of a batch, in their order.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The whole batch as the client sent it.
    pub(crate) line: Bytes,
    pub(crate) messages: Vec<ClientMessage>,
}

/// One message of the client after the front end's checks.
#[derive(Debug)]
pub(crate) enum ClientMessage {
    Request(LineRequest, ActiveRequest),
    /// A notification or a response.
    Other(Message),
    /// A request that is refused, with the response.
    Refused(Id, Bytes),
    Unreadable(Box<RefusedMessage>),
    /// A request that reuses the id of a request in flight.
    Dropped,
}

impl Batch {
    /// Answers one message after the other.
    async fn answer_each<S: LineService>(self, service: &Arc<S>) -> Option<Bytes> {
        let mut responses = Responses::new(&service.limits());
        for message in self.messages {
            // Lets other tasks of this thread run between two messages.
            tokio::task::yield_now().await;
            match message {
                ClientMessage::Request(request, _) if request.cancel.is_cancelled() => {}
                ClientMessage::Request(_, in_flight) if responses.is_full() => {
                    responses.refuse(Some(&in_flight.id));
                }
                ClientMessage::Request(request, in_flight) => {
                    let response = match service.start(request).await {
                        LineResponse::Ready(response) => response,
                        LineResponse::Pending(running) => running.await,
                    };
                    if let Some(line) = response {
                        responses.add(Some(&in_flight.id), &line);
                    }
                }
                ClientMessage::Other(message) => service.message(message).await,
                ClientMessage::Refused(id, line) => responses.add(Some(&id), &line),
                ClientMessage::Unreadable(refused) => responses.add_unreadable(&refused),
                ClientMessage::Dropped => {}
            }
        }
        responses.finish()
    }
}

/// The front end of one client.
#[derive(Debug)]
pub(crate) struct LineFront<S> {
    service: Arc<S>,
    out: Arc<WriteQueue>,
    requests: Arc<ActiveRequests>,
    tasks: TaskTracker,
    /// Cancelled when the client has closed its input.
    input_closed: CancellationToken,
}

impl<S: LineService> LineFront<S> {
    /// A front end that answers with `service` and writes to `out`. A session of the client may share `requests`.
    pub(crate) fn new(service: S, out: Arc<WriteQueue>, requests: Arc<ActiveRequests>) -> Self {
        Self {
            service: Arc::new(service),
            out,
            requests,
            tasks: TaskTracker::new(),
            input_closed: CancellationToken::new(),
        }
    }

    /// The queue of messages to the client.
    pub(crate) fn out(&self) -> &Arc<WriteQueue> {
        &self.out
    }

    /// Reads the client's messages until the client closes the input, then waits for the calls in flight.
    pub(crate) async fn read(&self, input: impl AsyncRead + Unpin) {
        let mut lines = LineReader::new(input, self.service.limits().max_bytes);
        let mut deadline = None;
        while let Some(line) = lines.next().await {
            let mut handling = pin!(self.handle_line(line));
            let mut is_handled =
                poll_fn(|cx| Poll::Ready(handling.as_mut().poll(cx).is_ready())).await;
            let mut ahead = 0;
            while !is_handled {
                if lines.is_closed() && deadline.is_none() {
                    deadline = Some(self.close_input());
                }
                let end = deadline.unwrap_or_else(Instant::now);
                tokio::select! {
                    biased;
                    () = &mut handling => is_handled = true,
                    () = sleep_until(end), if deadline.is_some() => return,
                    read = lines.read_more(), if deadline.is_none() && ahead < READ_AHEAD => ahead += read,
                }
            }
        }
        let deadline = deadline.unwrap_or_else(|| self.close_input());
        self.tasks.close();
        let _ = timeout_at(deadline, self.tasks.wait()).await;
    }

    /// Records that the client has closed the input. Returns the deadline for the calls in flight.
    fn close_input(&self) -> Instant {
        self.input_closed.cancel();
        Instant::now() + FINISH_TIMEOUT
    }

    /// Handles one line of the client: a message or a batch.
    pub(crate) async fn handle_line(&self, line: Line) {
        let limits = self.service.limits();
        match line {
            Line::Whole(line) if is_batch(&line) => self.handle_batch(line).await,
            Line::Whole(line) => self.handle_message(line).await,
            Line::TooLong { head, tail, length } => {
                let id = salvage_id(&head, &tail);
                self.refuse(id.as_ref(), &refusal::too_long(length, limits.max_bytes)).await;
            }
        }
    }

    async fn handle_message(&self, line: Bytes) {
        match self.receive(line) {
            ClientMessage::Request(request, in_flight) => self.run(request, in_flight).await,
            ClientMessage::Other(message) => self.service.message(message).await,
            ClientMessage::Refused(_, line) => drop(self.out.push(line).await),
            ClientMessage::Unreadable(refused) => {
                let failure = refusal::unreadable(&refused);
                if refusal::expects_response(&refused) {
                    return self.refuse(refused.id.as_ref(), &failure).await;
                }
                tracing::warn!("a message of the client is refused: {failure}");
            }
            ClientMessage::Dropped => {}
        }
    }

    async fn handle_batch(&self, line: Bytes) {
        if !self.service.takes_batches() {
            return self.refuse(None, &batch::refused()).await;
        }
        let messages = match split_batch(&line, &self.service.limits()) {
            Some(Ok(messages)) => messages,
            Some(Err(error)) => {
                return self.refuse(None, &refusal::unreadable_batch(&error)).await;
            }
            None => return,
        };
        // Registers all requests before the first one runs, so that the client can cancel each of them.
        let messages = messages.into_iter().map(|line| self.receive(line)).collect();
        let (service, out) = (Arc::clone(&self.service), Arc::clone(&self.out));
        self.tasks.spawn(async move {
            if let Some(array) = service.batch(Batch { line, messages }).await {
                out.send(array).await;
            }
        });
    }

    /// Parses one message, and registers it if it is a request.
    fn receive(&self, line: Bytes) -> ClientMessage {
        let message = match Message::receive(line, &self.service.limits(), Sender::Client) {
            Ok(message) => message,
            Err(refused) => return ClientMessage::Unreadable(Box::new(refused)),
        };
        let Some(id) = message.id().filter(|_| message.shape() == Shape::Request) else {
            if message.method() == method::NOTIFICATIONS_CANCELLED
                && let Some(id) = message.member("requestId").and_then(Id::from_json)
            {
                self.requests.cancel(&id);
            }
            return ClientMessage::Other(message);
        };
        let limit = self.service.max_in_flight();
        if self.requests.count() >= limit {
            let text = format!("{limit} requests are in flight, and no more are allowed");
            let failure = Failure::new(Code::Overloaded, text)
                .suggest("Wait for calls in flight to end, then call again.");
            return ClientMessage::Refused(id.clone(), refusal::line(Some(id), &failure));
        }
        // A subscription has no end of its own: the front end cancels it when the client has closed its input.
        let cancel = match message.method() {
            method::SUBSCRIPTIONS_LISTEN => self.input_closed.child_token(),
            _ => CancellationToken::new(),
        };
        let Ok(in_flight) = self.requests.begin(id, &cancel) else {
            tracing::warn!(%id, "a request uses the id of one in flight; it is dropped");
            return ClientMessage::Dropped;
        };
        ClientMessage::Request(LineRequest { message, cancel }, in_flight)
    }

    async fn run(&self, request: LineRequest, in_flight: ActiveRequest) {
        match self.service.start(request).await {
            LineResponse::Ready(response) => {
                drop(in_flight);
                if let Some(line) = response {
                    self.out.send(line).await;
                }
            }
            LineResponse::Pending(running) => {
                let guard = PanicGuard { out: Arc::clone(&self.out), in_flight };
                self.tasks.spawn(async move {
                    let response = running.await;
                    let out = Arc::clone(&guard.out);
                    // Frees the id before the response is queued: from the response on, the client may reuse the id.
                    drop(guard);
                    if let Some(line) = response {
                        out.send(line).await;
                    }
                });
            }
        }
    }

    async fn refuse(&self, id: Option<&Id>, failure: &Failure) {
        self.out.send(refusal::line(id, failure)).await;
    }

    /// Waits until the client has no request in flight.
    pub(crate) async fn settled(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Cancels the requests in flight, ends the service, and closes the queue of messages to the client.
    pub(crate) async fn end(&self) {
        self.input_closed.cancel();
        self.requests.cancel_all();
        self.tasks.close();
        let _ = timeout(CANCEL_TIMEOUT, self.tasks.wait()).await;
        self.service.end().await;
        self.out.close();
    }
}

/// A request that waits for its response. If a layer panics, dropping this sends an error response.
#[derive(Debug)]
struct PanicGuard {
    out: Arc<WriteQueue>,
    in_flight: ActiveRequest,
}

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let text = "toolgate failed while the call was under way";
            let failure = Failure::new(Code::Internal, text);
            let _ = self.out.push_now(refusal::line(Some(&self.in_flight.id), &failure));
        }
    }
}
