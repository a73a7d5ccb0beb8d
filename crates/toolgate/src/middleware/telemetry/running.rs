//! Measures a running call, listing or request: its span ends and it is counted once, even if it is dropped.

use std::{sync::Arc, time::Instant};

use opentelemetry::{
    KeyValue,
    global::BoxedSpan,
    trace::{Span as _, Status},
};

use super::{
    Instruments,
    ending::MeasuredEnd,
    labels::{self, ToolLabels},
};
use crate::{
    call::Call,
    context::{CallId, Context},
    middleware::audit::{Redactor, cut},
    printable,
    trace::Transport,
};

/// Largest size of arguments in a span, in bytes.
const MAX_ARGUMENTS_BYTES: usize = 8192;

/// A running call, listing or request.
pub(super) struct Running<'a> {
    instruments: &'a Instruments,
    span: Option<BoxedSpan>,
    started: Instant,
    transport: Option<Transport>,
    what: MeasuredOperation,
    is_counted: bool,
}

enum MeasuredOperation {
    Call(Arc<ToolLabels>),
    Request(&'static str),
}

impl<'a> Running<'a> {
    /// Starts to measure a call.
    pub(super) fn call(
        instruments: &'a Instruments,
        cx: &mut Context,
        call: &Call,
        redactor: Option<&Redactor>,
    ) -> Self {
        let labels = instruments.labels().of(call);
        let mut span = instruments.start(cx, |cx| {
            let mut attributes = Vec::with_capacity(20);
            labels.add_to_span(&mut attributes);
            surroundings(cx, &mut attributes);
            if call.tool().definition().is_none() {
                // A span may contain a name that the client invented, unlike a label.
                attributes.push(KeyValue::new("toolgate.tool.asked", cut(call.id().name())));
            }
            (labels.span_name.clone().into(), attributes)
        });
        if let (Some(redactor), Some(arguments)) = (redactor, call.arguments())
            && let Some(span) = span.as_mut().filter(|span| span.is_recording())
        {
            let text = bounded(redactor.arguments(arguments).to_string());
            span.set_attribute(KeyValue::new("gen_ai.tool.call.arguments", text));
        }
        Self::new(instruments, span, cx, MeasuredOperation::Call(labels))
    }

    /// Starts to measure a listing or another request.
    pub(super) fn request(instruments: &'a Instruments, cx: &mut Context, method: &str) -> Self {
        let name = labels::method(method);
        let span = instruments.start(cx, |cx| {
            let mut attributes = Vec::with_capacity(14);
            attributes.push(KeyValue::new("mcp.method.name", name));
            surroundings(cx, &mut attributes);
            if name == labels::OTHER {
                attributes.push(KeyValue::new("toolgate.method.asked", cut(method)));
            }
            (name.into(), attributes)
        });
        Self::new(instruments, span, cx, MeasuredOperation::Request(name))
    }

    fn new(
        instruments: &'a Instruments,
        span: Option<BoxedSpan>,
        cx: &Context,
        what: MeasuredOperation,
    ) -> Self {
        let transport = cx.ingress().transport;
        Self { instruments, span, started: Instant::now(), transport, what, is_counted: false }
    }

    /// Ends the measurement. `rule` is the rule that refused the request, if one did.
    pub(super) fn end(mut self, ending: MeasuredEnd, rule: Option<&str>) {
        self.finish(ending, rule);
    }

    fn finish(&mut self, ending: MeasuredEnd, rule: Option<&str>) {
        self.is_counted = true;
        let took = self.started.elapsed();
        if let Some(span) = &mut self.span {
            if span.is_recording() {
                set_end(span, ending, rule);
            }
            span.end();
        }
        match &self.what {
            MeasuredOperation::Call(labels) => {
                self.instruments.count_call(labels, self.transport, ending, took);
            }
            MeasuredOperation::Request(method) => {
                self.instruments.count_request(method, self.transport, ending, took);
            }
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.is_counted {
            self.finish(MeasuredEnd::ABANDONED, None);
        }
    }
}

/// The attributes of every span: caller, client and transport.
fn surroundings(cx: &Context, attributes: &mut Vec<KeyValue>) {
    let call_id: Arc<str> = cx.call_id().text(&mut [0; CallId::TEXT]).into();
    attributes.extend([
        KeyValue::new("mcp.session.id", Arc::clone(&cx.session().id)),
        KeyValue::new("mcp.request_id", Arc::clone(&call_id)),
        KeyValue::new("toolgate.call_uuid", call_id),
        KeyValue::new("toolgate.namespace", Arc::clone(&cx.session().namespace)),
    ]);
    let ingress = cx.ingress();
    if let Some(transport) = ingress.transport {
        attributes.push(KeyValue::new("mcp.transport", transport.name()));
    }
    attributes.extend(labels::network(ingress.transport));
    if let Some(version) = &ingress.protocol {
        attributes.push(KeyValue::new("mcp.protocol.version", Arc::clone(version)));
    }
    if let Some(id) = cx.request_id() {
        let json = id.as_json();
        let text = json.text().map_or_else(|| cut(json.as_str()), |text| cut(&text));
        attributes.push(KeyValue::new("jsonrpc.request.id", text));
    }
}

fn bounded(mut text: String) -> String {
    if text.len() > MAX_ARGUMENTS_BYTES {
        text.truncate(printable::floor_char_boundary(&text, MAX_ARGUMENTS_BYTES));
        text.push_str("...<truncated>");
    }
    text
}

/// Sets the end in the span.
fn set_end(span: &mut BoxedSpan, ending: MeasuredEnd, rule: Option<&str>) {
    span.set_attribute(KeyValue::new("toolgate.outcome", ending.class.name()));
    if let Some(name) = ending.error_type() {
        span.set_attribute(KeyValue::new("error.type", name));
        if ending.is_error() {
            // Not the message, which may quote arguments.
            span.set_status(Status::error(name));
        }
    }
    if let Some(rpc) = ending.rpc {
        span.set_attribute(KeyValue::new("rpc.response.status_code", rpc.to_string()));
    }
    if let Some(rule) = rule {
        span.set_attribute(KeyValue::new("toolgate.rule", cut(rule)));
    }
}
