//! HTTP with server-sent events, of 2024-11-05: one stream that everything comes on, and POSTs to the address that
//! it names.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hyper::{Method, StatusCode};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use toolgate::Failure;
use toolgate_wire::{Id, Limits, Message, Sender, Shape};

use super::{
    connection::{Connection, Wire},
    events::Events,
    handshake::{HandshakeError, HandshakeMode, greet},
    in_flight::{self, nonsense, unavailable},
    pipe::{Clients, Pipe},
    server::Server,
};
use crate::{
    config::Protocol,
    http_client::{EventStream, HttpClient, SendError},
    write_queue::WriteQueue,
};

/// So many messages are on their way at once.
const AT_ONCE: usize = 64;

/// How long one message may take to be accepted.
const PATIENCE: Duration = Duration::from_secs(30);

/// Opens a connection.
pub(super) async fn open(
    server: &Arc<Server>,
    client: &Arc<HttpClient>,
    ear: &Events,
    hello: &HandshakeMode,
) -> Result<Arc<Connection>, Failure> {
    let name = Arc::clone(&server.name);
    let limits = server.surroundings.limits;
    let begun = tokio::time::timeout(hello.patience, begin(client, &name, limits.max_bytes)).await;
    let late = || unavailable(&name, "it did not say where to send messages to");
    let (mut stream, path) = begun.map_err(|_| late())??;
    let outbox = Arc::new(WriteQueue::new());
    let pipe = Arc::new(Pipe::new(Arc::clone(&name), Arc::clone(&outbox), Clients::Several));
    let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
    let reading = (Arc::clone(&pipe), Arc::clone(ear), stop.clone(), ended.clone());
    tokio::spawn(async move {
        let (pipe, ear, stop, ended) = reading;
        loop {
            let event = tokio::select! {
                event = stream.next() => event,
                () = stop.cancelled() => break,
                () = ended.cancelled() => break,
            };
            let Ok(Some(event)) = event else { break };
            match Message::receive(event.data, &limits, Sender::Server) {
                Ok(message) => pipe.take(message, &ear),
                Err(refused) => {
                    tracing::warn!("an event that is no message is dropped: {}", refused.error);
                }
            }
        }
        pipe.close(&"its stream broke off".into());
        ended.cancel();
    });
    let posting = post(
        Arc::clone(client),
        Arc::clone(&outbox),
        (path, limits),
        Arc::clone(&pipe),
        ended.clone(),
    );
    tokio::spawn(posting);
    let wire = Wire::Pipe(pipe);
    let hello = HandshakeMode {
        protocol: Protocol::Legacy,
        known: None,
        capabilities: hello.capabilities.clone(),
        info: hello.info.clone(),
        version: Arc::clone(&hello.version),
        patience: hello.patience,
        stdin: None,
    };
    let greeted = greet(&wire, &name, &hello).await.inspect_err(|_| stop.cancel());
    let offer = greeted.map_err(HandshakeError::into_failure)?;
    let connection = Arc::new(Connection::new(offer, wire, stop));
    let ending = Arc::clone(&connection);
    tokio::spawn(async move {
        ended.cancelled().await;
        ending.close("its stream broke off");
    });
    Ok(connection)
}

/// Opens the stream and waits for the address that it names.
async fn begin(
    client: &HttpClient,
    name: &str,
    most: usize,
) -> Result<(EventStream, String), Failure> {
    let answer = client.send(Method::GET, None, &[], Bytes::new()).await;
    let answer = answer.map_err(|error| unavailable(name, &error.to_string()))?;
    if !answer.status.is_success() {
        return Err(unavailable(name, &format!("it answered GET with {}", answer.status)));
    }
    let mut stream = EventStream::new(answer, most);
    loop {
        let event = stream.next().await;
        let event = event.map_err(|error| unavailable(name, &error.to_string()))?;
        let event = event.ok_or_else(|| unavailable(name, "its stream broke off"))?;
        if event.name.as_deref() == Some(b"endpoint") {
            let path = std::str::from_utf8(&event.data).unwrap_or_default();
            return path_of(path, client.target().origin()).map(|path| (stream, path)).ok_or_else(
                || nonsense(name, "names an address on another server to send messages to"),
            );
        }
    }
}

/// The path of an address on the same server. Another one might be anybody's.
fn path_of(address: &str, origin: &str) -> Option<String> {
    if let Some(rest) = address.strip_prefix(origin) {
        return rest.starts_with('/').then(|| rest.to_owned());
    }
    let plain = address.split(['?', '#']).next().unwrap_or_default();
    if address.starts_with("//") || plain.contains("://") || plain.is_empty() {
        return None;
    }
    Some(if address.starts_with('/') { address.to_owned() } else { format!("/{address}") })
}

/// Sends messages as they come: requests beside each other, everything else in its order.
async fn post(
    client: Arc<HttpClient>,
    outbox: Arc<WriteQueue>,
    (path, limits): (String, Limits),
    pipe: Arc<Pipe>,
    ended: CancellationToken,
) {
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    while let Some(line) = outbox.next().await {
        let message = Message::parse(line.clone(), &limits).ok();
        let request = message.filter(|message| message.shape() == Shape::Request);
        let is_safe = request.as_ref().is_some_and(|message| in_flight::is_safe(message.method()));
        let id = request.and_then(|message| message.id().cloned());
        let Ok(turn) = Arc::clone(&turns).acquire_owned().await else { return };
        let sending = send(
            Arc::clone(&client),
            path.clone(),
            (line, is_safe),
            id.clone(),
            Arc::clone(&pipe),
            ended.clone(),
        );
        if id.is_some() {
            tokio::spawn(async move {
                sending.await;
                drop(turn);
            });
        } else {
            sending.await;
        }
    }
}

/// Sends one message. What is refused fails alone; a server that is not there fails for all.
async fn send(
    client: Arc<HttpClient>,
    path: String,
    (line, is_safe): (Bytes, bool),
    id: Option<Id>,
    pipe: Arc<Pipe>,
    ended: CancellationToken,
) {
    let sending = async {
        if is_safe {
            client.ask(Some(&path), &[], line).await
        } else {
            client.send(Method::POST, Some(&path), &[], line).await
        }
    };
    let sent = tokio::time::timeout(PATIENCE, sending).await;
    match sent.unwrap_or_else(|_| Err(SendError::Lost("it does not answer".to_owned()))) {
        Ok(answer) if answer.status.is_success() => drop(answer.whole(64 * 1024).await),
        Ok(answer) => {
            let status = answer.status;
            tracing::warn!("a message is refused with {status}");
            if let Some(id) = &id {
                pipe.fail(id, &format!("it refused the message with {status}"));
            }
            if status == StatusCode::NOT_FOUND {
                ended.cancel();
            }
        }
        Err(SendError::NotSent(why) | SendError::Lost(why)) => {
            tracing::warn!("a message was lost: {why}");
            ended.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_to_the_same_server_only() {
        let of = |address| path_of(address, "http://127.0.0.1:9");
        assert_eq!(of("/messages?x=1").as_deref(), Some("/messages?x=1"));
        assert_eq!(of("messages").as_deref(), Some("/messages"));
        assert_eq!(of("http://127.0.0.1:9/m").as_deref(), Some("/m"));
        assert_eq!(of("http://127.0.0.1:90/m"), None);
        assert_eq!(of("http://evil.example/m"), None);
        assert_eq!(of("//evil.example/m"), None);
        assert_eq!(of(""), None);
    }
}
