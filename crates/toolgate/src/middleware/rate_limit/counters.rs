//! What was used up so far: one cell for each rule and for each caller that it tells apart.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    config::{By, Per},
    rounds::Rounds,
};
use crate::{
    call::Call,
    context::Context,
    identity::{Principal, ToolId},
};

/// How many cells are kept at most, of rates and of quotas each. Callers beyond that share one cell for
/// each rule: memory stays bounded, and nobody goes uncounted.
pub(super) const MOST_CELLS: usize = 65_536;
/// With fewer cells nobody looks for old ones.
const FEW_CELLS: usize = 1024;
/// While there is no room, old cells are looked for no more often than this.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// What time it is.
pub(super) trait Time: Send + Sync {
    /// Since some moment that stays the same.
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

/// What was used up so far, to be handed from one chain to the next when the config changes. In memory:
/// each process counts for itself, and begins anew when it starts.
///
/// One for each namespace. A clone is the same counters.
#[derive(Clone)]
pub struct Counters {
    board: Arc<Mutex<Board>>,
    time: Arc<dyn Time>,
}

impl Counters {
    pub(super) fn with_time(time: Arc<dyn Time>) -> Self {
        Self { board: Arc::default(), time }
    }

    /// Held for as long as a few cells are looked at, and never over a wait.
    pub(super) fn lock(&self) -> MutexGuard<'_, Board> {
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

/// Whose cell it is: the rule, and whatever the rule tells calls apart by. All of it is known at the
/// door; nothing comes from a message.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    rule: Arc<str>,
    principal: Option<Principal>,
    namespace: Option<Arc<str>>,
    tool: Option<ToolId>,
    session: Option<Arc<str>>,
}

impl Key {
    pub(super) fn new(rule: &Arc<str>, per: &Per, cx: &Context, call: &Call) -> Self {
        let mut key = Self::shared(rule);
        let session = cx.session();
        for by in &per.0 {
            match by {
                By::Principal => key.principal = Some(session.principal.clone()),
                By::Namespace => key.namespace = Some(Arc::clone(&session.namespace)),
                By::Tool => key.tool = Some(call.id().clone()),
                By::Session => key.session = Some(Arc::clone(&session.id)),
            }
        }
        key
    }

    /// The cell of all callers for whom there is no room.
    fn shared(rule: &Arc<str>) -> Self {
        let rule = Arc::clone(rule);
        Self { rule, principal: None, namespace: None, tool: None, session: None }
    }
}

/// All cells. What the number in a cell means is its user's affair; a cell that says no more than a new
/// one would is old and may go.
#[derive(Default)]
pub(super) struct Board {
    /// When each cell will have recovered, in nanoseconds of [`Time::elapsed`].
    pub(super) rates: Cells,
    /// How many calls there were today.
    pub(super) quotas: Cells,
    /// Calls that were counted and may go on.
    pub(super) rounds: Rounds,
    /// Which day `quotas` are of, in days since 1970.
    day: i64,
}

impl Board {
    /// Begins a new day if it is one. A clock that is set back does not bring yesterday's quota again.
    pub(super) fn begin_day(&mut self, day: i64) {
        if day > self.day {
            self.day = day;
            self.quotas = Cells::default();
        }
    }
}

/// Cells by their keys, never more than [`MOST_CELLS`] and one for each rule.
#[derive(Default)]
pub(super) struct Cells {
    by_key: HashMap<Key, u64>,
    /// How many there were after old ones were last looked for, and when that was.
    kept: usize,
    swept: Duration,
}

impl Cells {
    pub(super) fn get(&self, key: &Key) -> Option<u64> {
        self.by_key.get(key).copied()
    }

    pub(super) fn set(&mut self, key: Key, value: u64) {
        self.by_key.insert(key, value);
    }

    /// The key under which a caller is counted: its own, or the shared one if there is no room for more.
    pub(super) fn place(&mut self, key: Key, now: Duration, is_old: impl Fn(u64) -> bool) -> Key {
        if self.by_key.contains_key(&key) {
            return key;
        }
        let many = self.by_key.len();
        let is_full = many >= MOST_CELLS;
        // Each time there are twice as many, so that looking costs each call next to nothing.
        let has_doubled = many >= FEW_CELLS && many / 2 >= self.kept;
        if has_doubled || (is_full && now.saturating_sub(self.swept) >= SWEEP_PAUSE) {
            self.by_key.retain(|_, value| !is_old(*value));
            self.kept = self.by_key.len();
            self.swept = now;
        }
        if self.by_key.len() >= MOST_CELLS { Key::shared(&key.rule) } else { key }
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }
}
