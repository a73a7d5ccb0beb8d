//! How far a connection is: noted on the way by each request, looked at by its worker now and then.
//!
//! A timer for each head and each pause would be set and thrown away with each request. So a connection only notes in
//! which sweep of its worker it began what it does, and the sweep finds those that have been at it for too long.

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

/// How many bytes of a refused body are read and thrown away, so that the client gets to read why.
const LINGER_BYTES: usize = 16 * 1024 * 1024;

/// What a connection is doing; the order is that of the numbers they are kept as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing has come since the last answer.
    Idle,
    /// A head is coming in.
    Head,
    /// A request is being read, handled or answered.
    SessionUse,
    /// All is said; the client may still be sending.
    Closing,
}

/// The number of sweeps that a worker has made: a clock that costs nothing to read.
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

/// Where one connection stands.
#[derive(Debug)]
pub(super) struct Progress {
    sweeps: Sweeps,
    phase: AtomicU8,
    /// The sweep in which the phase began.
    since: AtomicU32,
    /// Whether the client takes nothing more for now, and since which sweep.
    blocked: AtomicBool,
    blocked_since: AtomicU32,
    /// There is something of a request that nobody will read.
    unread: AtomicBool,
    stop: AtomicBool,
    task: Mutex<Option<Waker>>,
}

impl Progress {
    /// A new connection: the first head has to come as soon as any other.
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

    /// A head is there.
    pub(super) fn begun(&self) {
        self.enter(Phase::SessionUse);
    }

    /// All of an answer was handed over to be written.
    pub(super) fn answered(&self) {
        self.enter(Phase::Idle);
    }

    /// The rest of the request will not be read: the connection ends after the answer.
    pub(super) fn leave_unread(&self) {
        self.unread.store(true, Relaxed);
    }

    /// Whether it has done the same for too long.
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

    /// Asks the connection to end when it has answered what it is at.
    pub(super) fn stop(&self) {
        self.stop.store(true, Relaxed);
        let task = self.task.lock().take();
        if let Some(task) = task {
            task.wake();
        }
    }

    /// Whether the connection was asked to end; if not, the task is woken when it is.
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
                // The pause begins when the client has the answer.
                self.since.store(now, Relaxed);
            }
        }
    }
}

/// A socket that notes what happens on it.
#[derive(Debug)]
pub(super) struct ProgressSocket {
    stream: TcpStream,
    progress: Arc<Progress>,
    is_shut: bool,
    /// How much of what a refused client sends is still read.
    linger: usize,
}

impl ProgressSocket {
    pub(super) fn new(stream: TcpStream, progress: Arc<Progress>) -> Self {
        Self { stream, progress, is_shut: false, linger: LINGER_BYTES }
    }

    fn note(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.progress.wrote(written.is_ready());
        written
    }
}

impl AsyncRead for ProgressSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.progress.read();
        }
        read
    }
}

impl AsyncWrite for ProgressSocket {
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

    /// To close a socket that has something unread resets it, and the client may lose the answer over that. So what
    /// a refused client goes on sending is read for a while.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_shut {
            ready!(Pin::new(&mut self.stream).poll_shutdown(cx))?;
            self.is_shut = true;
            self.progress.enter(Phase::Closing);
        }
        let mut waste = [0; 4096];
        while self.linger > 0 && self.progress.unread.load(Relaxed) {
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
