//! The byte stream of a connection, TCP or TLS over TCP, with counters that stay readable while hyper owns the stream.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use rustix::{
    io::Errno,
    net::{RecvFlags, recv},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

/// Counts the bytes of a connection since the start of its last request. Only the task that polls the connection
/// changes the counters.
#[derive(Debug, Default)]
pub(super) struct ByteCounters {
    written: AtomicUsize,
    read: AtomicUsize,
    /// The first error of a write. Later writes are discarded.
    write_error: OnceLock<io::Error>,
    /// Whether the next read asks the operating system instead of the runtime.
    checks_socket: AtomicBool,
}

impl ByteCounters {
    /// Resets the counters at the start of a request.
    pub(super) fn reset(&self) {
        self.written.store(0, Ordering::Relaxed);
        self.read.store(0, Ordering::Relaxed);
    }

    /// How many bytes the operating system accepted, including those of TLS.
    pub(super) fn written(&self) -> usize {
        self.written.load(Ordering::Relaxed)
    }

    /// How many bytes of responses were read.
    pub(super) fn read(&self) -> usize {
        self.read.load(Ordering::Relaxed)
    }

    pub(super) fn write_error(&self) -> Option<&io::Error> {
        self.write_error.get()
    }

    /// Makes the next read ask the operating system. The runtime notices that a server closed an idle connection only
    /// when it next waits for events. A request that is written before that would be lost, although the operating
    /// system already knows that the connection is closed.
    pub(super) fn check_socket(&self) {
        self.checks_socket.store(true, Ordering::Relaxed);
    }
}

fn add(count: &AtomicUsize, more: usize) {
    count.store(count.load(Ordering::Relaxed).saturating_add(more), Ordering::Relaxed);
}

/// A TCP stream that counts the bytes that the operating system accepts. After a failed write it discards all further
/// bytes and reports success: the server may have responded before it read the whole request, and hyper reads the
/// response only if no write fails.
#[derive(Debug)]
pub(super) struct CountingSocket {
    stream: TcpStream,
    counters: Arc<ByteCounters>,
}

impl CountingSocket {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, counters: Arc::default() }
    }

    /// Reads from the socket without the runtime; `None` if there is nothing to read yet.
    #[cold]
    fn read_now(&self, buffer: &mut ReadBuf<'_>) -> Option<io::Result<()>> {
        let mut read = [0; 1024];
        let room = read.get_mut(..buffer.remaining().min(1024))?;
        match recv(&self.stream, &mut *room, RecvFlags::DONTWAIT) {
            Ok((length, _)) => {
                buffer.put_slice(room.get(..length).unwrap_or_default());
                Some(Ok(()))
            }
            Err(Errno::AGAIN | Errno::INTR) => None,
            Err(error) => Some(Err(error.into())),
        }
    }

    fn counted(&self, wrote: Poll<io::Result<usize>>, offered: usize) -> Poll<io::Result<usize>> {
        let error = match wrote {
            Poll::Ready(Ok(0)) if offered > 0 => io::ErrorKind::WriteZero.into(),
            Poll::Ready(Err(error)) => error,
            Poll::Ready(Ok(more)) => {
                add(&self.counters.written, more);
                return Poll::Ready(Ok(more));
            }
            Poll::Pending => return Poll::Pending,
        };
        let _ = self.counters.write_error.set(error);
        Poll::Ready(Ok(offered))
    }
}

impl AsyncRead for CountingSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.counters.checks_socket.load(Ordering::Relaxed) {
            self.counters.checks_socket.store(false, Ordering::Relaxed);
            if let Some(found) = self.read_now(buffer) {
                return Poll::Ready(found);
            }
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for CountingSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered = parts.iter().map(|part| part.len()).sum();
        if self.counters.write_error().is_some() {
            return Poll::Ready(Ok(offered));
        }
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.counted(wrote, offered)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A TCP stream has no write buffer of its own.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The stream that hyper reads from and writes to.
#[derive(Debug)]
pub(super) enum ClientStream {
    Plain(CountingSocket),
    Tls(Box<TlsStream<CountingSocket>>),
}

impl ClientStream {
    pub(super) fn counters(&self) -> &Arc<ByteCounters> {
        match self {
            Self::Plain(socket) => &socket.counters,
            Self::Tls(stream) => &stream.get_ref().0.counters,
        }
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = match &mut *self {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        };
        let new = buffer.filled().get(before..).unwrap_or_default();
        let counters = self.counters();
        // hyper skips line breaks before a response. They belong to no response, so the connection cannot be trusted.
        if counters.read() == 0 && new.first().is_some_and(|first| *first != b'H') {
            let why = "the response does not begin with `HTTP`";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)));
        }
        add(&counters.read, new.len());
        read
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, parts),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
