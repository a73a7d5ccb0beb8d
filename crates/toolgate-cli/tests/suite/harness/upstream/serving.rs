//! Connections and their HTTP: reading requests, streams of both eras, and what goes wrong on the way.

use std::{
    io::{BufReader, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Weak,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    super::{
        TEST_TIMEOUT,
        http::{Body, Headers, hang_up, is_timeout, read_head},
    },
    Era, Fault, Habit, Listening, Seen, Shared,
};

/// Takes connections until the server stops.
pub(super) fn accept(shared: &Arc<Shared>, listener: TcpListener) {
    let life = {
        let mut state = shared.state();
        state.open = true;
        state.life
    };
    // A thread that waits in accept does not keep the server alive.
    let shared = Arc::downgrade(shared);
    std::thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let Some(alive) = shared.upgrade() else { return };
            let mut state = alive.state();
            if state.life != life {
                return;
            }
            state.connections.push(socket.try_clone().unwrap());
            drop(state);
            let shared = Weak::clone(&shared);
            std::thread::spawn(move || converse(&shared, socket));
        }
    });
}

/// A request as it came.
pub(super) struct Asked {
    pub verb: String,
    pub target: String,
    pub headers: Headers,
    pub raw: String,
    /// Whether its connection has served a request before.
    pub is_kept: bool,
}

/// Answers request after request on a connection.
fn converse(shared: &Weak<Shared>, socket: TcpStream) {
    let _ = socket.set_nodelay(true);
    let mut reader = BufReader::new(socket);
    let mut is_kept = false;
    loop {
        let _ = reader.get_ref().set_read_timeout(None);
        let Ok(Some((start, headers))) = read_head(&mut reader) else { return };
        let mut parts = start.split(' ').map(str::to_owned);
        let (verb, target) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let mut body = Body::new(reader, &headers, true);
        let Ok(bytes) = body.read(Instant::now() + TEST_TIMEOUT) else { return };
        let Some(free) = body.into_reader() else { return };
        reader = free;
        let raw = String::from_utf8_lossy(&bytes).into_owned();
        let Some(shared) = shared.upgrade() else { return };
        let socket = reader.get_ref().try_clone().unwrap();
        let asked = Asked { verb, target, headers, raw, is_kept };
        is_kept = true;
        if !serve(&shared, asked, socket) {
            hang_up(reader.get_ref());
            return;
        }
    }
}

/// Where the messages for a request go.
pub(super) enum Out {
    /// The answer to the post itself: JSON, or a stream once something else was said first.
    Post { socket: TcpStream, begun: bool, drip: bool, headers: String },
    /// The stream of a client of 2024-11-05.
    Stream(Sender<String>),
}

impl Out {
    pub(super) fn new(socket: TcpStream) -> Self {
        Self::Post { socket, begun: false, drip: false, headers: String::new() }
    }

    /// Says something before the answer. False if nobody hears it.
    pub(super) fn say(&mut self, message: &Value) -> bool {
        match self {
            Self::Stream(stream) => stream.send(message.to_string()).is_ok(),
            Self::Post { socket, begun, headers, .. } => {
                let head = if std::mem::replace(begun, true) {
                    String::new()
                } else {
                    stream_head(headers)
                };
                write(socket, &format!("{head}{}", event(&message.to_string())))
            }
        }
    }

    /// The answer; nothing follows it.
    pub(super) fn answer(&mut self, status: u16, raw: &str) -> bool {
        match self {
            Self::Stream(stream) => stream.send(raw.to_owned()).is_ok(),
            Self::Post { socket, begun: true, .. } => {
                write(socket, &format!("{}0\r\n\r\n", event(raw)))
            }
            Self::Post { socket, drip, headers, .. } => {
                let answer = plain(status, "application/json", headers, raw);
                if *drip { trickle(socket, &answer) } else { write(socket, &answer) }
            }
        }
    }

