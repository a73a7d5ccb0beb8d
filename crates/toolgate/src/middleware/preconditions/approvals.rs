//! Approvals: calls that wait for a person who is not at the client, and what that person decided.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::middleware::Boxed;

/// Keeps calls that wait for a person's decision, and the decisions.
///
/// An implementation outlives the process: pending calls and decisions survive a crash. Of any number of callers
/// and processes that ask about one approved call, exactly one gets [`Decision::Approved`].
pub trait Approvals: Send + Sync + fmt::Debug + 'static {
    /// What was decided about this call. A call that is new is recorded as pending. An approval that is returned
    /// is used up.
    fn request<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> Boxed<'a, Result<Decision, ApprovalError>>;

    /// Waits until this request may have been decided, then asks again, for as long as `wait` at most.
    fn wait<'a>(
        &'a self,
        request: &'a ApprovalRequest,
        wait: Duration,
    ) -> Boxed<'a, Result<Decision, ApprovalError>>;
}

/// A call that needs a person's approval.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// The digest of what is approved: principal, namespace, tool with its definition, canonical arguments.
    pub call: [u8; 32],
    /// Who calls.
    pub principal: String,
    /// The namespace.
    pub namespace: String,
    /// What the client says that it is.
    pub client: Option<String>,
    /// The server that has the tool.
    pub server: String,
    /// The server's own name for the tool.
    pub tool: String,
    /// Why a person has to approve; may be empty.
    pub why: String,
    /// The rule that asks for the approval.
    pub rule: String,
    /// The arguments as a person is shown them: without secrets, control characters spelt out.
    pub arguments: Value,
    /// Whether all arguments are shown.
    pub is_whole: bool,
    /// How long the person may take, and how long the decision holds.
    pub ttl: Duration,
    /// How many calls of this principal may be pending.
    pub max_pending: usize,
}

/// What was decided about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing yet.
    Pending {
        /// The id of the request, for `toolgate approve`. It is no secret and confirms nothing by itself.
        id: String,
        /// When the request expires.
        expires: Timestamp,
    },
    /// A person approved it; the approval is used up by this answer.
    Approved(Decided),
    /// A person denied it.
    Denied {
        /// By whom, and when.
        decided: Decided,
        /// The person's reason.
        reason: Option<String>,
        /// Until then the same call is denied without asking again.
        until: Timestamp,
    },
}

/// Who decided, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// The id of the request.
    pub id: String,
    /// Who decided, as `local:alice`.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// Why no decision can be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApprovalError {
    /// The principal has too many calls pending.
    #[error("{0} calls of this principal wait for approval already")]
    Full(usize),
    /// The arguments cannot be shown to a person.
    #[error("the arguments are too large to show to a person: {bytes} bytes, {most} at most")]
    TooLarge {
        /// The size of what would be shown.
        bytes: usize,
        /// The bound.
        most: usize,
    },
    /// Approvals cannot be read or written. The reason is for the operator.
    #[error("approvals cannot be kept: {0}")]
    Unavailable(String),
}

/// What the records of a call tell of its approval. Left in the call's extensions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApprovalNote {
    /// The id of the request.
    pub id: String,
    /// `pending`, `approved` or `denied`.
    pub state: &'static str,
    /// Who decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The reason of a denial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl From<&Decision> for ApprovalNote {
    fn from(decision: &Decision) -> Self {
        let decided = |decided: &Decided, state, reason: Option<&String>| Self {
            id: decided.id.clone(),
            state,
            by: Some(decided.by.clone()),
            at: Some(format!("{:.0}", decided.at)),
            reason: reason.cloned(),
        };
        match decision {
            Decision::Pending { id, .. } => {
                Self { id: id.clone(), state: "pending", by: None, at: None, reason: None }
            }
            Decision::Approved(by) => decided(by, "approved", None),
            Decision::Denied { decided: by, reason, .. } => decided(by, "denied", reason.as_ref()),
        }
    }
}
