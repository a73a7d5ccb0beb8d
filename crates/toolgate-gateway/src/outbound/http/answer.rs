//! An answer: its head, and a body that is read as it comes.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hyper::StatusCode;

use super::{
    chunked::{At, Chunked},
    exchange::{Connection, MOST_ROOM},
    head::{Framing, Head, Headers},
    pool::Shard,
};

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
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: Headers,
    body: Body,
    /// As long as there is something to be read.
    connection: Option<Box<Connection>>,
    shard: Arc<Shard>,
}

/// What is left of a body.
#[derive(Debug)]
enum Body {
    Length(u64),
    Chunked(Chunked),
    UntilClose,
    Over,
    Broken,
}

/// What there is without waiting.
enum Step {
    Data(Bytes),
    /// So much more is wanted, or at least something.
    More(u64),
    End,
}

impl Answer {
    pub(super) fn new(head: Head, mut connection: Box<Connection>, shard: Arc<Shard>) -> Self {
        let body = match head.framing {
            Framing::Length(length) => Body::Length(length),
            Framing::Chunked => Body::Chunked(Chunked::new()),
            Framing::UntilClose => Body::UntilClose,
        };
        let status = head.status;
        let bytes = connection.input.split_to(head.length).freeze();
        let headers = head.headers(bytes);
        let mut answer = Self { status, headers, body, connection: Some(connection), shard };
        // Without a body there is nothing left to wait for. What is wrong is told to who reads it.
        let _ = answer.is_at_end();
        answer
    }

    /// The whole body, at most so many bytes of it.
    pub(crate) async fn whole(mut self, most: usize) -> Result<Bytes, BodyError> {
        if let Body::Length(length) = self.body {
            return self.all(length, most).await;
        }
        let Some(first) = self.chunk().await.transpose()? else { return Ok(Bytes::new()) };
        let mut next = match self.chunk().await.transpose()? {
            Some(next) => next,
            None if first.len() > most => return Err(BodyError::TooLarge(most)),
            None => return Ok(first),
        };
        let mut all = BytesMut::from(first);
        loop {
            if all.len() + next.len() > most {
                return Err(BodyError::TooLarge(most));
            }
            all.extend_from_slice(&next);
            match self.chunk().await.transpose()? {
                Some(more) => next = more,
                None => return Ok(all.freeze()),
            }
        }
    }

    /// A body whose length is known, in one piece: it stays where it is read to.
    async fn all(&mut self, length: u64, most: usize) -> Result<Bytes, BodyError> {
        let Some(length) = usize::try_from(length).ok().filter(|length| *length <= most) else {
            return Err(BodyError::TooLarge(most));
        };
        let Some(connection) = &mut self.connection else { return Ok(Bytes::new()) };
        while connection.input.len() < length {
            let missing = length - connection.input.len();
            match connection.fill(missing).await {
                Ok(0) => return Err(self.broken("it closed the connection")),
                Ok(_) => {}
                Err(error) => return Err(self.broken(&error.to_string())),
            }
        }
        let all = connection.input.split_to(length).freeze();
        if length > MOST_ROOM && connection.input.is_empty() {
            // One long answer is no reason to keep so much room for ever.
            connection.input = BytesMut::new();
        }
        self.end();
        Ok(all)
    }

    /// What comes next of the body; `None` at its end. Nothing is lost if this is dropped while it waits.
    pub(crate) async fn chunk(&mut self) -> Option<Result<Bytes, BodyError>> {
        loop {
            let wanted = match self.step() {
                Ok(Step::Data(data)) => return Some(Ok(data)),
                Ok(Step::More(wanted)) => usize::try_from(wanted).unwrap_or(usize::MAX),
                Ok(Step::End) => return None,
                Err(why) => return Some(Err(self.broken(why))),
            };
            let Some(connection) = &mut self.connection else { return None };
            match connection.fill(wanted).await {
                Ok(0) if matches!(self.body, Body::UntilClose) => {
                    self.body = Body::Over;
                    self.connection = None;
                    return None;
                }
                Ok(0) => return Some(Err(self.broken("it closed the connection"))),
                Ok(_) => {}
                Err(error) => return Some(Err(self.broken(&error.to_string()))),
            }
        }
    }

    /// Whether its connection is free, or closed.
    pub(super) fn is_over(&self) -> bool {
        self.connection.is_none()
    }

    fn step(&mut self) -> Result<Step, &'static str> {
        if self.is_at_end()? {
            return Ok(Step::End);
        }
        let Some(connection) = &mut self.connection else { return Ok(Step::End) };
        let input = &mut connection.input;
        let (data, left) = match &mut self.body {
            Body::Length(left) => {
                let length = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= length as u64;
                (input.split_to(length).freeze(), *left)
            }
            Body::Chunked(chunks) => (chunks.data(input), 1),
            Body::UntilClose => (input.split().freeze(), u64::MAX),
            Body::Over | Body::Broken => return Ok(Step::End),
        };
        if data.is_empty() {
            return Ok(Step::More(left));
        }
        // If that was all, the connection is free, whether or not somebody asks for more. What is wrong with what
        // follows is told to who does.
        let _ = self.is_at_end();
        Ok(Step::Data(data))
    }

    /// Whether the body is over, as far as is known without reading on.
    fn is_at_end(&mut self) -> Result<bool, &'static str> {
        let is_at_end = match (&mut self.body, &mut self.connection) {
            (Body::Broken, _) => return Err("it broke off before"),
            (Body::Over, _) | (_, None) => return Ok(true),
            (Body::Length(left), _) => *left == 0,
            (Body::Chunked(chunks), Some(connection)) => {
                chunks.advance(&mut connection.input)? == At::End
            }
            (Body::UntilClose, _) => false,
        };
        if is_at_end {
            self.end();
        }
        Ok(is_at_end)
    }

    fn end(&mut self) {
        self.body = Body::Over;
        if let Some(connection) = self.connection.take() {
            self.shard.put(connection);
        }
    }

    #[cold]
    fn broken(&mut self, why: &str) -> BodyError {
        self.connection = None;
        self.body = Body::Broken;
        BodyError::Broken(format!("{} broke off within its answer: {why}", self.shard.origin()))
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // What nobody reads may have come to its end all the same.
        while matches!(self.step(), Ok(Step::Data(_))) {}
    }
}
