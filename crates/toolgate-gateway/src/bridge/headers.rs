//! The HTTP headers of each message: stdio has none, so the bridge derives them from the message.

use std::collections::HashMap;

use hyper::header::{HeaderName, HeaderValue};
use parking_lot::{Mutex, MutexGuard};
use toolgate_wire::{
    Json, Message, headers,
    mcp::{self, meta, method},
};

use crate::catalog::header_params::{self, HeaderParam};

/// Headers in addition to those that are always sent.
pub(super) type BridgeHeaders = Vec<(HeaderName, HeaderValue)>;

pub(super) const VERSION: HeaderName = HeaderName::from_static(headers::PROTOCOL_VERSION);
pub(super) const SESSION: HeaderName = HeaderName::from_static(headers::SESSION_ID);
const METHOD: HeaderName = HeaderName::from_static(headers::METHOD);
const NAME: HeaderName = HeaderName::from_static(headers::NAME);
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// The version in the `_meta` of a message, if it is 2026-07-28 or later.
pub(super) fn modern_version(message: &Message) -> Option<String> {
    let version = message.member("_meta")?.get(meta::PROTOCOL_VERSION)?;
    let version = version.text()?;
    mcp::is_modern(&version).then(|| version.into_owned())
}

/// The version that the gateway chose in its response to `initialize`.
pub(super) fn negotiated_version(response: &Message) -> Option<HeaderValue> {
    let version = response.member("protocolVersion")?;
    HeaderValue::from_str(&Json::text(&version)?).ok()
}

/// Headers that resume a stream after one of its events.
pub(super) fn after(headers: &BridgeHeaders, event: Option<&HeaderValue>) -> BridgeHeaders {
    let last = event.map(|event| (LAST_EVENT, event.clone()));
    headers.iter().cloned().chain(last).collect()
}

/// Builds the headers that repeat parts of a message from 2026-07-28 on. They repeat some arguments too, for the tools
/// that the client has listed.
#[derive(Debug, Default)]
pub(super) struct ModernHeaders(Mutex<HashMap<String, Vec<HeaderParam>>>);

impl ModernHeaders {
    fn tools(&self) -> MutexGuard<'_, HashMap<String, Vec<HeaderParam>>> {
        self.0.lock()
    }

    /// Records the tools in the response to a request, if the request is `tools/list`.
    pub(super) fn note(&self, request: &Message, response: &Message) {
        if request.method() != method::TOOLS_LIST {
            return;
        }
        let listed = response.member("tools").and_then(|tools| tools.array()).unwrap_or_default();
        let mut tools = self.tools();
        for tool in listed {
            let Some(name) = tool.get("name").and_then(|name| Some(name.text()?.into_owned()))
            else {
                continue;
            };
            match header_params::of(&tool) {
                Ok(mirrored) if !mirrored.is_empty() => drop(tools.insert(name, mirrored)),
                _ => drop(tools.remove(&name)),
            }
        }
    }

    /// The headers of a message.
    pub(super) fn of(&self, message: &Message, version: &str) -> BridgeHeaders {
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
        let tools = self.tools();
        if !tools.is_empty() && message.method() == method::TOOLS_CALL {
            let name = message.member("name");
            let name = name.as_ref().and_then(Json::text);
            let mirrored = name.and_then(|name| tools.get(name.as_ref()));
            let arguments = message.member("arguments");
            let header = |mirror: &HeaderParam| mirror.header(arguments.as_ref());
            all.extend(mirrored.into_iter().flatten().filter_map(header));
        }
        all
    }
}
