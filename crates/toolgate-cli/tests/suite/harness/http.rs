//! HTTP/1.1 as the tests speak it: blocking, over a plain socket, able to say anything, with bounded waits.

use std::{
    fmt::Write as _,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::TEST_TIMEOUT;

/// Headers as they came, names in lower case.
#[derive(Clone, Debug, Default)]
pub struct Headers(pub Vec<(String, String)>);

impl Headers {
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// How often a header is there.
    pub fn count(&self, name: &str) -> usize {
        self.0.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).count()
    }
}

/// Reads a start line and headers. `None` where the connection ended before them.
pub fn read_head(reader: &mut BufReader<TcpStream>) -> io::Result<Option<(String, Headers)>> {
    let mut start = String::new();
    if reader.read_line(&mut start)? == 0 {
        return Ok(None);
    }
    let mut headers = Headers::default();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end_matches(['\r', '\n']);
        if line.is_empty() {
            return Ok(Some((start.trim_end().to_owned(), headers)));
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        headers.0.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

/// How the end of a body is found.
#[derive(Debug)]
enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
    Ended,
}

/// A body as it comes in, piece by piece.
#[derive(Debug)]
pub struct Body {
    reader: BufReader<TcpStream>,
    framing: Framing,
}

impl Body {
    /// The body that these headers announce.
    pub fn new(reader: BufReader<TcpStream>, headers: &Headers, is_request: bool) -> Self {
        let length = headers.get("content-length").and_then(|length| length.parse().ok());
        let chunked = headers.get("transfer-encoding").is_some_and(|how| how.contains("chunked"));
        let framing = match (length, chunked) {
            (_, true) => Framing::Chunked,
            (Some(0), _) => Framing::Ended,
            (Some(length), _) => Framing::Length(length),
            (None, _) if is_request => Framing::Ended,
            (None, _) => Framing::UntilClose,
        };
        Self { reader, framing }
    }

    /// The next piece; `None` at the end. A time-out is an error of the kind `WouldBlock` or `TimedOut`.
    pub fn piece(&mut self, deadline: Instant) -> io::Result<Option<Vec<u8>>> {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        self.reader.get_ref().set_read_timeout(Some(left))?;
        let most = match self.framing {
            Framing::Ended => return Ok(None),
            Framing::UntilClose => 64 * 1024,
            Framing::Length(left) => left.min(64 * 1024),
            Framing::Chunked => return self.chunk(),
        };
        let mut piece = vec![0; most];
        let read = self.reader.read(&mut piece)?;
        piece.truncate(read);
        match &mut self.framing {
            Framing::Length(_) if read == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            Framing::Length(left) if *left > read => *left -= read,
            Framing::UntilClose if read > 0 => {}
            _ => self.framing = Framing::Ended,
        }
        Ok((read > 0).then_some(piece))
    }

    fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let size = line.trim().split(';').next().unwrap_or_default();
        let size = usize::from_str_radix(size, 16)
            .map_err(|_| io::Error::other(format!("not the size of a chunk: {line:?}")))?;
        // Once a chunk has begun, the rest of it is on its way.
        self.reader.get_ref().set_read_timeout(Some(TEST_TIMEOUT))?;
        let mut piece = vec![0; size + 2];
        self.reader.read_exact(&mut piece)?;
        piece.truncate(size);
        if size == 0 {
            self.framing = Framing::Ended;
            return Ok(None);
        }
        Ok(Some(piece))
    }

    /// All of it.
    pub fn read(&mut self, deadline: Instant) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(piece) = self.piece(deadline)? {
            all.extend(piece);
        }
        Ok(all)
    }

    /// The connection, where the body was read to its end and another request may follow.
    pub fn into_reader(self) -> Option<BufReader<TcpStream>> {
        matches!(self.framing, Framing::Ended).then_some(self.reader)
    }

    pub fn socket(&self) -> &TcpStream {
        self.reader.get_ref()
    }
}

/// A connection on which nothing is under way.
pub struct Connection(BufReader<TcpStream>);

impl Connection {
    pub fn open(address: SocketAddr) -> Self {
        Self::try_open(address).unwrap_or_else(|e| panic!("cannot connect to {address}: {e}"))
    }

    pub fn try_open(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect_timeout(&address, TEST_TIMEOUT)?;
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(TEST_TIMEOUT))?;
        Ok(Self(BufReader::new(socket)))
    }

    pub fn socket(&self) -> &TcpStream {
        self.0.get_ref()
    }

    /// Any bytes at all.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.get_mut().write_all(bytes)?;
        self.0.get_mut().flush()
    }

    /// The answer's head; its body is still to be read.
    pub fn answer(self) -> io::Result<Answer> {
        self.answer_by(Instant::now() + TEST_TIMEOUT)
    }

    pub fn answer_by(self, deadline: Instant) -> io::Result<Answer> {
        let mut reader = self.0;
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        reader.get_ref().set_read_timeout(Some(left))?;
        let head = read_head(&mut reader)?;
        let (start, headers) = head.ok_or(io::ErrorKind::UnexpectedEof)?;
        let status = start.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no status in {start:?}")))?;
        // Statuses without a body need no length.
        let bodiless = status == 204 || status == 304 || (100..200).contains(&status);
        let body = Body::new(reader, &headers, bodiless);
        Ok(Answer { status, headers, body, buffer: Vec::new(), searched: 0 })
    }

    /// Sends bytes and reads the answer's head.
    pub fn exchange(mut self, bytes: &[u8]) -> io::Result<Answer> {
        self.send(bytes)?;
        self.answer()
    }
}

