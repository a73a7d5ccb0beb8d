//! The HTTP+SSE transport of 2024-11-05: one stream for all messages to the client, and an endpoint for the client's
//! messages.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use hyper::{Response, StatusCode};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use toolgate::{Principal, Transport};
use toolgate_wire::{lines::Line, sse};

use super::{HttpExchange, empty, responder};
use crate::{
    hops,
    ids::random_id,
    transports::{
        http::{accept::Accepts, body::ResponseBody, events::stream, text},
        line_client::LineClient,
    },
    usage,
};

/// The maximum number of a client's messages that wait to be handled.
const QUEUE: usize = 64;

/// The connected clients of this transport, by the id in their endpoint's URL.
#[derive(Debug, Default)]
pub(super) struct Sse2024Clients(Mutex<HashMap<Arc<str>, Sse2024Client>>);

/// The queue to the front end of one client, and the client's principal and namespace.
#[derive(Debug)]
struct Sse2024Client {
    namespace: Arc<str>,
    principal: Principal,
    messages: mpsc::Sender<Bytes>,
}

impl Sse2024Clients {
    fn find(&self, id: &str, namespace: &str, who: &Principal) -> Option<mpsc::Sender<Bytes>> {
        let clients = self.0.lock();
        let found = clients.get(id)?;
        let is_its_own = *found.namespace == *namespace && found.principal == *who;
        is_its_own.then(|| found.messages.clone())
    }
}

impl HttpExchange<'_> {
    /// Opens the stream.
    pub(super) fn older_stream(self) -> Response<ResponseBody> {
        if !Accepts::of(&self.head.headers).events {
            return text(StatusCode::NOT_ACCEPTABLE, "a stream is text/event-stream\n");
        }
        let Ok(id) = random_id() else {
            return text(StatusCode::SERVICE_UNAVAILABLE, "the system gives no randomness\n");
        };
        let opened_by = match hops::read(None, Some(&self.head.headers), None) {
            Ok(hops) => hops,
            Err(why) => return responder::looped(None, why),
        };
        let account = &self.namespace.principal(&self.principal).account;
        let place = match account.take(usage::UsageKind::SseStreams, 1) {
            Ok(place) => place,
            Err(full) => return responder::full(&full),
        };
        let who = (self.principal.clone(), Transport::Http, Arc::clone(&id));
        let namespace = Arc::clone(&self.namespace);
        let client = LineClient::new(Arc::clone(&self.handler.gateway), namespace, who, opened_by);
        let front = client.into_front();
        let (messages, mut queued) = mpsc::channel(QUEUE);
        let namespace = Arc::clone(&self.namespace.name);
        let endpoint = format!("event: endpoint\ndata: /messages/{namespace}?session={id}\n\n");
        let client = Sse2024Client { namespace, principal: self.principal, messages };
        let clients = &self.handler.older.0;
        clients.lock().insert(Arc::clone(&id), client);
        let (events, body) = stream();
        let handler = Arc::clone(self.handler);
        tokio::spawn(async move {
            let sending = async {
                events.send(endpoint.into()).await.ok()?;
                loop {
                    let line = front.out().next().await?;
                    let event = [b"event: message\n".as_slice(), &sse::event(&line, None)].concat();
                    events.send(event.into()).await.ok()?;
                }
            };
            let taking = async {
                while let Some(message) = queued.recv().await {
                    front.handle_line(Line::Whole(message)).await;
                }
                None
            };
            let _: Option<()> = tokio::select! {
                ended = sending => ended,
                ended = taking => ended,
                () = events.closed() => None,
                () = handler.gateway.stopping.cancelled() => None,
            };
            handler.older.0.lock().remove(&id);
            front.end().await;
            drop(place);
        });
        responder::event_stream(body)
    }

    /// Queues one message for the client's front end.
    pub(super) async fn older_message(self, body: Bytes) -> Response<ResponseBody> {
        let query = self.head.uri.query().unwrap_or_default();
        let id = query.split('&').find_map(|pair| pair.strip_prefix("session="));
        let found =
            id.and_then(|id| self.handler.older.find(id, &self.namespace.name, &self.principal));
        match found {
            Some(client) if client.send(body).await.is_ok() => empty(StatusCode::ACCEPTED),
            _ => text(StatusCode::NOT_FOUND, "there is no such session: open /sse again\n"),
        }
    }
}
