//! A captured log.

use std::{
    fmt::{self, Write as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tracing::{Level, Metadata, Subscriber, field::Visit, span};

/// The log events of this thread, at every level.
///
/// ```
/// use toolgate::testing::CapturedLog;
///
/// let log = CapturedLog::default();
/// let guard = log.start();
/// tracing::warn!(tool = "files/read", "slow");
/// drop(guard);
/// let (level, line) = log.lines().remove(0);
/// assert_eq!((level, line.contains("files/read")), (tracing::Level::WARN, true));
/// ```
#[derive(Clone, Debug, Default)]
pub struct CapturedLog(Arc<Mutex<Vec<(Level, String)>>>);

impl CapturedLog {
    /// Captures the log until the guard is dropped.
    #[must_use]
    pub fn start(&self) -> tracing::subscriber::DefaultGuard {
        tracing::subscriber::set_default(self.clone())
    }

    /// The events so far: level, then `message` and fields in one line.
    #[must_use]
    pub fn lines(&self) -> Vec<(Level, String)> {
        self.events().clone()
    }

    fn events(&self) -> MutexGuard<'_, Vec<(Level, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscriber for CapturedLog {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        struct Line(String);
        impl Visit for Line {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
                let _ = write!(self.0, "{field}={value:?} ");
            }
        }
        let mut line = Line(String::new());
        event.record(&mut line);
        let mut lines = self.events();
        lines.push((*event.metadata().level(), line.0));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}