    /// An event without data that says where to go on, and the end.
    pub(super) fn end_early(&mut self, id: Option<&str>) -> bool {
        let Self::Post { socket, begun, headers, .. } = self else { return false };
        let head = if *begun { String::new() } else { stream_head(headers) };
        let event =
            id.map_or(String::new(), |id| chunk(&format!("id: {id}\nretry: 20\ndata: \n\n")));
        write(socket, &format!("{head}{event}0\r\n\r\n"))
    }

    /// Any bytes.
    pub(super) fn raw(&mut self, bytes: &str) {
        if let Self::Post { socket, .. } = self {
            write(socket, bytes);
        }
    }

    /// A body without an end, as long as somebody reads it.
    pub(super) fn go_on(&mut self, events: bool) {
        let Self::Post { socket, .. } = self else { return };
        let (kind, first) = if events {
            ("text/event-stream", "data: ")
        } else {
            ("application/json", "{\"x\":\"")
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        let mut open = write(socket, &format!("{head}{}", chunk(first)));
        let more = chunk(&"x".repeat(60_000));
        while open {
            open = write(socket, &more);
        }
    }

    /// Half an answer.
    pub(super) fn break_off(&mut self, raw: &str) {
        if let Self::Post { socket, begun, headers, .. } = self {
            let whole =
                if *begun { event(raw) } else { plain(200, "application/json", headers, raw) };
            let half: String =
                whole.chars().take(whole.chars().count() - raw.chars().count() / 2 - 1).collect();
            write(socket, &half);
            hang_up(socket);
        }
    }

    /// Whether the other side is gone.
    pub(super) fn is_gone(&self) -> bool {
        match self {
            Self::Stream(_) => false,
            Self::Post { socket, .. } => is_gone(socket),
        }
    }

    /// The answer again, for nobody.
    pub(super) fn repeat(&mut self, raw: &str) {
        if let Self::Stream(stream) = self {
            let _ = stream.send(raw.to_owned());
        }
    }
}

fn event(data: &str) -> String {
    chunk(&format!("event: message\ndata: {data}\n\n"))
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn stream_head(headers: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n{headers}\r\n"
    )
}

fn plain(status: u16, kind: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} Status\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
}

fn write(socket: &mut TcpStream, text: &str) -> bool {
    socket.write_all(text.as_bytes()).is_ok()
}

fn trickle(socket: &mut TcpStream, text: &str) -> bool {
    text.as_bytes().chunks(7).all(|few| {
        std::thread::park_timeout(Duration::from_millis(1));
        socket.write_all(few).is_ok()
    })
}

fn is_gone(socket: &TcpStream) -> bool {
    if socket.set_nonblocking(true).is_err() {
        return true;
    }
    let gone = match socket.peek(&mut [0]) {
        Ok(read) => read == 0,
        Err(e) => !is_timeout(&e),
    };
    let _ = socket.set_nonblocking(false);
    gone
}

impl Shared {
    /// Whether a message is to find its connection closed.
    fn closes_kept(&self, raw: &str) -> bool {
        let message: Value = serde_json::from_str(raw).unwrap_or_default();
        let method = message["method"].as_str().unwrap_or_default();
        let fits = |rule: &super::Rule| {
            rule.times > 0 && rule.fault == Fault::CloseKept && rule.method == method
        };
        self.state().rules.iter().any(fits)
    }
}

