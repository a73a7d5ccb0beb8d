//! Trace context: the parent of a request, and the parent that the handler gets.

use std::sync::Arc;

use rmcp::{RoleServer, model::RequestMetaObject, service::RequestContext};
use serde_json::Value;
use toolgate::{Context, Ingress, Trace};

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// How a request arrived. The transport is not known here.
pub(crate) fn ingress(context: &RequestContext<RoleServer>) -> Ingress {
    let word = |key: &str| context.meta.get(key).and_then(Value::as_str);
    let trace = word(TRACEPARENT).and_then(|parent| Trace::read(parent, word(TRACESTATE)));
    let protocol = context.protocol_version().map(|version| Arc::from(version.as_str()));
    Ingress { transport: None, protocol, trace }
}

/// Sets our span as the parent for the handler. Without one, `_meta` stays as it arrived.
pub(crate) fn pass_on(cx: &Context, meta: &mut RequestMetaObject) {
    let Some(span) = cx.span() else { return };
    meta.insert(TRACEPARENT.to_owned(), span.traceparent().into());
    match span.state() {
        Some(state) => drop(meta.insert(TRACESTATE.to_owned(), state.into())),
        None => drop(meta.remove(TRACESTATE)),
    }
}
