//! Approvals by a person outside of the client, kept as files in the state folder.
//!
//! Every toolgate process of a user shares one folder, so `toolgate approvals` finds what any of them waits for, and
//! nothing is lost when one is killed. Changes are made under one lock and are durable before anybody acts on them: an
//! approval is marked as used before its call runs, so it runs at most one call in at most one process.

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

/// The largest preview of arguments that is kept.
const MAX_PREVIEW_BYTES: usize = 64 * 1024;
/// How long what was decided, used or has expired is kept, for clear answers to late commands.
const RETENTION_MS: i64 = 60 * 60 * 1000;
/// How many of those are kept of one principal.
const MAX_CLOSED_RECORDS: usize = 64;
/// How long another process may hold the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The approvals of this user.
#[derive(Clone, Debug)]
pub struct ApprovalFolder {
    path: PathBuf,
    /// What tells this deployment from others that have servers and tools of the same names.
    scope: Arc<str>,
    /// One call at a time waits for the lock of the folder.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl ApprovalFolder {
    /// The approvals in this state folder. Nothing is read or made before the first of them.
    #[must_use]
    pub fn new(state: &Path, scope: &str) -> Self {
        let path = state.join("approvals");
        Self { path, scope: scope.into(), turn: Arc::default() }
    }

    /// Where they are.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All of them, oldest first: pending ones, and others that are kept for a while.
    pub fn list(&self) -> io::Result<Vec<ApprovalRecord>> {
        match folder::lock(&self.path, false)? {
            Some(folder) => folder.records(),
            None => Ok(Vec::new()),
        }
    }

    async fn answer(&self, request: &ApprovalRequest) -> Result<Decision, ApprovalError> {
        let bytes = request.arguments.to_string().len();
        if bytes > MAX_PREVIEW_BYTES {
            return Err(ApprovalError::TooLarge { bytes, most: MAX_PREVIEW_BYTES });
        }
        let slow = || ApprovalError::Unavailable("another process holds the lock".to_owned());
        let turn = tokio::time::timeout(LOCK_TIMEOUT, Arc::clone(&self.turn).lock_owned());
        let turn = turn.await.map_err(|_| slow())?;
        let (own, request) = (self.clone(), request.clone());
        // Whoever takes the lock keeps its turn: a call that is given up leaves one thread waiting at most.
        let asked = tokio::task::spawn_blocking(move || {
            let answer = own.ask(&request);
            drop(turn);
            answer
        });
        let asked = tokio::time::timeout(LOCK_TIMEOUT, asked).await.map_err(|_| slow())?;
        let asked = asked.map_err(|error| ApprovalError::Unavailable(error.to_string()))?;
        asked.unwrap_or_else(|error| {
            let path = self.path.display();
            Err(ApprovalError::Unavailable(format!("`{path}`: {error}")))
        })
    }

    /// Looks for the call, uses up its approval, or makes a request of it.
    fn ask(&self, request: &ApprovalRequest) -> io::Result<Result<Decision, ApprovalError>> {
        let Some(folder) = folder::lock(&self.path, true)? else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let now = now_ms();
        let call = hex(&tag(folder.key(), b"call", &[self.scope.as_bytes(), &request.call]));
        let records = folder.records()?;
        if let Some(found) = records.iter().find(|one| one.call == call && one.is_live(now)) {
            return answer_of(&folder, found.clone(), now).map(Ok);
        }
        let of_principal = |one: &&ApprovalRecord| one.principal == request.principal;
        let pending = records.iter().filter(of_principal).filter(|one| one.is_pending(now)).count();
        if pending >= request.max_pending {
            return Ok(Err(ApprovalError::Full(request.max_pending)));
        }
        tidy(&folder, &records, &request.principal, now);
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

/// What a live record says. An approval is marked as used before anybody hears of it.
fn answer_of(folder: &LockedFolder, mut record: ApprovalRecord, now: i64) -> io::Result<Decision> {
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

/// Removes what was kept long enough, and what one principal has too much of.
fn tidy(folder: &LockedFolder, records: &[ApprovalRecord], principal: &str, now: i64) {
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

/// What tells one deployment from another: an approval for one is worth nothing in the other, though servers, tools
/// and callers may have the same names in both.
#[derive(Debug)]
pub enum Scope<'a> {
    /// One server, by how it is started.
    Server(&'a ServerCommand),
    /// All servers of a config file, or of the current folder without one.
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

/// The approvals in the state folder, for a chain of this scope. `None` where there is no state folder.
#[must_use]
pub fn in_state_folder(scope: &Scope<'_>) -> Option<Arc<dyn Approvals>> {
    let state = crate::config::environment::state_folder()?;
    Some(Arc::new(ApprovalFolder::new(&state, &scope.name())))
}

impl Approvals for ApprovalFolder {
    fn request<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> Boxed<'a, Result<Decision, ApprovalError>> {
        Box::pin(self.answer(request))
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
                // Asked after the watch began: no decision falls between.
                let decision = self.answer(request).await?;
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
