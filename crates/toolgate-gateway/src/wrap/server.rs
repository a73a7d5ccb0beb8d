//! From the server: answers find who waits for them, everything else is passed on as it is.

use std::sync::Arc;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use toolgate::Notice;
use toolgate_wire::{
    Id, Message, Sender, Shape, error_response, is_batch,
    lines::{Line, Lines},
    salvage_id, split_batch,
};

use super::{
    hub::Hub,
    pending::{Arrival, Found, Waiter},
};
use crate::{attributed::attributed, batch, outbound::noise::StrayLines};

/// Reads the server until it closes its output.
pub(crate) async fn read(hub: Arc<Hub>, mut output: impl AsyncRead + Unpin) {
    let mut lines = Lines::new(hub.limits.max_bytes);
    let mut stray = StrayLines::new();
    loop {
        match output.read_buf(lines.buffer()).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        while let Some(line) = lines.next() {
            take(&hub, line, &mut stray).await;
        }
    }
    if let Some(line) = lines.finish() {
        take(&hub, line, &mut stray).await;
    }
    stray.tell_hidden(&hub.server);
}

async fn take(hub: &Hub, line: Line, stray: &mut StrayLines) {
    match line {
        Line::Whole(line) if is_batch(&line) && !hub.takes_batches() => {
            stray.report(&hub.server, batch::REFUSED, &line);
        }
        Line::Whole(line) => match split_batch(&line, &hub.limits) {
            None => take_one(hub, line, stray).await,
            Some(Ok(messages)) => {
                for message in messages {
                    take_one(hub, message, stray).await;
                }
            }
            Some(Err(error)) => stray.report(&hub.server, &error.to_string(), &line),
        },
        Line::TooLong { head, tail, length } => {
            let most = hub.limits.max_bytes;
            let why = format!("a message of {length} bytes is over the limit of {most} bytes");
            match salvage_id(&head, &tail) {
                Some(id) => unreadable(hub, &id, why).await,
                None => stray.report(&hub.server, &why, &head),
            }
        }
    }
}

async fn take_one(hub: &Hub, line: Bytes, stray: &mut StrayLines) {
    let message = match Message::receive(line.clone(), &hub.limits, Sender::Server) {
        Ok(message) => message,
        Err(refused) => {
            let why = refused.error.to_string();
            return match refused.id {
                Some(id) if hub.pending.is_waiting(&id) => unreadable(hub, &id, why).await,
                _ => stray.report(&hub.server, &why, &line),
            };
        }
    };
    // The only server keeps its words, unless they could be taken for ours.
    let message = attributed(message, &hub.server, false);
    match (message.shape(), message.id()) {
        (Shape::Response | Shape::Error, Some(id)) => {
            let id = id.clone();
            answer(hub, &id, message).await;
        }
        // Its answer would count as the answer to a question of ours.
        (Shape::Request, Some(id)) if hub.questions.has(id) => {
            let why = "a request with an id of one of toolgate's questions";
            stray.report(&hub.server, why, &line);
        }
        (Shape::Request | Shape::Notification | Shape::Error, _) => {
            if message.method() == "notifications/tools/list_changed" {
                hub.governance().tools.outdated();
            }
            tell(hub, &message).await;
        }
        (Shape::Response, None) => stray.report(&hub.server, "an answer without id", &line),
    }
}

/// What the server tells or asks the client, as the layers let it pass.
async fn tell(hub: &Hub, message: &Message) {
    let governance = hub.governance();
    let params = if governance.chain().sees_notices() { message.params() } else { None };
    match governance.chain().notice(message.method(), params.as_ref()) {
        Notice::AsItCame => {
            hub.to_client.push(message.line().clone()).await;
        }
        Notice::Changed(params) => {
            hub.to_client.push(message.with(None, Some(params))).await;
        }
        Notice::Withheld(why) => {
            tracing::warn!(server = %hub.server, "a message of the server is withheld: {why}");
            if let (Some(id), Ok(outbox)) = (message.id(), hub.link()) {
                outbox.push(error_response(Some(id), -32603, &why, None)).await;
            }
        }
    }
}

async fn answer(hub: &Hub, id: &Id, message: Message) {
    match hub.pending.take(id) {
        Found::Waiting(Waiter::Task(task)) => {
            drop(task.send(Arrival::Answer(Box::new(message))));
        }
        Found::Waiting(waiter) => {
            match waiter {
                Waiter::Listing => drop(hub.governance().tools.learn(&message)),
                Waiter::Start => hub.note_initialized(&message),
                Waiter::Client | Waiter::Task(_) => {}
            }
            hub.to_client.push(message.line().clone()).await;
        }
        Found::Late => tracing::debug!(%id, "an answer came after its request was given up"),
        Found::Unknown => {
            tracing::warn!(server = %hub.server, %id, "the server answers an id that nobody asked with; dropped");
        }
    }
}

/// An answer came that cannot be passed on: who waits for it is told.
async fn unreadable(hub: &Hub, id: &Id, why: String) {
    match hub.pending.take(id) {
        Found::Waiting(Waiter::Task(task)) => drop(task.send(Arrival::Unreadable(why))),
        Found::Waiting(_) => {
            let text =
                format!("The server `{}` sent an answer that cannot be read: {why}", hub.server);
            hub.refuse(Some(id), &toolgate::Failure::new(toolgate::Code::ServerProtocol, text))
                .await;
        }
        Found::Late | Found::Unknown => {
            tracing::warn!(server = %hub.server, %id, "dropped an answer of the server: {why}");
        }
    }
}
