//! The stream of a session, resumed streams, and the end of a session.

use std::sync::Arc;

use hyper::{Method, Response, StatusCode, header::HeaderName};
use toolgate_wire::{mcp::code, sse};

use super::{HttpExchange, SESSION, empty, not_allowed, only, responder};
use crate::{
    clients::{legacy_session::LegacySession, replay::ReplayStream},
    gateway::response::JsonRpcResponse,
    transports::http::{
        accept::Accepts,
        body::ResponseBody,
        events::{EventSender, stream},
        text,
    },
};

const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

impl HttpExchange<'_> {
    /// GET: opens the stream of the session's messages that belong to no request, or resumes a stream that broke off.
    pub(super) fn stream(self) -> Response<ResponseBody> {
        if !self.head.headers.contains_key(&SESSION) {
            return not_allowed(&[Method::POST]);
        }
        if !Accepts::of(&self.head.headers).events {
            return text(StatusCode::NOT_ACCEPTABLE, "a stream is text/event-stream\n");
        }
        let session = match self.session() {
            Ok(session) => session,
            Err((status, why)) => {
                return responder::json(
                    status,
                    JsonRpcResponse::refused(None, code::INVALID_REQUEST, why),
                );
            }
        };
        let last = only(&self.head.headers, &LAST_EVENT).ok().flatten();
        let last = last.and_then(|last| std::str::from_utf8(last).ok());
        let broken = last.and_then(|last| session.replay.find(last));
        let (events, body) = stream();
        match broken {
            Some((broken, number)) => drop(tokio::spawn(resume(session, broken, number, events))),
            None => drop(tokio::spawn(follow(session, events))),
        }
        responder::event_stream(body)
    }

    /// DELETE: ends the session.
    pub(super) fn leave(self) -> Response<ResponseBody> {
        if !self.head.headers.contains_key(&SESSION) {
            return not_allowed(&[Method::POST]);
        }
        match self.session() {
            Ok(session) => {
                self.handler.gateway.end_session(&session);
                empty(StatusCode::NO_CONTENT)
            }
            Err((status, why)) => {
                responder::json(status, JsonRpcResponse::refused(None, code::INVALID_REQUEST, why))
            }
        }
    }
}

async fn follow(session: Arc<LegacySession>, events: EventSender) {
    let _busy = session.busy();
    let taken = session.take_stream();
    loop {
        let lines = tokio::select! {
            biased;
            () = taken.cancelled() => return,
            () = events.closed() => return,
            lines = session.notifications.next() => lines,
        };
        let Some(lines) = lines else { return };
        let mut lines = lines.into_iter();
        while let Some(line) = lines.next() {
            if events.send(sse::event(&line, None)).await.is_err() {
                // Keeps the messages for the next stream that the client opens.
                session.notifications.push(line);
                lines.for_each(|line| session.notifications.push(line));
                return;
            }
        }
    }
}

async fn resume(
    session: Arc<LegacySession>,
    broken: Arc<ReplayStream>,
    mut number: u64,
    events: EventSender,
) {
    let _busy = session.busy();
    loop {
        let next = tokio::select! {
            biased;
            () = session.over.cancelled() => return,
            () = events.closed() => return,
            next = broken.after(number) => next,
        };
        let Some((at, line)) = next else { return };
        number = at;
        if events.send(sse::event(&line, Some(&broken.id(at)))).await.is_err() {
            return;
        }
    }
}
