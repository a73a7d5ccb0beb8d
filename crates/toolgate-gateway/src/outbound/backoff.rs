//! How long to wait before a server that failed is started again.

use std::time::{Duration, Instant};

/// The first wait; each further one is twice as long.
const FIRST: Duration = Duration::from_millis(100);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(30);
/// A server that ran this long starts from the first wait again.
const HEALTHY: Duration = Duration::from_mins(1);

/// How long to wait before the next start.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    /// Since when it is up, if it came up at all.
    started: Option<Instant>,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self { next: FIRST, started: None }
    }

    /// The server is up now.
    pub(crate) fn started(&mut self) {
        self.started = Some(Instant::now());
    }

    /// The server ended: how long to wait.
    pub(crate) fn wait(&mut self) -> Duration {
        if self.started.take().is_some_and(|started| started.elapsed() > HEALTHY) {
            self.next = FIRST;
        }
        let wait = self.next;
        self.next = (self.next * 2).min(LONGEST);
        wait
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new()
    }
}
