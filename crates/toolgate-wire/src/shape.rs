//! The rules by which the members of an envelope form a request, a notification, a response or an error.

use std::borrow::Cow;

use crate::envelope::{Envelope, EnvelopePart};
use crate::error::{Reason, WireError};
use crate::scan::{Span, inside_quotes};
use crate::text::unescape;

/// The prefix of every notification's name. No request's name has it.
const NOTIFICATION_PREFIX: &str = "notifications/";

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// `method` and `id`.
    Request,
    /// `method` without `id`.
    Notification,
    /// `result`.
    Response,
    /// `error`.
    Error,
}

/// The position of the method.
#[derive(Clone)]
pub(crate) enum MethodText {
    None,
    /// Without escapes: the text between the quotes is the method.
    Plain(Span),
    Decoded(Box<str>),
}

/// The shape of an envelope, if its parts fit together.
pub(crate) fn fit(
    found: &mut Envelope,
    line: &[u8],
    has_id: bool,
) -> Result<(Shape, MethodText), WireError> {
    if let Some(fault) = found.fault.take() {
        return Err(fault);
    }
    found.check_types(line)?;
    let shape = shape(found)?;
    if found.span(EnvelopePart::Jsonrpc).is_none() {
        return Err(WireError::new(0, Reason::Missing(EnvelopePart::Jsonrpc.name())));
    }
    check_id(found, line, shape, has_id)?;
    if let Some(error) = found.span(EnvelopePart::Error) {
        found.check_error(line, error)?;
    }
    let method = match found.span(EnvelopePart::Method) {
        Some(span) => method(line, span, shape)?,
        None => MethodText::None,
    };
    Ok((shape, method))
}

/// Exactly one of method, result and error is allowed, and params only with method.
fn shape(found: &Envelope) -> Result<Shape, WireError> {
    let part = |part| found.span(part).map(|span| (part, span.start));
    let main =
        part(EnvelopePart::Method).or(part(EnvelopePart::Result)).or(part(EnvelopePart::Error));
    let Some((main, _)) = main else {
        return Err(WireError::new(0, Reason::Missing(EnvelopePart::Method.name())));
    };
    let beside: &[EnvelopePart] = match main {
        EnvelopePart::Method => &[EnvelopePart::Result, EnvelopePart::Error],
        _ => &[EnvelopePart::Error, EnvelopePart::Params],
    };
    let unfit = |other: &&EnvelopePart| **other != main && found.span(**other).is_some();
    if let Some((other, at)) = beside.iter().find(unfit).and_then(|other| part(*other)) {
        let (key, with) = (other.name(), main.name());
        return Err(WireError::new(at, Reason::Conflict { key, with }));
    }
    Ok(match main {
        EnvelopePart::Method if found.span(EnvelopePart::Id).is_some() => Shape::Request,
        EnvelopePart::Method => Shape::Notification,
        EnvelopePart::Result => Shape::Response,
        _ => Shape::Error,
    })
}

/// A response must have an id; an error may have none.
fn check_id(found: &Envelope, line: &[u8], shape: Shape, readable: bool) -> Result<(), WireError> {
    let key = EnvelopePart::Id.name();
    match found.span(EnvelopePart::Id) {
        Some(_) if readable => Ok(()),
        Some(span) if shape == Shape::Error && span.of(line) == b"null" => Ok(()),
        Some(span) => {
            let want = "a string or a number";
            Err(WireError::new(span.start, Reason::WrongType { key, want }))
        }
        None if shape == Shape::Response => Err(WireError::new(0, Reason::Missing(key))),
        None => Ok(()),
    }
}

/// A message without id must have a `notifications/…` method, and a message with id must not. Otherwise a `tools/call`
/// without id would bypass every layer.
fn method(line: &[u8], span: Span, shape: Shape) -> Result<MethodText, WireError> {
    let method = unescape(inside_quotes(span.of(line)));
    match (shape, method.starts_with(NOTIFICATION_PREFIX.as_bytes())) {
        (Shape::Notification, false) => return Err(WireError::new(span.start, Reason::NoId)),
        (Shape::Request, true) => return Err(WireError::new(span.start, Reason::NotificationId)),
        _ => {}
    }
    let Cow::Owned(decoded) = method else {
        return Ok(MethodText::Plain(span));
    };
    String::from_utf8(decoded).map_or_else(
        |_| {
            let (key, want) = (EnvelopePart::Method.name(), "Unicode text");
            Err(WireError::new(span.start, Reason::WrongType { key, want }))
        },
        |text| Ok(MethodText::Decoded(text.into())),
    )
}
