//! Applies the decision of a person to the request whose id they type.

use std::io;

use super::{ApprovalFolder, ApprovalRecord, ApprovalState, folder, now_ms};

/// A person's decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The call may run, once.
    Approve,
    /// The call may not run, for this reason.
    Deny(Option<String>),
}

/// Why nothing was decided.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CannotDecide {
    /// No request has this id.
    #[error("there is no approval `{0}`: `toolgate approvals` lists the calls that wait")]
    Unknown(String),
    /// Several ids begin with the typed text.
    #[error("`{typed}` is the beginning of several ids: {ids}; type more of the one you mean")]
    Ambiguous {
        /// The typed text.
        typed: String,
        /// The matching ids.
        ids: String,
    },
    /// The request or its decision has expired.
    #[error("`{0}` has expired: the agent has to repeat the call for a new request")]
    Expired(String),
    /// A person already decided the request.
    #[error("`{id}` was already {what} by {by}")]
    Decided {
        /// The id.
        id: String,
        /// The decision: `approved` or `denied`.
        what: &'static str,
        /// The person who decided.
        by: String,
    },
    /// The request was approved, and the call has used the approval.
    #[error(
        "`{0}` was already approved, and the call was already run: each approval runs one call"
    )]
    Used(String),
    /// The folder cannot be used.
    #[error("cannot use the approvals in `{path}`: {error}")]
    Folder {
        /// The folder.
        path: String,
        /// The error of the operating system, or the reason why the folder is refused.
        error: io::Error,
    },
}

impl ApprovalFolder {
    /// Decides the request with this id, or the only request whose id begins with the typed text.
    pub fn decide(
        &self,
        typed: &str,
        verdict: &Verdict,
        by: &str,
    ) -> Result<ApprovalRecord, CannotDecide> {
        let failed = |error| CannotDecide::Folder { path: self.path.display().to_string(), error };
        let Some(folder) = folder::lock(&self.path, false).map_err(failed)? else {
            return Err(CannotDecide::Unknown(typed.to_owned()));
        };
        let now = now_ms();
        let records = folder.records().map_err(failed)?;
        let mut record = find(&records, typed, now)?.clone();
        if let Some(why) = undecidable(&record, now) {
            return Err(why);
        }
        record.by = Some(by.to_owned());
        record.decided_ms = Some(now);
        record.expires_ms = now.saturating_add(record.ttl_ms);
        match verdict {
            Verdict::Approve => record.state = ApprovalState::Approved,
            Verdict::Deny(reason) => {
                record.state = ApprovalState::Denied;
                record.reason.clone_from(reason);
            }
        }
        folder.write(&record).map_err(failed)?;
        Ok(record)
    }
}

/// The record with the typed id or beginning of an id. Pending records have precedence over closed ones.
fn find<'a>(
    records: &'a [ApprovalRecord],
    typed: &str,
    now: i64,
) -> Result<&'a ApprovalRecord, CannotDecide> {
    let wanted = typed.trim().to_ascii_lowercase();
    let begins = |one: &&ApprovalRecord| !wanted.is_empty() && one.id.starts_with(&wanted);
    let pending: Vec<_> = records.iter().filter(begins).filter(|one| one.is_pending(now)).collect();
    let all: Vec<_> = records.iter().filter(begins).collect();
    let exact = all.iter().find(|one| one.id == wanted);
    match (exact, pending.as_slice(), all.as_slice()) {
        (Some(one), ..) | (None, [one], _) | (None, [], [one]) => Ok(one),
        (None, [], []) => Err(CannotDecide::Unknown(typed.to_owned())),
        (None, [], several) | (None, several, _) => {
            let ids: Vec<_> = several.iter().map(|one| format!("`{}`", one.id)).collect();
            Err(CannotDecide::Ambiguous { typed: typed.to_owned(), ids: ids.join(", ") })
        }
    }
}

fn undecidable(record: &ApprovalRecord, now: i64) -> Option<CannotDecide> {
    let id = || record.id.clone();
    let decided = |what| {
        let by = record.by.clone().unwrap_or_default();
        Some(CannotDecide::Decided { id: id(), what, by })
    };
    match record.state {
        ApprovalState::Pending if record.is_live(now) => None,
        ApprovalState::Pending => Some(CannotDecide::Expired(id())),
        ApprovalState::Used => Some(CannotDecide::Used(id())),
        ApprovalState::Approved if !record.is_live(now) => Some(CannotDecide::Expired(id())),
        ApprovalState::Approved => decided("approved"),
        ApprovalState::Denied => decided("denied"),
    }
}
