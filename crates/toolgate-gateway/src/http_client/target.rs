//! Where a server is, and what is the same in each request to it.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Request, Uri,
    header::{
        ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, HeaderName,
        HeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
    },
    http::uri::{Authority, PathAndQuery, Scheme},
};
use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};
use toolgate_wire::headers;

use super::{SendError, tls};
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
    path: Uri,
    pub(super) address: Address,
    pub(super) tls: Option<(TlsConnector, ServerName<'static>)>,
    /// The headers that are always sent, with what is posted, and with everything else.
    post: HeaderMap,
    other: HeaderMap,
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
            Some((tls::system_tls().map_err(BadTarget::Tls)?, name))
        } else {
            None
        };
        let address = address(host, port(&authority)?.unwrap_or(if is_https { 443 } else { 80 }));
        let origin = format!("{scheme}://{authority}").into_boxed_str();
        let path = parts.path_and_query.unwrap_or(PathAndQuery::from_static("/"));
        let (post, other) = templates(&authority, headers)?;
        Ok(Self { origin, path: path.into(), address, tls, post, other, bounds })
    }

    /// An endpoint that speaks no MCP. A user in its address goes into `Authorization`, unless that is set.
    pub(crate) fn endpoint(
        url: &str,
        headers: impl IntoIterator<Item = (String, String)>,
        bounds: Bounds,
    ) -> Result<Self, BadTarget> {
        let (url, credentials) = without_user(url);
        let mut headers: Vec<_> = headers.into_iter().collect();
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION.as_str())) {
            headers.extend(credentials.map(|value| (AUTHORIZATION.to_string(), value)));
        }
        let mut target = Self::new(&url, headers, bounds)?;
        for headers in [&mut target.post, &mut target.other] {
            headers.remove(ACCEPT);
            headers.remove(hops::HEADER);
        }
        Ok(target)
    }

    /// Scheme, host and port: what messages name the server by. A path or a query may hold a secret.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    pub(crate) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The path that is asked for: the server's own, or another one of it.
    pub(super) fn path(&self, other: Option<&str>) -> Result<Uri, SendError> {
        let Some(path) = other else { return Ok(self.path.clone()) };
        let parsed = PathAndQuery::try_from(path).ok().filter(|_| path.starts_with('/'));
        let parsed = parsed.ok_or_else(|| {
            SendError::NotSent(format!("{} named a path that is none", self.origin()))
        })?;
        Ok(parsed.into())
    }

    /// A request. What is in `extra` replaces what is always sent.
    pub(super) fn request(
        &self,
        method: &Method,
        path: &Uri,
        extra: &[(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Request<Full<Bytes>> {
        let is_post = *method == Method::POST;
        let mut headers = if is_post { self.post.clone() } else { self.other.clone() };
        for (name, value) in extra {
            headers.insert(name.clone(), value.clone());
        }
        if is_post && body.is_empty() {
            // hyper leaves it out.
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method.clone();
        *request.uri_mut() = path.clone();
        *request.headers_mut() = headers;
        request
    }

    /// Trusts what the test says instead of what the system says.
    #[cfg(test)]
    pub(super) fn trusting(mut self, tls: TlsConnector) -> Self {
        self.tls = self.tls.map(|(_, name)| (tls, name));
        self
    }
}

/// An address without `user:password@`, and what stands for that in `Authorization`.
fn without_user(url: &str) -> (String, Option<String>) {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let Some((user, host)) = authority.rsplit_once('@') else { return (url.to_owned(), None) };
    let user = if user.contains(':') { user.to_owned() } else { format!("{user}:") };
    let credentials = STANDARD.encode(percent_decoded(&user));
    (format!("{scheme}://{host}{path}"), Some(format!("Basic {credentials}")))
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        let digits = after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(digits.unwrap_or(b'%'));
        rest = if digits.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
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
        let names: Vec<&str> = self.other.keys().map(HeaderName::as_str).collect();
        f.debug_struct("Target")
            .field("origin", &self.origin)
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}
