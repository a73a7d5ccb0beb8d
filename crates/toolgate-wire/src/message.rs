//! A JSON-RPC message, read by its envelope.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

use crate::envelope::{Envelope, EnvelopePart};
use crate::id::Id;
use crate::json::{Json, Object, check_text};
use crate::keys;
use crate::limits::Limits;
use crate::refused_message::RefusedMessage;
use crate::scan::{Member, Span, inside_quotes};
use crate::shape::{MethodText, Shape, fit};
use crate::single_line::without_breaks;
use crate::splice::{Edit, splice};

/// A JSON-RPC message. One pass over the bytes has checked all of it and recorded the positions of the members of
/// `params`, `result` or `error`; nothing was decoded or copied.
#[derive(Clone)]
pub struct Message {
    // INVARIANT: no CR and no LF.
    line: Bytes,
    /// The message without whitespace around it.
    text: Span,
    shape: Shape,
    id: Option<Id>,
    id_span: Option<Span>,
    method: MethodText,
    body: Option<Span>,
    members: Vec<Member>,
    /// Whether `members` has all members of the body; if not, a scan finds the others.
    recorded: bool,
}

impl Message {
    /// Reads one message. Whitespace around it (the newline of its line) is allowed. The message has no line breaks
    /// afterwards: those between tokens become spaces, those at the end are removed.
    pub fn parse(mut line: Bytes, limits: &Limits) -> Result<Self, RefusedMessage> {
        let text = match check_text(&line, limits) {
            Ok(text) => text,
            Err(error) => return Err(RefusedMessage::before_envelope(&line, error, limits)),
        };
        let mut found = Envelope::read(&line, text, limits);
        let id = found.id(&line);
        let (shape, method) = match fit(&mut found, &line, id.is_some()) {
            Ok(fitted) => fitted,
            Err(error) => return Err(RefusedMessage::after_envelope(&line, error, &found, id)),
        };
        let body = match shape {
            Shape::Request | Shape::Notification => EnvelopePart::Params,
            Shape::Response => EnvelopePart::Result,
            Shape::Error => EnvelopePart::Error,
        };
        line.truncate(text.end);
        // The scan has shown that all line breaks are between tokens.
        if let Cow::Owned(single) = without_breaks(&line) {
            line = single.into();
        }
        Ok(Self {
            text,
            shape,
            id,
            id_span: found.span(EnvelopePart::Id),
            method,
            body: found.span(body),
            members: found.members,
            recorded: found.recorded,
            line,
        })
    }

    /// The shape of the message.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The id. `None` for notifications, and for errors without an id.
    #[must_use]
    pub fn id(&self) -> Option<&Id> {
        self.id.as_ref()
    }

    /// The method; empty for responses and errors.
    #[must_use]
    pub fn method(&self) -> &str {
        match &self.method {
            MethodText::None => "",
            MethodText::Plain(span) => {
                std::str::from_utf8(inside_quotes(span.of(&self.line))).unwrap_or_default()
            }
            MethodText::Decoded(text) => text,
        }
    }

    /// The original bytes, with a space for each line break between tokens and without line breaks at the end: one
    /// line, without its newline.
    #[must_use]
    pub fn line(&self) -> &Bytes {
        &self.line
    }

    /// The params of a request or notification.
    #[must_use]
    pub fn params(&self) -> Option<Json> {
        match self.shape {
            Shape::Request | Shape::Notification => self.whole_body(),
            Shape::Response | Shape::Error => None,
        }
    }

    /// The result of a response.
    #[must_use]
    pub fn result(&self) -> Option<Json> {
        self.whole_body().filter(|_| self.shape == Shape::Response)
    }

    /// The error object of an error.
    #[must_use]
    pub fn error(&self) -> Option<Json> {
        self.whole_body().filter(|_| self.shape == Shape::Error)
    }

    fn whole_body(&self) -> Option<Json> {
        self.body.map(|span| Json::scanned(&self.line, span))
    }

    /// A member of params, result or error, if that is an object.
    #[must_use]
    pub fn member(&self, key: &str) -> Option<Json> {
        let mut members = self.members.iter();
        match members.find(|member| keys::says(member.key_text(&self.line), key)) {
            Some(found) => Some(Json::scanned(&self.line, found.value)),
            None if self.recorded => None,
            None => self.whole_body()?.get(key),
        }
    }

    /// The members of params, result or error, if that is an object.
    #[must_use]
    pub fn body(&self) -> Option<Object> {
        let span = self.body?;
        if !self.recorded {
            return self.whole_body()?.object();
        }
        Some(Object::recorded(self.line.clone(), span, &self.members))
    }

    /// The message with other params, result or error; all other bytes are unchanged. Params are added if there were
    /// none. No newline at the end.
    #[must_use]
    pub fn with_body(&self, body: Json) -> Bytes {
        self.with(None, Some(body))
    }

    /// The message with another id; all other bytes are unchanged. A notification has no id and stays the same. No
    /// newline at the end.
    #[must_use]
    pub fn with_id(&self, id: &Id) -> Bytes {
        self.with(Some(id), None)
    }

    /// The message with another id and another body, if given.
    #[must_use]
    pub fn with(&self, id: Option<&Id>, body: Option<Json>) -> Bytes {
        let id = id.filter(|_| self.shape != Shape::Notification);
        let edits = [
            id.map(|id| self.edit(self.id_span, EnvelopePart::Id, id.as_json().clone())),
            body.map(|body| self.edit(self.body, EnvelopePart::Params, body)),
        ];
        splice(&self.line, self.text, edits)
    }

    /// Replaces the value of a part. A missing part becomes the last member.
    fn edit(&self, span: Option<Span>, part: EnvelopePart, value: Json) -> Edit {
        match span {
            Some(span) => Edit::replace(span, value),
            None => Edit::append(self.text.end, part.name(), value),
        }
    }
}

/// Only shape, method and id: the payload may be secret.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("shape", &self.shape)
            .field("method", &self.method())
            .field("id", &self.id)
            .field("bytes", &self.line.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
