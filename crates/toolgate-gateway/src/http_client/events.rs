//! A response that is a stream of server-sent events.

use std::time::Duration;

use tokio::{runtime::Handle, time::timeout};
use toolgate_wire::sse::{Event, Events};

use super::{BodyError, HttpResponse};

/// How long the server may take to end the stream after the awaited event, so that the connection can be used again.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);
/// The most chunks that the server may send during that time.
const MAX_DRAINED_CHUNKS: usize = 16;

/// Reads the events of a response as they arrive. Dropped before the end of the stream, it closes the connection.
#[derive(Debug)]
pub(crate) struct EventStream {
    answer: HttpResponse,
    events: Events,
    most: usize,
}

impl EventStream {
    /// An event of more than `max_bytes` ends the stream with an error.
    pub(crate) fn new(answer: HttpResponse, max_bytes: usize) -> Self {
        Self { answer, events: Events::new(max_bytes), most: max_bytes }
    }

    /// The next event; `None` when the server has ended the stream. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, BodyError> {
        loop {
            let event = self.events.next().map_err(|_| BodyError::TooLarge(self.most))?;
            if event.is_some() {
                return Ok(event);
            }
            match self.answer.chunk().await.transpose()? {
                Some(chunk) => self.events.buffer().extend_from_slice(&chunk),
                None => return Ok(None),
            }
        }
    }

    /// Stops reading, for a caller that has the event that it waited for. Most servers end the stream shortly after
    /// that event. A background task reads until then, so that the connection can be used again: a new connection for
    /// each call would cost more than the call.
    pub(crate) fn drain(self) {
        let mut answer = self.answer;
        if let Ok(runtime) = Handle::try_current()
            && !answer.is_over()
        {
            runtime.spawn(timeout(DRAIN_TIMEOUT, async move {
                for _ in 0..MAX_DRAINED_CHUNKS {
                    let Some(Ok(_)) = answer.chunk().await else { return };
                }
            }));
        }
    }
}
