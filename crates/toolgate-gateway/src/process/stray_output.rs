//! A server's output beside the protocol: its stderr, and stray lines on its stdout.

use std::time::{Duration, Instant};

use tokio::io::AsyncRead;
use toolgate::printable;
use toolgate_wire::lines::Line;

use crate::line_reader::LineReader;

/// Longer stray lines are cut to this many bytes.
const MAX_LOGGED_BYTES: usize = 4096;

/// Forwards a server's stderr to toolgate's: each line is escaped, cut, and prefixed with the server's name.
pub(crate) async fn forward_stderr(server: &str, stderr: impl AsyncRead + Unpin) {
    let mut lines = LineReader::new(stderr, 1 << 20);
    while let Some(line) = lines.next().await {
        show(server, &line);
    }
}

#[expect(clippy::print_stderr, reason = "forwarding stderr to stderr is what this does")]
fn show(server: &str, line: &Line) {
    let (text, more) = match line {
        Line::Whole(bytes) => (bytes, false),
        Line::TooLong { head, .. } => (head, true),
    };
    let text = String::from_utf8_lossy(text);
    let text = printable::message(text.trim_end_matches(['\n', '\r']));
    eprintln!("[{}] {text}{}", printable::line(server), if more { "…" } else { "" });
}

/// Logs stray lines at a bounded rate, so that a server cannot flood the log.
#[derive(Debug)]
pub(crate) struct StrayLines {
    since: Instant,
    shown: u32,
    hidden: u64,
}

/// The maximum number of stray lines that are logged per period.
const SHOWN: u32 = 10;
const PERIOD: Duration = Duration::from_secs(10);

impl StrayLines {
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), shown: 0, hidden: 0 }
    }

    /// Logs one line that is no message of the protocol, or counts it if the period's limit is reached.
    pub(crate) fn report(&mut self, server: &str, why: &str, line: &[u8]) {
        if self.since.elapsed() > PERIOD {
            self.tell_hidden(server);
            *self = Self::new();
        }
        if self.shown >= SHOWN {
            self.hidden += 1;
            return;
        }
        self.shown += 1;
        let text = String::from_utf8_lossy(line.get(..MAX_LOGGED_BYTES).unwrap_or(line));
        let text = text.trim_end();
        tracing::warn!(server, "stray line on the server's stdout, not forwarded ({why}): {text}");
    }

    /// Logs how many lines were only counted.
    pub(crate) fn tell_hidden(&self, server: &str) {
        if self.hidden > 0 {
            tracing::warn!(server, "{} more stray lines on the server's stdout", self.hidden);
        }
    }
}
