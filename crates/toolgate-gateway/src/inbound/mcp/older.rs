//! HTTP with server-sent events, of 2024-11-05: one stream for everything, and an address for messages.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use hyper::{Response, StatusCode};
use toolgate::{Principal, Transport};
use toolgate_wire::sse;

use super::{Visit, answer, empty};
use crate::{
    hops,
    inbound::{
        http::{accept::Accepts, body::AnswerBody, events::stream, text},
        lines::LineClient,
    },
    outbox::Outbox,
    sessions::{table::random_id, usage},
};

/// Clients that are connected in this way, by the id in their address.
#[derive(Debug, Default)]
pub(super) struct OlderClients(Mutex<HashMap<Arc<str>, Arc<LineClient>>>);

impl OlderClients {
    fn find(&self, id: &str, namespace: &str, principal: &Principal) -> Option<Arc<LineClient>> {
        let clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = clients.get(id)?;
        found.is_of(namespace, principal).then(|| Arc::clone(found))
    }
}

impl Visit<'_> {
    /// Opens the stream.
    pub(super) fn older_stream(self) -> Response<AnswerBody> {
        if !Accepts::of(&self.head.headers).events {
            return text(StatusCode::NOT_ACCEPTABLE, "a stream is text/event-stream\n");
        }
        let Ok(id) = random_id() else {
            return text(StatusCode::SERVICE_UNAVAILABLE, "the system gives no randomness\n");
        };
        let opened_by = match hops::read(None, Some(&self.head.headers), None) {
            Ok(hops) => hops,
            Err(why) => return answer::looped(None, why),
        };
        let account = &self.namespace.member(&self.principal).account;
        let place = match account.take(usage::Kind::SseStreams, 1) {
            Ok(place) => place,
            Err(full) => return answer::full(&full),
        };
        let outbox = Arc::new(Outbox::new());
        let client = Arc::new(LineClient::new(
            Arc::clone(&self.door.gateway),
            Arc::clone(&self.namespace),
            self.principal,
            Transport::Http,
            Arc::clone(&outbox),
            Arc::clone(&id),
            opened_by,
        ));
        self.door
            .older
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(Arc::clone(&id), Arc::clone(&client));
        let (events, body) = stream();
        let endpoint =
            format!("event: endpoint\ndata: /messages/{}?session={id}\n\n", self.namespace.name);
        let door = Arc::clone(self.door);
        tokio::spawn(async move {
            let sending = async {
                events.send(endpoint.into()).await.ok()?;
                loop {
                    let line = outbox.next().await?;
                    let event = [b"event: message\n".as_slice(), &sse::event(&line, None)].concat();
                    events.send(event.into()).await.ok()?;
                }
            };
            let _: Option<()> = tokio::select! {
                ended = sending => ended,
                () = events.closed() => None,
                () = door.gateway.stopping.cancelled() => None,
            };
            door.older.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
            client.end();
            drop(place);
        });
        answer::event_stream(body)
    }

    /// Takes one message.
    pub(super) async fn older_message(self, body: Bytes) -> Response<AnswerBody> {
        let query = self.head.uri.query().unwrap_or_default();
        let id = query.split('&').find_map(|pair| pair.strip_prefix("session="));
        let found =
            id.and_then(|id| self.door.older.find(id, &self.namespace.name, &self.principal));
        match found {
            Some(client) => {
                client.take(body).await;
                empty(StatusCode::ACCEPTED)
            }
            None => text(StatusCode::NOT_FOUND, "there is no such session: open /sse again\n"),
        }
    }
}
