//! One request and the head of its answer, on a connection that belongs to whoever makes the exchange.
//!
//! No task stands between: a call is one write, one wait and one read.

use std::{
    fmt,
    future::poll_fn,
    io::{self, IoSlice},
    pin::{Pin, pin},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::{Buf as _, BytesMut};
use memchr::memchr;
use tokio::{
    io::{AsyncReadExt as _, AsyncWrite as _},
    runtime::{Handle, Id},
};

use super::{
    head::{self, Head},
    stream::Stream,
};

/// So much is read at once, if the answer does not say that it is longer.
const ROOM: usize = 8 * 1024;

/// The most that is read at once, and that is kept for a connection that nobody uses.
pub(super) const MOST_ROOM: usize = 64 * 1024;

/// A server that closes idle connections after some time does so at its own clock: so much earlier ours are not
/// used any more, lest a request meets a connection that is being closed.
const MARGIN: Duration = Duration::from_secs(1);

/// A connection. Dropped, it is closed.
pub(super) struct Connection {
    stream: Stream,
    /// The head of a request. What it holds may be secret.
    pub(super) out: Vec<u8>,
    /// What has been read and belongs to nobody yet.
    pub(super) input: BytesMut,
    /// Whether it can be used again after this answer.
    pub(super) keeps: bool,
    /// The runtime that opened it, and that tells when there is something to be read.
    pub(super) runtime: Option<Id>,
    /// For how long the server keeps it while nobody uses it, once it has said so.
    pub(super) kept_for: Duration,
    pub(super) use_until: Instant,
    pub(super) idle_since: Instant,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Unanswered {
    /// Nothing was written.
    NotWritten(io::Error),
    Closed(io::Error),
    Invalid(&'static str),
}

impl Connection {
    pub(super) fn new(stream: Stream) -> Self {
        let now = Instant::now();
        Self {
            stream,
            out: Vec::with_capacity(512),
            input: BytesMut::new(),
            keeps: true,
            runtime: runtime(),
            kept_for: Duration::MAX,
            use_until: now,
            idle_since: now,
        }
    }

    /// Whether nothing has come where nothing was asked for.
    pub(super) fn is_quiet(&mut self, looks: bool) -> bool {
        self.stream.is_quiet(looks)
    }

    /// Sends what is in `out`, and the body, and waits for the head of the answer. `most` is the most bytes of it.
    pub(super) async fn exchange(&mut self, body: &[u8], most: usize) -> Result<Head, Unanswered> {
        let mut written = 0;
        poll_fn(|context| self.poll_write(context, body, &mut written, most))
            .await
            .map_err(Unanswered::NotWritten)?;
        let head = self.read_head(most).await?;
        self.keeps &= head.keeps;
        if let Some(time) = head.kept_for {
            self.kept_for = time.saturating_sub(MARGIN);
        }
        Ok(head)
    }

    /// Writes the request. Once something is written it ends well: whatever goes wrong then, there may be an
    /// answer to be read.
    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        body: &[u8],
        written: &mut usize,
        most: usize,
    ) -> Poll<io::Result<()>> {
        let failed = match self.poll_write_all(context, body, written) {
            Poll::Ready(Ok(())) => return Poll::Ready(Ok(())),
            Poll::Ready(Err(error)) => error,
            Poll::Pending => match self.poll_refused(context, most) {
                Poll::Ready(Ok(())) => io::ErrorKind::BrokenPipe.into(),
                Poll::Ready(Err(error)) => error,
                Poll::Pending => return Poll::Pending,
            },
        };
        self.keeps = false;
        if *written == 0 && self.stream.tells_what_it_wrote() {
            return Poll::Ready(Err(failed));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_all(
        &mut self,
        context: &mut Context<'_>,
        body: &[u8],
        written: &mut usize,
    ) -> Poll<io::Result<()>> {
        loop {
            let head = self.out.get(*written..).unwrap_or_default();
            let rest = body.get(written.saturating_sub(self.out.len())..).unwrap_or_default();
            let stream = Pin::new(&mut self.stream);
            if head.is_empty() && rest.is_empty() {
                return stream.poll_flush(context);
            }
            let parts = [IoSlice::new(head), IoSlice::new(rest)];
            match stream.poll_write_vectored(context, &parts) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(more)) => *written += more,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// A server may refuse what it has not read all of, and would not read on. Ready if it has, or is gone.
    fn poll_refused(&mut self, context: &mut Context<'_>, most: usize) -> Poll<io::Result<()>> {
        while self.input.len() < most {
            let read = match pin!(self.fill(ROOM)).poll(context) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Poll::Ready(Ok(read)) => read,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            };
            let new = self.input.get(self.input.len() - read..).unwrap_or_default();
            if memchr(b'\n', new).is_some() && self.is_refused() {
                return Poll::Ready(Ok(()));
            }
        }
        Poll::Pending
    }

    fn is_refused(&mut self) -> bool {
        loop {
            match head::parse(&self.input) {
                Ok(Some(head)) if head.is_interim() => self.input.advance(head.length),
                Ok(Some(head)) => return !head.status.is_success(),
                Ok(None) => return false,
                // It is read again, and told, in its place.
                Err(_) => return true,
            }
        }
    }

    async fn read_head(&mut self, most: usize) -> Result<Head, Unanswered> {
        const TOO_LONG: Unanswered = Unanswered::Invalid("its head is too long");
        let (mut hints, mut seen) = (0, 0);
        loop {
            // A head is looked at when it begins, and when a line of it has come to its end: of those there are few.
            let new = self.input.get(seen..).unwrap_or_default();
            let is_worth_it = memchr(b'\n', new).is_some() || seen == 0 && !new.is_empty();
            seen = self.input.len();
            if is_worth_it
                && let Some(head) = head::parse(&self.input).map_err(Unanswered::Invalid)?
            {
                if hints + head.length > most {
                    return Err(TOO_LONG);
                }
                if !head.is_interim() {
                    return Ok(head);
                }
                hints += head.length;
                self.input.advance(head.length);
                seen = 0;
                continue;
            }
            if hints + seen >= most {
                return Err(TOO_LONG);
            }
            match self.fill(ROOM).await {
                Ok(0) => return Err(Unanswered::Closed(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) => return Err(Unanswered::Closed(error)),
            }
        }
    }

    /// Reads what comes, at most about so much; 0 at the end. Nothing is lost if this is dropped.
    pub(super) async fn fill(&mut self, room: usize) -> io::Result<usize> {
        if self.input.capacity() - self.input.len() < room.min(ROOM / 4) {
            self.input.reserve(room.clamp(ROOM, MOST_ROOM));
        }
        self.stream.read_buf(&mut self.input).await
    }
}

pub(super) fn runtime() -> Option<Id> {
    Handle::try_current().ok().map(|handle| handle.id())
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("keeps", &self.keeps).finish_non_exhaustive()
    }
}
