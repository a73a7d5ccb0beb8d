//! A listener with a simple handler, and clients that speak to it in bytes.

mod bounds;
mod endings;
mod requests;
mod shortage;
mod streams;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::{Notify, mpsc},
    time::timeout,
};

use super::{
    events::{EventSender, stream},
    listen::{BoundAddresses, RunningListener},
    *,
};

/// Longer than any step of these tests takes, even on a busy machine.
const LONG: Duration = Duration::from_secs(30);

/// The maximum size of a body in bytes.
const LIMIT: usize = 64 * 1024;

async fn bounded<T>(what: impl Future<Output = T>) -> T {
    timeout(LONG, what).await.expect("it takes too long")
}

/// The events that the handler reports to the test.
#[derive(Debug)]
enum HandlerEvent {
    /// A request at `/wait` is under way.
    Waiting,
    /// The request was dropped before it was answered.
    Dropped,
    Stream(EventSender),
}

struct Simple {
    sender: mpsc::Sender<HandlerEvent>,
    go_on: Notify,
}

impl Handler for Simple {
    fn check(&self, head: &Parts) -> Result<(), Response<ResponseBody>> {
        match head.uri.path() {
            "/refused" => Err(text(StatusCode::FORBIDDEN, "no")),
            _ => Ok(()),
        }
    }

    fn body_limit(&self, _head: &Parts) -> usize {
        LIMIT
    }

    fn too_large(&self, _head: &Parts) -> Response<ResponseBody> {
        text(StatusCode::PAYLOAD_TOO_LARGE, "the message is too large\n")
    }

    async fn respond(
        self: &Arc<Self>,
        _: Option<SocketAddr>,
        head: Parts,
        body: Bytes,
    ) -> Response<ResponseBody> {
        match head.uri.path() {
            "/thread" => {
                let name = std::thread::current().name().unwrap_or_default().to_owned();
                Response::new(ResponseBody::Whole(name.into()))
            }
            "/nothing" => Response::new(ResponseBody::Empty),
            "/panic" => panic!("as the test wants"),
            "/large" => Response::new(ResponseBody::Whole(vec![b'x'; 32 * 1024 * 1024].into())),
            "/wait" => {
                let mut dropped = OnDrop(Some(self.sender.clone()));
                self.sender.send(HandlerEvent::Waiting).await.unwrap();
                self.go_on.notified().await;
                dropped.0 = None;
                text(StatusCode::OK, "waited")
            }
            "/events" => {
                let (sender, events) = stream();
                self.sender.send(HandlerEvent::Stream(sender)).await.unwrap();
                Response::new(ResponseBody::Stream(events))
            }
            path => {
                let path = Bytes::copy_from_slice(path.as_bytes());
                Response::new(ResponseBody::Parts([path, Bytes::from_static(b" "), body]))
            }
        }
    }
}

struct OnDrop(Option<mpsc::Sender<HandlerEvent>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(sender) = self.0.take() {
            sender.try_send(HandlerEvent::Dropped).unwrap();
        }
    }
}

/// A listener under test.
struct TestServer {
    address: SocketAddr,
    handler: Arc<Simple>,
    events: mpsc::Receiver<HandlerEvent>,
    listening: RunningListener,
}

impl TestServer {
    fn open(change: impl FnOnce(&mut HttpLimits)) -> Self {
        let mut settings =
            HttpLimits { threads: 2, sweep: Duration::from_millis(10), ..HttpLimits::default() };
        change(&mut settings);
        let bound = BoundAddresses::bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let address = bound.addresses()[0];
        let (sender, events) = mpsc::channel(64);
        let handler = Arc::new(Simple { sender, go_on: Notify::new() });
        let listening = bound.serve(&handler, settings).unwrap();
        Self { address, handler, events, listening }
    }

    async fn client(&self) -> Client {
        Client { stream: bounded(TcpStream::connect(self.address)).await.unwrap(), read: vec![] }
    }

    async fn next_event(&mut self) -> HandlerEvent {
        bounded(self.events.recv()).await.unwrap()
    }

    /// Waits until this number of connections is open.
    async fn until_open(&self, count: usize) {
        bounded(async {
            while self.listening.open() != count {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

/// A client, with the bytes that it has read and not used.
struct Client {
    stream: TcpStream,
    read: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Client {
    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        bounded(self.stream.write_all(bytes.as_ref())).await.unwrap();
    }

    /// Reads more; 0 at the end, which may come as an error.
    async fn more(&mut self) -> usize {
        let read: io::Result<usize> = bounded(self.stream.read_buf(&mut self.read)).await;
        read.unwrap_or(0)
    }

    /// Reads up to the end.
    async fn end(&mut self) -> String {
        while self.more().await > 0 {}
        String::from_utf8(std::mem::take(&mut self.read)).unwrap()
    }

    /// Whether the connection stays open and silent for this long.
    async fn is_silent(&mut self, long: Duration) -> bool {
        timeout(long, self.stream.read_u8()).await.is_err()
    }

    async fn take_until(&mut self, end: &[u8]) -> String {
        loop {
            if let Some(at) = self.read.windows(end.len()).position(|part| part == end) {
                let rest = self.read.split_off(at + end.len());
                return String::from_utf8(std::mem::replace(&mut self.read, rest)).unwrap();
            }
            let so_far = String::from_utf8_lossy(&self.read).into_owned();
            assert!(self.more().await > 0, "it ends after {so_far:?}");
        }
    }

    async fn head(&mut self) -> String {
        self.take_until(b"\r\n\r\n").await
    }

    async fn answer(&mut self) -> Answer {
        let head = self.head().await;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer { status, head, body: String::new() };
        let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        while self.read.len() < length {
            assert!(self.more().await > 0, "it ends within the body");
        }
        let rest = self.read.split_off(length);
        answer.body = String::from_utf8(std::mem::replace(&mut self.read, rest)).unwrap();
        answer
    }

    async fn get(&mut self, path: &str) -> Answer {
        self.send(get(path)).await;
        self.answer().await
    }

    async fn post(&mut self, path: &str, body: &str) -> Answer {
        self.send(post(path, body)).await;
        self.answer().await
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")
}

fn post(path: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}
