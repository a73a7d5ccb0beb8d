//! An answer that is a stream of events.

use std::time::Duration;

use tokio::{runtime::Handle, time::timeout};
use toolgate_wire::sse::{Event, Events};

use super::{BodyError, HttpResponse};

/// After what somebody waited for, the stream may take this long to end, so that its connection can be used again.
const REST: Duration = Duration::from_millis(100);
/// And so many pieces may come until then.
const PIECES: usize = 16;

/// Reads the events of an answer as they come. Dropped, it closes the connection.
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

    /// The next event; `None` when the server has ended the stream. Nothing is lost if this is dropped while it waits.
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

    /// For who has what it waited for. Servers end their streams then, most of them a moment later: that moment is
    /// waited for beside, since a new connection for each call would cost more than the call.
    pub(crate) fn leave(self) {
        let mut answer = self.answer;
        if let Ok(runtime) = Handle::try_current()
            && !answer.is_over()
        {
            runtime.spawn(timeout(REST, async move {
                for _ in 0..PIECES {
                    let Some(Ok(_)) = answer.chunk().await else { return };
                }
            }));
        }
    }
}
