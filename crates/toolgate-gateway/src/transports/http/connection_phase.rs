//! The phase of a connection: the connection records it, and its worker checks it for timeouts in each sweep.
//!
//! A timer for each head and each pause would be set and discarded with each request. Instead, a connection records
//! only the sweep in which its current phase began, and a later sweep finds the connections whose phase lasts too long.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed},
    },
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use super::HttpLimits;

/// How many bytes of a refused body the server reads and discards, so that the client can read the refusal.
const LINGER_BYTES: usize = 16 * 1024 * 1024;

/// The phase of a connection, stored as its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No byte has arrived since the last response.
    Idle,
    /// The head of a request is arriving.
    Head,
    /// A head has arrived, and the response to its request is not complete. This phase has no limit here: the limits of
    /// bodies and calls apply.
    Busy,
    /// The last response is written; the client may still be sending.
    Closing,
}

/// The number of sweeps that a worker has made: a clock that is cheap to read.
pub(super) type Sweeps = Arc<AtomicU32>;

/// The limits of [`HttpLimits`], in sweeps.
#[derive(Debug)]
pub(super) struct SweepLimits {
    head: u32,
    idle: u32,
    stalled: u32,
    linger: u32,
}

impl SweepLimits {
    pub(super) fn new(settings: &HttpLimits) -> Self {
        let sweep = settings.sweep.as_millis().max(1);
        let count =
            |limit: Duration| u32::try_from(limit.as_millis().div_ceil(sweep)).unwrap_or(u32::MAX);
        Self {
            head: count(settings.head),
            idle: count(settings.idle),
            stalled: count(settings.stalled),
            linger: count(settings.linger),
        }
    }
}

/// Records the phase of one connection.
#[derive(Debug)]
pub(super) struct PhaseTracker {
    sweeps: Sweeps,
    phase: AtomicU8,
    /// The sweep in which the phase began.
    since: AtomicU32,
    /// Whether the socket accepts no bytes because the client does not read, and since which sweep.
    blocked: AtomicBool,
    blocked_since: AtomicU32,
    /// The rest of a request stays unread.
    unread: AtomicBool,
    stop: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl PhaseTracker {
    /// The tracker of a new connection. The timeout for heads applies to its first head too.
    pub(super) fn new(sweeps: Sweeps) -> Self {
        let now = sweeps.load(Relaxed);
        Self {
            sweeps,
            phase: AtomicU8::new(Phase::Head as u8),
            since: AtomicU32::new(now),
            blocked: AtomicBool::new(false),
            blocked_since: AtomicU32::new(now),
            unread: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            task: Mutex::default(),
        }
    }

    fn is(&self, phase: Phase) -> bool {
        self.phase.load(Relaxed) == phase as u8
    }

    fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Relaxed);
        self.since.store(self.sweeps.load(Relaxed), Relaxed);
    }

    /// Records that a request's head has arrived.
    pub(super) fn begun(&self) {
        self.enter(Phase::Busy);
    }

    /// Records that the whole response was handed over for writing.
    pub(super) fn answered(&self) {
        self.enter(Phase::Idle);
    }

    /// Records that the rest of the request stays unread: the connection ends after the response.
    pub(super) fn leave_unread(&self) {
        self.unread.store(true, Relaxed);
    }

    /// Whether the current phase of the connection has lasted too long.
    pub(super) fn is_overdue(&self, patience: &SweepLimits) -> bool {
        let now = self.sweeps.load(Relaxed);
        let longer = |since: &AtomicU32, limit| now.wrapping_sub(since.load(Relaxed)) > limit;
        if self.blocked.load(Relaxed) {
            return longer(&self.blocked_since, patience.stalled);
        }
        let limit = match self.phase.load(Relaxed) {
            phase if phase == Phase::Idle as u8 => patience.idle,
            phase if phase == Phase::Head as u8 => patience.head,
            phase if phase == Phase::Closing as u8 => patience.linger,
            _ => return false,
        };
        longer(&self.since, limit)
    }

    /// Asks the connection to end after the response to its current request.
    pub(super) fn stop(&self) {
        self.stop.store(true, Relaxed);
        let task = self.task.lock().take();
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Whether the connection was asked to end. If not, [`Self::stop`] will wake the task.
    pub(super) fn is_stopped(&self, cx: &Context<'_>) -> bool {
        let mut task = self.task.lock();
        if !task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            *task = Some(cx.waker().clone());
        }
        self.stop.load(Relaxed)
    }

    fn read(&self) {
        if self.is(Phase::Idle) {
            self.enter(Phase::Head);
        }
    }

    fn wrote(&self, can_go_on: bool) {
        let now = self.sweeps.load(Relaxed);
        let was_blocked = self.blocked.load(Relaxed);
        if !can_go_on && !was_blocked {
            self.blocked_since.store(now, Relaxed);
            self.blocked.store(true, Relaxed);
        } else if can_go_on && was_blocked {
            self.blocked.store(false, Relaxed);
            if self.is(Phase::Idle) {
                // The idle time begins when the socket has accepted the whole response.
                self.since.store(now, Relaxed);
            }
        }
    }
}

/// A socket that records the phase of its connection.
#[derive(Debug)]
pub(super) struct TrackedSocket {
    stream: TcpStream,
    phase: Arc<PhaseTracker>,
    is_shut: bool,
    /// How many more bytes of a refused client the server reads.
    linger: usize,
}

impl TrackedSocket {
    pub(super) fn new(stream: TcpStream, phase: Arc<PhaseTracker>) -> Self {
        Self { stream, phase, is_shut: false, linger: LINGER_BYTES }
    }

    fn note(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.phase.wrote(written.is_ready());
        written
    }
}

impl AsyncRead for TrackedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.phase.read();
        }
        read
    }
}

impl AsyncWrite for TrackedSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.note(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Closing a socket with unread bytes resets the connection, and the client may lose the response. So the server
    /// reads what a refused client sends for a while.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_shut {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            self.is_shut = true;
            self.phase.enter(Phase::Closing);
        }
        let mut waste = [0; 4096];
        while self.linger > 0 && self.phase.unread.load(Relaxed) {
            let mut waste = ReadBuf::new(&mut waste);
            let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut waste));
            if read.is_err() || waste.filled().is_empty() {
                break;
            }
            self.linger = self.linger.saturating_sub(waste.filled().len());
        }
        Poll::Ready(Ok(()))
    }
}
