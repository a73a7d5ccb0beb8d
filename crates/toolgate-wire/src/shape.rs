//! The rules by which the parts of an envelope make a request, a notification, a response or an
//! error.

use std::borrow::Cow;

use crate::envelope::{Envelope, Part};
use crate::error::{Reason, WireError};
use crate::scan::{Span, inside_quotes};
use crate::text::unescape;

/// What the name of every notification begins with, and no request's.
const NOTIFICATION: &str = "notifications/";

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

/// Where the method is.
#[derive(Clone)]
pub(crate) enum Method {
    None,
    /// Without escapes: between the quotes it is what it says.
    Plain(Span),
    Decoded(Box<str>),
}

/// What the parts amount to, if they fit together.
pub(crate) fn fit(
    found: &mut Envelope,
    line: &[u8],
    has_id: bool,
) -> Result<(Shape, Method), WireError> {
    if let Some(fault) = found.fault.take() {
        return Err(fault);
    }
    found.check_types(line)?;
    let shape = shape(found)?;
    if found.span(Part::Jsonrpc).is_none() {
        return Err(WireError::new(0, Reason::Missing(Part::Jsonrpc.name())));
    }
    check_id(found, line, shape, has_id)?;
    if let Some(error) = found.span(Part::Error) {
        found.check_error(line, error)?;
    }
    let method = match found.span(Part::Method) {
        Some(span) => method(line, span, shape)?,
        None => Method::None,
    };
    Ok((shape, method))
}

/// Exactly one of method, result and error, and params beside method only.
fn shape(found: &Envelope) -> Result<Shape, WireError> {
    let part = |part| found.span(part).map(|span| (part, span.start));
    let main = part(Part::Method).or(part(Part::Result)).or(part(Part::Error));
    let Some((main, _)) = main else {
        return Err(WireError::new(0, Reason::Missing(Part::Method.name())));
    };
    let beside: &[Part] = match main {
        Part::Method => &[Part::Result, Part::Error],
        _ => &[Part::Error, Part::Params],
    };
    let unfit = |other: &&Part| **other != main && found.span(**other).is_some();
    if let Some((other, at)) = beside.iter().find(unfit).and_then(|other| part(*other)) {
        let (key, with) = (other.name(), main.name());
        return Err(WireError::new(at, Reason::Conflict { key, with }));
    }
    Ok(match main {
        Part::Method if found.span(Part::Id).is_some() => Shape::Request,
        Part::Method => Shape::Notification,
        Part::Result => Shape::Response,
        _ => Shape::Error,
    })
}

/// A response must say which request it answers; an error may not know.
fn check_id(found: &Envelope, line: &[u8], shape: Shape, readable: bool) -> Result<(), WireError> {
    let key = Part::Id.name();
    match found.span(Part::Id) {
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

/// Only `notifications/…` go without an id, and no server takes one for a request: a call that nobody waits for would
/// be seen by no layer.
fn method(line: &[u8], span: Span, shape: Shape) -> Result<Method, WireError> {
    let said = unescape(inside_quotes(span.of(line)));
    match (shape, said.starts_with(NOTIFICATION.as_bytes())) {
        (Shape::Notification, false) => return Err(WireError::new(span.start, Reason::NoId)),
        (Shape::Request, true) => return Err(WireError::new(span.start, Reason::NotificationId)),
        _ => {}
    }
    let Cow::Owned(decoded) = said else {
        return Ok(Method::Plain(span));
    };
    String::from_utf8(decoded).map_or_else(
        |_| {
            let (key, want) = (Part::Method.name(), "Unicode text");
            Err(WireError::new(span.start, Reason::WrongType { key, want }))
        },
        |text| Ok(Method::Decoded(text.into())),
    )
}
