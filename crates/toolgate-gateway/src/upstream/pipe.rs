//! A connection of lines that carries many requests at once: the pipes of a child process.

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
    Id, Json, Limits, Message, Sender, Shape, error_response, is_batch, lines::Line, response,
    salvage_id, split_batch,
};

use super::{
    events::{Events, ReplyTo, UpstreamNotification},
    in_flight::{
        IdRewrite, InFlightRequest, Interest, StartFailure, UpstreamEvent, UpstreamRequest, lost,
        nonsense,
    },
    pending::{Lookup, PendingId, PendingOutcome, PendingRequests, cancelled},
};
use crate::{
    batch,
    capabilities::{is_question, is_vendor},
    line_reader::LineReader,
    process::stray_output::StrayLines,
    write_queue::WriteQueue,
};

/// One connection of lines.
#[derive(Debug)]
pub(crate) struct Pipe {
    server: Arc<str>,
    outbox: Arc<WriteQueue>,
    flights: Arc<PendingRequests>,
    closed: AtomicBool,
    /// Whether the version that was agreed on has batches.
    takes_batches: AtomicBool,
    clients: Clients,
}

/// Whom a connection of lines serves.
#[derive(Debug)]
pub(crate) enum Clients {
    /// Several: whose call a message is about has to be found out.
    Several,
    /// One client, whose ids the server gets: everything that answers no request is passed to it as it came.
    Exclusive(Arc<dyn ExclusiveClient>),
}

/// The one client of an exclusive connection.
pub(crate) trait ExclusiveClient: std::fmt::Debug + Send + Sync {
    /// Takes a request or notification of the server. Waits while the client is slow to read.
    fn pass<'a>(&'a self, message: Message, server: &'a Arc<WriteQueue>) -> Boxed<'a, ()>;
}

impl Pipe {
    pub(crate) fn new(server: Arc<str>, outbox: Arc<WriteQueue>, clients: Clients) -> Self {
        Self {
            server,
            outbox,
            flights: Arc::default(),
            closed: AtomicBool::new(false),
            takes_batches: AtomicBool::new(false),
            clients,
        }
    }

    /// From here on the connection speaks this version.
    pub(crate) fn agree(&self, version: &str) {
        self.takes_batches.store(batch::are_allowed(Some(version)), Ordering::Release);
    }

    /// Sends a request, under a number of ours, or on an exclusive connection under the client's id.
    pub(crate) async fn start(
        &self,
        ask: UpstreamRequest<'_>,
        clients_id: Option<&Id>,
        compose: impl FnOnce(IdRewrite) -> Bytes,
    ) -> Result<InFlightRequest, StartFailure> {
        let clients_id = clients_id.filter(|_| self.is_exclusive());
        let has_token = ask.hears.token.is_some() && !self.is_exclusive();
        let key = match clients_id {
            Some(id) => PendingId::Clients(id),
            None if self.is_exclusive() => PendingId::Name,
            None => PendingId::Number,
        };
        let Some(seat) = self.flights.enter(ask.hears, key) else {
            let why = "the id is in use by a request in flight";
            return Err(Failure::new(Code::InvalidRequest, why).with_executed(Executed::No).into());
        };
        // After it was entered: who is told that all are gone, or finds it closed, is told either way.
        if self.closed.load(Ordering::Acquire) {
            self.flights.leave(&seat.id);
            return Err(StartFailure::Closed("it has ended".to_owned()));
        }
        let hop = IdRewrite {
            id: clients_id.is_none().then(|| seat.id.clone()),
            token: has_token.then(|| seat.id.as_json().clone()),
        };
        let mut flight = PipeRequest {
            server: Arc::clone(&self.server),
            outbox: Arc::clone(&self.outbox),
            flights: Arc::clone(&self.flights),
            id: seat.id,
            answer: seat.answer,
            steps: seat.steps,
            written: None,
        };
        let line = compose(hop);
        let Some(number) = self.outbox.push(line).await else {
            return Err(StartFailure::Closed("it has ended".to_owned()));
        };
        flight.written = Some(number);
        Ok(InFlightRequest::Pipe(flight))
    }

    /// Sends a notification, or an answer.
    pub(crate) async fn tell(&self, line: Bytes) {
        self.outbox.push(line).await;
    }

    /// Whether one client has it to itself, and passes everything through.
    pub(crate) fn is_exclusive(&self) -> bool {
        matches!(self.clients, Clients::Exclusive(_))
    }

    /// The client itself tells the server that it gives a request up: the gateway does not tell it again.
    pub(crate) fn told(&self, id: &Id) {
        self.flights.told(id);
    }

