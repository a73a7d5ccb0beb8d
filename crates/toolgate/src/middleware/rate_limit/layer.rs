//! The layer itself: counts calls and refuses those beyond the rates and quotas.

#[cfg(test)]
mod tests;

use std::{cmp::Reverse, time::Duration};

use super::{
    BadRateLimit, Counters, NAME, RateLimitConfig,
    counters::CounterKey,
    limiter::{self, LimitKind, LimitRule},
    rounds,
};
use crate::{
    call::Call,
    context::Context,
    failure::Failure,
    layer::Next,
    middleware::{Explanation, Hooks, Middleware, Order},
    outcome::Outcome,
    registry::Code,
};

/// Refuses calls beyond the rates and quotas.
#[derive(Debug)]
pub struct RateLimit {
    rules: Vec<LimitRule>,
    counters: Counters,
}

/// Whether a decision counts the call: explanations do not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counting {
    On,
    Off,
}

impl RateLimit {
    /// Builds the layer. When the config changes, pass the counters of the previous chain: rules that did not change keep
    /// their counts.
    pub fn new(config: &RateLimitConfig, counters: Counters) -> Result<Self, BadRateLimit> {
        if !config.is_on() {
            return Err(BadRateLimit::Nothing);
        }
        let mut rules: Vec<LimitRule> = Vec::new();
        for rate in &config.rate {
            let rule = LimitRule::rate(rate, counters.time()).filter(|_| !rate.tools.0.is_empty());
            let name = || BadRateLimit::Empty(format!("{}: {}", rate.tools, rate.limit));
            rules.push(rule.ok_or_else(name)?);
        }
        rules.extend(config.quota.iter().map(LimitRule::quota));
        for (at, rule) in rules.iter().enumerate() {
            if rules.iter().take(at).any(|other| other.id == rule.id) {
                return Err(BadRateLimit::DuplicateRule(rule.name()));
            }
        }
        Ok(Self { rules, counters })
    }

    /// Decides about a call. Checks all rules that cover the tool. Counts the call under all of them, but only if every
    /// rule allows it.
    fn decide(&self, cx: &Context, call: &Call, counting: Counting) -> Result<(), Failure> {
        let covering = || self.rules.iter().filter(|rule| rule.covers(call.id()));
        if covering().next().is_none() {
            return Ok(());
        }
        let time = self.counters.time().as_ref();
        let mut board = self.counters.lock();
        let now = time.elapsed();
        board.begin_day(limiter::day(time.unix_seconds()));
        let mut used = Vec::with_capacity(self.rules.len());
        let mut refused: Vec<(&LimitRule, Duration)> = Vec::new();
        for rule in covering() {
            let key = CounterKey::new(&rule.id, &rule.per, cx, call);
            let (cells, recovered) = match &rule.kind {
                LimitKind::Rate(_) => (&mut board.rates, nanos(now)),
                LimitKind::Quota(_) => (&mut board.quotas, 0),
            };
            let key = cells.place(key, now, |value| value <= recovered);
            match rule.next(cells.get(&key), time) {
                Ok(next) => used.push((rule, key, next)),
                Err(wait) => refused.push((rule, wait)),
            }
        }
        // The longest wait: after a shorter one another rule would refuse.
        refused.sort_by_key(|(_, wait)| Reverse(*wait));
        if let Some((rule, wait)) = refused.first() {
            return Err(refusal(rule, call, *wait));
        }
        if counting == Counting::On {
            for (rule, key, next) in used {
                match &rule.kind {
                    LimitKind::Rate(_) => board.rates.set(key, next),
                    LimitKind::Quota(_) => board.quotas.set(key, next),
                }
            }
        }
        Ok(())
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn refusal(rule: &LimitRule, call: &Call, wait: Duration) -> Failure {
    let (tool, limit) = (call.id().name(), &rule.description);
    let seconds = (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1);
    let failure = match &rule.kind {
        LimitKind::Rate(_) => Failure::new(
            Code::RateLimited,
            format!("Too many calls to {tool}: {limit}; try again in {seconds}s"),
        )
        .suggest(format!("Wait {seconds} seconds, then call again.")),
        LimitKind::Quota(_) => Failure::new(
            Code::QuotaExceeded,
            format!(
                "The quota for {tool} is used up: {limit}; the next day begins at midnight UTC, in \
                 {seconds}s"
            ),
        )
        .suggest("Wait for the next day, or ask the operator for more."),
    };
    failure.retry_after(Duration::from_secs(seconds)).by(NAME, rule.name())
}

impl Middleware for RateLimit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe(&self) -> String {
        let rules: Vec<String> = self.rules.iter().map(LimitRule::name).collect();
        rules.join("; ")
    }

    fn hooks(&self) -> Hooks {
        Hooks::CALL
    }

    fn order(&self) -> &'static [Order] {
        const DENIED: &str = "a call that is refused anyway must not be counted";
        &[
            Order::Inside(
                crate::middleware::error_results::NAME,
                "a refusal is rendered with the time to wait",
            ),
            Order::Inside(crate::middleware::validate::NAME, DENIED),
            Order::Inside(crate::middleware::filter::NAME, DENIED),
            Order::Inside(crate::middleware::flags::NAME, DENIED),
            Order::Inside(crate::middleware::policy::NAME, DENIED),
            Order::Inside(crate::middleware::safety::NAME, DENIED),
            Order::Outside(
                crate::middleware::retry::NAME,
                "a call counts once, however often it is tried",
            ),
        ]
    }

    fn explain(&self, cx: &Context, call: &Call) -> Option<Explanation> {
        let covering: Vec<String> =
            self.rules.iter().filter(|rule| rule.covers(call.id())).map(LimitRule::name).collect();
        if covering.is_empty() {
            return None;
        }
        Some(Explanation::of(&self.decide(cx, call, Counting::Off), &covering.join("; ")))
    }

    async fn call(&self, cx: &mut Context, call: Call, next: Next<'_>) -> Outcome {
        if !self.rules.iter().any(|rule| rule.covers(call.id())) {
            return next.call(cx, call).await;
        }
        let now = || self.counters.time().elapsed();
        let goes_on = self.counters.lock().rounds.take(cx, &call, now());
        if !goes_on && let Err(denial) = self.decide(cx, &call, Counting::On) {
            return denial.into();
        }
        let outcome = next.call(cx, call.clone()).await;
        if rounds::may_go_on(&outcome) {
            self.counters.lock().rounds.expect(cx, &call, &outcome, now());
        }
        outcome
    }
}
