//! An answer: its head, and a body that is read as it comes.

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
    connection::{HttpConnection, told},
    head::ResponseHeaders,
    pool::Shard,
};

/// So many pieces of a body that nobody wants are read, to see whether they are the last ones.
const LAST_PIECES: usize = 4;

/// Why a body could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("an answer of more than {0} bytes")]
    TooLarge(usize),
    #[error("{0}")]
    Broken(String),
}

/// An answer. Dropped before its end, it closes the connection: so the server learns that nobody waits any more.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: ResponseHeaders,
    body: Incoming,
    is_broken: bool,
    /// As long as there is something to be read.
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
        // Without a body there is nothing left to wait for.
        if answer.body.is_end_stream() {
            answer.end();
        }
        answer
    }

    /// The whole body, at most so many bytes of it.
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

    /// What comes next of the body; `None` at its end. Nothing is lost if this is dropped while it waits.
    pub(crate) async fn chunk(&mut self) -> Option<Result<Bytes, BodyError>> {
        poll_fn(|context| self.poll_chunk(context)).await
    }

    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        let mut is_driven = false;
        loop {
            if self.is_broken {
                return Poll::Ready(Some(Err(self.broken("it broke off before"))));
            }
            let Some(connection) = &mut self.connection else { return Poll::Ready(None) };
            // What is waited for comes from the driver, within this task: nobody has to be woken for it.
            let mut unwoken = Context::from_waker(Waker::noop());
            match Pin::new(&mut self.body).poll_frame(&mut unwoken) {
                Poll::Ready(Some(Ok(frame))) => {
                    is_driven = false;
                    // Nobody reads trailers.
                    let Ok(data) = frame.into_data() else { continue };
                    if self.body.is_end_stream() {
                        // The connection is free, whether or not somebody asks for more.
                        self.end();
                    }
                    if !data.is_empty() {
                        return Poll::Ready(Some(Ok(data)));
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    return Poll::Ready(Some(Err(self.broken(&told(&error)))));
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

    /// Whether its connection is free, or closed, without waiting for anything.
    pub(super) fn is_over(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..LAST_PIECES {
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
        // What nobody reads may have come to its end all the same.
        self.is_over();
    }
}
