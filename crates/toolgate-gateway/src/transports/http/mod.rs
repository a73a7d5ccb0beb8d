//! The door for HTTP: sockets, heads and bodies. What the requests mean is the handler's business.
//!
//! One thread accepts; each worker thread has a runtime of its own and keeps the connections that it was given. So a
//! request is read, handled and answered on one core, and nothing is shared between cores on its way.

pub(crate) mod accept;
pub(crate) mod body;
mod collect;
mod connection;
pub(crate) mod events;
pub(crate) mod guard;
pub(crate) mod listen;
mod over_capacity;
mod progress;
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

/// What answers requests.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Whether a request may go on, by its head alone: only then is its body read.
    #[expect(
        clippy::result_large_err,
        reason = "one box for each refusal costs more than the room"
    )]
    fn check(&self, head: &Parts) -> Result<(), Response<ResponseBody>>;

    /// The most bytes of a body.
    fn body_limit(&self, head: &Parts) -> usize;

    /// The answer to a request whose body is longer.
    fn too_large(&self, head: &Parts) -> Response<ResponseBody>;

    /// Takes note of a request that is rejected, and completes the response to it.
    fn rejected(
        &self,
        _peer: Option<SocketAddr>,
        _head: &Parts,
        answer: Response<ResponseBody>,
    ) -> Response<ResponseBody> {
        answer
    }

    /// Takes note of a connection that there is no room for.
    fn turned_away(&self, _peer: Option<SocketAddr>) {}

    /// Answers a request. Dropped before it has, the client is gone or the door is shut.
    fn answer(
        self: &Arc<Self>,
        peer: Option<SocketAddr>,
        head: Parts,
        body: Bytes,
    ) -> impl Future<Output = Response<ResponseBody>> + Send;
}

/// How much the door takes, and how long it waits.
#[derive(Debug, Clone)]
pub(crate) struct HttpLimits {
    /// Worker threads.
    pub(crate) threads: usize,
    /// Connections at once.
    pub(crate) connections: usize,
    /// How long a request's head may take.
    pub(crate) head: Duration,
    /// How long a connection may be silent between requests.
    pub(crate) idle: Duration,
    /// How long a body may make no progress.
    pub(crate) body: Duration,
    /// How long a body may take in all.
    pub(crate) whole_body: Duration,
    /// How long a client may take none of what is written to it.
    pub(crate) stalled: Duration,
    /// How long a client that was refused may go on sending before the connection is closed.
    pub(crate) linger: Duration,
    /// How often the times above are looked at: they are that much longer at most.
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

/// Why a request was rejected, in one word: carried by the response to whoever takes note of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RejectReason(pub(crate) &'static str);

/// A short answer for people, with the reason for the record.
pub(crate) fn rejection(
    status: StatusCode,
    reason: &'static str,
    words: &'static str,
) -> Response<ResponseBody> {
    let mut answer = text(status, words);
    answer.extensions_mut().insert(RejectReason(reason));
    answer
}

/// A short answer for people.
pub(crate) fn text(status: StatusCode, text: &'static str) -> Response<ResponseBody> {
    let mut answer = Response::new(ResponseBody::Whole(Bytes::from_static(text.as_bytes())));
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}
