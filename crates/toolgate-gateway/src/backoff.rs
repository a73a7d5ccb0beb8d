//! Exponential backoff between retries.

use std::time::{Duration, Instant};

/// Retry delays that double from `first` up to `longest`.
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
    /// When the last attempt succeeded, if it did.
    started: Option<Instant>,
}

impl Backoff {
    /// The delays for restarting or reconnecting to servers.
    pub(crate) fn new() -> Self {
        Self::between(Duration::from_millis(100), Duration::from_secs(30))
    }

    pub(crate) fn between(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first, started: None }
    }

    /// Records a success. After a success that lasts twice the longest delay, the next delay is `first` again.
    pub(crate) fn started(&mut self) {
        self.started = Some(Instant::now());
    }

    /// Records a failure and returns the delay before the next attempt.
    pub(crate) fn wait(&mut self) -> Duration {
        if self.started.take().is_some_and(|started| started.elapsed() > self.longest * 2) {
            self.next = self.first;
        }
        let wait = self.next;
        self.next = (wait * 2).min(self.longest);
        wait
    }

    /// Like `wait`, but at least as long as the failed attempt took, so that a slow server is not always busy with retries.
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
