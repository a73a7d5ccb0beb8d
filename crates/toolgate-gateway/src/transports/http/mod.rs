//! The HTTP server: sockets, heads and bodies. The handler interprets the requests.
//!
//! One thread accepts connections. Each worker thread has a runtime of its own and keeps the connections that it was
//! given. So one thread reads, handles and answers a request, without passing it to another core.

pub(crate) mod accept;
pub(crate) mod body;
mod collect;
mod connection;
mod connection_phase;
pub(crate) mod events;
pub(crate) mod guard;
pub(crate) mod listen;
mod over_capacity;
mod worker;

#[cfg(test)]
mod tests;

use std::{net::SocketAddr, sync::Arc, time::Duration};

use hyper::{
    Response, StatusCode,
    body::Bytes,
    header::{CONTENT_TYPE, HeaderValue},
    http::request::Parts,
};

use body::ResponseBody;

/// Answers requests.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Checks a request by its head. The server reads the body only after this returns `Ok`.
    #[expect(
        clippy::result_large_err,
        reason = "boxing each refusal costs more than the larger result"
    )]
    fn check(&self, head: &Parts) -> Result<(), Response<ResponseBody>>;

    /// The maximum size of a body in bytes.
    fn body_limit(&self, head: &Parts) -> usize;

    /// The response to a request whose body is larger.
    fn too_large(&self, head: &Parts) -> Response<ResponseBody>;

    /// Records a rejected request, and completes the response to it.
    fn rejected(
        &self,
        _peer: Option<SocketAddr>,
        _head: &Parts,
        response: Response<ResponseBody>,
    ) -> Response<ResponseBody> {
        response
    }

    /// Records a connection that is refused for lack of capacity.
    fn connection_refused(&self, _peer: Option<SocketAddr>) {}

    /// Answers a request. The server drops the future if the client disconnects or the server stops.
    fn respond(
        self: &Arc<Self>,
        peer: Option<SocketAddr>,
        head: Parts,
        body: Bytes,
    ) -> impl Future<Output = Response<ResponseBody>> + Send;
}

/// The limits and timeouts of the HTTP server.
#[derive(Debug, Clone)]
pub(crate) struct HttpLimits {
    /// The number of worker threads.
    pub(crate) threads: usize,
    /// The maximum number of open connections.
    pub(crate) connections: usize,
    /// How long a request's head may take to arrive.
    pub(crate) head: Duration,
    /// How long a connection may be silent between requests.
    pub(crate) idle: Duration,
    /// How long the next part of a body may take to arrive.
    pub(crate) body: Duration,
    /// How long a whole body may take to arrive.
    pub(crate) whole_body: Duration,
    /// How long a client may read nothing of a response.
    pub(crate) stalled: Duration,
    /// How long a client that was refused may go on sending before the connection is closed.
    pub(crate) linger: Duration,
    /// The interval at which a worker checks its connections: a timeout may take that much longer.
    pub(crate) sweep: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(1, Into::into),
            connections: 20_000,
            head: Duration::from_secs(15),
            idle: Duration::from_secs(75),
            body: Duration::from_secs(30),
            whole_body: Duration::from_mins(5),
            stalled: Duration::from_mins(2),
            linger: Duration::from_secs(2),
            sweep: Duration::from_secs(1),
        }
    }
}

/// Why a request was rejected, in one word. The response carries the reason to [`Handler::rejected`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct RejectReason(pub(crate) &'static str);

/// A short response for people, with the reason that is recorded.
pub(crate) fn rejection(
    status: StatusCode,
    reason: &'static str,
    words: &'static str,
) -> Response<ResponseBody> {
    let mut response = text(status, words);
    response.extensions_mut().insert(RejectReason(reason));
    response
}

/// A short response for people.
pub(crate) fn text(status: StatusCode, text: &'static str) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Whole(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
