//! A server for tests: the path of a request selects its behaviour, and it reports the events of its connections.

use std::{net::SocketAddr, sync::Arc};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpListener,
    sync::{Mutex, Notify, mpsc},
};
use tokio_rustls::TlsAcceptor;

/// An event at the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Opened,
    /// The head of a request and its body.
    Request(String, String),
    /// The server has closed a connection.
    Closed,
    /// The client has closed a connection.
    LeftByClient,
}

/// A server that runs until the runtime ends.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    seen: Mutex<mpsc::Receiver<Seen>>,
    /// Lets the server send the next part.
    pub(super) go_on: Arc<Notify>,
}

impl Server {
    pub(super) async fn start() -> Self {
        Self::with_tls(None).await
    }

    pub(super) async fn with_tls(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (events, seen) = mpsc::channel(64);
        let go_on = Arc::new(Notify::new());
        let step = Arc::clone(&go_on);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (events, step, tls) = (events.clone(), Arc::clone(&step), tls.clone());
                tokio::spawn(async move {
                    events.send(Seen::Opened).await.unwrap();
                    match tls {
                        None => serve(stream, events, step).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, events, step).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, seen: Mutex::new(seen), go_on }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Waits for the next event, at most 10 seconds.
    pub(super) async fn next(&self) -> Seen {
        let next = self.next_ever();
        tokio::time::timeout(std::time::Duration::from_secs(10), next).await.expect("nothing came")
    }

    /// Waits for the next event without a limit.
    pub(super) async fn next_ever(&self) -> Seen {
        self.seen.lock().await.recv().await.unwrap()
    }

    /// The events that have happened since the last call.
    pub(super) async fn so_far(&self) -> Vec<Seen> {
        let mut seen = self.seen.lock().await;
        std::iter::from_fn(|| seen.try_recv().ok()).collect()
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    events: mpsc::Sender<Seen>,
    step: Arc<Notify>,
) {
    let mut buffer = Vec::new();
    while let Some((head, body)) = request(&mut stream, &mut buffer).await {
        let path = head.split([' ', '?']).nth(1).unwrap().to_owned();
        events.send(Seen::Request(head, body.clone())).await.unwrap();
        let answer = match path.as_str() {
            "/none" => break,
            "/half" => "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf".to_owned(),
            "/redirect" => "HTTP/1.1 308 Permanent Redirect\r\ncontent-length: 0\r\n\
                 location: https://user:secret@elsewhere.example:444/x?token=1\r\n\r\n"
                .to_owned(),
            "/accepted" => "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned(),
            "/early" => {
                "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n1"
                    .to_owned()
            }
            "/short" => {
                "HTTP/1.1 200 OK\r\nkeep-alive: timeout=1\r\ncontent-length: 1\r\n\r\n1".to_owned()
            }
            "/head" => format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(200_000)),
            "/odd" => "SSH-2.0-something\r\n\r\n".to_owned(),
            "/hang" => {
                step.notified().await;
                String::new()
            }
            "/chunks" => {
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
                    .await
                    .unwrap();
                if !chunks(&mut stream, &body, &step).await {
                    events.send(Seen::LeftByClient).await.unwrap();
                    return;
                }
                "0\r\n\r\n".to_owned()
            }
            _ => format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()),
        };
        stream.write_all(answer.as_bytes()).await.unwrap();
        match path.as_str() {
            "/then-closed" | "/half" => break,
            "/closed-on-signal" => {
                step.notified().await;
                break;
            }
            _ => {}
        }
    }
    let is_ours = buffer.is_empty();
    stream.shutdown().await.ok();
    drop(stream);
    events.send(if is_ours { Seen::Closed } else { Seen::LeftByClient }).await.ok();
}

/// Sends each part of the body as a chunk, one for each `go_on`. False if the client closed the connection.
async fn chunks<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    body: &str,
    step: &Notify,
) -> bool {
    for word in body.split_inclusive('|') {
        tokio::select! {
            () = step.notified() => {}
            _ = stream.read_u8() => return false,
        }
        let chunk = format!("{:x}\r\n{word}\r\n", word.len());
        stream.write_all(chunk.as_bytes()).await.unwrap();
    }
    true
}

/// Reads a request; `None` if the client has left, which is noted in the buffer.
async fn request<S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &mut Vec<u8>,
) -> Option<(String, String)> {
    loop {
        let text = String::from_utf8_lossy(buffer).into_owned();
        if let Some((head, rest)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().unwrap());
            if rest.len() >= length {
                let body = rest.get(..length).unwrap().to_owned();
                buffer.drain(..head.len() + 4 + length);
                return Some((head.to_owned(), body));
            }
        }
        if stream.read_buf(buffer).await.unwrap_or(0) == 0 {
            buffer.push(0);
            return None;
        }
    }
}
