//! What is known about a line that is no valid message.

use bytes::Bytes;

use crate::envelope::Envelope;
use crate::error::{WireError, WireErrorKind};
use crate::id::Id;
use crate::limits::Limits;
use crate::salvage::{shape_hint, tail_id};
use crate::scan::{Span, trimmed};
use crate::shape::Shape;

/// How many bytes of an overlong line are searched for its id.
const SALVAGE_BYTES: usize = 4096;

/// Why a line is refused, and what is needed to respond to it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{error}")]
pub struct RefusedMessage {
    /// What is wrong.
    pub error: WireError,
    /// The id, if it could be read reliably.
    pub id: Option<Id>,
    /// The shape of the message, as far as its keys show. `None` for a line with `method` that ends before an `id`: it
    /// could be a request or a notification.
    pub shape_hint: Option<Shape>,
}

impl RefusedMessage {
    /// Whether the sender expects no response, so that the message can be dropped: a notification that its sender may
    /// not send, or a request without an id.
    #[must_use]
    pub fn is_unanswerable(&self) -> bool {
        self.error.kind() == WireErrorKind::Misplaced || self.error.is_missing_id()
    }

    /// For a line that was refused before its envelope was read.
    pub(crate) fn before_envelope(line: &Bytes, error: WireError, limits: &Limits) -> Self {
        let text = trimmed(line);
        let end = match error.kind() {
            WireErrorKind::TooLarge => text.end.min(text.start + SALVAGE_BYTES),
            // The text before the invalid byte can be read.
            WireErrorKind::Utf8 => error.position(),
            _ => text.start,
        };
        let start = text.start.min(end);
        let found = Envelope::read(line, Span { start, end }, limits);
        let id = found.id(line);
        Self::after_envelope(line, error, &found, id)
    }

    /// For a line whose envelope was read as far as possible.
    pub(crate) fn after_envelope(
        line: &Bytes,
        error: WireError,
        found: &Envelope,
        id: Option<Id>,
    ) -> Self {
        // These errors do not affect the end of the line. After a syntax error it is unknown what its last brace
        // closes.
        let sound_end = matches!(
            error.kind(),
            WireErrorKind::TooLarge | WireErrorKind::TooDeep | WireErrorKind::Utf8
        );
        let id = match sound_end.then(|| tail_id(line)).flatten() {
            Some(last) if id.is_none() && !found.unclear_id => Some(last),
            Some(last) => id.filter(|id| *id == last),
            None => id,
        };
        let shape_hint = match shape_hint(found, id.is_some()) {
            // Its method shows that it is a request.
            Some(Shape::Notification) if error.is_missing_id() => Some(Shape::Request),
            hint => hint,
        };
        Self { error, id, shape_hint }
    }
}

#[cfg(test)]
mod tests;
