//! The address of a server, and the parts that all requests to it have in common.

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

/// Limits of the connections to one server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// How long the client may take to open a connection, including TLS.
    pub(crate) connect_timeout: Duration,
    /// The most idle connections that each shard of the pool keeps.
    pub(crate) max_idle: usize,
    /// How long an idle connection is kept, unless the server announces a shorter time.
    pub(crate) idle_timeout: Duration,
    /// The idle time from which on the client checks the socket before it uses a connection again.
    pub(crate) check_after: Duration,
    /// The most bytes of a response's head.
    pub(crate) max_head_bytes: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            max_idle: 64,
            idle_timeout: Duration::from_secs(55),
            check_after: Duration::from_millis(100),
            max_head_bytes: 64 * 1024,
        }
    }
}

/// Why the url or the headers of a server are not valid. The message contains nothing that may be a secret.
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

/// The server's host: an IP address, or a name to look up.
#[derive(Debug)]
pub(super) enum Address {
    Fixed(SocketAddr),
    Named(String, u16),
}

/// The address of a server, with the headers of all requests to it.
pub(crate) struct Target {
    origin: Box<str>,
    path: Uri,
    pub(super) address: Address,
    pub(super) tls: Option<(TlsConnector, ServerName<'static>)>,
    /// The headers of all POST requests.
    post: HeaderMap,
    /// The headers of all other requests.
    other: HeaderMap,
    limits: ConnectionLimits,
}

impl Target {
    pub(crate) fn new(
        url: &str,
        headers: impl IntoIterator<Item = (String, String)>,
        limits: ConnectionLimits,
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
        let (post, other) = common_headers(&authority, headers)?;
        Ok(Self { origin, path: path.into(), address, tls, post, other, limits })
    }

    /// An endpoint that is no MCP server. A user name and password in the URL become the header `Authorization`, unless
    /// `headers` has one.
    pub(crate) fn endpoint(
        url: &str,
        headers: impl IntoIterator<Item = (String, String)>,
        limits: ConnectionLimits,
    ) -> Result<Self, BadTarget> {
        let (url, credentials) = without_user(url);
        let mut headers: Vec<_> = headers.into_iter().collect();
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(AUTHORIZATION.as_str())) {
            headers.extend(credentials.map(|value| (AUTHORIZATION.to_string(), value)));
        }
        let mut target = Self::new(&url, headers, limits)?;
        for headers in [&mut target.post, &mut target.other] {
            headers.remove(ACCEPT);
            headers.remove(hops::HEADER);
        }
        Ok(target)
    }

    /// Scheme, host and port. Messages show nothing else of the URL, because its path or query may contain a secret.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    pub(crate) fn limits(&self) -> ConnectionLimits {
        self.limits
    }

    /// The path of a request: the path of the configured URL, or `other` on the same server.
    pub(super) fn path(&self, other: Option<&str>) -> Result<Uri, SendError> {
        let Some(path) = other else { return Ok(self.path.clone()) };
        let parsed = PathAndQuery::try_from(path).ok().filter(|_| path.starts_with('/'));
        let parsed = parsed.ok_or_else(|| {
            SendError::NotSent(format!("{} named an invalid path", self.origin()))
        })?;
        Ok(parsed.into())
    }

    /// A request. A header in `extra` replaces the common header of that name.
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
            // hyper sends no `Content-Length` for an empty body.
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method.clone();
        *request.uri_mut() = path.clone();
        *request.headers_mut() = headers;
        request
    }

    /// Replaces the system's trusted certificates by those of the test.
    #[cfg(test)]
    pub(super) fn trusting(mut self, tls: TlsConnector) -> Self {
        self.tls = self.tls.map(|(_, name)| (tls, name));
        self
    }
}

/// A URL without `user:password@`, and the value of `Authorization` that replaces the user and the password.
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

/// The port, if the authority has one.
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

/// Whether toolgate sets this header itself, for the connection or the protocol.
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

fn common_headers(
    authority: &Authority,
    headers: impl IntoIterator<Item = (String, String)>,
) -> Result<(HeaderMap, HeaderMap), BadTarget> {
    let mut other = HeaderMap::new();
    let host = HeaderValue::from_str(authority.as_str());
    other.insert(HOST, host.map_err(|_| BadTarget::Url("its host is not valid".to_owned()))?);
    let agent = concat!("toolgate/", env!("CARGO_PKG_VERSION"));
    other.insert(USER_AGENT, HeaderValue::from_static(agent));
    let mut set = Vec::new();
    for (name, value) in headers {
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
        // The first header of a name replaces the default; further ones of the same name are added.
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
