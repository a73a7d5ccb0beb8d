//! From the client: each line in its order. Requests are posted beside each other, everything else one by one.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hyper::{Method, StatusCode};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    sync::mpsc,
    time::timeout,
};
use toolgate::{Code, Failure};
use toolgate_wire::{
    Id, Message, Refused, Sender, Shape, WireErrorKind, is_batch,
    lines::{Line, Lines},
    salvage_id, split_batch,
};

use super::{
    answers, batch, failures, headers,
    hub::{Hub, InFlight},
    stream,
};

/// The gateway may take this long to take a notification, which others wait behind.
const TAKEN: Duration = Duration::from_secs(30);
/// So many requests may wait for their answers.
const MOST: usize = 4096;

/// Reads the client until it is done.
pub(super) async fn read(
    max_bytes: usize,
    mut input: impl AsyncRead + Unpin,
    queue: mpsc::Sender<Line>,
) {
    let mut lines = Lines::new(max_bytes);
    loop {
        match input.read_buf(lines.buffer()).await {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, "reading the client ended");
                break;
            }
        }
        while let Some(line) = lines.next() {
            if queue.send(line).await.is_err() {
                return;
            }
        }
    }
    if let Some(line) = lines.finish() {
        let _ = queue.send(line).await;
    }
}

/// Takes lines up until there are no more.
pub(super) async fn work(hub: Arc<Hub>, mut queue: mpsc::Receiver<Line>) {
    while let Some(line) = queue.recv().await {
        take(&hub, line).await;
    }
}

async fn take(hub: &Arc<Hub>, line: Line) {
    let line = match line {
        Line::Whole(line) => line.slice_ref(line.trim_ascii()),
        Line::TooLong { head, tail, length } => {
            let most = hub.limits.max_bytes;
            let text = format!("a message of {length} bytes is over the limit of {most} bytes");
            let failure = Failure::new(Code::MessageTooLarge, text);
            return hub.refuse(salvage_id(&head, &tail).as_ref(), &failure).await;
        }
    };
    if is_batch(&line) && !hub.session().takes_batches() {
        let failure = Failure::new(Code::InvalidRequest, crate::batch::REFUSED);
        return hub.refuse(None, &failure).await;
    }
    match split_batch(&line, &hub.limits) {
        None => take_one(hub, line).await,
        Some(Ok(messages)) => hub.spawn(batch::post(Arc::clone(hub), line, messages)),
        Some(Err(error)) => {
            let failure = Failure::new(code_of(error.kind()), error.to_string());
            hub.refuse(None, &failure).await;
        }
    }
}

async fn take_one(hub: &Arc<Hub>, line: Bytes) {
    let message = match Message::receive(line, &hub.limits, Sender::Client) {
        Ok(message) => message,
        Err(refused) => return refuse(hub, &refused).await,
    };
    match (message.shape(), message.method()) {
        (Shape::Request, "initialize") => hub.initialize(message).await,
        (Shape::Request, _) => request(hub, message).await,
        (Shape::Notification, "notifications/cancelled") => {
            // First: the gateway ends the request without an answer as soon as it knows, which is no failure then.
            if let Some(id) = message.member("requestId").and_then(Id::from_json) {
                hub.cancel(&id);
            }
            // The gateway is told within a session only: without one, the closed connection tells it.
            if hub.session().is_open() {
                deliver(hub, &message).await;
            }
        }
        (Shape::Notification, "notifications/initialized") => {
            hub.note_initialized(message.line());
            deliver(hub, &message).await;
            hub.listen(Some(hub.spawn_aside(stream::listen(Arc::clone(hub)))));
        }
        _ => deliver(hub, &message).await,
    }
}

