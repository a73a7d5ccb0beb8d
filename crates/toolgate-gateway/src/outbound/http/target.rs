//! Where a server is, and what is the same in each request to it.

use std::{
    borrow::Cow,
    fmt,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use hyper::{
    HeaderMap, Method, Uri,
    header::{
        ACCEPT, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, HeaderName, HeaderValue,
        TE, TRAILER, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
    },
    http::uri::{Authority, PathAndQuery, Scheme},
};
use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};
use toolgate_wire::headers;

use super::{SendError, connect};
use crate::hops;

/// What a server may cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// How long it may take to open a connection, TLS included.
    pub(crate) connect_within: Duration,
    /// So many unused connections are kept, by each thread.
    pub(crate) idle: usize,
    /// For so long, or as long as the server says if that is shorter.
    pub(crate) idle_for: Duration,
    /// A connection that was idle for so long is looked at before it is used again.
    pub(crate) look_after: Duration,
    /// The most bytes of an answer's head.
    pub(crate) head_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            connect_within: Duration::from_secs(10),
            idle: 64,
            idle_for: Duration::from_secs(55),
            look_after: Duration::from_millis(100),
            head_bytes: 64 * 1024,
        }
    }
}

/// Why a server cannot be spoken to as configured. Never shows what may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadTarget {
    #[error("the url is not valid: {0}; write it as `https://host/path`")]
    Url(String),
    #[error("the url has the scheme `{0}`: only `http` and `https` can be spoken")]
    Scheme(String),
    #[error(
        "the url holds a user name or a password: put it into `headers`, as `Authorization`, instead"
    )]
    UserInfo,
    #[error("`{0}` cannot be the name of a header")]
    HeaderName(String),
    #[error(
        "the value of the header `{0}` has characters that a header cannot hold, such as line breaks"
    )]
    HeaderValue(String),
    #[error("the header `{0}` is set by toolgate itself: leave it out")]
    OurHeader(String),
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}

/// How the server's machine is found.
#[derive(Debug)]
pub(super) enum Address {
    Fixed(SocketAddr),
    Named(String, u16),
}

/// Where a server is, with the headers that are always sent.
pub(crate) struct Target {
    origin: Box<str>,
    path: Box<str>,
    pub(super) address: Address,
    pub(super) tls: Option<(TlsConnector, ServerName<'static>)>,
    /// The headers as they are sent, for what is posted, and for everything else.
    post: Box<[u8]>,
    other: Box<[u8]>,
    /// Their names, for those who look at it.
    names: Box<[HeaderName]>,
    bounds: Bounds,
}

impl Target {
    pub(crate) fn new(
        url: &str,
        headers: impl IntoIterator<Item = (String, String)>,
        bounds: Bounds,
    ) -> Result<Self, BadTarget> {
        let parts = url.parse::<Uri>().map_err(|error| BadTarget::Url(error.to_string()))?;
        let parts = parts.into_parts();
        let scheme = parts.scheme.ok_or_else(|| BadTarget::Url("it has no scheme".to_owned()))?;
        let is_https = scheme == Scheme::HTTPS;
        if !is_https && scheme != Scheme::HTTP {
            return Err(BadTarget::Scheme(scheme.to_string()));
        }
        let authority = parts.authority.ok_or_else(|| BadTarget::Url("it has no host".into()))?;
        if authority.as_str().contains('@') {
            return Err(BadTarget::UserInfo);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(BadTarget::Url("it has no host".to_owned()));
        }
        let tls = if is_https {
            let name = ServerName::try_from(host.clone());
            let name = name.map_err(|error| BadTarget::Url(error.to_string()))?;
            Some((connect::system_tls().map_err(BadTarget::Tls)?, name))
        } else {
            None
        };
        let address = address(host, port(&authority)?.unwrap_or(if is_https { 443 } else { 80 }));
        let origin = format!("{scheme}://{authority}").into_boxed_str();
        let path = parts.path_and_query.unwrap_or(PathAndQuery::from_static("/"));
        let (post, other) = templates(&authority, headers)?;
        let names = other.keys().cloned().collect();
        let (path, post, other) = (path.to_string().into(), lines(&post), lines(&other));
        Ok(Self { origin, path, address, tls, post, other, names, bounds })
    }

