//! The stdio transport to a server: one connection of lines that carries many requests at once.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use tokio::{
    io::AsyncRead,
    sync::{mpsc, oneshot},
};
use toolgate::{Boxed, Code, Executed, Failure};
use toolgate_wire::{
    Id, Json, Limits, Message, Sender, Shape, error_response, is_batch,
    lines::Line,
    mcp::{code, method},
    response, salvage_id, split_batch,
};

use super::{
    events::{ReplyTo, SharedListener, UpstreamNotification},
    failures::{LossStage, connection_lost, protocol_violation},
    pending::{
        Lookup, PendingId, PendingOutcome, PendingRequests, RouteResult, SideEvent, cancellation,
    },
    request::{IdRewrite, Interest, StartFailure, UpstreamEvent, UpstreamRequest},
};
use crate::{
    batch,
    capabilities::{is_question, is_vendor},
    line_reader::LineReader,
    process::stray_output::StrayLines,
    write_queue::WriteQueue,
};

/// The pipes of a server's process, or a transport that behaves like them.
#[derive(Debug)]
pub(crate) struct Pipe {
    server: Arc<str>,
    queue: Arc<WriteQueue>,
    pending: Arc<PendingRequests>,
    closed: AtomicBool,
    /// Whether the negotiated version has batches.
    takes_batches: AtomicBool,
    clients: Clients,
}

/// Which clients a connection serves.
#[derive(Debug)]
pub(crate) enum Clients {
    /// Several: the gateway has to find out whose call a message is about.
    Several,
    /// One: the server sees the client's ids, and the gateway passes every message but responses to the client unchanged.
    Exclusive(Arc<dyn ExclusiveClient>),
}

/// The one client of an exclusive connection.
pub(crate) trait ExclusiveClient: std::fmt::Debug + Send + Sync {
    /// Passes a request or notification of the server to the client. Waits while the client is slow to read.
    fn pass<'a>(&'a self, message: Message, server: &'a Arc<WriteQueue>) -> Boxed<'a, ()>;
}

impl Pipe {
    pub(crate) fn new(server: Arc<str>, queue: Arc<WriteQueue>, clients: Clients) -> Self {
        Self {
            server,
            queue,
            pending: Arc::default(),
            closed: AtomicBool::new(false),
            takes_batches: AtomicBool::new(false),
            clients,
        }
    }

    /// Sets the negotiated version.
    pub(crate) fn set_version(&self, version: &str) {
        self.takes_batches.store(batch::are_allowed(Some(version)), Ordering::Release);
    }

    /// Sends a request, with an id of the gateway, or on an exclusive connection with the client's.
    pub(crate) async fn start(
        &self,
        request: UpstreamRequest<'_>,
        clients_id: Option<&Id>,
        compose: impl FnOnce(IdRewrite) -> Bytes,
    ) -> Result<PipeRequest, StartFailure> {
        let clients_id = clients_id.filter(|_| self.is_exclusive());
        let has_token = request.interest.token.is_some() && !self.is_exclusive();
        let key = match clients_id {
            Some(id) => PendingId::FromClient(id),
            None if self.is_exclusive() => PendingId::Name,
            None => PendingId::Number,
        };
        let Some(entry) = self.pending.insert(request.interest, key) else {
            let why = "the id is in use by a request in flight";
            return Err(Failure::new(Code::InvalidRequest, why).with_executed(Executed::No).into());
        };
        // Checked after the insertion: a request that `close` does not see sees `closed`.
        if self.closed.load(Ordering::Acquire) {
            self.pending.remove(&entry.id);
            return Err(StartFailure::Closed("it has ended".to_owned()));
        }
        let rewrite = IdRewrite {
            id: clients_id.is_none().then(|| entry.id.clone()),
            token: has_token.then(|| entry.id.as_json().clone()),
        };
        let mut sent = PipeRequest {
            server: Arc::clone(&self.server),
            queue: Arc::clone(&self.queue),
            pending: Arc::clone(&self.pending),
            id: entry.id,
            response: entry.response,
            side_events: entry.side_events,
            queued: None,
        };
        let line = compose(rewrite);
        let Some(number) = self.queue.push(line).await else {
            return Err(StartFailure::Closed("it has ended".to_owned()));
        };
        sent.queued = Some(number);
        Ok(sent)
    }

    /// Sends a notification or a response.
    pub(crate) async fn send_line(&self, line: Bytes) {
        self.queue.send(line).await;
    }

    /// Whether one client has the connection to itself.
    pub(crate) fn is_exclusive(&self) -> bool {
        matches!(self.clients, Clients::Exclusive(_))
    }

    /// Notes that the client's own `notifications/cancelled` reaches the server: the gateway sends none.
    pub(crate) fn mark_cancelled_by_client(&self, id: &Id) {
        self.pending.mark_cancelled_by_client(id);
    }

    /// How many requests are in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// Notes that the handshake is over.
    pub(crate) fn set_open(&self) {
        self.pending.set_open();
    }

