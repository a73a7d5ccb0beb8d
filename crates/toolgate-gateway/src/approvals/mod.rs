//! Approvals by a person outside of the client, kept as files in the state folder.
//!
//! All toolgate processes of a user share one folder, so `toolgate approvals` lists the pending requests of all of
//! them, and no request is lost if a process is killed. A process changes the folder under one lock, and acts on a
//! change only after it is durable: an approval is marked as used before its call runs, so it runs at most one call in
//! one process.

mod decide;
mod folder;
mod record;
mod watch;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

pub use decide::{CannotDecide, Verdict};
pub use record::{ApprovalRecord, ApprovalState};
use toolgate::{
    Boxed,
    middleware::preconditions::{
        ApprovalError, ApprovalRequest, Approvals, Decision, DecisionInfo,
    },
};
pub use watch::ApprovalWatch;

use self::{
    folder::LockedFolder,
    record::{hex, tag},
};
use crate::process::child::ServerCommand;

/// The most bytes of arguments that a request may contain.
const MAX_PREVIEW_BYTES: usize = 64 * 1024;
/// How long a record is kept after it was used or has expired, so that late commands get a clear message.
const RETENTION_MS: i64 = 60 * 60 * 1000;
/// The most of these closed records that are kept for one principal.
const MAX_CLOSED_RECORDS: usize = 64;
/// How long a call waits for the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The approvals of this user.
#[derive(Clone, Debug)]
pub struct ApprovalFolder {
    path: PathBuf,
    /// Distinguishes this deployment from others whose servers and tools have the same names.
    scope: Arc<str>,
    /// One call at a time waits for the lock of the folder.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl ApprovalFolder {
    /// The approvals in this state folder. Reads and creates nothing until the first request.
    #[must_use]
    pub fn new(state: &Path, scope: &str) -> Self {
        let path = state.join("approvals");
        Self { path, scope: scope.into(), turn: Arc::default() }
    }

    /// The path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All records, oldest first: those that are pending, and closed ones that are still kept.
    pub fn list(&self) -> io::Result<Vec<ApprovalRecord>> {
        match folder::lock(&self.path, false)? {
            Some(folder) => folder.records(),
            None => Ok(Vec::new()),
        }
    }

    async fn decision(&self, request: &ApprovalRequest) -> Result<Decision, ApprovalError> {
        let bytes = request.arguments.to_string().len();
        if bytes > MAX_PREVIEW_BYTES {
            return Err(ApprovalError::TooLarge { bytes, most: MAX_PREVIEW_BYTES });
        }
        let slow = || ApprovalError::Unavailable("another process holds the lock".to_owned());
        let turn = tokio::time::timeout(LOCK_TIMEOUT, Arc::clone(&self.turn).lock_owned());
        let turn = turn.await.map_err(|_| slow())?;
        let (own, request) = (self.clone(), request.clone());
        // The thread owns the turn: if the caller stops waiting, at most one thread still waits for the lock.
        let found = tokio::task::spawn_blocking(move || {
            let found = own.find_or_create(&request);
            drop(turn);
            found
        });
        let found = tokio::time::timeout(LOCK_TIMEOUT, found).await.map_err(|_| slow())?;
        let found = found.map_err(|error| ApprovalError::Unavailable(error.to_string()))?;
        found.unwrap_or_else(|error| {
            let path = self.path.display();
            Err(ApprovalError::Unavailable(format!("`{path}`: {error}")))
        })
    }

    /// Returns the decision of the call's record and marks an approval as used, or creates a pending record.
    fn find_or_create(
        &self,
        request: &ApprovalRequest,
    ) -> io::Result<Result<Decision, ApprovalError>> {
        let Some(folder) = folder::lock(&self.path, true)? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let now = now_ms();
        let call = hex(&tag(folder.key(), b"call", &[self.scope.as_bytes(), &request.call]));
        let records = folder.records()?;
        if let Some(found) = records.iter().find(|one| one.call == call && one.is_live(now)) {
            return decision_of(&folder, found.clone(), now).map(Ok);
        }
        let of_principal = |one: &&ApprovalRecord| one.principal == request.principal;
        let pending = records.iter().filter(of_principal).filter(|one| one.is_pending(now)).count();
        if pending >= request.max_pending {
            return Ok(Err(ApprovalError::Full(request.max_pending)));
        }
        remove_closed(&folder, &records, &request.principal, now);
        let ttl_ms = i64::try_from(request.ttl.as_millis()).unwrap_or(i64::MAX);
        let record = ApprovalRecord {
            id: folder.new_id()?,
            state: ApprovalState::Pending,
            principal: request.principal.clone(),
            namespace: request.namespace.clone(),
            client: request.client.clone(),
            server: request.server.clone(),
            tool: request.tool.clone(),
            why: request.why.clone(),
            rule: request.rule.clone(),
            arguments: request.arguments.clone(),
            is_whole: request.is_whole,
            created_ms: now,
            expires_ms: now.saturating_add(ttl_ms),
            by: None,
            decided_ms: None,
            reason: None,
            used_ms: None,
            ttl_ms,
            call,
        };
        folder.write(&record)?;
        tracing::warn!(
            "a call of `{}/{}` waits for approval: toolgate approve {}",
            record.server,
            record.tool,
            record.id
        );
        Ok(Ok(Decision::Pending { expires: time(record.expires_ms), id: record.id }))
    }
}

