//! The head of an answer: what it says, and how long its body is.
//!
//! Where two readers could take it in two ways it is refused: what one takes for a body might be the next answer
//! for the other.

use std::{mem::MaybeUninit, ops::Range, time::Duration};

use bytes::Bytes;
use httparse::{Header, ParserConfig, Response, Status};
use hyper::{StatusCode, header::HeaderValue};
use toolgate_wire::headers::SESSION_ID;

/// The most headers of an answer.
const MOST: usize = 100;

/// The most bytes of one of them.
const VALUE: usize = 16 * 1024;

/// How the end of a body is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// What a head says.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) framing: Framing,
    /// How many bytes it has.
    pub(super) length: usize,
    /// Whether the connection may be used again.
    pub(super) keeps: bool,
    /// For how long, if it is said.
    pub(super) kept_for: Option<Duration>,
    places: Places,
}

/// Where in the head it stands.
#[derive(Debug, Default)]
struct Places {
    content_type: Option<Range<usize>>,
    session: Option<Range<usize>>,
    location: Option<Range<usize>>,
}

/// The headers of an answer that somebody asks for.
#[derive(Debug)]
pub(crate) struct Headers {
    head: Bytes,
    places: Places,
}

impl Headers {
    pub(crate) fn content_type(&self) -> &[u8] {
        self.at(self.places.content_type.as_ref()).unwrap_or_default()
    }

    /// The session that the server opened.
    pub(crate) fn session(&self) -> Option<HeaderValue> {
        HeaderValue::from_bytes(self.at(self.places.session.as_ref())?).ok()
    }

    pub(super) fn location(&self) -> Option<&[u8]> {
        self.at(self.places.location.as_ref())
    }

    fn at(&self, place: Option<&Range<usize>>) -> Option<&[u8]> {
        self.head.get(place?.clone())
    }
}

impl Head {
    /// Its headers, given its bytes.
    pub(super) fn headers(self, head: Bytes) -> Headers {
        Headers { head, places: self.places }
    }

    pub(super) fn is_interim(&self) -> bool {
        self.status.is_informational()
    }
}

/// Reads a head; `None` if it is not all there. An error says what is wrong with it.
pub(super) fn parse(input: &[u8]) -> Result<Option<Head>, &'static str> {
    if input.first().is_some_and(|first| *first != b'H') {
        return Err("it does not begin as answers do");
    }
    let mut room = [const { MaybeUninit::uninit() }; MOST];
    let mut response = Response::new(&mut []);
    let parsed =
        ParserConfig::default().parse_response_with_uninit_headers(&mut response, input, &mut room);
    let length = match parsed.map_err(told)? {
        Status::Complete(length) => length,
        Status::Partial => return Ok(None),
    };
    let is_new = response.version == Some(1);
    let status = StatusCode::from_u16(response.code.unwrap_or_default());
    let status = status.map_err(|_| "its status is none")?;
    let mut said = Said::default();
    for header in &*response.headers {
        said.hear(header, input)?;
    }
    let framing = said.framing(status, is_new)?;
    // What has no body, and says that it has, may have one.
    let is_odd = framing == Framing::Length(0) && (said.is_chunked || said.length > Some(0));
    let keeps = !said.closes && (is_new || said.keeps) && !is_odd;
    let keeps = keeps && framing != Framing::UntilClose;
    let (kept_for, places) = (said.kept_for, said.places);
    Ok(Some(Head { status, framing, length, keeps, kept_for, places }))
}

/// What was found among the headers.
#[derive(Debug, Default)]
struct Said {
    length: Option<u64>,
    is_chunked: bool,
    closes: bool,
    keeps: bool,
    kept_for: Option<Duration>,
    places: Places,
}

impl Said {
    fn hear(&mut self, header: &Header<'_>, input: &[u8]) -> Result<(), &'static str> {
        let (name, value) = (header.name, header.value);
        if value.len() > VALUE {
            return Err("a header of it is too long");
        }
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        match name.len() {
            8 if is("location") => note(&mut self.places.location, value, input),
            10 if is("connection") => {
                for word in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    self.closes |= word.eq_ignore_ascii_case(b"close");
                    self.keeps |= word.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            10 if is("keep-alive") => self.kept_for = timeout_of(value).or(self.kept_for),
            12 if is("content-type") => note(&mut self.places.content_type, value, input),
            14 if is("content-length") => {
                if self.length.is_some() {
                    return Err("it names its length twice");
                }
                self.length = Some(length_of(value).ok_or("its length is no number")?);
            }
            14 if is(SESSION_ID) => note(&mut self.places.session, value, input),
            17 if is("transfer-encoding") => {
                if self.is_chunked || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                    return Err("it is encoded in a way that nobody asked for");
                }
                self.is_chunked = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn framing(&self, status: StatusCode, is_new: bool) -> Result<Framing, &'static str> {
        if self.is_chunked && (self.length.is_some() || !is_new) {
            return Err("it names its length in two ways");
        }
        Ok(match status.as_u16() {
            101 => return Err("it wants to speak another protocol"),
            100..=199 if self.is_chunked || self.length.is_some() => {
                return Err("it gives a body to a hint");
            }
            100..=199 | 204 | 304 => Framing::Length(0),
            _ if self.is_chunked => Framing::Chunked,
            _ => self.length.map_or(Framing::UntilClose, Framing::Length),
        })
    }
}

/// The first one of a name counts.
fn note(place: &mut Option<Range<usize>>, value: &[u8], input: &[u8]) {
    if place.is_none() {
        let start = value.as_ptr().addr().saturating_sub(input.as_ptr().addr());
        *place = Some(start..start + value.len());
    }
}

/// Digits only: a sign, a blank or a second number might be read in another way by others.
fn length_of(value: &[u8]) -> Option<u64> {
    let digit = |length: u64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        length.checked_mul(10)?.checked_add(digit)
    };
    if value.is_empty() { None } else { value.iter().try_fold(0, digit) }
}

/// `timeout=5, max=100`
fn timeout_of(value: &[u8]) -> Option<Duration> {
    let mut parts = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let seconds = parts.find_map(|part| part.strip_prefix(b"timeout="))?;
    length_of(seconds).map(Duration::from_secs)
}

#[cold]
fn told(error: httparse::Error) -> &'static str {
    match error {
        httparse::Error::TooManyHeaders => "it has too many headers",
        httparse::Error::Version => "it is not of HTTP/1",
        httparse::Error::Status => "its status is none",
        httparse::Error::HeaderName => "the name of a header is none",
        httparse::Error::HeaderValue => "the value of a header is none",
        httparse::Error::NewLine | httparse::Error::Token => "its first line is none",
    }
}