/// A request, as bytes for the wire. `Host` and `Content-Length` are set unless given.
pub fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\n");
    let given = |name: &str| headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
    if !given("host") {
        let _ = write!(head, "Host: {address}\r\n");
    }
    for (name, value) in headers {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    if !given("content-length")
        && !given("transfer-encoding")
        && (method == "POST" || !body.is_empty())
    {
        let _ = write!(head, "Content-Length: {}\r\n", body.len());
    }
    head.push_str("\r\n");
    [head.as_bytes(), body].concat()
}

/// One exchange on a connection of its own.
pub fn exchange(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Answer {
    let bytes = request(address, method, path, headers, body);
    Connection::open(address)
        .exchange(&bytes)
        .unwrap_or_else(|e| panic!("no answer to {method} {path}: {e}"))
}

/// A server-sent event.
#[derive(Clone, Debug, Default)]
pub struct Event {
    pub name: Option<String>,
    pub id: Option<String>,
    pub data: String,
}

/// What waiting for an event came to.
#[derive(Debug)]
pub enum Next {
    Event(Event),
    /// The stream ended in order.
    End,
    /// The connection broke.
    Broken(io::Error),
    /// Nothing came in time.
    Nothing,
}

/// An answer whose body may still be on its way.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Headers,
    body: Body,
    buffer: Vec<u8>,
    /// No event ends before this place of the buffer.
    searched: usize,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)
    }

    pub fn is_events(&self) -> bool {
        self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    /// Another handle of the socket, to break it from another thread.
    pub fn breaker(&self) -> TcpStream {
        self.body.socket().try_clone().unwrap()
    }

    /// The whole body, as text.
    pub fn text(&mut self) -> String {
        self.try_text().unwrap_or_else(|e| panic!("the body of a {} broke: {e}", self.status))
    }

    pub fn try_text(&mut self) -> io::Result<String> {
        let body = self.body.read(Instant::now() + TEST_TIMEOUT)?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    pub fn json(&mut self) -> Value {
        let text = self.text();
        serde_json::from_str(&text)
            .unwrap_or_else(|e| panic!("not JSON ({e}) with status {}: {text}", self.status))
    }

    /// The next event of a stream.
    pub fn next(&mut self, patience: Duration) -> Next {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(event) = self.parsed() {
                return Next::Event(event);
            }
            match self.body.piece(deadline) {
                Ok(Some(piece)) => self.buffer.extend(piece),
                Ok(None) => return Next::End,
                Err(e) if is_timeout(&e) => return Next::Nothing,
                Err(e) => return Next::Broken(e),
            }
        }
    }

    /// The first whole event in the buffer that has data or a name; comments are left out.
    fn parsed(&mut self) -> Option<Event> {
        loop {
            let fresh = &self.buffer[self.searched..];
            let find = |end: &[u8]| {
                fresh.windows(end.len()).position(|at| at == end).map(|at| at + end.len())
            };
            let Some(end) = [find(b"\n\n"), find(b"\r\n\r\n")].into_iter().flatten().min() else {
                self.searched = self.buffer.len().saturating_sub(3);
                return None;
            };
            let block: Vec<u8> = self.buffer.drain(..self.searched + end).collect();
            self.searched = 0;
            let block = String::from_utf8_lossy(&block).into_owned();
            let mut event = Event::default();
            let mut data = Vec::new();
            for line in block.lines() {
                let (field, value) = line.split_once(':').unwrap_or((line, ""));
                let value = value.strip_prefix(' ').unwrap_or(value);
                match field {
                    "event" => event.name = Some(value.to_owned()),
                    "id" => event.id = Some(value.to_owned()),
                    "data" => data.push(value),
                    _ => {}
                }
            }
            event.data = data.join("\n");
            // An empty first event with an id only says where to resume.
            if !event.data.is_empty() {
                return Some(event);
            }
        }
    }

    /// The connection for a further request, once the body was read; none if the server closes it.
    pub fn into_connection(self) -> Option<Connection> {
        let closes = self.header("connection").is_some_and(|how| how.eq_ignore_ascii_case("close"));
        let reader = self.body.into_reader()?;
        (!closes).then_some(Connection(reader))
    }
}

pub fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Ends a connection for both sides, whoever waits on it.
pub fn hang_up(socket: &TcpStream) {
    let _ = socket.shutdown(Shutdown::Both);
}