/// Answers one request. False if the connection is of no further use.
fn serve(shared: &Arc<Shared>, asked: Asked, mut socket: TcpStream) -> bool {
    let path = asked.target.split('?').next().unwrap_or_default().to_owned();
    match (asked.verb.as_str(), path.as_str(), shared.era) {
        ("POST", "/mcp", Era::Legacy | Era::Modern | Era::Dual) => {
            post(shared, &asked, Out::new(socket))
        }
        ("GET", "/mcp", Era::Legacy | Era::Dual) => match shared.session_of(&asked.headers) {
            Some(id) => {
                let last = asked.headers.get("last-event-id").unwrap_or_default();
                let missed = shared.state().polled.remove(last);
                match missed {
                    Some(raw) => {
                        write(&mut socket, &format!("{}{}0\r\n\r\n", stream_head(""), event(&raw)))
                    }
                    None => stream(shared, &id, socket, None),
                }
            }
            None => write(&mut socket, &plain(404, "text/plain", "", "no such session")),
        },
        ("DELETE", "/mcp", Era::Legacy | Era::Dual) => {
            let ended = shared.session_of(&asked.headers);
            let ended = ended.is_some_and(|id| shared.state().sessions.remove(&id).is_some());
            write(&mut socket, &plain(if ended { 200 } else { 404 }, "text/plain", "", ""))
        }
        ("GET", "/sse", Era::OldSse) => {
            let id = shared.new_session();
            let endpoint = format!("event: endpoint\ndata: /messages?session={id}\n\n");
            stream(shared, &id, socket, Some(endpoint))
        }
        ("POST", "/messages", Era::OldSse) => {
            let id = asked.target.rsplit('=').next().unwrap_or_default().to_owned();
            let stream = shared.state().sessions.get(&id).and_then(|s| s.streams.first().cloned());
            let Some(stream) = stream else {
                return write(&mut socket, &plain(404, "text/plain", "", "no such session"));
            };
            if asked.is_kept && shared.closes_kept(&asked.raw) {
                return false;
            }
            let asked = Asked { is_kept: false, ..asked };
            let taken = write(&mut socket, &plain(202, "text/plain", "", "Accepted"));
            let shared = Arc::clone(shared);
            std::thread::spawn(move || post(&shared, &asked, Out::Stream(stream)));
            taken
        }
        (_, "/mcp" | "/sse", _) => write(&mut socket, &plain(405, "text/plain", "", "")),
        _ => write(&mut socket, &plain(404, "text/plain", "", "")),
    }
}

/// A stream on which the server speaks by itself. False: it ends with the connection.
fn stream(shared: &Arc<Shared>, id: &str, mut socket: TcpStream, first: Option<String>) -> bool {
    let (sender, receiver) = channel();
    if shared.has(Habit::LateStream) {
        let is_early =
            |seen: &Seen| ["tools/call", "resources/subscribe"].contains(&seen.method.as_str());
        let late = Duration::from_millis(300);
        let waiting = |state: &mut super::State| !state.seen.iter().any(is_early);
        let waited = shared.changed.wait_timeout_while(shared.state(), late, waiting);
        if !waited.unwrap().1.timed_out() {
            shared
                .complain("a request that may notify before the stream of notifications was open");
        }
    }
    {
        let mut state = shared.state();
        let Some(session) = state.sessions.get_mut(id) else { return false };
        session.streams.push(sender);
    }
    let head = stream_head("");
    let first = first.map_or(String::new(), |first| chunk(&first));
    if write(&mut socket, &format!("{head}{first}")) {
        follow(&receiver, &mut socket);
    }
    let mut state = shared.state();
    if let Some(session) = state.sessions.get_mut(id) {
        drop(receiver);
        session.streams.retain(|stream| stream.send(String::new()).is_ok());
    }
    false
}

