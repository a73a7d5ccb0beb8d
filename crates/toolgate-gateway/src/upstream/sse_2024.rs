//! The HTTP transport of 2024-11-05: the server sends everything on one event stream, and names the address to which
//! the client posts its messages.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use hyper::{Method, StatusCode};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use toolgate::Failure;
use toolgate_wire::{Id, Limits, Message, Sender, Shape};

use super::{
    connection::{Connection, UpstreamTransport},
    events::SharedListener,
    failures::{protocol_violation, unavailable},
    handshake::{self, HandshakeError, HandshakeParams},
    pipe::{Clients, Pipe},
    request,
};
use crate::{
    config::Protocol,
    http_client::{EventStream, HttpClient, SendError},
    write_queue::WriteQueue,
};

/// How many messages are posted at once.
const MAX_CONCURRENT_POSTS: usize = 64;

/// How long the server may take to accept one message.
const POST_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of the body of a successful POST that the gateway reads, so that it can use the HTTP connection again.
const MAX_POST_RESPONSE_BYTES: usize = 64 * 1024;

/// Opens a connection.
pub(super) async fn open(
    name: Arc<str>,
    limits: Limits,
    client: Arc<HttpClient>,
    listener: &SharedListener,
    params: &HandshakeParams,
) -> Result<Arc<Connection>, Failure> {
    let opening = open_stream(&client, &name, limits.max_bytes);
    let opened = tokio::time::timeout(params.timeout, opening).await;
    let late = || unavailable(&name, "it did not say where to send messages to");
    let (mut stream, path) = opened.map_err(|_| late())??;
    let queue = Arc::new(WriteQueue::new());
    let pipe = Arc::new(Pipe::new(Arc::clone(&name), Arc::clone(&queue), Clients::Several));
    let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
    let reading = (Arc::clone(&pipe), Arc::clone(listener), stop.clone(), ended.clone());
    tokio::spawn(async move {
        let (pipe, listener, stop, ended) = reading;
        loop {
            let event = tokio::select! {
                event = stream.next() => event,
                () = stop.cancelled() => break,
                () = ended.cancelled() => break,
            };
            let Ok(Some(event)) = event else { break };
            match Message::receive(event.data, &limits, Sender::Server) {
                Ok(message) => pipe.handle_message(message, &listener),
                Err(refused) => {
                    tracing::warn!("an event that is no message is dropped: {}", refused.error);
                }
            }
        }
        pipe.close(&"its stream broke off".into());
        ended.cancel();
    });
    let poster = Poster { client, path, limits, pipe: Arc::clone(&pipe), ended: ended.clone() };
    tokio::spawn(Arc::new(poster).run(queue));
    let transport = UpstreamTransport::Pipe(pipe);
    let params = HandshakeParams {
        protocol: Protocol::Legacy,
        known: None,
        capabilities: params.capabilities.clone(),
        info: params.info.clone(),
        version: Arc::clone(&params.version),
        timeout: params.timeout,
        stdin: None,
    };
    let opened = handshake::perform(&transport, &name, &params).await;
    let opened = opened.inspect_err(|_| stop.cancel());
    let server_info = opened.map_err(HandshakeError::into_failure)?;
    let connection = Arc::new(Connection::new(server_info, transport, stop));
    let ending = Arc::clone(&connection);
    tokio::spawn(async move {
        ended.cancelled().await;
        ending.close("its stream broke off");
    });
    Ok(connection)
}

/// Opens the event stream, and waits for the address that the server names on it.
async fn open_stream(
    client: &HttpClient,
    name: &str,
    max_bytes: usize,
) -> Result<(EventStream, String), Failure> {
    let answer = client.send(Method::GET, None, &[], Bytes::new()).await;
    let answer = answer.map_err(|error| unavailable(name, &error.to_string()))?;
    if !answer.status.is_success() {
        return Err(unavailable(name, &format!("it answered GET with {}", answer.status)));
    }
    let mut stream = EventStream::new(answer, max_bytes);
    loop {
        let event = stream.next().await;
        let event = event.map_err(|error| unavailable(name, &error.to_string()))?;
        let event = event.ok_or_else(|| unavailable(name, "its stream broke off"))?;
        if event.name.as_deref() == Some(b"endpoint") {
            let path = std::str::from_utf8(&event.data).unwrap_or_default();
            return path_of(path, client.target().origin()).map(|path| (stream, path)).ok_or_else(
                || {
                    protocol_violation(
                        name,
                        "names an address on another server to send messages to",
                    )
                },
            );
        }
    }
}

/// The path of an address on the same server. An address elsewhere could belong to anyone.
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

/// Posts the client's messages to the address that the server named.
struct Poster {
    client: Arc<HttpClient>,
    path: String,
    limits: Limits,
    pipe: Arc<Pipe>,
    ended: CancellationToken,
}

/// A message to post.
struct Outgoing {
    line: Bytes,
    /// The id, if the message is a request.
    id: Option<Id>,
    /// Whether it may be sent twice.
    is_idempotent: bool,
}

impl Poster {
    /// Posts requests concurrently, and other messages one after the other.
    async fn run(self: Arc<Self>, queue: Arc<WriteQueue>) {
        let permits = Arc::new(Semaphore::new(MAX_CONCURRENT_POSTS));
        while let Some(line) = queue.next().await {
            let message = Message::parse(line.clone(), &self.limits).ok();
            let request = message.filter(|message| message.shape() == Shape::Request);
            let is_idempotent =
                request.as_ref().is_some_and(|message| request::is_idempotent(message.method()));
            let id = request.and_then(|message| message.id().cloned());
            let is_request = id.is_some();
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
            let poster = Arc::clone(&self);
            let posting = async move { poster.post(Outgoing { line, id, is_idempotent }).await };
            if is_request {
                tokio::spawn(async move {
                    posting.await;
                    drop(permit);
                });
            } else {
                posting.await;
            }
        }
    }

    /// Posts one message. If the server refuses it, only its request fails; if the server is gone, the connection ends.
    async fn post(&self, message: Outgoing) {
        let path = Some(self.path.as_str());
        let posting = async {
            if message.is_idempotent {
                self.client.post_idempotent(path, &[], message.line).await
            } else {
                self.client.send(Method::POST, path, &[], message.line).await
            }
        };
        let posted = tokio::time::timeout(POST_TIMEOUT, posting).await;
        match posted.unwrap_or_else(|_| Err(SendError::Lost("it does not answer".to_owned()))) {
            Ok(answer) if answer.status.is_success() => {
                drop(answer.whole(MAX_POST_RESPONSE_BYTES).await);
            }
            Ok(answer) => {
                let status = answer.status;
                tracing::warn!("a message is refused with {status}");
                if let Some(id) = &message.id {
                    self.pipe.fail(id, &format!("it refused the message with {status}"));
                }
                if status == StatusCode::NOT_FOUND {
                    self.ended.cancel();
                }
            }
            Err(SendError::NotSent(why) | SendError::Lost(why)) => {
                tracing::warn!("a message was lost: {why}");
                self.ended.cancel();
            }
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