    /// Closes the connection, and fails its pending requests.
    pub(crate) fn close(&self, why: &Arc<str>) {
        self.closed.store(true, Ordering::Release);
        // Before the requests fail: one that is reported as not sent must not be sent afterwards.
        self.queue.abandon();
        self.pending.fail_all(why);
    }

    /// Reads lines until the end of the output.
    pub(crate) async fn read(
        &self,
        output: impl AsyncRead + Unpin,
        limits: &Limits,
        listener: &SharedListener,
    ) {
        let mut lines = LineReader::new(output, limits.max_bytes);
        let mut stray = StrayLines::new();
        while let Some(line) = lines.next().await {
            self.handle_line(line, limits, listener, &mut stray).await;
        }
        stray.tell_hidden(&self.server);
    }

    async fn handle_line(
        &self,
        line: Line,
        limits: &Limits,
        listener: &SharedListener,
        stray: &mut StrayLines,
    ) {
        match line {
            Line::Whole(line) if is_batch(&line) && !self.takes_batches.load(Ordering::Acquire) => {
                stray.report(&self.server, batch::REFUSED, &line);
            }
            Line::Whole(line) => match split_batch(&line, limits) {
                None => self.handle_text(&line, limits, listener, stray).await,
                Some(Ok(messages)) => {
                    for message in messages {
                        self.handle_text(&message, limits, listener, stray).await;
                    }
                }
                Some(Err(error)) => stray.report(&self.server, &error.to_string(), &line),
            },
            Line::TooLong { head, tail, length } => {
                let most = limits.max_bytes;
                let why = format!("a message of {length} bytes is over the limit of {most} bytes");
                let found = salvage_id(&head, &tail)
                    .map(|id| self.pending.finish(&id, PendingOutcome::Unreadable(why.clone())));
                if found != Some(Lookup::Delivered) {
                    stray.report(&self.server, &why, &head);
                }
            }
        }
    }

    async fn handle_text(
        &self,
        line: &Bytes,
        limits: &Limits,
        listener: &SharedListener,
        stray: &mut StrayLines,
    ) {
        match Message::receive(line.clone(), limits, Sender::Server) {
            Ok(message) => match &self.clients {
                Clients::Exclusive(client) if !is_response(&message) => {
                    client.pass(message, &self.queue).await;
                }
                _ => self.handle_message(message, listener),
            },
            Err(refused) => {
                let why = refused.error.to_string();
                let found = refused
                    .id
                    .map(|id| self.pending.finish(&id, PendingOutcome::Unreadable(why.clone())));
                if found != Some(Lookup::Delivered) {
                    stray.report(&self.server, &why, line);
                }
            }
        }
    }

    /// Handles one message of the server.
    pub(crate) fn handle_message(&self, message: Message, listener: &SharedListener) {
        match (message.shape(), message.id()) {
            (Shape::Response | Shape::Error, Some(id)) => {
                let id = id.clone();
                match self.pending.finish(&id, PendingOutcome::Response(message)) {
                    Lookup::Delivered => {}
                    Lookup::Late => {
                        tracing::debug!(%id, "a response came after its request was cancelled");
                    }
                    Lookup::Unknown => {
                        tracing::warn!(server = %self.server, %id, "the server answers an id of no request; dropped");
                    }
                }
            }
            (Shape::Request, Some(_)) => self.handle_request(message, listener),
            (Shape::Notification, _) => self.handle_notification(message, listener),
            _ => {
                tracing::warn!(server = %self.server, "an error of the server that answers nothing: dropped");
            }
        }
    }

    fn handle_notification(&self, message: Message, listener: &SharedListener) {
        match message.method() {
            method::NOTIFICATIONS_PROGRESS => {
                if !self.pending.deliver_progress(&message) {
                    tracing::debug!(server = %self.server, "progress of a request without a progress token");
                }
            }
            method::NOTIFICATIONS_CANCELLED => self.pending.cancel_server_request(&message),
            method::NOTIFICATIONS_MESSAGE => {
                // A log message does not name its call: with several clients the gateway could pick the wrong one.
                let event = UpstreamEvent::Notification(message);
                let routed = self.pending.deliver_to_only_client(event, |interest| interest.logs);
                if let Some(message) = routed.into_undelivered_notification() {
                    listener.on_notification(UpstreamNotification::Log(message));
                }
            }
            _ => match UpstreamNotification::of(message) {
                // An unknown notification may belong to the only client's call.
                Some(UpstreamNotification::Other(message))
                    if !is_of_earlier_call(message.method()) =>
                {
                    let event = UpstreamEvent::Notification(message);
                    let routed = self.pending.deliver_to_only_client(event, |_| true);
                    if let Some(message) = routed.into_undelivered_notification() {
                        listener.on_notification(UpstreamNotification::Other(message));
                    }
                }
                Some(notice) => listener.on_notification(notice),
                None => {}
            },
        }
    }

