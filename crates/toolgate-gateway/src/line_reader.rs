//! Reads lines from a pipe: messages of a client or a server, and a server's stderr.

use tokio::io::{AsyncRead, AsyncReadExt as _};
use toolgate_wire::lines::{Line, Lines};

/// The lines of one pipe.
#[derive(Debug)]
pub(crate) struct LineReader<R> {
    pipe: R,
    lines: Lines,
    is_closed: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    /// Of a line longer than `max_bytes`, only start and end are kept.
    pub(crate) fn new(pipe: R, max_bytes: usize) -> Self {
        Self { pipe, lines: Lines::new(max_bytes), is_closed: false }
    }

    /// The next line; `None` at the end. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Line> {
        loop {
            if self.is_closed {
                return self.lines.finish();
            }
            match self.lines.next() {
                Some(line) => return Some(line),
                None => drop(self.read_more().await),
            }
        }
    }

    /// Whether reading has reached the end of the pipe.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Reads into the buffer without returning a line, so that the caller notices the end of the pipe early. Returns the
    /// number of bytes read. Cancel safe.
    pub(crate) async fn read_more(&mut self) -> usize {
        match self.pipe.read_buf(self.lines.buffer()).await {
            Ok(0) => self.is_closed = true,
            Ok(count) => return count,
            Err(error) => {
                tracing::debug!(%error, "reading a pipe ended");
                self.is_closed = true;
            }
        }
        0
    }
}
