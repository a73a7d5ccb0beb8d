//! A TCP stream under TLS that can be told to look at the system itself before it is used again.
//!
//! The runtime learns of what happened to a connection when it next waits for events. Where a server closes an
//! idle connection while the runtime is busy, a request would be written to it and be lost, though the system knows
//! already that the other end is gone.

use std::{
    io::{self, IoSlice},
    pin::Pin,
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

#[derive(Debug)]
pub(super) struct Watched {
    stream: TcpStream,
    looks: bool,
}

impl Watched {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream, looks: false }
    }

    /// Has the next read ask the system.
    pub(super) fn look(&mut self) {
        self.looks = true;
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
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.looks)
            && let Some(found) = self.read_now(buffer)
        {
            return Poll::Ready(found);
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
