//! The audit event of a call and its JSON records.

use std::{borrow::Cow, sync::Arc, time::Duration};

use toolgate_wire::{Id, Json};

use super::{
    AuditKind, Redactor,
    output::About,
    record::RecordWriter,
    redact::{MAX_TEXT, shortened},
};
use crate::{
    call::Call,
    context::{CallId, ClientInfo, Context, Session},
    failure::{Executed, Failure},
    middleware::preconditions::{Approval, ApprovalNote},
    outcome::Outcome,
    registry::Class,
    tool::Tool,
    trace::Trace,
};

/// The data of one call, collected during the call and written later.
///
/// It shares the unparsed arguments. The writer parses and redacts them, so the call does not wait for that.
#[derive(Debug)]
pub struct AuditEvent {
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
    executed: Option<Executed>,
    code: Option<&'static str>,
    error_type: Option<String>,
    rule: Option<String>,
    result_bytes: Option<usize>,
    confirmed: Option<&'static str>,
    approval: Option<ApprovalNote>,
    duration: Duration,
}

impl AuditEvent {
    pub(super) fn begin(cx: &Context, call: &Call) -> Box<Self> {
        // Boxed, because it is moved several times.
        Box::new(Self {
            at: jiff::Timestamp::now(),
            call_id: cx.call_id(),
            parent: cx.parent().cloned(),
            session: cx.session_shared(),
            client: cx.client_shared(),
            request_id: cx.request_id().cloned(),
            tool: Arc::clone(call.tool()),
            // Values that the operator fills in are not the caller's and may be secret.
            arguments: call.sent_arguments().cloned(),
            span: cx.span().cloned(),
            end: End::default(),
        })
    }

    pub(super) fn end(&mut self, cx: &Context, outcome: &Outcome, duration: Duration) {
        let failure = outcome.failure();
        self.end = End {
            class: Some(outcome.class()),
            executed: Some(outcome.executed()),
            code: failure.map(Failure::code_name),
            error_type: failure.map(|failure| failure.error_type().to_owned()),
            rule: failure.and_then(|failure| failure.rule()).map(str::to_owned),
            result_bytes: outcome.result().map(|result| result.json().len()),
            confirmed: cx.extensions().get::<Approval>().map(|approval| approval.how.name()),
            approval: cx.extensions().get::<ApprovalNote>().cloned(),
            duration,
        };
    }

    pub(super) fn abandon(&mut self, class: Class, executed: Executed, duration: Duration) {
        self.end.class = Some(class);
        self.end.executed = Some(executed);
        self.end.duration = duration;
    }

    /// Whether the outcome is set.
    pub(super) fn has_ended(&self) -> bool {
        self.end.class.is_some()
    }

    /// The id of the call.
    pub(super) fn call_id(&self) -> CallId {
        self.call_id
    }

    /// Whether the record is of an execution or of a decision against one.
    pub(super) fn kind(&self) -> AuditKind {
        if self.end.executed == Some(Executed::No) {
            AuditKind::Decisions
        } else {
            AuditKind::Executions
        }
    }

    /// The data that is known at the start of the call.
    pub(super) fn start(&self) -> CallStart<'_> {
        CallStart {
            at: self.at,
            call_id: self.call_id,
            parent: self.parent.as_deref(),
            session: &self.session,
            client: self.client.as_deref(),
            request_id: self.request_id.as_ref(),
            tool: &self.tool,
            arguments: self.arguments.as_ref(),
            span: self.span.as_ref(),
        }
    }

    /// Writes the record of the outcome, a JSON object. It omits the arguments if the intent has them.
    pub(super) fn outcome(
        &self,
        redactor: &Redactor,
        has_intent: bool,
        out: &mut Vec<u8>,
    ) -> About {
        let (start, end) = (self.start(), &self.end);
        let outcome = end.class.unwrap_or(Class::Internal).name();
        let mut record = RecordWriter::new(out);
        start.head("call", &mut record);
        record.plain("kind", self.kind().name());
        record.plain("outcome", outcome);
        record.plain("ran", end.executed.unwrap_or(Executed::Maybe).name());
        record.some_text("error_type", end.error_type.as_deref());
        record.some_text("code", end.code);
        record.some_text("rule", end.rule.as_deref());
        // To the microsecond.
        record.value("duration_ms", &((end.duration.as_secs_f64() * 1e6).round() / 1e3));
        if let Some(bytes) = end.result_bytes {
            record.value("result_bytes", &bytes);
        }
        start.spans(&mut record);
        record.some_text("confirmed", end.confirmed);
        if let Some(approval) = &end.approval {
            record.value("approval", approval);
        }
        if has_intent {
            record.raw("intent", "true");
        } else {
            start.args(redactor, &mut record);
        }
        record.end();
        About { at: self.at, event: "call", call_id: Some(self.call_id), outcome: Some(outcome) }
    }
}

