//! The bytes of a connection, TCP or TLS over it, and what is known of them while hyper holds the connection.

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

/// What went over a connection since its last request began. The task that polls the connection is the only writer.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    written: AtomicUsize,
    read: AtomicUsize,
    /// Why nothing more can be written.
    failed: OnceLock<io::Error>,
    /// Whether the next read asks the system, not the runtime.
    looks: AtomicBool,
}

impl Traffic {
    /// A request begins.
    pub(super) fn start(&self) {
        self.written.store(0, Ordering::Relaxed);
        self.read.store(0, Ordering::Relaxed);
    }

    /// How many bytes the system took, those of TLS included.
    pub(super) fn written(&self) -> usize {
        self.written.load(Ordering::Relaxed)
    }

    /// How many bytes of responses were read.
    pub(super) fn read(&self) -> usize {
        self.read.load(Ordering::Relaxed)
    }

    pub(super) fn failed(&self) -> Option<&io::Error> {
        self.failed.get()
    }

    /// Has the next read ask the system: the runtime learns of what happened to a connection when it next waits for
    /// events. Where a server closes an idle connection while the runtime is busy, a request would be written to it
    /// and be lost, though the system knows already that the other end is gone.
    pub(super) fn look(&self) {
        self.looks.store(true, Ordering::Relaxed);
    }
}

fn add(count: &AtomicUsize, more: usize) {
    count.store(count.load(Ordering::Relaxed).saturating_add(more), Ordering::Relaxed);
}

/// A TCP stream that counts what the system took. Once writing fails it swallows what is written: the server may
/// have refused the request before it read all of it, and hyper reads the response only if writing goes well.
#[derive(Debug)]
pub(super) struct CountingSocket {
    stream: TcpStream,
    traffic: Arc<Traffic>,
}

impl CountingSocket {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, traffic: Arc::default() }
    }

    /// What there is to be read, or its end; `None` if nothing has come.
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
                add(&self.traffic.written, more);
                return Poll::Ready(Ok(more));
            }
            Poll::Pending => return Poll::Pending,
        };
        let _ = self.traffic.failed.set(error);
        Poll::Ready(Ok(offered))
    }
}

impl AsyncRead for CountingSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.traffic.looks.load(Ordering::Relaxed) {
            self.traffic.looks.store(false, Ordering::Relaxed);
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
        if self.traffic.failed().is_some() {
            return Poll::Ready(Ok(offered));
        }
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.counted(wrote, offered)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // TCP keeps nothing back.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// What hyper reads from and writes to.
#[derive(Debug)]
pub(super) enum ClientStream {
    Plain(CountingSocket),
    Tls(Box<TlsStream<CountingSocket>>),
}

impl ClientStream {
    pub(super) fn traffic(&self) -> &Arc<Traffic> {
        match self {
            Self::Plain(socket) => &socket.traffic,
            Self::Tls(stream) => &stream.get_ref().0.traffic,
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
        let traffic = self.traffic();
        // hyper passes over line ends before a response. They belong to no response, so this connection is not in step.
        if traffic.read() == 0 && new.first().is_some_and(|first| *first != b'H') {
            let why = "it does not begin as answers do";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, why)));
        }
        add(&traffic.read, new.len());
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
