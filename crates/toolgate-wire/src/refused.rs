//! What is left of a line that cannot be passed on.

use bytes::Bytes;

use crate::envelope::Envelope;
use crate::error::{WireError, WireErrorKind};
use crate::id::Id;
use crate::limits::Limits;
use crate::salvage::{shape_hint, tail_id};
use crate::scan::{Span, trimmed};
use crate::shape::Shape;

/// How much of an over-long line is read for its id.
const HEAD: usize = 4096;

/// Why a line is not a message that can be passed on, and what is needed to answer it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{error}")]
pub struct Refused {
    /// What is wrong.
    pub error: WireError,
    /// The id, if there is one and it could be read without doubt.
    pub id: Option<Id>,
    /// What the line was going to be, as far as its keys tell. A line with `method` that broke off
    /// before any `id` could be either kind and gives `None`.
    pub shape_hint: Option<Shape>,
}

impl Refused {
    /// Whether nobody waits for an answer, so that the message can be dropped: a notification that its sender may not
    /// send, or a request without an id.
    #[must_use]
    pub fn is_unanswerable(&self) -> bool {
        self.error.kind() == WireErrorKind::Misplaced || self.error.is_missing_id()
    }

    /// A line that failed before its envelope could be read.
    pub(crate) fn unread(line: &Bytes, error: WireError, limits: &Limits) -> Self {
        let text = trimmed(line);
        let end = match error.kind() {
            WireErrorKind::TooLarge => text.end.min(text.start + HEAD),
            // The text before the fault is as good as ever.
            WireErrorKind::Utf8 => error.position(),
            _ => text.start,
        };
        let start = text.start.min(end);
        let found = Envelope::read(line, Span { start, end }, limits);
        let id = found.id(line);
        Self::read(line, error, &found, id)
    }

    /// A line whose envelope was read, as far as that was possible.
    pub(crate) fn read(line: &Bytes, error: WireError, found: &Envelope, id: Option<Id>) -> Self {
        // These faults say nothing against the end of the line. After an error in the grammar,
        // nobody can tell what its last brace closes.
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
            // By its method it is a request.
            Some(Shape::Notification) if error.is_missing_id() => Some(Shape::Request),
            hint => hint,
        };
        Self { error, id, shape_hint }
    }
}

#[cfg(test)]
mod tests;
