//! Servers behind a URL: a lean HTTP/1.1 client with connections that are kept.
//!
//! Made for the least work per call: what is the same in each request is made once, and a connection is driven by
//! a task of the runtime that opened it and used there only, so that a call wakes no other thread.

mod answer;
mod connect;
mod events;
mod pool;
mod target;
#[cfg(test)]
mod tests;
mod watched;

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Method, Request,
    header::{HeaderName, HeaderValue, LOCATION},
};

pub(crate) use self::{
    answer::{Answer, BodyError},
    events::EventStream,
    target::{Bounds, Target},
};
use self::{
    connect::connect,
    pool::{Connection, Pool, Shard},
};

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SendError {
    /// The server has not acted on the request.
    #[error("{0}")]
    NotSent(String),
    /// It may have.
    #[error("{0}")]
    Lost(String),
}

/// Sends requests to one server.
#[derive(Debug)]
pub(crate) struct Client {
    target: Arc<Target>,
    pool: Pool,
}

/// Why a connection gave no answer.
enum Unanswered {
    /// It was gone before anything was written.
    GivenBack(Box<Request<Full<Bytes>>>, hyper::Error),
    Lost(hyper::Error),
}

impl Client {
    pub(crate) fn new(target: Arc<Target>) -> Self {
        let pool = Pool::new(target.origin(), target.bounds());
        Self { target, pool }
    }

    /// Where it sends to.
    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Sends one request and waits for the head of the answer. `path` is for another path of the same server, with
    /// its query. The headers in `extra` follow those that are always sent.
    ///
    /// Dropped before it is done, it closes the connection.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: Option<&str>,
        extra: &[(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Result<Answer, SendError> {
        let mut request = self.target.request(method, path, extra, body)?;
        let shard = self.pool.shard();
        if let Some(connection) = shard.take().await {
            match exchange(connection, Arc::clone(shard), request).await {
                Ok(answer) => return self.checked(answer),
                // The server has ended the connection while nobody used it.
                Err(Unanswered::GivenBack(back, _)) => request = *back,
                Err(Unanswered::Lost(error)) => return Err(self.lost(&error)),
            }
        }
        let connection = connect(&self.target).await.map_err(SendError::NotSent)?;
        match exchange(connection, Arc::clone(shard), request).await {
            Ok(answer) => self.checked(answer),
            Err(Unanswered::GivenBack(_, error)) => Err(SendError::NotSent(format!(
                "{} took the connection and closed it before it was sent anything: {}",
                self.target.origin(),
                told(&error)
            ))),
            Err(Unanswered::Lost(error)) => Err(self.lost(&error)),
        }
    }

    #[cold]
    fn lost(&self, error: &hyper::Error) -> SendError {
        let origin = self.target.origin();
        if error.is_parse() || error.is_parse_too_large() {
            return SendError::Lost(format!(
                "{origin} answered with no valid HTTP: {}",
                told(error)
            ));
        }
        SendError::Lost(format!(
            "{origin} closed the connection without an answer: {}",
            told(error)
        ))
    }

    /// An answer that points elsewhere is none: headers with secrets go where they were meant to go only.
    fn checked(&self, answer: Answer) -> Result<Answer, SendError> {
        if !answer.status.is_redirection() {
            return Ok(answer);
        }
        let Some(to) = answer.headers.get(LOCATION) else { return Ok(answer) };
        let to = to.to_str().ok().and_then(|to| to.parse::<hyper::Uri>().ok());
        let to = to.as_ref().and_then(hyper::Uri::authority);
        let to = to.map(|to| to.as_str().rsplit('@').next().unwrap_or_default());
        let to = to.map_or("another path of it".to_owned(), |host| format!("`{host}`"));
        let told = format!(
            "{} answered {} and points to {to}; redirects are not followed: set the server's url to where it is now",
            self.target.origin(),
            answer.status.as_u16()
        );
        Err(match answer.status.as_u16() {
            // These come after it may have been done.
            301..=303 => SendError::Lost(told),
            _ => SendError::NotSent(told),
        })
    }
}

async fn exchange(
    mut connection: Connection,
    shard: Arc<Shard>,
    request: Request<Full<Bytes>>,
) -> Result<Answer, Unanswered> {
    match connection.sender.try_send_request(request).await {
        Ok(response) => Ok(Answer::new(response, connection, shard)),
        Err(mut error) => match error.take_message() {
            Some(request) => Err(Unanswered::GivenBack(Box::new(request), error.into_error())),
            None => Err(Unanswered::Lost(error.into_error())),
        },
    }
}

/// An error with what caused it.
fn told(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
