//! The end of a call, listing or request, as spans and metrics report it.

use crate::{
    call::Answer,
    failure::Failure,
    outcome::Outcome,
    registry::{Class, Code, Delivery},
};

/// The end of a call, listing or request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MeasuredEnd {
    pub(super) class: Class,
    pub(super) code: Option<Code>,
    /// The code of the JSON-RPC error that the client receives, if it receives one.
    pub(super) rpc: Option<i64>,
}

impl MeasuredEnd {
    /// A success.
    pub(super) const OK: Self = Self { class: Class::Ok, code: None, rpc: None };

    /// The client left before the end.
    pub(super) const ABANDONED: Self =
        Self { class: Class::Cancelled, code: Some(Code::Cancelled), rpc: None };

    /// The end of a call.
    pub(super) fn of(outcome: &Outcome) -> Self {
        let rpc = match (outcome.result(), outcome.failure()) {
            (None, Some(failure)) => rpc_code(failure),
            _ => None,
        };
        Self { class: outcome.class(), code: outcome.code(), rpc }
    }

    /// The end of a listing.
    pub(super) fn of_failure(failure: &Failure) -> Self {
        let code = failure.code();
        Self { class: code.entry().class, code: Some(code), rpc: rpc_code(failure) }
    }

    /// The end of another request. An error is toolgate's if it has a code of toolgate, otherwise the server's.
    pub(super) fn of_answer(answer: &Answer) -> Self {
        let Err(error) = &answer.body else { return Self::OK };
        let name = error.get("data").and_then(|data| data.get("code"));
        let code = name.as_ref().and_then(|name| Code::by_name(&name.text()?));
        let code = code.unwrap_or(Code::ServerRejected);
        let entry = code.entry();
        let rpc = error.get("code").and_then(|code| code.i64());
        let rpc = rpc.filter(|_| entry.delivery != Delivery::Silence);
        Self { class: entry.class, code: Some(code), rpc }
    }

    /// The label `status`.
    pub(super) const fn status(self) -> &'static str {
        match self.class {
            Class::Ok => "ok",
            Class::ToolError => "tool_error",
            Class::Preview => "preview",
            Class::InputRequired => "input_required",
            Class::Cancelled => "cancelled",
            Class::Denied | Class::TimedOut | Class::UpstreamFailed | Class::Internal => "error",
        }
    }

    /// Whether it counts as an error. A preview, a question and a cancelled call do not.
    pub(super) const fn is_error(self) -> bool {
        match self.class {
            Class::Ok | Class::Preview | Class::InputRequired | Class::Cancelled => false,
            Class::ToolError
            | Class::Denied
            | Class::TimedOut
            | Class::UpstreamFailed
            | Class::Internal => true,
        }
    }

    /// `error.type`: toolgate's code, or `tool_error` for an error that the tool reported. The set is closed.
    pub(super) fn error_type(self) -> Option<&'static str> {
        match (self.class, self.code) {
            (Class::Ok | Class::Preview | Class::InputRequired, _) => None,
            (Class::ToolError, None | Some(Code::ToolFailed)) => Some("tool_error"),
            (_, Some(code)) => Some(code.name()),
            (class, None) => Some(class.name()),
        }
    }
}

fn rpc_code(failure: &Failure) -> Option<i64> {
    let entry = failure.code().entry();
    let code = failure.rpc().map_or(entry.rpc, |rpc| rpc.code);
    (entry.delivery != Delivery::Silence).then_some(code)
}