    /// Scheme, host and port: what messages name the server by. A path or a query may hold a secret.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    pub(crate) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The path that is asked for: the server's own, or another one of it.
    pub(super) fn path<'a>(&'a self, other: Option<&str>) -> Result<Cow<'a, str>, SendError> {
        let Some(path) = other else { return Ok(Cow::Borrowed(&self.path)) };
        let parsed = PathAndQuery::try_from(path).ok().filter(|_| path.starts_with('/'));
        let parsed = parsed.ok_or_else(|| {
            SendError::NotSent(format!("{} named a path that is none", self.origin()))
        })?;
        Ok(Cow::Owned(parsed.to_string()))
    }

    /// Writes the head of a request.
    pub(super) fn head(
        &self,
        (method, path): (&Method, &str),
        extra: &[(HeaderName, HeaderValue)],
        length: usize,
        out: &mut Vec<u8>,
    ) {
        let is_post = *method == Method::POST;
        out.clear();
        out.extend_from_slice(method.as_str().as_bytes());
        out.push(b' ');
        out.extend_from_slice(path.as_bytes());
        out.extend_from_slice(b" HTTP/1.1\r\n");
        out.extend_from_slice(if is_post { &self.post } else { &self.other });
        for (name, value) in extra {
            line(name, value, out);
        }
        if is_post || length > 0 {
            out.extend_from_slice(b"content-length: ");
            decimal(length, out);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Trusts what the test says instead of what the system says.
    #[cfg(test)]
    pub(super) fn trusting(mut self, tls: TlsConnector) -> Self {
        self.tls = self.tls.map(|(_, name)| (tls, name));
        self
    }
}

fn address(host: String, port: u16) -> Address {
    match host.parse::<IpAddr>() {
        Ok(ip) => Address::Fixed(SocketAddr::new(ip, port)),
        Err(_) => Address::Named(host, port),
    }
}

/// The port, if there is one.
fn port(authority: &Authority) -> Result<Option<u16>, BadTarget> {
    let after = authority.as_str().rsplit(']').next().unwrap_or_default();
    match after.rsplit_once(':') {
        None => Ok(None),
        Some(_) => match authority.port_u16() {
            Some(port) if port > 0 => Ok(Some(port)),
            _ => Err(BadTarget::Url("its port is no number from 1 to 65535".to_owned())),
        },
    }
}

/// Headers that belong to the connection or the protocol.
fn is_ours(name: &HeaderName) -> bool {
    const OURS: [HeaderName; 9] = [
        ACCEPT,
        CONNECTION,
        CONTENT_LENGTH,
        CONTENT_TYPE,
        EXPECT,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
    ];
    OURS.contains(name)
        || name.as_str().starts_with(headers::PARAM)
        || [
            "keep-alive",
            "last-event-id",
            "proxy-connection",
            headers::METHOD,
            headers::NAME,
            headers::PROTOCOL_VERSION,
            headers::SESSION_ID,
        ]
        .contains(&name.as_str())
}

/// One header as it is sent. Neither a name nor a value can hold the end of a line.
fn line(name: &HeaderName, value: &HeaderValue, out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_str().as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// A number in digits; what formats anything else would cost as much as the rest of the head.
fn decimal(mut number: usize, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut count = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
        count += 1;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(20 - count..).unwrap_or_default());
}

fn lines(headers: &HeaderMap) -> Box<[u8]> {
    let mut out = Vec::new();
    for (name, value) in headers {
        line(name, value, &mut out);
    }
    out.into()
}

fn templates(
    authority: &Authority,
    given: impl IntoIterator<Item = (String, String)>,
) -> Result<(HeaderMap, HeaderMap), BadTarget> {
    let mut other = HeaderMap::new();
    let host = HeaderValue::from_str(authority.as_str());
    other.insert(HOST, host.map_err(|_| BadTarget::Url("its host is not valid".to_owned()))?);
    let agent = concat!("toolgate/", env!("CARGO_PKG_VERSION"));
    other.insert(USER_AGENT, HeaderValue::from_static(agent));
    let mut set = Vec::new();
    for (name, value) in given {
        let Ok(parsed) = HeaderName::try_from(name.as_str()) else {
            return Err(BadTarget::HeaderName(name));
        };
        let Ok(mut value) = HeaderValue::try_from(value) else {
            return Err(BadTarget::HeaderValue(name));
        };
        if is_ours(&parsed) {
            return Err(BadTarget::OurHeader(name));
        }
        value.set_sensitive(true);
        // The first one replaces ours, further ones of the name are sent as well.
        if set.contains(&parsed) {
            other.append(parsed, value);
        } else {
            other.insert(parsed.clone(), value);
            set.push(parsed);
        }
    }
    other.insert(hops::HEADER, HeaderValue::from_static(hops::own()));
    let mut post = other.clone();
    let both = HeaderValue::from_static("application/json, text/event-stream");
    post.insert(ACCEPT, both);
    post.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    other.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
    Ok((post, other))
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.names.iter().map(HeaderName::as_str).collect();
        f.debug_struct("Target")
            .field("origin", &self.origin)
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}
