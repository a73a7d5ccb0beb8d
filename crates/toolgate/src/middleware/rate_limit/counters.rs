//! The counters of the rate limit: one cell per rule and caller.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    config::{Dimension, Dimensions},
    rounds::Rounds,
};
use crate::{
    call::Call,
    context::Context,
    identity::{Principal, ToolId},
};

/// Largest number of cells, for rates and quotas each. Further callers share one cell per rule, so that memory is
/// bounded and every call is counted.
pub(super) const MAX_CELLS: usize = 65_536;
/// Smallest number of cells at which old ones are removed.
const FEW_CELLS: usize = 1024;
/// Smallest interval between searches for old cells while all cells are in use.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// The current time.
pub(super) trait Time: Send + Sync {
    /// Time since a fixed moment.
    fn elapsed(&self) -> Duration;
    /// Seconds since 1970, UTC.
    fn unix_seconds(&self) -> i64;
}

struct SystemTime(tokio::time::Instant);

impl Time for SystemTime {
    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn unix_seconds(&self) -> i64 {
        jiff::Timestamp::now().as_second()
    }
}

/// The counters of a namespace, which a chain passes to its successor when the config changes. They are in memory:
/// each process has its own, and they start at zero.
///
/// Clones share the counters.
#[derive(Clone)]
pub struct Counters {
    board: Arc<Mutex<CounterTables>>,
    time: Arc<dyn Time>,
}

impl Counters {
    pub(super) fn with_time(time: Arc<dyn Time>) -> Self {
        Self { board: Arc::default(), time }
    }

    /// Locked for a few lookups, never across an `await`.
    pub(super) fn lock(&self) -> MutexGuard<'_, CounterTables> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn time(&self) -> &Arc<dyn Time> {
        &self.time
    }
}

impl Default for Counters {
    fn default() -> Self {
        Self::with_time(Arc::new(SystemTime(tokio::time::Instant::now())))
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let board = self.lock();
        write!(f, "Counters({} rates, {} quotas)", board.rates.len(), board.quotas.len())
    }
}

/// The key of a cell: the rule and the properties by which it separates callers. None of them comes from a message.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct CounterKey {
    rule: Arc<str>,
    principal: Option<Principal>,
    namespace: Option<Arc<str>>,
    tool: Option<ToolId>,
    session: Option<Arc<str>>,
}

impl CounterKey {
    pub(super) fn new(rule: &Arc<str>, per: &Dimensions, cx: &Context, call: &Call) -> Self {
        let mut key = Self::shared(rule);
        let session = cx.session();
        for by in &per.0 {
            match by {
                Dimension::Principal => key.principal = Some(session.principal.clone()),
                Dimension::Namespace => key.namespace = Some(Arc::clone(&session.namespace)),
                Dimension::Tool => key.tool = Some(call.id().clone()),
                Dimension::Session => key.session = Some(Arc::clone(&session.id)),
            }
        }
        key
    }

    /// The shared cell for callers beyond the limit.
    fn shared(rule: &Arc<str>) -> Self {
        let rule = Arc::clone(rule);
        Self { rule, principal: None, namespace: None, tool: None, session: None }
    }
}

/// All cells. The meaning of a value depends on the rule. A cell with the value of a new one is old and may be
/// removed.
#[derive(Default)]
pub(super) struct CounterTables {
    /// The time at which each cell will have recovered, in nanoseconds of [`Time::elapsed`].
    pub(super) rates: Cells,
    /// Calls of this day.
    pub(super) quotas: Cells,
    /// Calls that were counted and may continue.
    pub(super) rounds: Rounds,
    /// The day of `quotas`, in days since 1970.
    day: i64,
}

impl CounterTables {
    /// Resets the quotas on a new day. A clock that is set back does not reset them.
    pub(super) fn begin_day(&mut self, day: i64) {
        if day > self.day {
            self.day = day;
            self.quotas = Cells::default();
        }
    }
}

/// Cells by key: at most [`MAX_CELLS`], and one shared cell per rule.
#[derive(Default)]
pub(super) struct Cells {
    by_key: HashMap<CounterKey, u64>,
    /// The number of cells after the last removal of expired cells, and the time of that removal.
    kept: usize,
    swept: Duration,
}

impl Cells {
    pub(super) fn get(&self, key: &CounterKey) -> Option<u64> {
        self.by_key.get(key).copied()
    }

    pub(super) fn set(&mut self, key: CounterKey, value: u64) {
        self.by_key.insert(key, value);
    }

    /// The key under which a caller is counted: its own, or the shared one at the limit.
    pub(super) fn place(
        &mut self,
        key: CounterKey,
        now: Duration,
        is_old: impl Fn(u64) -> bool,
    ) -> CounterKey {
        if self.by_key.contains_key(&key) {
            return key;
        }
        let many = self.by_key.len();
        let is_full = many >= MAX_CELLS;
        // Search whenever the number has doubled, so that the amortized cost per call is small.
        let has_doubled = many >= FEW_CELLS && many / 2 >= self.kept;
        if has_doubled || (is_full && now.saturating_sub(self.swept) >= SWEEP_PAUSE) {
            self.by_key.retain(|_, value| !is_old(*value));
            self.kept = self.by_key.len();
            self.swept = now;
        }
        if self.by_key.len() >= MAX_CELLS { CounterKey::shared(&key.rule) } else { key }
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }
}
