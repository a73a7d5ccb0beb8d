//! One JSON-RPC message, read by its envelope.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;

use crate::envelope::{Envelope, Part};
use crate::id::Id;
use crate::json::{Json, Object, check_text};
use crate::keys;
use crate::limits::Limits;
use crate::refused::Refused;
use crate::scan::{Member, Span, inside_quotes};
use crate::shape::{Method, Shape, fit};
use crate::single_line::without_breaks;
use crate::splice::{Edit, splice};

/// One JSON-RPC message. One pass over the bytes has checked all of it and noted where the members
/// of `params`, `result` or `error` stand; nothing was decoded or copied.
#[derive(Clone)]
pub struct Message {
    // INVARIANT: no CR and no LF.
    line: Bytes,
    /// The message without whitespace around it.
    text: Span,
    shape: Shape,
    id: Option<Id>,
    id_span: Option<Span>,
    method: Method,
    body: Option<Span>,
    members: Vec<Member>,
    /// Whether `members` is all of the body's members; if not, they are looked up by a scan.
    recorded: bool,
}

impl Message {
    /// Reads one message. Whitespace around it (the newline of its line) is allowed. What is read has no line break:
    /// those between tokens become spaces, those behind the message are dropped.
    pub fn parse(mut line: Bytes, limits: &Limits) -> Result<Self, Refused> {
        let text = match check_text(&line, limits) {
            Ok(text) => text,
            Err(error) => return Err(Refused::unread(&line, error, limits)),
        };
        let mut found = Envelope::read(&line, text, limits);
        let id = found.id(&line);
        let (shape, method) = match fit(&mut found, &line, id.is_some()) {
            Ok(fitted) => fitted,
            Err(error) => return Err(Refused::read(&line, error, &found, id)),
        };
        let body = match shape {
            Shape::Request | Shape::Notification => Part::Params,
            Shape::Response => Part::Result,
            Shape::Error => Part::Error,
        };
        line.truncate(text.end);
        // The scan has found all line breaks to be between tokens.
        if let Cow::Owned(single) = without_breaks(&line) {
            line = single.into();
        }
        Ok(Self {
            text,
            shape,
            id,
            id_span: found.span(Part::Id),
            method,
            body: found.span(body),
            members: found.members,
            recorded: found.recorded,
            line,
        })
    }

    /// What the message is.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The id. None for notifications, and for errors that could not tell which request failed.
    #[must_use]
    pub fn id(&self) -> Option<&Id> {
        self.id.as_ref()
    }

    /// The method; empty for responses and errors.
    #[must_use]
    pub fn method(&self) -> &str {
        match &self.method {
            Method::None => "",
            Method::Plain(span) => {
                std::str::from_utf8(inside_quotes(span.of(&self.line))).unwrap_or_default()
            }
            Method::Decoded(text) => text,
        }
    }

    /// The bytes that came in, with a space for each line break between tokens and nothing behind the message: one
    /// line, without the newline that ends it.
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

    /// The message with other params, result or error, and not one other byte changed. Params are
    /// added if there were none. No newline at the end.
    #[must_use]
    pub fn with_body(&self, body: Json) -> Bytes {
        self.with(None, Some(body))
    }

    /// The message with another id, and not one other byte changed. A notification has none and
    /// stays what it is. No newline at the end.
    #[must_use]
    pub fn with_id(&self, id: &Id) -> Bytes {
        self.with(Some(id), None)
    }

    /// The message with another id and another body, where given.
    #[must_use]
    pub fn with(&self, id: Option<&Id>, body: Option<Json>) -> Bytes {
        let id = id.filter(|_| self.shape != Shape::Notification);
        let edits = [
            id.map(|id| self.edit(self.id_span, Part::Id, id.as_json().clone())),
            body.map(|body| self.edit(self.body, Part::Params, body)),
        ];
        splice(&self.line, self.text, edits)
    }

    /// Puts a value where its part stands; a part that is not there becomes the last member.
    fn edit(&self, span: Option<Span>, part: Part, value: Json) -> Edit {
        match span {
            Some(span) => Edit::replace(span, value),
            None => Edit::append(self.text.end, part.name(), value),
        }
    }
}

/// Shape, method and id only: the payload may be secret.
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
