//! The reasons why a text is refused. Their messages never contain the payload.

use std::fmt;

use crate::sender::Sender;

/// What is wrong with a text, and where.
///
/// The message contains only envelope keys and byte offsets: a payload may contain secrets, and errors are logged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct WireError {
    position: usize,
    reason: Reason,
}

/// The class of a [`WireError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WireErrorKind {
    /// Not JSON (RFC 8259).
    Syntax,
    /// Not UTF-8.
    Utf8,
    /// Longer than [`Limits::max_bytes`](crate::Limits::max_bytes), or a batch of too many.
    TooLarge,
    /// Nested deeper than [`Limits::max_depth`](crate::Limits::max_depth).
    TooDeep,
    /// A key that affects a decision occurs twice.
    DuplicateKey,
    /// A key that affects a decision is spelled in another case or with escapes.
    KeySpelling,
    /// A member has the wrong type, or is not allowed here.
    WrongType,
    /// A required member is missing.
    Missing,
    /// A notification that its sender may not send.
    Misplaced,
    /// The text is empty.
    Empty,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reason {
    Syntax(&'static str),
    Utf8,
    TooLarge { limit: usize },
    TooMany { limit: usize },
    TooDeep { limit: usize },
    Duplicate(&'static str),
    DuplicateName,
    Spelling { found: Box<str>, want: &'static str },
    WrongType { key: &'static str, want: &'static str },
    Conflict { key: &'static str, with: &'static str },
    NotAnObject,
    NoId,
    NotificationId,
    NotificationName,
    Direction { method: &'static str, sender: Sender },
    Missing(&'static str),
    Empty,
}

impl WireError {
    pub(crate) fn new(position: usize, reason: Reason) -> Self {
        Self { position, reason }
    }

    /// The class of the error.
    #[must_use]
    pub fn kind(&self) -> WireErrorKind {
        match self.reason {
            Reason::Syntax(_) => WireErrorKind::Syntax,
            Reason::Utf8 => WireErrorKind::Utf8,
            Reason::TooLarge { .. } | Reason::TooMany { .. } => WireErrorKind::TooLarge,
            Reason::TooDeep { .. } => WireErrorKind::TooDeep,
            Reason::Duplicate(_) | Reason::DuplicateName => WireErrorKind::DuplicateKey,
            Reason::Spelling { .. } => WireErrorKind::KeySpelling,
            Reason::WrongType { .. }
            | Reason::Conflict { .. }
            | Reason::NotAnObject
            | Reason::NotificationId => WireErrorKind::WrongType,
            Reason::NotificationName | Reason::Direction { .. } => WireErrorKind::Misplaced,
            Reason::Missing(_) | Reason::NoId => WireErrorKind::Missing,
            Reason::Empty => WireErrorKind::Empty,
        }
    }

    /// Whether a request without an id was refused.
    pub(crate) fn is_missing_id(&self) -> bool {
        self.reason == Reason::NoId
    }

    /// The byte offset in the original text.
    #[must_use]
    pub fn position(&self) -> usize {
        self.position
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.position;
        match &self.reason {
            Reason::Syntax(want) => write!(f, "invalid JSON at byte {at}: {want}"),
            Reason::Utf8 => write!(f, "invalid UTF-8 at byte {at}"),
            Reason::TooLarge { limit } => write!(f, "longer than the limit of {limit} bytes"),
            Reason::TooMany { limit } => write!(f, "batch of more than {limit} messages"),
            Reason::TooDeep { limit } => {
                write!(f, "nested deeper than {limit} levels at byte {at}")
            }
            Reason::Duplicate(key) => write!(f, "duplicate key `{key}` at byte {at}"),
            Reason::DuplicateName => write!(f, "duplicate key at byte {at}"),
            Reason::Spelling { found, want } => {
                write!(f, "key `{found}` at byte {at}: write it `{want}`")
            }
            Reason::WrongType { key, want } => write!(f, "`{key}` at byte {at} must be {want}"),
            Reason::Conflict { key, with } => {
                write!(f, "`{key}` at byte {at} cannot stand beside `{with}`")
            }
            Reason::NotAnObject => write!(f, "a message must be an object, at byte {at}"),
            Reason::NoId => {
                write!(
                    f,
                    "`id` is missing: only methods that begin with `notifications/` have none"
                )
            }
            Reason::NotificationId => {
                write!(f, "a method that begins with `notifications/` has no `id`")
            }
            Reason::NotificationName => {
                write!(f, "the name of a notification has letters, digits and `_-./` only")
            }
            Reason::Direction { method, sender: Sender::Client } => {
                write!(f, "`{method}` is for servers to send, not for clients")
            }
            Reason::Direction { method, sender: Sender::Server } => {
                write!(f, "`{method}` is for clients to send, not for servers")
            }
            Reason::Missing(key) => write!(f, "`{key}` is missing"),
            Reason::Empty => write!(f, "empty message"),
        }
    }
}
