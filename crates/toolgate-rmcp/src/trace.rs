//! Traces through rmcp: what a request is part of, and what the handler is told as its parent.

use std::sync::Arc;

use rmcp::{RoleServer, model::RequestMetaObject, service::RequestContext};
use serde_json::Value;
use toolgate::{Context, Ingress, Trace};

const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";

/// How a request came in. Over which transport is not known here.
pub(crate) fn ingress(context: &RequestContext<RoleServer>) -> Ingress {
    let word = |key: &str| context.meta.get(key).and_then(Value::as_str);
    let trace = word(PARENT).and_then(|parent| Trace::read(parent, word(STATE)));
    let protocol = context.protocol_version().map(|version| Arc::from(version.as_str()));
    Ingress { transport: None, protocol, trace }
}

/// Names our span as the parent of whatever the handler does. Without one, all stays as it came.
pub(crate) fn pass_on(cx: &Context, meta: &mut RequestMetaObject) {
    let Some(span) = cx.span() else { return };
    meta.insert(PARENT.to_owned(), span.traceparent().into());
    match span.state() {
        Some(state) => drop(meta.insert(STATE.to_owned(), state.into())),
        None => drop(meta.remove(STATE)),
    }
}