    /// How many requests are in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// The other side is gone: everybody who waits is told.
    pub(crate) fn close(&self, why: &Arc<str>) {
        self.closed.store(true, Ordering::Release);
        // First: what a caller is told was not sent must not be sent afterwards.
        self.outbox.abandon();
        self.flights.all_gone(why);
    }

    /// Reads lines until there are no more.
    pub(crate) async fn read(
        &self,
        output: impl AsyncRead + Unpin,
        limits: &Limits,
        events: &Events,
    ) {
        let mut lines = LineReader::new(output, limits.max_bytes);
        let mut stray = StrayLines::new();
        while let Some(line) = lines.next().await {
            self.take_line(line, limits, events, &mut stray).await;
        }
        stray.tell_hidden(&self.server);
    }

    async fn take_line(
        &self,
        line: Line,
        limits: &Limits,
        events: &Events,
        stray: &mut StrayLines,
    ) {
        match line {
            Line::Whole(line) if is_batch(&line) && !self.takes_batches.load(Ordering::Acquire) => {
                stray.report(&self.server, batch::REFUSED, &line);
            }
            Line::Whole(line) => match split_batch(&line, limits) {
                None => self.take_text(&line, limits, events, stray).await,
                Some(Ok(messages)) => {
                    for message in messages {
                        self.take_text(&message, limits, events, stray).await;
                    }
                }
                Some(Err(error)) => stray.report(&self.server, &error.to_string(), &line),
            },
            Line::TooLong { head, tail, length } => {
                let most = limits.max_bytes;
                let why = format!("a message of {length} bytes is over the limit of {most} bytes");
                let found = salvage_id(&head, &tail)
                    .map(|id| self.flights.arrive(&id, PendingOutcome::Unreadable(why.clone())));
                if found != Some(Lookup::Taken) {
                    stray.report(&self.server, &why, &head);
                }
            }
        }
    }

    async fn take_text(
        &self,
        line: &Bytes,
        limits: &Limits,
        events: &Events,
        stray: &mut StrayLines,
    ) {
        match Message::receive(line.clone(), limits, Sender::Server) {
            Ok(message) => match &self.clients {
                Clients::Exclusive(client) if !is_response(&message) => {
                    client.pass(message, &self.outbox).await;
                }
                _ => self.take(message, events),
            },
            Err(refused) => {
                let why = refused.error.to_string();
                let found = refused
                    .id
                    .map(|id| self.flights.arrive(&id, PendingOutcome::Unreadable(why.clone())));
                if found != Some(Lookup::Taken) {
                    stray.report(&self.server, &why, line);
                }
            }
        }
    }

    /// Takes one message of the server.
    pub(crate) fn take(&self, message: Message, events: &Events) {
        match (message.shape(), message.id()) {
            (Shape::Response | Shape::Error, Some(id)) => {
                let id = id.clone();
                match self.flights.arrive(&id, PendingOutcome::Answer(message)) {
                    Lookup::Taken => {}
                    Lookup::Late => {
                        tracing::debug!(%id, "an answer came after its request was given up");
                    }
                    Lookup::Unknown => {
                        tracing::warn!(server = %self.server, %id, "the server answers an id that nobody asked with; dropped");
                    }
                }
            }
            (Shape::Request, Some(_)) => self.question(message, events),
            (Shape::Notification, _) => self.notification(message, events),
            _ => {
                tracing::warn!(server = %self.server, "an error of the server that answers nothing: dropped");
            }
        }
    }

    fn notification(&self, message: Message, events: &Events) {
        match message.method() {
            "notifications/progress" => {
                if !self.flights.progress(&message) {
                    tracing::debug!(server = %self.server, "progress of a request that nobody follows");
                }
            }
            "notifications/cancelled" => self.flights.withdraw(&message),
            "notifications/message" => {
                // Whose call it is about is not said: with several in flight it might be told to the wrong one.
                let handed =
                    self.flights.only_client(UpstreamEvent::Notice(message), |hears| hears.logs);
                if let Err((UpstreamEvent::Notice(message), _)) = handed.map_err(|back| *back) {
                    events.happened(UpstreamNotification::Log(message));
                }
            }
            _ => match UpstreamNotification::of(message) {
                // What nobody knows may belong to the one call that there is.
                Some(UpstreamNotification::Other(message))
                    if !is_of_earlier_call(message.method()) =>
                {
                    let handed = self.flights.only_client(UpstreamEvent::Notice(message), |_| true);
                    if let Err((UpstreamEvent::Notice(message), _)) = handed.map_err(|back| *back) {
                        events.happened(UpstreamNotification::Other(message));
                    }
                }
                Some(event) => events.happened(event),
                None => {}
            },
        }
    }

