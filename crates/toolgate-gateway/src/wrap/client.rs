//! From the client: each line is governed, passed on as it is, or refused.

use std::sync::Arc;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use toolgate::{Code, Control, Failure};
use toolgate_wire::{
    Id, Message, Refused, Sender, Shape, WireErrorKind, is_batch,
    lines::{Line, Lines},
    salvage_id, split_batch,
};

use super::{hub::Hub, pending::Waiter, reply::Batch, requests};
use crate::batch;

/// Reads the client until it is done.
pub(crate) async fn read(hub: Arc<Hub>, mut input: impl AsyncRead + Unpin) {
    let mut lines = Lines::new(hub.limits.max_bytes);
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
            take(&hub, line).await;
        }
    }
    if let Some(line) = lines.finish() {
        take(&hub, line).await;
    }
}

async fn take(hub: &Arc<Hub>, line: Line) {
    match line {
        Line::Whole(line) if is_batch(&line) && !hub.takes_batches() => {
            hub.refuse(None, &Failure::new(Code::InvalidRequest, batch::REFUSED)).await;
        }
        Line::Whole(line) => match split_batch(&line, &hub.limits) {
            None => take_one(hub, line).await,
            Some(Ok(messages)) => take_batch(hub, messages).await,
            Some(Err(error)) => {
                let code = code_of(error.kind());
                hub.refuse(None, &Failure::new(code, error.to_string())).await;
            }
        },
        Line::TooLong { head, tail, length } => {
            let most = hub.limits.max_bytes;
            let text = format!("a message of {length} bytes is over the limit of {most} bytes");
            let failure = Failure::new(Code::MessageTooLarge, text);
            hub.refuse(salvage_id(&head, &tail).as_ref(), &failure).await;
        }
    }
}

async fn take_batch(hub: &Arc<Hub>, messages: Vec<Bytes>) {
    let parse = |line| Message::receive(line, &hub.limits, Sender::Client);
    let messages: Vec<Result<Message, Refused>> = messages.into_iter().map(parse).collect();
    let is_request =
        |m: &&Result<Message, Refused>| matches!(m, Ok(m) if m.shape() == Shape::Request);
    let batch = Batch::new(messages.iter().filter(is_request).count(), &hub.limits);
    for message in messages {
        match message {
            Ok(message) if message.shape() == Shape::Request => {
                requests::take_up(hub, message, Some(Arc::clone(&batch)));
            }
            Ok(message) => pass(hub, message).await,
            Err(refused) => refuse(hub, &refused).await,
        }
    }
}

async fn take_one(hub: &Arc<Hub>, line: Bytes) {
    let message = match Message::receive(line, &hub.limits, Sender::Client) {
        Ok(message) => message,
        Err(refused) => return refuse(hub, &refused).await,
    };
    let governance = hub.governance();
    match (message.shape(), message.method()) {
        (Shape::Request, "initialize") => {
            hub.note_initialize(&message);
            if forward(hub, &message, Waiter::Start).await
                && let Some(id) = message.id()
            {
                watch_start(hub, id.clone());
            }
        }
        (Shape::Request, "tools/call") => requests::take_up(hub, message, None),
        (Shape::Request, "tools/list") if governance.chain().sees_listings() => {
            requests::take_up(hub, message, None);
        }
        (Shape::Request, "tools/list") => drop(forward(hub, &message, Waiter::Listing).await),
        (Shape::Request, method)
            if governance.chain().sees_request(method) || is_controlled(&message) =>
        {
            requests::take_up(hub, message, None);
        }
        (Shape::Request, _) => drop(forward(hub, &message, Waiter::Client).await),
        _ => pass(hub, message).await,
    }
}

/// Whether there is something in `_meta` that is not for the server.
fn is_controlled(message: &Message) -> bool {
    let meta = message.member("_meta").and_then(|meta| meta.object());
    meta.is_some_and(|meta| Control::KEYS.iter().any(|key| meta.contains(key)))
}

/// Notifications, and answers to what the server asked: passed on as they are.
async fn pass(hub: &Arc<Hub>, message: Message) {
    if hub.questions.take(&message) {
        return;
    }
    match message.method() {
        "notifications/cancelled" => {
            if let Some(id) = message.member("requestId").and_then(Id::from_json) {
                hub.cancel(&id);
            }
        }
        "notifications/initialized" => {
            hub.client_facts().initialized = Some(message.line().clone());
        }
        _ => {}
    }
    match hub.link() {
        Ok(outbox) => drop(outbox.push(message.line().clone()).await),
        Err(failure) => tracing::debug!(method = message.method(), "not delivered: {failure}"),
    }
}

/// Passes a request on whose answer goes back as it is; `false` when it could not be.
async fn forward(hub: &Arc<Hub>, message: &Message, waiter: Waiter) -> bool {
    let Some(id) = message.id() else { return false };
    let outbox = match hub.link() {
        Ok(outbox) => outbox,
        Err(failure) => {
            hub.refuse(Some(id), &failure).await;
            return false;
        }
    };
    if !hub.pending.enter(id.clone(), waiter) {
        tracing::warn!(%id, "a request uses the id of one in flight; it is dropped");
        return false;
    }
    outbox.push(message.line().clone()).await;
    true
}

/// Reports a server that does not answer `initialize`.
fn watch_start(hub: &Arc<Hub>, id: Id) {
    let hub = Arc::clone(hub);
    tokio::spawn(async move {
        tokio::time::sleep(hub.start_timeout).await;
        if !hub.pending.is_waiting(&id) {
            return;
        }
        hub.pending.give_up(&id);
        let after = toolgate::duration::format(hub.start_timeout);
        let text = format!("The server `{}` did not answer initialize within {after}", hub.server);
        tracing::error!("{text}");
        hub.refuse(Some(&id), &Failure::new(Code::ServerStartTimeout, text)).await;
        hub.hung.notify_one();
    });
}

async fn refuse(hub: &Hub, refused: &Refused) {
    let text = refused.error.to_string();
    // Only a request may be answered; what else is broken is told to the operator.
    let is_request = refused.shape_hint.is_none_or(|shape| shape == Shape::Request);
    if refused.id.is_none() && !is_request {
        tracing::warn!("a message of the client is refused: {text}");
        return;
    }
    hub.refuse(refused.id.as_ref(), &Failure::new(code_of(refused.error.kind()), text)).await;
}

fn code_of(kind: WireErrorKind) -> Code {
    match kind {
        WireErrorKind::Syntax | WireErrorKind::Utf8 | WireErrorKind::Empty => Code::ParseError,
        WireErrorKind::TooLarge | WireErrorKind::TooDeep => Code::MessageTooLarge,
        _ => Code::InvalidRequest,
    }
}
