//! A rule of the rate limit: GCRA by the crate governor for rates, a counter for quotas.

use std::{
    cell::Cell,
    hash::{Hash, Hasher},
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use governor::{
    Quota, RateLimiter, clock::Clock, middleware::NoOpMiddleware, nanos::Nanos, state::StateStore,
};

use super::{
    config::{Dimensions, QuotaRule, RateRule, Selectors},
    counters::Time,
};
use crate::identity::ToolId;

/// Governor with the cells and the clock of [`Counters`](super::Counters).
type Limiter = RateLimiter<CellCopy, StatelessStore, GovernorClock, NoOpMiddleware<Duration>>;

const DAY: i64 = 24 * 60 * 60;

/// A rate or a quota.
#[derive(Debug)]
pub(super) struct LimitRule {
    tools: Selectors,
    /// The scope in which calls are counted together.
    pub(super) per: Dimensions,
    /// The key of its cells. Two chains share the cells of equal rules.
    pub(super) id: Arc<str>,
    /// The rule in words: `10/s per principal`.
    pub(super) description: String,
    pub(super) kind: LimitKind,
}

/// The kind of limit.
pub(super) enum LimitKind {
    /// Calls per interval.
    Rate(Box<Limiter>),
    /// Calls per day.
    Quota(u64),
}

impl std::fmt::Debug for LimitKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Rate(_) => "Rate",
            Self::Quota(_) => "Quota",
        })
    }
}

impl LimitRule {
    /// `None` if the rate is too high to represent.
    pub(super) fn rate(rule: &RateRule, time: &Arc<dyn Time>) -> Option<Self> {
        let burst = NonZeroU32::new(rule.burst.unwrap_or(rule.limit.calls))?;
        let quota = Quota::with_period(rule.limit.interval())?.allow_burst(burst);
        let limiter = Limiter::new(quota, StatelessStore, GovernorClock::new(Arc::clone(time)));
        let description = format!("{} per {}", rule.limit, rule.per);
        Some(Self {
            id: format!("rate {}: {description}, burst {burst}", rule.tools).into(),
            tools: rule.tools.clone(),
            per: rule.per.clone(),
            description,
            kind: LimitKind::Rate(Box::new(limiter)),
        })
    }

    pub(super) fn quota(rule: &QuotaRule) -> Self {
        Self {
            // The id has no limit, so that the day's count stays when the limit changes.
            id: format!("quota {}: per {}", rule.tools, rule.per).into(),
            tools: rule.tools.clone(),
            per: rule.per.clone(),
            description: format!("{} per {}", rule.limit, rule.per),
            kind: LimitKind::Quota(u64::from(rule.limit.0)),
        }
    }

    pub(super) fn covers(&self, tool: &ToolId) -> bool {
        self.tools.0.iter().any(|selector| selector.covers(tool))
    }

    /// Its name in refusals and explanations.
    pub(super) fn name(&self) -> String {
        format!("{}: {}", self.tools, self.description)
    }

    /// The cell's value after one more call, or the time to wait. Does not change the cell.
    pub(super) fn next(&self, cell: Option<u64>, time: &dyn Time) -> Result<u64, Duration> {
        match &self.kind {
            LimitKind::Rate(limiter) => {
                let slot = CellCopy { cell, next: Cell::new(0) };
                match limiter.check_key(&slot) {
                    Ok(()) => Ok(slot.next.get()),
                    Err(until) => Err(until.wait_time_from(time.elapsed())),
                }
            }
            LimitKind::Quota(most) => match cell.unwrap_or(0) {
                used if used < *most => Ok(used + 1),
                _ => Err(until_midnight(time.unix_seconds())),
            },
        }
    }
}

/// The day, in days since 1970.
pub(super) fn day(unix_seconds: i64) -> i64 {
    unix_seconds.div_euclid(DAY)
}

fn until_midnight(unix_seconds: i64) -> Duration {
    let left = DAY - unix_seconds.rem_euclid(DAY);
    Duration::from_secs(left.unsigned_abs())
}

/// A copy of one cell on which governor decides. It is stored only if every rule admits the call, so that a refused
/// call does not count for the other rules.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct CellCopy {
    cell: Option<u64>,
    next: Cell<u64>,
}

/// Governor requires `Hash`; slots are not used as keys.
impl Hash for CellCopy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.cell.hash(state);
    }
}

/// A stateless store for governor: each key contains its state.
#[derive(Debug)]
pub(super) struct StatelessStore;

impl StateStore for StatelessStore {
    type Key = CellCopy;

    fn measure_and_replace<T, F, E>(&self, slot: &CellCopy, decide: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let (outcome, next) = decide(slot.cell.map(Nanos::from))?;
        slot.next.set(next.into());
        Ok(outcome)
    }
}

/// The clock for governor. It starts at zero for every rule, so that cells keep their meaning in the chain of a new
/// config.
pub(super) struct GovernorClock {
    time: Arc<dyn Time>,
    has_begun: AtomicBool,
}

impl GovernorClock {
    fn new(time: Arc<dyn Time>) -> Self {
        Self { time, has_begun: AtomicBool::new(false) }
    }
}

impl Clock for GovernorClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        let has_begun = self.has_begun.swap(true, Ordering::Relaxed);
        if has_begun { self.time.elapsed() } else { Duration::ZERO }
    }
}