/// The data of a call that is known at its start.
#[derive(Clone, Copy)]
pub(super) struct CallStart<'a> {
    at: jiff::Timestamp,
    call_id: CallId,
    parent: Option<&'a str>,
    session: &'a Session,
    client: Option<&'a ClientInfo>,
    request_id: Option<&'a Id>,
    tool: &'a Tool,
    arguments: Option<&'a Json>,
    span: Option<&'a Trace>,
}

impl<'a> CallStart<'a> {
    /// The data of a call that starts now.
    pub(super) fn now(cx: &'a Context, call: &'a Call) -> Self {
        Self {
            at: jiff::Timestamp::now(),
            call_id: cx.call_id(),
            parent: cx.parent().map(|parent| &**parent),
            session: cx.session(),
            client: cx.client(),
            request_id: cx.request_id(),
            tool: call.tool(),
            arguments: call.sent_arguments(),
            span: cx.span(),
        }
    }

    /// Writes the intent, a JSON object.
    pub(super) fn intent(&self, redactor: &Redactor, out: &mut Vec<u8>) -> About {
        let mut record = RecordWriter::new(out);
        self.head("intent", &mut record);
        self.spans(&mut record);
        self.args(redactor, &mut record);
        record.end();
        About { at: self.at, event: "intent", call_id: Some(self.call_id), outcome: None }
    }

    /// Values that a client chose are shortened like its arguments, so that records stay small.
    fn head(&self, event: &'static str, record: &mut RecordWriter<'_>) {
        record.time("ts", self.at);
        record.plain("event", event);
        record.plain("call_id", self.call_id.text(&mut [0; CallId::TEXT]));
        record.some_text("parent_call_uuid", self.parent.map(shortened).as_deref());
        record.text("session", &self.session.id);
        record.text("namespace", &self.session.namespace);
        record.joined("principal", &self.session.principal.pieces());
        if let Some(client) = self.client {
            let version = client.version.as_ref().map_or(0, |version| version.len() + 1);
            if client.name.len() + version <= MAX_TEXT {
                record.joined("client", &client.pieces());
            } else {
                record.text("client", &shortened(&client.to_string()));
            }
        }
        if let Some(id) = self.request_id {
            // As it was spelt, or its start as a string.
            match shortened(id.as_json().as_str()) {
                Cow::Borrowed(id) => record.raw("request_id", id),
                Cow::Owned(id) => record.text("request_id", &id),
            }
        }
        record.text("server", self.tool.id().server());
        record.text("tool", &shortened(self.tool.id().name()));
        record.some_text("tier", self.tool.tier().map(crate::tier::Tier::name));
    }

    fn spans(&self, record: &mut RecordWriter<'_>) {
        if let Some(span) = self.span {
            record.hex("trace_id", &span.trace_id().to_be_bytes());
            record.hex("span_id", &span.span_id().to_be_bytes());
        }
    }

    fn args(&self, redactor: &Redactor, record: &mut RecordWriter<'_>) {
        if let Some(arguments) = self.arguments {
            redactor.write_arguments(arguments, record.member("args"));
        }
    }
}