/// Writes what comes until one side ends.
fn follow(receiver: &Receiver<String>, socket: &mut TcpStream) {
    loop {
        match receiver.recv_timeout(Duration::from_millis(20)) {
            Ok(message) if message.is_empty() => {}
            Ok(message) => {
                if !write(socket, &event(&message)) {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                if is_gone(socket) {
                    return;
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// A message that was posted.
fn post(shared: &Arc<Shared>, asked: &Asked, mut out: Out) -> bool {
    let Ok(message) = serde_json::from_str::<Value>(&asked.raw) else {
        shared.complain(format!("not JSON: {}", asked.raw));
        return out.answer(
            400,
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"not JSON"}}"#,
        );
    };
    let method = message["method"].as_str().unwrap_or_default().to_owned();
    let name =
        ["name", "uri"].iter().find_map(|key| message["params"][*key].as_str()).unwrap_or_default();
    let fault = {
        let mut state = shared.state();
        state.seen.push(Seen {
            method: method.clone(),
            name: name.to_owned(),
            raw: asked.raw.clone(),
            message: message.clone(),
            headers: asked.headers.clone(),
        });
        let fits = |rule: &&mut super::Rule| {
            rule.times > 0
                && rule.method == method
                && rule.name.as_deref().is_none_or(|n| n == name)
        };
        state.rules.iter_mut().find(fits).map(|rule| {
            rule.times -= 1;
            rule.fault
        })
    };
    shared.changed.notify_all();
    match fault {
        Some(Fault::Hang) => {
            let life = shared.state().life;
            shared.wait_for(|state| (state.life != life || out.is_gone()).then_some(()));
            return false;
        }
        Some(Fault::CloseBefore) => return false,
        Some(Fault::CloseKept) if asked.is_kept => return false,
        Some(Fault::Status(status)) => return out.answer(status, "{}"),
        Some(Fault::Garbage) => return out.answer(200, "{\"jsonrpc\": nonsense"),
        Some(Fault::Endless { events }) => {
            out.go_on(events);
            return false;
        }
        _ => {}
    }
    if let Out::Post { drip, .. } = &mut out {
        *drip = fault == Some(Fault::Drip);
    }
    let can_listen = !shared.has(Habit::LegacySubscriptions);
    if method == "subscriptions/listen"
        && can_listen
        && shared.era_of(&asked.headers) == Era::Modern
    {
        return listen(shared, &message, out);
    }
    let Some((status, raw)) = super::answering::answer(shared, asked, &message, &mut out) else {
        return true;
    };
    finish(shared, &mut out, fault, status, &raw)
}

/// The answer, or what becomes of it.
fn finish(shared: &Shared, out: &mut Out, fault: Option<Fault>, status: u16, raw: &str) -> bool {
    match fault {
        Some(Fault::NoAnswer) => out.end_early(None),
        Some(Fault::Raw { bytes, closes }) => {
            let length = raw.len();
            let bytes = bytes
                .replace("{body}", raw)
                .replace("{length}", &length.to_string())
                .replace("{hex}", &format!("{length:x}"));
            out.raw(&bytes);
            !closes
        }
        Some(Fault::Poll) => {
            let id = {
                let mut state = shared.state();
                state.next += 1;
                let id = format!("poll-{}", state.next);
                state.polled.insert(id.clone(), raw.to_owned());
                id
            };
            out.end_early(Some(&id))
        }
        Some(Fault::CloseAfter) => false,
        Some(Fault::CloseMid) => {
            out.break_off(raw);
            false
        }
        Some(Fault::WrongId) => {
            let mut other: Value = serde_json::from_str(raw).unwrap_or_default();
            other["id"] = json!(987_654_321);
            out.answer(status, &other.to_string())
        }
        Some(Fault::Duplicate) => {
            let message: Value = serde_json::from_str(raw).unwrap_or_default();
            out.say(&message);
            out.repeat(raw);
            out.answer(status, raw)
        }
        _ => out.answer(status, raw),
    }
}

/// `subscriptions/listen`.
fn listen(shared: &Arc<Shared>, message: &Value, out: Out) -> bool {
    let Out::Post { mut socket, .. } = out else { return false };
    let (sender, receiver) = channel();
    let filter = message["params"]["notifications"].clone();
    let acknowledged = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
        "_meta": {"io.modelcontextprotocol/subscriptionId": message["id"]}, "notifications": filter}});
    let _ = sender.send(acknowledged.to_string());
    let id = message["id"].clone();
    shared.state().listening.push(Listening { id, filter, stream: sender });
    if write(&mut socket, &stream_head("X-Accel-Buffering: no\r\n")) {
        follow(&receiver, &mut socket);
    }
    drop(receiver);
    shared.state().listening.retain(|listening| listening.stream.send(String::new()).is_ok());
    false
}