/// Posts what has no answer, and waits until the gateway has it: what comes after comes after.
async fn deliver(hub: &Arc<Hub>, message: &Message) {
    let delivered = async {
        if let Some(version) = headers::modern_version(message) {
            return hub.post(&headers::of_modern(message, &version), message.line().clone()).await;
        }
        let (headers, number) = hub.session().headers();
        let status = hub.post(&headers, message.line().clone()).await?;
        match number {
            Some(number) if status == StatusCode::NOT_FOUND => {
                hub.renew(number).await?;
                let (headers, _) = hub.session().headers();
                hub.post(&headers, message.line().clone()).await
            }
            _ => Ok(status),
        }
    };
    let what = if message.method().is_empty() { "an answer" } else { message.method() };
    match timeout(TAKEN, delivered).await {
        Ok(Ok(status)) if status.is_success() => {}
        Ok(Ok(status)) => tracing::warn!("the gateway answered {status} to {what}"),
        Ok(Err(failure)) => tracing::warn!("{what} was not delivered: {failure}"),
        Err(_) => tracing::warn!("the gateway did not take {what} in time"),
    }
}

async fn request(hub: &Arc<Hub>, message: Message) {
    let Some(id) = message.id() else { return };
    if hub.in_flight() >= MOST {
        let text = format!("{MOST} requests are waiting for their answers");
        return hub.refuse(Some(id), &Failure::new(Code::Overloaded, text)).await;
    }
    let version = headers::modern_version(&message);
    let Some(flight) = hub.take_off(id) else {
        return tracing::warn!(%id, "a request uses the id of one in flight; it is dropped");
    };
    let is_listening = message.method() == "subscriptions/listen";
    let flying = fly(Arc::clone(hub), flight, message, version);
    if is_listening {
        // It has no end of its own: nobody waits for it when the client is gone.
        drop(hub.spawn_aside(flying));
    } else {
        hub.spawn(flying);
    }
}

/// One request from its first byte to its answer.
async fn fly(hub: Arc<Hub>, flight: InFlight, message: Message, version: Option<String>) {
    let answered = async {
        match exchange(&hub, &message, version.as_deref()).await {
            Ok((answer, rest)) => {
                if version.is_some() && message.method() == "tools/list" {
                    hub.learnt.read(&answer);
                }
                hub.say(answer.line().clone()).await;
                if let Some(rest) = rest {
                    hub.spawn_aside(answers::read_on(Arc::clone(&hub), rest));
                }
            }
            Err(failure) => hub.refuse(Some(&flight.id), &failure).await,
        }
    };
    flight.given_up.run_until_cancelled(answered).await;
}

type Answered = (Message, Option<crate::outbound::http::EventStream>);

async fn exchange(
    hub: &Arc<Hub>,
    message: &Message,
    version: Option<&str>,
) -> Result<Answered, Failure> {
    let Ok(_permit) = hub.room.acquire().await else {
        return Err(Failure::internal("toolgate is ending"));
    };
    let Some(id) = message.id() else { return Err(Failure::internal("a request without an id")) };
    let mut may_renew = true;
    loop {
        let (headers, number) = match version {
            Some(version) => {
                let mut headers = headers::of_modern(message, version);
                hub.learnt.add(message, &mut headers);
                (headers, None)
            }
            None => hub.session().headers(),
        };
        let sent = hub.gateway.send(Method::POST, None, &headers, message.line().clone()).await;
        let answer = sent.map_err(|error| failures::unanswered(&hub.url, &error))?;
        match number {
            Some(number) if answer.status == StatusCode::NOT_FOUND && may_renew => {
                drop(answer);
                may_renew = false;
                hub.renew(number).await?;
            }
            _ => {
                let resume = version.is_none().then_some(&headers);
                return answers::read(hub, answer, id, resume).await;
            }
        }
    }
}

async fn refuse(hub: &Hub, refused: &Refused) {
    let text = refused.error.to_string();
    // Only a request may be answered; what else is broken is told to the operator.
    let is_request = refused.shape_hint.is_none_or(|shape| shape == Shape::Request);
    if refused.id.is_none() && !is_request {
        return tracing::warn!("a message of the client is refused: {text}");
    }
    let failure = Failure::new(code_of(refused.error.kind()), text);
    hub.refuse(refused.id.as_ref(), &failure).await;
}

fn code_of(kind: WireErrorKind) -> Code {
    match kind {
        WireErrorKind::Syntax | WireErrorKind::Utf8 | WireErrorKind::Empty => Code::ParseError,
        WireErrorKind::TooLarge | WireErrorKind::TooDeep => Code::MessageTooLarge,
        _ => Code::InvalidRequest,
    }
}
