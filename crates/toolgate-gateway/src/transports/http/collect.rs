//! Reads a request's body within the limits on size and time.

use std::{future::poll_fn, pin::Pin, task::Poll, time::Duration};

use bytes::BytesMut;
use hyper::body::{Body as _, Bytes, Frame, Incoming};
use tokio::time::{Instant, timeout_at};

use super::HttpLimits;

/// The maximum number of bytes that are allocated because the client announces them.
const PROMISED: usize = 64 * 1024;

/// Why a body was not read to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyReadError {
    TooLarge,
    TooSlow,
    Broken,
}

/// Reads a whole body. A body that arrives in one piece is not copied.
pub(super) async fn collect(
    body: &mut Incoming,
    limit: usize,
    settings: &HttpLimits,
) -> Result<Bytes, BodyReadError> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let promised = body.size_hint();
    let fits = |length: u64| usize::try_from(length).is_ok_and(|length| length <= limit);
    if !fits(promised.lower()) {
        return Err(BodyReadError::TooLarge);
    }
    let first = match now(body).await {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        Poll::Ready(Some(Err(_))) => return Err(BodyReadError::Broken),
        Poll::Ready(None) => return Ok(Bytes::new()),
        Poll::Pending => Bytes::new(),
    };
    if promised.exact() == Some(first.len() as u64) {
        return Ok(first);
    }
    rest(body, first, limit, settings.body, settings.whole_body).await
}

async fn rest(
    body: &mut Incoming,
    first: Bytes,
    limit: usize,
    pause: Duration,
    total_timeout: Duration,
) -> Result<Bytes, BodyReadError> {
    let last = Instant::now() + total_timeout;
    let promised = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut read = BytesMut::with_capacity(first.len() + promised.min(PROMISED));
    let mut next = first;
    loop {
        if next.len() > limit.saturating_sub(read.len()) {
            return Err(BodyReadError::TooLarge);
        }
        read.extend_from_slice(&next);
        let until = last.min(Instant::now() + pause);
        let frame = timeout_at(until, poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)));
        next = match frame.await {
            Err(_late) => return Err(BodyReadError::TooSlow),
            Ok(None) => return Ok(read.freeze()),
            Ok(Some(Err(_))) => return Err(BodyReadError::Broken),
            // Trailers are ignored.
            Ok(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        };
    }
}

/// Whether an unwanted body has arrived completely, so that the connection can be reused.
pub(super) async fn is_here(body: &mut Incoming) -> bool {
    if body.is_end_stream() {
        return true;
    }
    let promised = body.size_hint().exact();
    match now(body).await {
        Poll::Ready(Some(Ok(frame))) => {
            frame.data_ref().is_some_and(|data| promised == Some(data.len() as u64))
        }
        Poll::Ready(None) => true,
        _ => false,
    }
}

/// The next frame of a body, without waiting.
async fn now(body: &mut Incoming) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *body).poll_frame(cx))).await
}
