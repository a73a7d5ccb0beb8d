//! The bytes of a connection: TCP, or TLS over it.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, Waker},
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

use super::watched::Watched;

#[derive(Debug)]
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<Watched>>),
}

impl Stream {
    /// Whether the other end has said nothing, and is there as far as the runtime knows. That learns of what
    /// happened when it next waits for events: `looks` is for asking the system itself, which costs more.
    pub(super) fn is_quiet(&mut self, looks: bool) -> bool {
        let mut one = [0];
        match self {
            Self::Plain(stream) if !looks => {
                let seen = stream.try_read(&mut one);
                seen.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
            }
            Self::Plain(stream) => {
                let seen = recv(&*stream, &mut one, RecvFlags::PEEK | RecvFlags::DONTWAIT);
                matches!(seen, Err(Errno::AGAIN | Errno::INTR))
            }
            Self::Tls(stream) => {
                // TLS may have something to say where the server has not.
                if looks {
                    stream.get_mut().0.look();
                }
                let mut context = Context::from_waker(Waker::noop());
                let mut one = ReadBuf::new(&mut one);
                Pin::new(stream).poll_read(&mut context, &mut one).is_pending()
            }
        }
    }

    /// Whether an error in writing means that nothing was written: TLS does not say.
    pub(super) fn tells_what_it_wrote(&self) -> bool {
        matches!(self, Self::Plain(_))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
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
            // TCP keeps nothing back.
            Self::Plain(_) => Poll::Ready(Ok(())),
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
