//! The HTTP/1.1 client for servers with a URL, with a pool of connections.
//!
//! hyper implements the protocol. The task that waits for a response also polls the connection, on the runtime that
//! opened it, so that a call wakes no other task. The client knows whether any byte of a request was written.

mod connect;
mod connection;
mod events;
mod head;
mod pool;
mod response;
mod stream;
mod target;
#[cfg(test)]
mod tests;
mod tls;

use std::sync::Arc;

use bytes::Bytes;
use hyper::{
    Method,
    header::{HeaderName, HeaderValue},
};

use self::{connect::connect, connection::NoResponse, pool::Pool};
pub(crate) use self::{
    events::EventStream,
    response::{BodyError, HttpResponse},
    target::{ConnectionLimits, Target},
};

/// Why there is no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SendError {
    /// The request did not reach the server, or the server redirected it without acting on it.
    #[error("{0}")]
    NotSent(String),
    /// The server may have acted on the request.
    #[error("{0}")]
    Lost(String),
}

/// Sends requests to one server.
#[derive(Debug)]
pub(crate) struct HttpClient {
    target: Arc<Target>,
    pool: Pool,
}

impl HttpClient {
    pub(crate) fn new(target: Arc<Target>) -> Self {
        let pool = Pool::new(target.origin(), target.limits());
        Self { target, pool }
    }

    /// The server of this client.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Sends one request and waits for the head of the response. `path` is another path of the same server, with its
    /// query. A header in `extra` replaces the common header of that name. Only a GET request is sent again if the
    /// server closes a pooled connection after a part of the request was written.
    ///
    /// If the caller drops the future, the connection is closed.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: Option<&str>,
        extra: &[(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Result<HttpResponse, SendError> {
        let is_idempotent = method == Method::GET;
        self.exchange((method, path), extra, body, is_idempotent).await
    }

    /// Posts a request that changes nothing at the server. If the server closes a pooled connection after a part of the
    /// request was written, the client sends the request once more, on a new connection.
    pub(crate) async fn post_idempotent(
        &self,
        path: Option<&str>,
        extra: &[(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Result<HttpResponse, SendError> {
        self.exchange((Method::POST, path), extra, body, true).await
    }

    async fn exchange(
        &self,
        (method, path): (Method, Option<&str>),
        extra: &[(HeaderName, HeaderValue)],
        body: Bytes,
        is_idempotent: bool,
    ) -> Result<HttpResponse, SendError> {
        let path = self.target.path(path)?;
        let shard = self.pool.shard();
        let mut kept = shard.take();
        loop {
            let is_kept = kept.is_some();
            let mut connection = match kept.take() {
                Some(connection) => connection,
                // Boxed, because this future is rarely needed and much larger than the others.
                None => Box::pin(connect(&self.target)).await.map_err(SendError::NotSent)?,
            };
            let request = self.target.request(&method, &path, extra, body.clone());
            match connection.exchange(request, self.target.limits().max_head_bytes).await {
                Ok(response) => {
                    return self.checked(HttpResponse::new(
                        response,
                        connection,
                        Arc::clone(shard),
                    ));
                }
                // The server closed the pooled connection: the request is sent on a new one.
                Err(NoResponse::NotWritten(_)) if is_kept => {}
                Err(NoResponse::Closed(_)) if is_kept && is_idempotent => {}
                Err(error) => return Err(self.failed(&error)),
            }
        }
    }

    #[cold]
    fn failed(&self, error: &NoResponse) -> SendError {
        let origin = self.target.origin();
        match error {
            NoResponse::NotWritten(error) => SendError::NotSent(format!(
                "{origin} accepted the connection and closed it before the request was sent: {error}"
            )),
            NoResponse::Closed(error) => SendError::Lost(format!(
                "{origin} closed the connection without an answer: {error}"
            )),
            NoResponse::Invalid(why) => {
                SendError::Lost(format!("{origin} answered with no valid HTTP: {why}"))
            }
        }
    }

    /// Refuses redirects: the client sends headers, which may contain secrets, only to the configured URL.
    fn checked(&self, answer: HttpResponse) -> Result<HttpResponse, SendError> {
        if !answer.status.is_redirection() {
            return Ok(answer);
        }
        let Some(to) = answer.headers.location() else { return Ok(answer) };
        let to = hyper::Uri::try_from(to).ok();
        let to = to.as_ref().and_then(hyper::Uri::authority);
        let to = to.map(|to| to.as_str().rsplit('@').next().unwrap_or_default());
        let to = to.map_or("another path of it".to_owned(), |host| format!("`{host}`"));
        let message = format!(
            "{} answered {} and points to {to}; redirects are not followed: set the server's url to where it is now",
            self.target.origin(),
            answer.status.as_u16()
        );
        Err(match answer.status.as_u16() {
            // The server may have acted on the request before it sent one of these.
            301..=303 => SendError::Lost(message),
            _ => SendError::NotSent(message),
        })
    }
}
