//! An answer: its head, and a body that is read as it comes.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::{
    HeaderMap, Response, StatusCode,
    body::{Body as _, Incoming},
};

use super::{
    pool::{Connection, Shard},
    told,
};

/// No more room is taken at once than this, whatever length the server names.
const FIRST: u64 = 64 * 1024;

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
    pub(crate) headers: HeaderMap,
    body: Incoming,
    connection: Option<Connection>,
    shard: Arc<Shard>,
}

impl Answer {
    pub(super) fn new(
        response: Response<Incoming>,
        mut connection: Connection,
        shard: Arc<Shard>,
    ) -> Self {
        let (head, body) = response.into_parts();
        connection.heed(&head.headers);
        let connection = Some(connection);
        Self { status: head.status, headers: head.headers, body, connection, shard }
    }

    /// The whole body, at most so many bytes of it.
    pub(crate) async fn whole(mut self, most: usize) -> Result<Bytes, BodyError> {
        let named = self.body.size_hint().lower();
        if named > most as u64 {
            return Err(BodyError::TooLarge(most));
        }
        let Some(first) = self.chunk().await.transpose()? else { return Ok(Bytes::new()) };
        let mut next = match self.chunk().await.transpose()? {
            Some(next) => next,
            None if first.len() > most => return Err(BodyError::TooLarge(most)),
            None => return Ok(first),
        };
        let room = usize::try_from(named.min(FIRST)).unwrap_or_default();
        let mut all = BytesMut::with_capacity(room.max(first.len() + next.len()));
        all.extend_from_slice(&first);
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

    /// What comes next of the body; `None` at its end. Nothing is lost if this is dropped while it waits.
    pub(crate) async fn chunk(&mut self) -> Option<Result<Bytes, BodyError>> {
        loop {
            if self.body.is_end_stream() {
                self.give_back();
                return None;
            }
            match self.body.frame().await {
                None => {
                    self.give_back();
                    return None;
                }
                Some(Ok(frame)) => {
                    // What is no data are trailers, which say nothing here.
                    let Ok(data) = frame.into_data() else { continue };
                    if self.body.is_end_stream() {
                        self.give_back();
                    }
                    if !data.is_empty() {
                        return Some(Ok(data));
                    }
                }
                Some(Err(error)) => {
                    self.connection = None;
                    let origin = self.shard.origin();
                    let why = format!("{origin} broke off within its answer: {}", told(&error));
                    return Some(Err(BodyError::Broken(why)));
                }
            }
        }
    }

    fn give_back(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.shard.put(connection);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // An answer without a body, for instance, of which nobody reads it.
        if self.body.is_end_stream() {
            self.give_back();
        }
    }
}
