//! What a store is: the trait, and the words that questions and answers are made of.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use toolgate::{
    Boxed, Selector, ToolId,
    middleware::log::{CallRecord, LogConfig},
};

use crate::error::StoreError;

/// The answer of a store, when it is ready.
pub type Answer<'a, T> = Boxed<'a, Result<T, StoreError>>;

/// What toolgate keeps while it runs. Every implementation passes the tests in `suite`.
pub trait Store: fmt::Debug + Send + Sync {
    /// Writes all of the records, or none. A record whose id is there already is left as it is.
    fn append<'a>(&'a self, records: &'a [CallRecord]) -> Answer<'a, ()>;

    /// The newest `limit` records that the filter lets pass, newest first, from `after` on downwards.
    /// Records are in the order in which they were written.
    fn query<'a>(
        &'a self,
        filter: &'a Filter,
        limit: usize,
        after: Option<Cursor>,
    ) -> Answer<'a, Page>;

    /// The record with this id.
    fn get<'a>(&'a self, id: &'a str) -> Answer<'a, Option<CallRecord>>;

    /// The tree that the call with this id is part of: from the call that all of it began with down to
    /// every call that was made on behalf of another.
    fn tree<'a>(&'a self, id: &'a str) -> Answer<'a, Option<Tree>>;

    /// Removes the oldest records until the rest is within bounds.
    fn prune<'a>(&'a self, retention: &'a Retention) -> Answer<'a, Pruned>;

    /// How much is kept.
    fn size(&self) -> Answer<'_, Size>;

    /// The tools that this namespace was seen with.
    fn known_tools<'a>(&'a self, namespace: &'a str) -> Answer<'a, Vec<ToolId>>;

    /// Adds tools to those that this namespace was seen with.
    fn remember_tools<'a>(&'a self, namespace: &'a str, tools: &'a [ToolId]) -> Answer<'a, ()>;

    /// Records the first list of a server as approved, if none was recorded before, and gives all tools that are known
    /// in the namespace. All of it or nothing, also where several do it at once.
    ///
    /// Approved is the first list of each of the `servers` with which a namespace is seen for the first time. What a
    /// server lists later, and what servers list that were added later, is not.
    fn approve_first_list<'a>(
        &'a self,
        namespace: &'a str,
        servers: &'a [Arc<str>],
        server: &'a str,
        tools: &'a [ToolId],
    ) -> Answer<'a, Vec<ToolId>>;

    /// Writes all of the audit's lines, or none.
    fn append_audit<'a>(&'a self, lines: &'a [AuditRecord]) -> Answer<'a, ()>;

    /// The newest `limit` lines of the audit that began at `since_us` or later (microseconds since 1970),
    /// oldest first.
    fn audit(&self, since_us: i64, limit: usize) -> Answer<'_, Vec<AuditRecord>>;

    /// Ends all work and lets go of what is open. Whatever is asked afterwards fails.
    fn close(&self) -> Boxed<'_, ()>;
}

/// One line of the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// When the call began, or when this happened, in microseconds since 1970.
    pub at_us: i64,
    /// `call`, `intent`, `lost`, `begin` or `torn`.
    pub event: String,
    /// The call, where it is about one.
    pub call_id: Option<String>,
    /// How the call ended, where it did.
    pub outcome: Option<String>,
    /// The record: one JSON object.
    pub line: String,
}

/// Which records are wanted. The default lets all pass.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Tools, by identity.
    pub tool: Option<Selector>,
    /// Outcomes, any of them; all if there are none.
    pub outcomes: Vec<String>,
    /// Only what did not end well.
    pub failed: bool,
    /// Who called, as `local:me`, or just `me`.
    pub principal: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// The connection.
    pub session: Option<String>,
    /// What began at this time or later, in microseconds since 1970.
    pub since_us: Option<i64>,
    /// The beginning or the end of an id.
    pub id_part: Option<String>,
    /// What was written after this.
    pub newer_than: Option<Cursor>,
}

/// The outcomes that [`Filter::failed`] does not let pass.
pub(crate) const FINE: [&str; 3] = ["ok", "preview", "input_required"];

/// A place in the order of the records. Stays what it is when records come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub(crate) i64);

impl Cursor {
    /// The place after this one: a page from there begins with what stands here.
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

/// Some records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The records, newest first.
    pub records: Vec<CallRecord>,
    /// Where to go on, if there may be more.
    pub next: Option<Cursor>,
    /// The newest record of all, whether or not the filter lets it pass. Asking for what is newer misses
    /// nothing and repeats nothing.
    pub head: Cursor,
}

/// Calls that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Each call followed by those that were made on its behalf, in the order in which they began.
    pub nodes: Vec<Node>,
    /// The parent that the first one names and that is not, or no longer, in the store.
    pub missing_parent: Option<String>,
    /// Whether there are more than a store gives at once.
    pub is_cut: bool,
}

/// One call of a [`Tree`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// How many calls stand above it.
    pub depth: usize,
    /// The call.
    pub record: CallRecord,
}

/// How long records are kept. `None` is without end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Records that began longer ago are removed.
    pub age: Option<Duration>,
    /// The most records.
    pub records: Option<u64>,
    /// The most bytes, all records together.
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

/// How many records were removed, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// They were too old.
    pub by_age: u64,
    /// They were too many.
    pub by_records: u64,
    /// They were too large.
    pub by_bytes: u64,
}

impl Pruned {
    /// All of them.
    #[must_use]
    pub fn total(self) -> u64 {
        self.by_age + self.by_records + self.by_bytes
    }
}

/// How much is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Records.
    pub records: u64,
    /// Bytes that they take, indexes included.
    pub bytes: u64,
}
