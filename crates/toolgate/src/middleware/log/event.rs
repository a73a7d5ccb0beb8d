//! The event of a call and how the writer turns it into a record.

use std::{sync::Arc, time::Duration};

use tokio::sync::OwnedSemaphorePermit;
use toolgate_wire::Json;

use super::{
    record::{CallRecord, RecordKind},
    redacted_view::RedactedView,
};
use crate::{
    call::{Call, ToolList},
    context::{CallId, ClientInfo, Context, Session},
    failure::{Executed, Failure},
    middleware::{
        audit::{Redactor, cut},
        preconditions::ApprovalNote,
    },
    outcome::Outcome,
    registry::Class,
    tool::Tool,
};

/// One call or listing. It shares the unparsed JSON, which only the writer parses.
#[derive(Debug)]
pub(super) struct LogEvent {
    at: jiff::Timestamp,
    id: CallId,
    parent: Option<Arc<str>>,
    session: Arc<Session>,
    client: Option<Arc<ClientInfo>>,
    subject: Subject,
    end: Option<End>,
    duration: Duration,
    result: Option<Json>,
    result_bytes: Option<usize>,
    arguments_bytes: Option<usize>,
    /// The part of the queue's byte limit that the event uses.
    room: Option<OwnedSemaphorePermit>,
}

#[derive(Debug)]
enum Subject {
    Call { tool: Arc<Tool>, wire_name: Option<Arc<str>>, arguments: Option<Json> },
    Listing { tools: Option<usize> },
}

#[derive(Debug)]
struct End {
    class: Class,
    executed: Executed,
    failure: Option<Failure>,
    approval: Option<ApprovalNote>,
}

/// How much of the content is recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    pub(super) results: bool,
    pub(super) result_bytes: usize,
}

impl LogEvent {
    pub(super) fn call(cx: &Context, call: &Call) -> Self {
        let mut event = Self::begin(
            cx,
            Subject::Call {
                tool: Arc::clone(call.tool()),
                wire_name: call.wire_name().cloned(),
                arguments: call.arguments().cloned(),
            },
        );
        event.arguments_bytes = call.arguments().map(Json::len);
        event
    }

    pub(super) fn listing(cx: &Context) -> Self {
        Self::begin(cx, Subject::Listing { tools: None })
    }

    fn begin(cx: &Context, subject: Subject) -> Self {
        Self {
            at: jiff::Timestamp::now(),
            id: cx.call_id(),
            parent: cx.parent().cloned(),
            session: cx.session_shared(),
            client: cx.client_shared(),
            subject,
            end: None,
            duration: Duration::ZERO,
            result: None,
            result_bytes: None,
            arguments_bytes: None,
            room: None,
        }
    }

    /// Sets the outcome. `results` says whether the result is recorded.
    pub(super) fn end_call(
        &mut self,
        cx: &Context,
        outcome: &Outcome,
        duration: Duration,
        results: bool,
    ) {
        let result = outcome.result().map(crate::ToolResult::json);
        self.result_bytes = result.map(Json::len);
        self.result = result.filter(|_| results).cloned();
        self.duration = duration;
        let failure = outcome.failure().cloned();
        let approval = cx.extensions().get::<ApprovalNote>().cloned();
        self.end =
            Some(End { class: outcome.class(), executed: outcome.executed(), failure, approval });
    }

    pub(super) fn end_listing(&mut self, answer: &Result<ToolList, Failure>, duration: Duration) {
        self.duration = duration;
        self.end = Some(match answer {
            Ok(list) => {
                self.subject = Subject::Listing { tools: Some(list.tools().len()) };
                End { class: Class::Ok, executed: Executed::Yes, failure: None, approval: None }
            }
            Err(failure) => End {
                class: failure.code().entry().class,
                executed: failure.executed(),
                failure: Some(failure.clone()),
                approval: None,
            },
        });
    }

    /// Sets the outcome of a call that was dropped.
    pub(super) fn abandon(&mut self, duration: Duration) {
        if self.end.is_none() {
            self.duration = duration;
            let (class, executed) = (Class::Cancelled, Executed::Maybe);
            self.end = Some(End { class, executed, failure: None, approval: None });
        }
    }

    /// The bytes of client and server that the event keeps in memory.
    pub(super) fn weight(&self) -> usize {
        let arguments = match &self.subject {
            Subject::Call { arguments, .. } => arguments.as_ref(),
            Subject::Listing { .. } => None,
        };
        [arguments, self.result.as_ref()].into_iter().flatten().map(Json::len).sum()
    }

    /// Keeps the permit for its bytes until the event is dropped.
    pub(super) fn hold(&mut self, room: OwnedSemaphorePermit) {
        self.room = Some(room);
    }

    pub(super) fn has_room(&self) -> bool {
        self.room.is_some() || self.weight() == 0
    }

    /// Drops those bytes.
    pub(super) fn strip(&mut self) {
        self.result = None;
        if let Subject::Call { arguments, .. } = &mut self.subject {
            *arguments = None;
        }
    }

    /// Parses, redacts and shortens the content. Names that a client chose are shortened like its arguments.
    pub(super) fn into_record(self, redactor: &Redactor, extent: Extent) -> CallRecord {
        let mut record = CallRecord {
            id: self.id.to_string(),
            parent: self.parent.as_deref().map(cut),
            at_us: self.at.as_microsecond(),
            duration_us: u64::try_from(self.duration.as_micros()).unwrap_or(u64::MAX),
            session: self.session.id.to_string(),
            principal: self.session.principal.to_string(),
            namespace: self.session.namespace.to_string(),
            client: self.client.map(|client| cut(&client.to_string())),
            arguments_bytes: self.arguments_bytes.map(|bytes| bytes as u64),
            result_bytes: self.result_bytes.map(|bytes| bytes as u64),
            ..CallRecord::default()
        };
        let mut view = RedactedView::new(redactor, extent.result_bytes);
        match self.subject {
            Subject::Call { tool, wire_name, arguments } => {
                record.server = Some(tool.id().server().to_owned());
                record.tool = Some(cut(tool.id().name()));
                record.wire_name = wire_name.as_deref().map(cut);
                record.arguments = arguments.map(|arguments| view.arguments(&arguments));
            }
            Subject::Listing { tools } => {
                record.kind = RecordKind::Listing;
                record.result = tools.map(|tools| format!("{{\"tools\":{tools}}}"));
            }
        }
        if let Some(result) = self.result {
            record.result = Some(view.result(&result));
        }
        if let Some(end) = self.end {
            end.fill(&mut record, &view, extent);
        }
        record
    }
}

impl End {
    fn fill(&self, record: &mut CallRecord, view: &RedactedView<'_>, extent: Extent) {
        self.class.name().clone_into(&mut record.outcome);
        self.executed.name().clone_into(&mut record.ran);
        let approval = self.approval.as_ref();
        record.approval = approval.and_then(|approval| serde_json::to_string(approval).ok());
        let Some(failure) = &self.failure else { return };
        record.code = Some(failure.code_name().to_owned());
        record.decided_by = failure.decided_by().map(str::to_owned);
        record.rule = failure.rule().map(cut);
        record.error_bytes = Some(failure.message().len() as u64);
        // Messages of toolgate's layers contain no secrets; messages of servers may quote arguments.
        if extent.results || failure.decided_by().is_some() {
            record.error = Some(view.error(failure.message()));
        }
    }
}
