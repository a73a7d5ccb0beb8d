//! Checks the head of a response: refuses ambiguous framing that hyper accepts.
//!
//! Another HTTP implementation on the path could read such a response differently, and take a part of the body for the
//! next response.

use std::time::Duration;

use hyper::{
    HeaderMap, Response, StatusCode,
    header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, TRANSFER_ENCODING},
};
use toolgate_wire::headers::SESSION_ID;

/// The most bytes of the value of one header. hyper allows 100 headers.
const MAX_VALUE_BYTES: usize = 16 * 1024;

/// The headers of a response.
#[derive(Debug)]
pub(crate) struct ResponseHeaders(pub(crate) HeaderMap);

impl ResponseHeaders {
    pub(crate) fn content_type(&self) -> &[u8] {
        self.0.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default()
    }

    /// The session that the server opened.
    pub(crate) fn session(&self) -> Option<HeaderValue> {
        self.0.get(SESSION_ID).cloned()
    }

    pub(super) fn location(&self) -> Option<&[u8]> {
        self.0.get(LOCATION).map(HeaderValue::as_bytes)
    }
}

/// What the head of a response says about its connection.
#[derive(Debug)]
pub(super) struct ConnectionFacts {
    /// Whether the connection may be used again. hyper's own state counts as well.
    pub(super) is_reusable: bool,
    /// How long the server keeps the connection while it is idle, if the head has `Keep-Alive: timeout`.
    pub(super) keep_alive: Option<Duration>,
}

/// Checks a head. The error says why the response is refused.
pub(super) fn check<B>(response: &Response<B>) -> Result<ConnectionFacts, &'static str> {
    const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
    let (status, headers) = (response.status(), response.headers());
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Err("it switches to another protocol");
    }
    if headers.values().any(|value| value.len() > MAX_VALUE_BYTES) {
        return Err("a header of it is too long");
    }
    let length = only(headers, &CONTENT_LENGTH, "it names its length twice")?;
    let length = length.map(|value| number(value).ok_or("its length is no number")).transpose()?;
    let encoding = only(headers, &TRANSFER_ENCODING, "it is encoded twice")?;
    match encoding {
        Some(_) if length.is_some() => return Err("it names its length in two ways"),
        Some(encoding) if !encoding.eq_ignore_ascii_case(b"chunked") => {
            return Err("its transfer encoding is not `chunked`");
        }
        _ => {}
    }
    // The server may send a body although this status has none: the connection is not used again.
    let is_bodiless = matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let has_unexpected_body = is_bodiless && (encoding.is_some() || length > Some(0));
    let keep_alive = headers.get(KEEP_ALIVE).and_then(|value| timeout_of(value.as_bytes()));
    Ok(ConnectionFacts { is_reusable: !has_unexpected_body, keep_alive })
}

fn only<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
    twice: &'static str,
) -> Result<Option<&'a [u8]>, &'static str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next().map(HeaderValue::as_bytes);
    if all.next().is_some() { Err(twice) } else { Ok(first) }
}

/// Reads digits only: other implementations may read a sign, a space or a second number differently.
fn number(value: &[u8]) -> Option<u64> {
    let text = str::from_utf8(value).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The timeout in the value of `Keep-Alive`, such as `timeout=5, max=100`.
fn timeout_of(value: &[u8]) -> Option<Duration> {
    let mut parts = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let seconds = parts.find_map(|part| part.strip_prefix(b"timeout="))?;
    number(seconds).map(Duration::from_secs)
}
