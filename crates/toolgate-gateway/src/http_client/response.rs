//! A response: its head, and a body that is read as it arrives.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::{Bytes, BytesMut};
use hyper::{
    Response, StatusCode,
    body::{Body as _, Incoming},
};

use super::{
    connection::{HttpConnection, with_cause},
    head::ResponseHeaders,
    pool::Shard,
};

/// The most chunks of an unread body that `is_over` reads without waiting, to find the end of the body.
const MAX_DRAINED_CHUNKS: usize = 4;

/// Why a body could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("an answer of more than {0} bytes")]
    TooLarge(usize),
    #[error("{0}")]
    Broken(String),
}

/// A response. Dropped before the end of its body, it closes the connection, so that the server can stop its work.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: ResponseHeaders,
    body: Incoming,
    is_broken: bool,
    /// `None` once the body was read to its end, or after an error.
    connection: Option<Box<HttpConnection>>,
    shard: Arc<Shard>,
}

impl HttpResponse {
    /// Whether the response has this content type.
    pub(crate) fn is_content_type(&self, kind: &str) -> bool {
        let start = self.headers.content_type().get(..kind.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(kind.as_bytes()))
    }

    pub(super) fn new(
        response: Response<Incoming>,
        connection: Box<HttpConnection>,
        shard: Arc<Shard>,
    ) -> Self {
        let (head, body) = response.into_parts();
        let (status, headers) = (head.status, ResponseHeaders(head.headers));
        let connection = Some(connection);
        let mut answer = Self { status, headers, body, is_broken: false, connection, shard };
        // Without a body the connection is free at once.
        if answer.body.is_end_stream() {
            answer.end();
        }
        answer
    }

    /// Reads the whole body. A body of more than `most` bytes is an error.
    pub(crate) async fn whole(mut self, most: usize) -> Result<Bytes, BodyError> {
        let length = self.body.size_hint().exact();
        let length = length.map(|length| usize::try_from(length).unwrap_or(usize::MAX));
        if length.is_some_and(|length| length > most) {
            return Err(BodyError::TooLarge(most));
        }
        let Some(first) = self.chunk().await.transpose()? else { return Ok(Bytes::new()) };
        let mut all = BytesMut::new();
        let mut last = first;
        while let Some(next) = self.chunk().await.transpose()? {
            if all.len() + last.len() + next.len() > most {
                return Err(BodyError::TooLarge(most));
            }
            if all.is_empty() {
                all.reserve(length.unwrap_or(last.len() + next.len()));
            }
            all.extend_from_slice(&last);
            last = next;
        }
        if all.len() + last.len() > most {
            return Err(BodyError::TooLarge(most));
        }
        if all.is_empty() {
            return Ok(last);
        }
        all.extend_from_slice(&last);
        Ok(all.freeze())
    }

    /// The next chunk of the body; `None` at its end. Cancel safe.
    pub(crate) async fn chunk(&mut self) -> Option<Result<Bytes, BodyError>> {
        poll_fn(|context| self.poll_chunk(context)).await
    }

    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        let mut is_driven = false;
        loop {
            if self.is_broken {
                return Poll::Ready(Some(Err(self.broken("an earlier read failed"))));
            }
            let Some(connection) = &mut self.connection else { return Poll::Ready(None) };
            // The body gets its data from the driver, which this task polls itself: no waker is needed.
            let mut unwoken = Context::from_waker(Waker::noop());
            match Pin::new(&mut self.body).poll_frame(&mut unwoken) {
                Poll::Ready(Some(Ok(frame))) => {
                    is_driven = false;
                    // Trailers are ignored.
                    let Ok(data) = frame.into_data() else { continue };
                    if self.body.is_end_stream() {
                        // The connection is free now, even if the caller does not read on to `None`.
                        self.end();
                    }
                    if !data.is_empty() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Some(Err(self.broken(&with_cause(&error)))));
                }
                Poll::Ready(None) => {
                    self.end();
                    return Poll::Ready(None);
                }
                Poll::Pending if connection.is_over() => {
                    return Poll::Ready(Some(Err(self.broken("it closed the connection"))));
                }
                Poll::Pending if is_driven => return Poll::Pending,
                Poll::Pending => {
                    connection.drive(context);
                    is_driven = true;
                }
            }
        }
    }

    /// Reads the rest of the body that has already arrived, and returns whether the connection is free or closed. Does
    /// not wait.
    pub(super) fn is_over(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..MAX_DRAINED_CHUNKS {
            if self.connection.is_none()
                || !matches!(self.poll_chunk(&mut context), Poll::Ready(Some(Ok(_))))
            {
                break;
            }
        }
        self.connection.is_none()
    }

    fn end(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.shard.put(connection);
        }
    }

    #[cold]
    fn broken(&mut self, why: &str) -> BodyError {
        self.connection = None;
        self.is_broken = true;
        BodyError::Broken(format!("{} broke off within its answer: {why}", self.shard.origin()))
    }
}

impl Drop for HttpResponse {
    fn drop(&mut self) {
        // The rest of the body may have arrived: the connection then goes back to the pool.
        self.is_over();
    }
}