    /// Fails a request that the transport could not deliver.
    pub(crate) fn fail(&self, id: &Id, why: &str) {
        self.pending.finish(id, PendingOutcome::Unreadable(why.to_owned()));
    }

    fn handle_request(&self, message: Message, listener: &SharedListener) {
        let Some(id) = message.id().cloned() else { return };
        if message.method() == method::PING {
            // A server that sends pings faster than it reads gets no more responses than it reads.
            if self.queue.has_room() {
                self.push_now(response(&id, &Json::empty_object()));
            }
            return;
        }
        if !is_question(message.method()) && !is_vendor(message.method()) {
            let text = format!("toolgate has no method `{}`", message.method());
            self.push_now(error_response(Some(&id), code::METHOD_NOT_FOUND, &text, None));
            return;
        }
        let (method, params) = (message.method().to_owned(), message.params());
        let accepts = |interest: &Interest| interest.can_answer(&method, params.as_ref());
        let event = UpstreamEvent::ServerRequest(message);
        let text = match self.pending.deliver_to_only_client(event, accepts) {
            RouteResult::Delivered => return,
            // The request is not about a call: the session that owns the connection may answer it.
            RouteResult::NoClient(UpstreamEvent::ServerRequest(message))
                if listener.on_request(message.clone(), ReplyTo::Pipe(Arc::clone(&self.queue))) =>
            {
                return;
            }
            RouteResult::SeveralClients(_) => {
                let server = &self.server;
                tracing::warn!(%server, "`{method}` is refused: it does not say for which of several clients' calls it asks; set `sharing = \"session\"` for this server");
                Cow::Borrowed(
                    "calls of several clients are in flight, and the request does not say which one it is about",
                )
            }
            RouteResult::NoClient(_) | RouteResult::NotAccepted(_) => {
                Cow::Owned(format!("no client that is here can be asked `{method}`"))
            }
        };
        self.push_now(error_response(Some(&id), code::METHOD_NOT_FOUND, &text, None));
    }

    /// Queues a response of the gateway itself. A closed connection loses it: the process is ending.
    fn push_now(&self, line: Bytes) {
        let _ = self.queue.push_now(line);
    }
}

/// Whether a message is the response to a request.
fn is_response(message: &Message) -> bool {
    matches!(message.shape(), Shape::Response | Shape::Error) && message.id().is_some()
}

/// Whether a notification is about something that an earlier call began.
fn is_of_earlier_call(method: &str) -> bool {
    method.starts_with(method::NOTIFICATIONS_TASKS)
        || method.starts_with("notifications/elicitation")
}

/// A request in flight on a pipe.
#[derive(Debug)]
pub(crate) struct PipeRequest {
    server: Arc<str>,
    queue: Arc<WriteQueue>,
    pending: Arc<PendingRequests>,
    id: Id,
    response: oneshot::Receiver<PendingOutcome>,
    side_events: Option<mpsc::Receiver<SideEvent>>,
    /// Its number in the write queue, once it is queued.
    queued: Option<u64>,
}

impl PipeRequest {
    pub(super) async fn next(&mut self) -> Result<UpstreamEvent, Failure> {
        let arrival = match &mut self.side_events {
            None => (&mut self.response).await,
            Some(side_events) => tokio::select! {
                biased;
                Some(step) = side_events.recv() => return Ok(*step),
                arrival = &mut self.response => arrival,
            },
        };
        // Side messages that came before the response are delivered before it.
        if let (Some(side_events), Ok(PendingOutcome::Response(_))) =
            (&mut self.side_events, &arrival)
            && let Ok(step) = side_events.try_recv()
        {
            let (sender, again) = oneshot::channel();
            if let Ok(arrival) = arrival {
                drop(sender.send(arrival));
            }
            self.response = again;
            return Ok(*step);
        }
        self.side_events = None;
        let number = self.queued.take();
        match arrival {
            Ok(PendingOutcome::Response(message)) => Ok(UpstreamEvent::Response(message)),
            Ok(PendingOutcome::Unreadable(why)) => Err(protocol_violation(
                &self.server,
                &format!("sent an answer that cannot be read: {why}"),
            )),
            Ok(PendingOutcome::Lost(why)) => {
                let was_written = number.is_some_and(|number| self.queue.was_written(number));
                let stage =
                    if was_written { self.pending.loss_stage() } else { LossStage::NotSent };
                Err(connection_lost(&self.server, &why, stage))
            }
            Err(_) => Err(connection_lost(&self.server, "it is gone", self.pending.loss_stage())),
        }
    }

    pub(super) async fn reply(&mut self, line: Bytes) {
        self.queue.send(line).await;
    }
}

impl Drop for PipeRequest {
    fn drop(&mut self) {
        let was_waiting = self.pending.remove(&self.id);
        if was_waiting && self.queued.is_some() {
            let _ = self.queue.push_now(cancellation(&self.id));
        }
    }
}
