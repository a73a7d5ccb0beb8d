//! What is recorded of one call, and how it is written.

use std::{sync::Arc, time::Duration};

use serde::Serialize;
use serde_json::value::RawValue;
use toolgate_wire::{Id, Json};

use super::{Kind, Redactor, output::About, redact::cut};
use crate::{
    call::Call,
    context::{CallId, ClientInfo, Context, Session},
    failure::Ran,
    middleware::preconditions::Approval,
    outcome::Outcome,
    registry::Class,
    tool::Tool,
    trace::Trace,
};

/// One call, gathered on its way and written by the sink's own thread.
///
/// Holds the arguments as they came in (shared, not copied); only the writer parses and redacts
/// them, so a call does not wait for that.
#[derive(Debug)]
pub struct Event {
    at: jiff::Timestamp,
    call_id: CallId,
    parent: Option<Arc<str>>,
    session: Arc<Session>,
    client: Option<Arc<ClientInfo>>,
    request_id: Option<Id>,
    tool: Arc<Tool>,
    arguments: Option<Json>,
    span: Option<Trace>,
    end: End,
}

#[derive(Debug, Default)]
struct End {
    class: Option<Class>,
    ran: Option<Ran>,
    code: Option<&'static str>,
    error_type: Option<String>,
    rule: Option<String>,
    result_bytes: Option<usize>,
    confirmed: Option<&'static str>,
    duration: Duration,
}

impl Event {
    pub(super) fn begin(cx: &Context, call: &Call) -> Self {
        Self {
            at: jiff::Timestamp::now(),
            call_id: cx.call_id(),
            parent: cx.parent().cloned(),
            session: cx.session_shared(),
            client: cx.client_shared(),
            request_id: cx.request_id().cloned(),
            tool: Arc::clone(call.tool()),
            // What operators fill in is not the caller's, and may be secret.
            arguments: call.sent_arguments().cloned(),
            span: cx.span().cloned(),
            end: End::default(),
        }
    }

    pub(super) fn end(&mut self, cx: &Context, outcome: &Outcome, duration: Duration) {
        let failure = outcome.failure();
        self.end = End {
            class: Some(outcome.class()),
            ran: Some(outcome.ran()),
            code: failure.map(|failure| failure.code().name()),
            error_type: failure.map(|failure| failure.error_type().to_owned()),
            rule: failure.and_then(|failure| failure.rule()).map(str::to_owned),
            result_bytes: outcome.result().map(|result| result.json().len()),
            confirmed: cx.bag().get::<Approval>().map(|approval| approval.how),
            duration,
        };
    }

    pub(super) fn abandon(&mut self, class: Class, ran: Ran, duration: Duration) {
        self.end.class = Some(class);
        self.end.ran = Some(ran);
        self.end.duration = duration;
    }

    /// Whether it is known how the call ended.
    pub(super) fn has_ended(&self) -> bool {
        self.end.class.is_some()
    }

    /// The call.
    pub(super) fn call_id(&self) -> CallId {
        self.call_id
    }

    /// Whether the tool ran, or somebody decided that it does not.
    pub(super) fn kind(&self) -> Kind {
        if self.end.ran == Some(Ran::No) { Kind::Decisions } else { Kind::Executions }
    }

    /// The record before the call goes to its tool: a JSON object.
    pub(super) fn intent(&self, redactor: &Redactor) -> (String, About) {
        self.record("intent", |record| record.args = self.told(redactor))
    }

    /// The record of how the call ended: a JSON object. Arguments that an intent told are not told again.
    pub(super) fn outcome(&self, redactor: &Redactor, has_intent: bool) -> (String, About) {
        let outcome = self.end.class.unwrap_or(Class::Internal).name();
        let (record, about) = self.record("call", |record| {
            record.kind = Some(self.kind().name());
            record.outcome = Some(outcome);
            record.ran = Some(self.end.ran.unwrap_or(Ran::Maybe).name());
            record.error_type = self.end.error_type.as_deref();
            record.code = self.end.code;
            record.rule = self.end.rule.as_deref();
            // To the microsecond: finer digits are noise.
            record.duration_ms = Some((self.end.duration.as_secs_f64() * 1e6).round() / 1e3);
            record.result_bytes = self.end.result_bytes;
            record.confirmed = self.end.confirmed;
            record.intent = has_intent.then_some(true);
            record.args = if has_intent { None } else { self.told(redactor) };
        });
        (record, About { outcome: Some(outcome), ..about })
    }

    fn told(&self, redactor: &Redactor) -> Option<serde_json::Value> {
        self.arguments.as_ref().map(|arguments| redactor.arguments(arguments))
    }

    /// What a client chose is cut like its arguments, so that no name of a megabyte is repeated in every
    /// record.
    fn record<'a>(
        &'a self,
        event: &'static str,
        fill: impl FnOnce(&mut Record<'a>),
    ) -> (String, About) {
        let mut record = Record {
            ts: format!("{:.6}", self.at),
            event,
            call_id: self.call_id.to_string(),
            parent_call_uuid: self.parent.as_deref().map(cut),
            session: &self.session.id,
            namespace: &self.session.namespace,
            principal: self.session.principal.to_string(),
            client: self.client.as_ref().map(|client| cut(&client.to_string())),
            request_id: self.request_id.as_ref().map(|id| told(id.as_json())),
            server: self.tool.id().server(),
            tool: cut(self.tool.id().name()),
            tier: self.tool.tier().map(crate::tier::Tier::name),
            trace_id: self.span.as_ref().map(|span| format!("{:032x}", span.trace_id())),
            span_id: self.span.as_ref().map(|span| format!("{:016x}", span.span_id())),
            ..Record::default()
        };
        fill(&mut record);
        // Writing to memory cannot fail, and every field is plain data.
        let json = serde_json::to_string(&record).unwrap_or_else(|_| "{}".to_owned());
        (json, About { at: self.at, event, call_id: Some(self.call_id), outcome: None })
    }
}

/// The id as it was spelt, or what can be told of it.
fn told(id: &Json) -> Box<RawValue> {
    let text = id.as_str();
    let short = cut(text);
    let raw = (short.len() == text.len()).then(|| RawValue::from_string(short.clone()).ok());
    let quoted = || RawValue::from_string(Json::string(&short).as_str().to_owned()).ok();
    raw.flatten().or_else(quoted).unwrap_or_default()
}

#[derive(Default, Serialize)]
struct Record<'a> {
    ts: String,
    event: &'static str,
    call_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_call_uuid: Option<String>,
    session: &'a str,
    namespace: &'a str,
    principal: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<Box<RawValue>>,
    server: &'a str,
    tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ran: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    span_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    confirmed: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    intent: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<serde_json::Value>,
}
