//! Event streams that broke off: after which event to ask for the rest, and when.

use std::time::Duration;

use hyper::header::HeaderValue;
use toolgate_wire::sse::Event;

use crate::backoff::Backoff;

/// So often the rest is asked for without a new event.
const MAX_ATTEMPTS: u32 = 6;
/// The longest wait, whatever the server asks for.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// What is known of a stream that may have to be resumed.
#[derive(Debug, Default)]
pub(crate) struct Resume {
    last_event: Option<HeaderValue>,
    /// How long the server wants us to wait.
    retry: Option<Duration>,
    attempts: u32,
    backoff: Backoff,
}

impl Resume {
    /// Notes what an event says about its stream.
    pub(crate) fn note(&mut self, event: &Event) {
        if let Some(id) = event.id.as_ref().and_then(|id| HeaderValue::from_bytes(id).ok()) {
            self.last_event = Some(id);
            self.attempts = 0;
        }
        self.retry = event.retry.map(Duration::from_millis).or(self.retry);
        self.backoff = Backoff::new();
    }

    /// The id of the last event, after which the stream goes on.
    pub(crate) fn last_event(&self) -> Option<&HeaderValue> {
        self.last_event.as_ref()
    }

    /// The stream was opened.
    pub(crate) fn opened(&mut self) {
        self.backoff.started();
    }

    /// How long to wait before a stream that ended is opened again.
    pub(crate) fn wait(&mut self) -> Duration {
        self.retry.unwrap_or_else(|| self.backoff.wait()).min(MAX_WAIT)
    }

    /// How long to wait after a stream could not be opened.
    pub(crate) fn wait_after_failure(&mut self) -> Duration {
        self.backoff.wait().max(self.retry.unwrap_or_default()).min(MAX_WAIT)
    }

    /// How long to wait before the rest of a response is asked for; `None`: the server does not offer that, or did not
    /// deliver it.
    pub(crate) fn attempt(&mut self) -> Option<Duration> {
        self.attempts += 1;
        if self.last_event.is_none() || self.attempts > MAX_ATTEMPTS {
            return None;
        }
        Some(if self.attempts == 1 { self.wait() } else { self.wait_after_failure() })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn event(id: &'static str, retry: Option<u64>) -> Event {
        Event { id: Some(Bytes::from_static(id.as_bytes())), retry, ..Event::default() }
    }

    #[test]
    fn only_a_stream_with_ids_is_resumed_and_not_for_ever() {
        let mut resume = Resume::default();
        assert_eq!(resume.attempt(), None, "no event had an id");
        resume.note(&event("7", Some(20)));
        assert_eq!(resume.last_event().unwrap(), "7");
        assert_eq!(resume.attempt(), Some(Duration::from_millis(20)), "as the server says");
        for _ in 1..MAX_ATTEMPTS {
            assert!(resume.attempt().unwrap() >= Duration::from_millis(100));
        }
        assert_eq!(resume.attempt(), None);
        resume.note(&event("8", None));
        assert!(resume.attempt().is_some(), "there was a new event");
    }

    #[test]
    fn waits_are_bounded_and_grow_while_nothing_comes() {
        let mut resume = Resume::default();
        let first = resume.wait();
        assert!(resume.wait_after_failure() > first);
        resume.note(&event("1", Some(u64::MAX)));
        assert_eq!((resume.wait(), resume.wait_after_failure()), (MAX_WAIT, MAX_WAIT));
    }
}
