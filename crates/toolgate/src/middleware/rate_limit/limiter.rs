//! One rule, ready to decide: governor's algorithm for rates, a count for quotas.

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
    config::{Per, QuotaRule, RateRule, Selectors},
    counters::Time,
};
use crate::identity::ToolId;

/// Governor, on cells of ours and by a clock of ours.
type Limiter = RateLimiter<Slot, Slots, Watch, NoOpMiddleware<Duration>>;

const DAY: i64 = 24 * 60 * 60;

/// One rule of either kind.
#[derive(Debug)]
pub(super) struct Rule {
    tools: Selectors,
    /// Whose calls are counted together.
    pub(super) per: Per,
    /// Under which name it keeps its cells. The same in two chains if it counts the same.
    pub(super) id: Arc<str>,
    /// How it is told: `10/s per principal`.
    pub(super) told: String,
    pub(super) kind: Kind,
}

/// What a rule limits.
pub(super) enum Kind {
    /// Calls in a time.
    Rate(Box<Limiter>),
    /// Calls in a day.
    Quota(u64),
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Rate(_) => "Rate",
            Self::Quota(_) => "Quota",
        })
    }
}

impl Rule {
    /// `None` if nothing can be that often.
    pub(super) fn rate(rule: &RateRule, time: &Arc<dyn Time>) -> Option<Self> {
        let burst = NonZeroU32::new(rule.burst.unwrap_or(rule.limit.calls))?;
        let quota = Quota::with_period(rule.limit.interval())?.allow_burst(burst);
        let limiter = Limiter::new(quota, Slots, Watch::new(Arc::clone(time)));
        let told = format!("{} per {}", rule.limit, rule.per);
        Some(Self {
            id: format!("rate {}: {told}, burst {burst}", rule.tools).into(),
            tools: rule.tools.clone(),
            per: rule.per.clone(),
            told,
            kind: Kind::Rate(Box::new(limiter)),
        })
    }

    pub(super) fn quota(rule: &QuotaRule) -> Self {
        Self {
            // Without the limit: a day that began stays counted when the limit changes.
            id: format!("quota {}: per {}", rule.tools, rule.per).into(),
            tools: rule.tools.clone(),
            per: rule.per.clone(),
            told: format!("{} per {}", rule.limit, rule.per),
            kind: Kind::Quota(u64::from(rule.limit.0)),
        }
    }

    pub(super) fn covers(&self, tool: &ToolId) -> bool {
        self.tools.0.iter().any(|selector| selector.covers(tool))
    }

    /// Its name in refusals and explanations.
    pub(super) fn name(&self) -> String {
        format!("{}: {}", self.tools, self.told)
    }

    /// What the cell holds after one more call, or how long to wait. Changes nothing.
    pub(super) fn next(&self, cell: Option<u64>, time: &dyn Time) -> Result<u64, Duration> {
        match &self.kind {
            Kind::Rate(limiter) => {
                let slot = Slot { cell, next: Cell::new(0) };
                match limiter.check_key(&slot) {
                    Ok(()) => Ok(slot.next.get()),
                    Err(until) => Err(until.wait_time_from(time.elapsed())),
                }
            }
            Kind::Quota(most) => match cell.unwrap_or(0) {
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

/// A copy of one cell for governor to decide on. It is put back only if every rule lets the call pass,
/// so that a call that one rule refuses uses up nothing of the others.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Slot {
    cell: Option<u64>,
    next: Cell<u64>,
}

/// Governor asks for it; nobody keeps slots in a map.
impl Hash for Slot {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.cell.hash(state);
    }
}

/// A store for governor that keeps nothing: each key brings its state along.
#[derive(Debug)]
pub(super) struct Slots;

impl StateStore for Slots {
    type Key = Slot;

    fn measure_and_replace<T, F, E>(&self, slot: &Slot, decide: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let (outcome, next) = decide(slot.cell.map(Nanos::from))?;
        slot.next.set(next.into());
        Ok(outcome)
    }
}

/// The clock for governor. The first reading, which it counts from, is zero for every rule, so that
/// cells mean the same in the chain that comes after a change of the config.
pub(super) struct Watch {
    time: Arc<dyn Time>,
    has_begun: AtomicBool,
}

impl Watch {
    fn new(time: Arc<dyn Time>) -> Self {
        Self { time, has_begun: AtomicBool::new(false) }
    }
}

impl Clock for Watch {
    type Instant = Duration;

    fn now(&self) -> Duration {
        let has_begun = self.has_begun.swap(true, Ordering::Relaxed);
        if has_begun { self.time.elapsed() } else { Duration::ZERO }
    }
}
