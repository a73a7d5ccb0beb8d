//! The trait of a store, and the types of its queries and results.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use toolgate::{
    Boxed, Selector, ToolId,
    middleware::log::{CallRecord, LogConfig},
};

use crate::error::StoreError;

/// The future of a store operation.
pub type StoreFuture<'a, T> = Boxed<'a, Result<T, StoreError>>;

/// A store for the call log, the audit and known tools. Every implementation passes the tests in `suite`.
pub trait Store: fmt::Debug + Send + Sync {
    /// Writes all records, or none. A record whose id exists already is ignored.
    fn append<'a>(&'a self, records: &'a [CallRecord]) -> StoreFuture<'a, ()>;

    /// The newest `limit` records that pass the filter, newest first, starting below `after`. Records are ordered by
    /// the time of writing.
    fn query<'a>(
        &'a self,
        filter: &'a Filter,
        limit: usize,
        after: Option<Cursor>,
    ) -> StoreFuture<'a, Page>;

    /// The record with this id.
    fn get<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<CallRecord>>;

    /// The tree of nested calls that contains the call with this id.
    fn tree<'a>(&'a self, id: &'a str) -> StoreFuture<'a, Option<Tree>>;

    /// Removes the oldest records until the rest is within the limits.
    fn prune<'a>(&'a self, retention: &'a Retention) -> StoreFuture<'a, PruneResult>;

    /// The number and the size of the records.
    fn size(&self) -> StoreFuture<'_, Size>;

    /// The tools that were seen in this namespace.
    fn known_tools<'a>(&'a self, namespace: &'a str) -> StoreFuture<'a, Vec<ToolId>>;

    /// Adds tools that were seen in this namespace.
    fn remember_tools<'a>(&'a self, namespace: &'a str, tools: &'a [ToolId])
    -> StoreFuture<'a, ()>;

    /// Records the list as approved if it is the first one of its server, and returns all known tools of the namespace,
    /// in one transaction.
    ///
    /// When a namespace is recorded for the first time, the store remembers its `servers`. It approves the first list of
    /// each of them. It approves no later list, and no list of a server that was added later.
    fn approve_first_list<'a>(&'a self, list: FirstList<'a>) -> StoreFuture<'a, Vec<ToolId>>;

    /// Writes all audit lines, or none.
    fn append_audit<'a>(&'a self, lines: &'a [AuditRecord]) -> StoreFuture<'a, ()>;

    /// The newest `limit` audit lines since `since_us` (microseconds since 1970), oldest first.
    fn audit(&self, since_us: i64, limit: usize) -> StoreFuture<'_, Vec<AuditRecord>>;

    /// Finishes all work and closes the store. Later operations fail.
    fn close(&self) -> Boxed<'_, ()>;
}

/// A list of tools that may be the first one of its server in a namespace.
#[derive(Clone, Copy, Debug)]
pub struct FirstList<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The servers that the namespace has now.
    pub servers: &'a [Arc<str>],
    /// The server that listed the tools.
    pub server: &'a str,
    /// The tools.
    pub tools: &'a [ToolId],
}

/// One line of the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// When the call began, or the event happened, in microseconds since 1970.
    pub at_us: i64,
    /// `call`, `intent`, `lost`, `begin` or `torn`.
    pub event: String,
    /// The id of the call, if the event belongs to one.
    pub call_id: Option<String>,
    /// The outcome of the call, if it has ended.
    pub outcome: Option<String>,
    /// The record: one JSON object.
    pub line: String,
}

/// Selects records. The default selects all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Tools, by identity.
    pub tool: Option<Selector>,
    /// The outcomes to select; all if empty.
    pub outcomes: Vec<String>,
    /// Only calls that failed.
    pub failed: bool,
    /// The principal, as `local:me`, or only `me`.
    pub principal: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// The session id.
    pub session: Option<String>,
    /// Only calls that began at this time or later, in microseconds since 1970.
    pub since_us: Option<i64>,
    /// The beginning or the end of a call id.
    pub id_part: Option<String>,
    /// Only records that were written after this one.
    pub newer_than: Option<Cursor>,
}

/// The outcomes that [`Filter::failed`] excludes.
pub(crate) const NOT_FAILED: [&str; 3] = ["ok", "preview", "input_required"];

/// A position in the order of the records. It stays valid when records are added and removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub(crate) i64);

impl Cursor {
    /// The position after this one: a page from there begins with the record here.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Cursor {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.parse().ok().filter(|number| *number >= 0);
        number.map(Self).ok_or_else(|| {
            StoreError::Url(format!("`{text}` is no cursor: send back one that came with a page"))
        })
    }
}

/// A page of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The records, newest first.
    pub records: Vec<CallRecord>,
    /// The position of the next page, if there may be more records.
    pub next: Option<Cursor>,
    /// The position of the newest record, whether or not it passes the filter. A query for records after it misses none
    /// and repeats none.
    pub head: Cursor,
}

/// A tree of nested calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Each call, followed by its nested calls in the order in which they began.
    pub nodes: Vec<Node>,
    /// The parent of the first call, if that is not in the store, or no longer.
    pub missing_parent: Option<String>,
    /// Whether the tree was cut at the maximum size.
    pub is_cut: bool,
}

/// One call of a [`Tree`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The number of calls above this one.
    pub depth: usize,
    /// The call.
    pub record: CallRecord,
}

/// How long records are kept. `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// The maximum time since the call began.
    pub age: Option<Duration>,
    /// The maximum number of records.
    pub records: Option<u64>,
    /// The maximum size of all records in bytes.
    pub bytes: Option<u64>,
}

impl From<&LogConfig> for Retention {
    fn from(config: &LogConfig) -> Self {
        let set = |number: u64| Some(number).filter(|number| *number > 0);
        let day = Duration::from_hours(24);
        Self {
            age: Some(day * config.keep_days).filter(|age| !age.is_zero()),
            records: set(config.keep_records),
            bytes: set(config.keep_bytes),
        }
    }
}

/// How many records were removed, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneResult {
    /// Older than the limit.
    pub by_age: u64,
    /// More than the maximum number.
    pub by_records: u64,
    /// More than the maximum size.
    pub by_bytes: u64,
}

impl PruneResult {
    /// The sum.
    #[must_use]
    pub fn total(self) -> u64 {
        self.by_age + self.by_records + self.by_bytes
    }
}

/// The number and the size of the records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// The number of records.
    pub records: u64,
    /// The size in bytes, with indexes.
    pub bytes: u64,
}