    /// A request could not be handed over: whoever waits for it is told.
    pub(crate) fn fail(&self, id: &Id, why: &str) {
        self.flights.arrive(id, PendingOutcome::Unreadable(why.to_owned()));
    }

    fn question(&self, message: Message, events: &Events) {
        let Some(id) = message.id().cloned() else { return };
        if message.method() == "ping" {
            // One that asks faster than it reads gets no more than it reads.
            if self.outbox.has_room() {
                self.outbox.push_now(response(&id, &Json::empty_object()));
            }
            return;
        }
        if !is_question(message.method()) && !is_vendor(message.method()) {
            let text = format!("toolgate has no method `{}`", message.method());
            self.outbox.push_now(error_response(Some(&id), -32601, &text, None));
            return;
        }
        let (method, params) = (message.method().to_owned(), message.params());
        let fits = |hears: &Interest| hears.can_answer(&method, params.as_ref());
        let asked = self.flights.only_client(UpstreamEvent::Question(message), fits);
        let Err(back) = asked else { return };
        let (step, fitting) = *back;
        if fitting == 0
            && let UpstreamEvent::Question(message) = step
        {
            // Not about a call: a client of its own may be there to answer.
            if events.asks(message, ReplyTo::Pipe(Arc::clone(&self.outbox))) {
                return;
            }
        }
        let text = if fitting > 1 {
            let server = &self.server;
            tracing::warn!(%server, "`{method}` is refused: it does not say for which of several clients' calls it asks; set `sharing = \"session\"` for this server");
            Cow::Borrowed(
                "calls of several clients are in flight, and nobody can tell which one this is about",
            )
        } else {
            Cow::Owned(format!("no client that is here can be asked `{method}`"))
        };
        self.outbox.push_now(error_response(Some(&id), -32601, &text, None));
    }
}

/// Whether it answers a request.
fn is_response(message: &Message) -> bool {
    matches!(message.shape(), Shape::Response | Shape::Error) && message.id().is_some()
}

/// Notifications about what began with a call that is over.
fn is_of_earlier_call(method: &str) -> bool {
    method.starts_with("notifications/tasks") || method.starts_with("notifications/elicitation")
}

/// One request on such a connection.
#[derive(Debug)]
pub(crate) struct PipeRequest {
    server: Arc<str>,
    outbox: Arc<WriteQueue>,
    flights: Arc<PendingRequests>,
    id: Id,
    answer: oneshot::Receiver<PendingOutcome>,
    steps: Option<mpsc::Receiver<UpstreamEvent>>,
    /// The place in the outbox, once it has one.
    written: Option<u64>,
}

impl PipeRequest {
    pub(super) async fn next(&mut self) -> Result<UpstreamEvent, Failure> {
        let arrival = match &mut self.steps {
            None => (&mut self.answer).await,
            Some(steps) => tokio::select! {
                biased;
                Some(step) = steps.recv() => return Ok(step),
                arrival = &mut self.answer => arrival,
            },
        };
        // What was said before the answer is told before it.
        if let (Some(steps), Ok(PendingOutcome::Answer(_))) = (&mut self.steps, &arrival)
            && let Ok(step) = steps.try_recv()
        {
            let (sender, again) = oneshot::channel();
            if let Ok(arrival) = arrival {
                drop(sender.send(arrival));
            }
            self.answer = again;
            return Ok(step);
        }
        self.steps = None;
        let number = self.written.take();
        match arrival {
            Ok(PendingOutcome::Answer(message)) => Ok(UpstreamEvent::Answer(message)),
            Ok(PendingOutcome::Unreadable(why)) => {
                Err(nonsense(&self.server, &format!("sent an answer that cannot be read: {why}")))
            }
            Ok(PendingOutcome::Gone(why)) => {
                let was_written = number.is_some_and(|number| self.outbox.was_written(number));
                Err(lost(
                    &self.server,
                    &why,
                    if was_written { Executed::Maybe } else { Executed::No },
                ))
            }
            Err(_) => Err(lost(&self.server, "it is gone", Executed::Maybe)),
        }
    }

    pub(super) async fn reply(&mut self, line: Bytes) {
        self.outbox.push(line).await;
    }
}

impl Drop for PipeRequest {
    fn drop(&mut self) {
        let was_waiting = self.flights.leave(&self.id);
        if was_waiting && self.written.is_some() {
            self.outbox.push_now(cancelled(&self.id));
        }
    }
}
