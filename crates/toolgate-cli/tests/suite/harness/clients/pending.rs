//! An exchange that is under way, read by a thread of its own.

use std::{
    borrow::Borrow,
    net::{SocketAddr, TcpStream},
    ops::Deref,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::super::{
    TEST_TIMEOUT,
    http::{self, Connection, Event, Headers, Next},
};

/// A message as it came, and what it says.
#[derive(Clone, Debug)]
pub struct Message {
    pub raw: String,
    pub event: Option<String>,
    value: Value,
}

impl Deref for Message {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl Borrow<Value> for Message {
    fn borrow(&self) -> &Value {
        &self.value
    }
}

impl Message {
    pub(super) fn read(raw: String, event: Option<String>) -> Self {
        let value = serde_json::from_str(&raw).unwrap_or(Value::Null);
        Self { raw, event, value }
    }

    pub(super) fn of(event: Event) -> Self {
        Self::read(event.data, event.name)
    }

    pub fn is_answer(&self) -> bool {
        self.value.get("method").is_none() && !self.value.is_null()
    }

    pub fn is_request(&self) -> bool {
        self.value.get("method").is_some() && self.value.get("id").is_some()
    }
}

/// What comes in on a stream that a thread reads.
enum Incoming {
    Head(u16, Headers),
    Message(Message),
    End,
    Broken(String),
}

/// An exchange that is under way: a request whose answer comes later, or a stream.
pub struct Pending {
    pub id: Value,
    head: Option<(u16, Headers)>,
    incoming: Receiver<Incoming>,
    socket: TcpStream,
    pub seen: Vec<Message>,
    end: Option<Result<(), String>>,
}

impl Pending {
    /// Sends a request, and has a thread read what comes.
    pub fn start(address: SocketAddr, bytes: &[u8], id: Value) -> Self {
        let mut connection = Connection::open(address);
        let socket = connection.socket().try_clone().unwrap();
        connection.send(bytes).unwrap();
        let (sender, incoming) = channel();
        std::thread::spawn(move || read(connection, &sender));
        Self { id, head: None, incoming, socket, seen: Vec::new(), end: None }
    }

    /// Takes what comes next; false if nothing came in time.
    fn take(&mut self, patience: Duration) -> bool {
        if self.end.is_some() {
            return false;
        }
        match self.incoming.recv_timeout(patience) {
            Ok(incoming) => self.keep(incoming),
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => self.end = Some(Ok(())),
        }
        true
    }

    fn keep(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Head(status, headers) => self.head = Some((status, headers)),
            Incoming::Message(message) => self.seen.push(message),
            Incoming::End => self.end = Some(Ok(())),
            Incoming::Broken(why) => self.end = Some(Err(why)),
        }
    }

    /// Status and headers; waits for them.
    pub fn head(&mut self) -> (u16, Headers) {
        while self.head.is_none() {
            assert!(self.take(TEST_TIMEOUT), "no answer to {}: {:?}", self.id, self.end);
        }
        self.head.clone().unwrap()
    }

    pub fn status(&mut self) -> u16 {
        self.head().0
    }

    /// The first message (kept or new) for which `wanted` holds.
    pub fn wait_for(&mut self, wanted: impl Fn(&Message) -> bool) -> Message {
        self.find(TEST_TIMEOUT, &wanted).unwrap_or_else(|| {
            panic!(
                "{}: what was waited for did not come; {:?}; seen: {:#?}",
                self.id,
                self.end,
                self.raws()
            )
        })
    }

    /// The same, if it comes in time.
    pub fn find(
        &mut self,
        patience: Duration,
        wanted: impl Fn(&Message) -> bool,
    ) -> Option<Message> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(at) = self.seen.iter().position(&wanted) {
                return Some(self.seen.remove(at));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if !self.take(left) {
                return None;
            }
        }
    }

    pub fn method(&mut self, method: &str) -> Message {
        self.wait_for(|message| message["method"] == method)
    }

    pub fn answer(&mut self) -> Message {
        self.wait_for(Message::is_answer)
    }

    /// The answer, or why there is none.
    pub fn outcome(&mut self) -> Result<Message, String> {
        match self.find(TEST_TIMEOUT, Message::is_answer) {
            Some(answer) => Ok(answer),
            None => Err(format!("{:?} {:?}", self.head.as_ref().map(|head| head.0), self.end)),
        }
    }

    /// Everything that is there already.
    pub fn so_far(&mut self) -> &[Message] {
        loop {
            match self.incoming.try_recv() {
                Ok(incoming) => self.keep(incoming),
                Err(TryRecvError::Empty) => return &self.seen,
                Err(TryRecvError::Disconnected) => {
                    self.end.get_or_insert(Ok(()));
                    return &self.seen;
                }
            }
        }
    }

    /// Waits for the end; what came before it is in `seen`.
    pub fn end(&mut self) -> Result<(), String> {
        while self.end.is_none() {
            assert!(self.take(TEST_TIMEOUT), "{} does not end; seen: {:#?}", self.id, self.raws());
        }
        self.end.clone().unwrap()
    }

    /// Whether all of it has come and been taken.
    pub fn has_ended(&mut self) -> bool {
        self.so_far();
        self.end.is_some()
    }

    pub fn hang_up(&self) {
        http::hang_up(&self.socket);
    }

    fn raws(&self) -> Vec<&str> {
        self.seen.iter().map(|message| message.raw.as_str()).collect()
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.hang_up();
    }
}

fn read(connection: Connection, sender: &Sender<Incoming>) {
    // As long as the test lives: it has its own patience.
    let long = Duration::from_hours(1);
    let mut answer = match connection.answer_by(Instant::now() + long) {
        Ok(answer) => answer,
        Err(e) => return drop(sender.send(Incoming::Broken(e.to_string()))),
    };
    let _ = sender.send(Incoming::Head(answer.status, answer.headers.clone()));
    if !answer.is_events() {
        let last = match answer.try_text() {
            Ok(text) if text.is_empty() => Incoming::End,
            Ok(text) => Incoming::Message(Message::read(text, None)),
            Err(e) => Incoming::Broken(e.to_string()),
        };
        return drop(sender.send(last));
    }
    loop {
        let incoming = match answer.next(long) {
            Next::Event(event) => Incoming::Message(Message::of(event)),
            Next::End => Incoming::End,
            Next::Broken(e) => Incoming::Broken(e.to_string()),
            Next::Nothing => return,
        };
        let last = !matches!(incoming, Incoming::Message(_));
        if sender.send(incoming).is_err() || last {
            return;
        }
    }
}
