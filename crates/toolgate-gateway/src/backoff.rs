//! How long to wait before something that failed is tried again.

use std::time::{Duration, Instant};

/// Waits that double, from a first one up to a longest one.
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
    /// Since when it works, if it does.
    started: Option<Instant>,
}

impl Backoff {
    /// For servers that are started or connected to again.
    pub(crate) fn new() -> Self {
        Self::between(Duration::from_millis(100), Duration::from_secs(30))
    }

    pub(crate) fn between(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first, started: None }
    }

    /// It works now. What works for twice the longest wait begins with the first wait again.
    pub(crate) fn started(&mut self) {
        self.started = Some(Instant::now());
    }

    /// It failed: how long to wait.
    pub(crate) fn wait(&mut self) -> Duration {
        if self.started.take().is_some_and(|started| started.elapsed() > self.longest * 2) {
            self.next = self.first;
        }
        let wait = self.next;
        self.next = (wait * 2).min(self.longest);
        wait
    }

    /// The same for an attempt that took this long: what costs the server much time is not asked of it all the time.
    pub(crate) fn wait_after(&mut self, attempt: Duration) -> Duration {
        self.wait().max(attempt.min(self.longest))
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let mut backoff = Backoff::between(Duration::from_secs(1), Duration::from_secs(3));
        let waits: Vec<u64> = (0..4).map(|_| backoff.wait().as_secs()).collect();
        assert_eq!(waits, [1, 2, 3, 3]);
        backoff.started();
        assert_eq!(backoff.wait(), Duration::from_secs(3), "it worked for a moment only");
    }
    #[test]
    fn a_long_attempt_is_followed_by_a_wait_as_long() {
        let mut backoff = Backoff::between(Duration::from_millis(100), Duration::from_secs(30));
        assert_eq!(backoff.wait_after(Duration::from_secs(4)), Duration::from_secs(4));
        assert_eq!(backoff.wait_after(Duration::from_secs(90)), Duration::from_secs(30));
        assert_eq!(backoff.wait_after(Duration::from_millis(1)), Duration::from_millis(400));
    }
}
