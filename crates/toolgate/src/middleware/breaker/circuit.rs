//! One circuit: closed while calls succeed, open for a while after they failed, then tried by one call.

use std::time::Duration;

use tokio::time::Instant;

use super::config::BreakerConfig;

/// What the calls to one server, or of one tool, came to.
#[derive(Debug, Default)]
pub(super) struct Circuit {
    /// Failures since the last success.
    in_a_row: u32,
    /// The last calls, the newest in the lowest bit: set if it failed.
    last: u64,
    /// How many of these bits are calls.
    seen: u32,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    until: Instant,
    /// How long it was this time.
    wait: Duration,
    /// A call is on its way to find out.
    is_tried: bool,
}

/// Whether a call may pass.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// As any.
    Free,
    /// To find out whether the server is well again.
    Trial,
    /// Not yet: so long.
    Refused(Duration),
}

/// How a call ended, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The server answered.
    Well,
    /// It did not, or not in time, or not in words that can be read.
    Failed,
    /// It says nothing about the server.
    Unclear,
}

impl Circuit {
    pub(super) fn pass(&mut self, now: Instant) -> Pass {
        let Some(open) = &mut self.open else { return Pass::Free };
        if now < open.until {
            return Pass::Refused(open.until - now);
        }
        if open.is_tried {
            // Whoever comes while it is tried waits as long as for the next trial.
            return Pass::Refused(open.wait);
        }
        open.is_tried = true;
        Pass::Trial
    }

    /// Notes the end of a call that passed. `true` if that opened the circuit.
    pub(super) fn ended(
        &mut self,
        ending: Ending,
        was_trial: bool,
        config: &BreakerConfig,
        now: Instant,
    ) -> bool {
        match (&mut self.open, ending) {
            // It began before the circuit opened: the trial decides, not this one.
            (Some(_), _) if !was_trial => false,
            (Some(open), Ending::Unclear) => {
                open.is_tried = false;
                false
            }
            (Some(_), Ending::Well) => {
                *self = Self::default();
                false
            }
            (Some(open), Ending::Failed) => {
                let wait = open.wait.saturating_mul(2).min(config.max_wait);
                *open = Open { until: now + wait, wait, is_tried: false };
                true
            }
            (None, Ending::Unclear) => false,
            (None, ending) => {
                let failed = ending == Ending::Failed;
                self.in_a_row = if failed { self.in_a_row.saturating_add(1) } else { 0 };
                self.last = (self.last << 1) | u64::from(failed);
                self.seen = (self.seen + 1).min(64);
                let opens = failed && self.is_over(config);
                if opens {
                    let (wait, is_tried) = (config.wait, false);
                    self.open = Some(Open { until: now + wait, wait, is_tried });
                }
                opens
            }
        }
    }

    /// How long calls are refused from now on, if they are.
    pub(super) fn open_for(&self, now: Instant) -> Option<Duration> {
        self.open
            .as_ref()
            .and_then(|open| open.until.checked_duration_since(now))
            .filter(|d| !d.is_zero())
    }

    /// Whether nothing that failed is remembered.
    pub(super) fn is_well(&self) -> bool {
        self.open.is_none() && self.last == 0
    }

    fn is_over(&self, config: &BreakerConfig) -> bool {
        let of = config.of.min(64);
        let bits = self.last & (u64::MAX >> (64 - of));
        let share = f64::from(bits.count_ones()) / f64::from(of);
        self.in_a_row >= config.failures || (self.seen >= of && share >= config.share)
    }

    /// Why it is open, in words.
    pub(super) fn why(&self, config: &BreakerConfig) -> String {
        if self.in_a_row >= config.failures && self.in_a_row == 1 {
            "the last call failed".to_owned()
        } else if self.in_a_row >= config.failures {
            format!("{} calls in a row failed", self.in_a_row)
        } else {
            let of = config.of.min(64);
            let failed = (self.last & (u64::MAX >> (64 - of))).count_ones();
            format!("{failed} of the last {of} calls failed")
        }
    }
}
