//! The headers of each message: stdio has none, so they are made from what the message says.

use bytes::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use toolgate_wire::{Json, Message, era, headers};

/// Headers besides those that are always sent.
pub(super) type Headers = Vec<(HeaderName, HeaderValue)>;

pub(super) const VERSION: HeaderName = HeaderName::from_static(headers::PROTOCOL_VERSION);
pub(super) const SESSION: HeaderName = HeaderName::from_static(headers::SESSION_ID);
const METHOD: HeaderName = HeaderName::from_static(headers::METHOD);
const NAME: HeaderName = HeaderName::from_static(headers::NAME);
pub(super) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// The version that a message says it speaks, if that is one without sessions.
pub(super) fn modern_version(message: &Message) -> Option<String> {
    let version = message.member("_meta")?.get(era::META_PROTOCOL_VERSION)?;
    let version = version.text()?;
    era::is_modern(&version).then(|| version.into_owned())
}

/// The headers that repeat what a modern message says.
pub(super) fn of_modern(message: &Message, version: &str) -> Headers {
    let mut all = Vec::with_capacity(3);
    let mut add = |name: HeaderName, text: &str| {
        if let Ok(value) = HeaderValue::from_str(&headers::encode(text)) {
            all.push((name, value));
        }
    };
    add(VERSION, version);
    add(METHOD, message.method());
    if let Some(name) = headers::name_of(message) {
        add(NAME, &name);
    }
    all
}

/// The version that the gateway chose in its answer to `initialize`.
pub(super) fn negotiated(answer: &Message) -> Option<HeaderValue> {
    let version = answer.member("protocolVersion")?;
    HeaderValue::from_str(&Json::text(&version)?).ok()
}

/// The header that says after which event a stream goes on.
pub(super) fn after(event: &Bytes) -> Option<(HeaderName, HeaderValue)> {
    Some((LAST_EVENT, HeaderValue::from_maybe_shared(event.clone()).ok()?))
}
