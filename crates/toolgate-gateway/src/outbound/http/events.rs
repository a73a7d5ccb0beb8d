//! An answer that is a stream of events.

use toolgate_wire::sse::{Event, Events};

use super::{Answer, BodyError};

/// Reads the events of an answer as they come. Dropped, it closes the connection.
#[derive(Debug)]
pub(crate) struct EventStream {
    answer: Answer,
    events: Events,
    most: usize,
}

impl EventStream {
    /// An event of more than `max_bytes` ends the stream with an error.
    pub(crate) fn new(answer: Answer, max_bytes: usize) -> Self {
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
}
