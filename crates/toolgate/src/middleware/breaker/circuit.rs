//! A circuit: closed while calls succeed, open for a time after failures, then half-open for one trial call.

use std::time::Duration;

use tokio::time::Instant;

use super::config::BreakerConfig;

/// The state of the circuit of one server or one tool.
#[derive(Debug, Default)]
pub(super) struct Circuit {
    /// Failures since the last success.
    in_a_row: u32,
    /// The last calls, one bit each, the newest in the lowest bit. A set bit is a failure.
    last: u64,
    /// The number of valid bits.
    seen: u32,
    open: Option<OpenCircuit>,
}

#[derive(Debug)]
struct OpenCircuit {
    until: Instant,
    /// The duration of this opening.
    wait: Duration,
    /// Whether the trial call is running.
    is_tried: bool,
}

/// The decision about a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CircuitDecision {
    /// It passes.
    Free,
    /// It passes as the trial call.
    Trial,
    /// It is refused; the time until the next trial.
    Refused(Duration),
}

/// The end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallEnd {
    /// The server answered.
    Answered,
    /// The server did not answer, not in time or not validly.
    Failed,
    /// The end says nothing about the server.
    Unclear,
}

impl Circuit {
    pub(super) fn pass(&mut self, now: Instant) -> CircuitDecision {
        let Some(open) = &mut self.open else { return CircuitDecision::Free };
        if now < open.until {
            return CircuitDecision::Refused(open.until - now);
        }
        if open.is_tried {
            // Calls during the trial wait as long as for the next trial.
            return CircuitDecision::Refused(open.wait);
        }
        open.is_tried = true;
        CircuitDecision::Trial
    }

    /// Records the end of a call that passed. Returns whether that opened the circuit.
    pub(super) fn ended(
        &mut self,
        ending: CallEnd,
        was_trial: bool,
        config: &BreakerConfig,
        now: Instant,
    ) -> bool {
        match (&mut self.open, ending) {
            // It started before the circuit opened. Only the trial call decides.
            (Some(_), _) if !was_trial => false,
            (Some(open), CallEnd::Unclear) => {
                open.is_tried = false;
                false
            }
            (Some(_), CallEnd::Answered) => {
                *self = Self::default();
                false
            }
            (Some(open), CallEnd::Failed) => {
                let wait = open.wait.saturating_mul(2).min(config.max_wait);
                *open = OpenCircuit { until: now + wait, wait, is_tried: false };
                true
            }
            (None, CallEnd::Unclear) => false,
            (None, ending) => {
                let failed = ending == CallEnd::Failed;
                self.in_a_row = if failed { self.in_a_row.saturating_add(1) } else { 0 };
                self.last = (self.last << 1) | u64::from(failed);
                self.seen = (self.seen + 1).min(64);
                let opens = failed && self.is_over(config);
                if opens {
                    let (wait, is_tried) = (config.wait, false);
                    self.open = Some(OpenCircuit { until: now + wait, wait, is_tried });
                }
                opens
            }
        }
    }

    /// How long calls are refused from now, if they are.
    pub(super) fn open_for(&self, now: Instant) -> Option<Duration> {
        self.open
            .as_ref()
            .and_then(|open| open.until.checked_duration_since(now))
            .filter(|d| !d.is_zero())
    }

    /// Whether it is in its initial state.
    pub(super) fn is_initial(&self) -> bool {
        self.open.is_none() && self.last == 0
    }

    fn is_over(&self, config: &BreakerConfig) -> bool {
        let of = config.of.min(64);
        let bits = self.last & (u64::MAX >> (64 - of));
        let share = f64::from(bits.count_ones()) / f64::from(of);
        self.in_a_row >= config.failures || (self.seen >= of && share >= config.share)
    }

    /// The reason for which it is open, in words.
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
