//! Approvals: calls that wait for the decision of a person in another terminal.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::middleware::Boxed;

/// A store of pending calls and decisions.
///
/// An implementation is persistent: pending calls and decisions survive a crash. If several callers or processes ask
/// for one approved call, exactly one receives [`Decision::Approved`].
pub trait Approvals: Send + Sync + fmt::Debug + 'static {
    /// The decision about this call. Records a new call as pending. A returned approval is used up.
    fn request<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> Boxed<'a, Result<Decision, ApprovalError>>;

    /// Waits up to `wait` for a decision about this request.
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
    /// The digest of the approved call: principal, namespace, tool with its definition, canonical arguments.
    pub call: [u8; 32],
    /// The caller.
    pub principal: String,
    /// The namespace.
    pub namespace: String,
    /// The client's name and version.
    pub client: Option<String>,
    /// The server of the tool.
    pub server: String,
    /// The server's own name for the tool.
    pub tool: String,
    /// The reason for the approval; may be empty.
    pub why: String,
    /// The rule that requires the approval.
    pub rule: String,
    /// The arguments for display: without secrets, control characters escaped.
    pub arguments: Value,
    /// Whether all arguments are displayed.
    pub is_whole: bool,
    /// The time for the decision, and how long the decision is valid.
    pub ttl: Duration,
    /// Largest number of pending calls of this principal.
    pub max_pending: usize,
}

/// The decision about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// There is no decision yet.
    Pending {
        /// The id of the request, for `toolgate approve`. It is not secret and confirms nothing.
        id: String,
        /// When the request expires.
        expires: Timestamp,
    },
    /// A person approved the call. This answer uses the approval up.
    Approved(DecisionInfo),
    /// A person denied the call.
    Denied {
        /// Person and time of the decision.
        decided: DecisionInfo,
        /// The person's reason.
        reason: Option<String>,
        /// Until this time the same call is denied without a new request.
        until: Timestamp,
    },
}

/// Person and time of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionInfo {
    /// The id of the request.
    pub id: String,
    /// The person, such as `local:alice`.
    pub by: String,
    /// The time.
    pub at: Timestamp,
}

/// Why there can be no decision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApprovalError {
    /// The principal has too many calls pending.
    #[error("{0} calls of this principal wait for approval already")]
    Full(usize),
    /// The arguments are too large to display.
    #[error("the arguments are too large to show to a person: {bytes} bytes, {most} at most")]
    TooLarge {
        /// The size of the displayed arguments.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// The store failed. The reason is for the operator.
    #[error("approvals cannot be kept: {0}")]
    Unavailable(String),
}

/// The approval of a call for its records, in the call's extensions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApprovalNote {
    /// The id of the request.
    pub id: String,
    /// `pending`, `approved` or `denied`.
    pub state: &'static str,
    /// The person that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The reason for a denial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl From<&Decision> for ApprovalNote {
    fn from(decision: &Decision) -> Self {
        let decided = |decided: &DecisionInfo, state, reason: Option<&String>| Self {
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