/// The decision of a live record. An approval is marked as used before it is returned.
fn decision_of(
    folder: &LockedFolder,
    mut record: ApprovalRecord,
    now: i64,
) -> io::Result<Decision> {
    let decided = |record: &ApprovalRecord| DecisionInfo {
        id: record.id.clone(),
        by: record.by.clone().unwrap_or_default(),
        at: time(record.decided_ms.unwrap_or(now)),
    };
    Ok(match record.state {
        ApprovalState::Approved => {
            record.state = ApprovalState::Used;
            record.used_ms = Some(now);
            folder.write(&record)?;
            Decision::Approved(decided(&record))
        }
        ApprovalState::Denied => Decision::Denied {
            decided: decided(&record),
            until: time(record.expires_ms),
            reason: record.reason,
        },
        ApprovalState::Pending | ApprovalState::Used => {
            Decision::Pending { expires: time(record.expires_ms), id: record.id }
        }
    })
}

/// Removes closed records after `RETENTION_MS`, and the oldest ones of a principal that has too many.
fn remove_closed(folder: &LockedFolder, records: &[ApprovalRecord], principal: &str, now: i64) {
    let over = |one: &&ApprovalRecord| !one.is_live(now);
    for record in records.iter().filter(over) {
        if now.saturating_sub(record.expires_ms) > RETENTION_MS {
            folder.remove(record);
        }
    }
    let own: Vec<_> =
        records.iter().filter(over).filter(|one| one.principal == principal).collect();
    for record in own.iter().rev().skip(MAX_CLOSED_RECORDS) {
        folder.remove(record);
    }
}

/// The identity of a deployment. An approval is valid in its own deployment only, even if another one has servers,
/// tools and callers of the same names.
#[derive(Debug)]
pub enum Scope<'a> {
    /// One server, identified by its command, variables and folder.
    Server(&'a ServerCommand),
    /// All servers of a config file; without one, identified by the current folder.
    Config(&'a Path),
    /// The tmux server behind this socket.
    Tmux(&'a dyn std::fmt::Debug),
}

impl Scope<'_> {
    fn name(&self) -> String {
        let here = || std::env::current_dir().unwrap_or_default();
        match self {
            Self::Server(server) => {
                let folder = server.folder.clone().unwrap_or_else(here);
                format!("server {:?} {:?} {}", server.command, server.set, folder.display())
            }
            Self::Config(path) => {
                let path = path.canonicalize().unwrap_or_else(|_| here());
                format!("config {}", path.display())
            }
            Self::Tmux(socket) => format!("tmux {socket:?}"),
        }
    }
}

/// The approvals in the state folder, for a chain of this scope. `None` if there is no state folder.
#[must_use]
pub fn in_state_folder(scope: &Scope<'_>) -> Option<Arc<dyn Approvals>> {
    let state = crate::config::toolgate_variables::state_folder()?;
    Some(Arc::new(ApprovalFolder::new(&state, &scope.name())))
}

impl Approvals for ApprovalFolder {
    fn request<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> Boxed<'a, Result<Decision, ApprovalError>> {
        Box::pin(self.decision(request))
    }

    fn wait<'a>(
        &'a self,
        request: &'a ApprovalRequest,
        wait: Duration,
    ) -> Boxed<'a, Result<Decision, ApprovalError>> {
        Box::pin(async move {
            let until = tokio::time::Instant::now() + wait;
            let unavailable = |error: notify::Error| ApprovalError::Unavailable(error.to_string());
            let mut watch = self.watch().map_err(unavailable)?;
            loop {
                // Read after the watch began, so that no decision is missed.
                let decision = self.decision(request).await?;
                if !matches!(decision, Decision::Pending { .. }) {
                    return Ok(decision);
                }
                if tokio::time::timeout_at(until, watch.changed()).await.is_err() {
                    return Ok(decision);
                }
            }
        })
    }
}

fn time(ms: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX)
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
