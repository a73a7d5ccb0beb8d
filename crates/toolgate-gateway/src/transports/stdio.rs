//! Serves a client on toolgate's standard input and output, without a thread in between where the system allows it.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{fs::FileTypeExt as _, fs::MetadataExt as _, net::UnixStream as StdUnixStream},
    },
    sync::Arc,
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{UnixStream, unix::pipe},
    time::timeout,
};

use super::line_front::{LineFront, LineService};

/// How long the client may take to read the messages that are still queued at the end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves one client until the client disconnects or `stop` completes. Returns the output of `stop` in the second case.
pub(crate) async fn run<S: LineService, T>(
    front: &LineFront<S>,
    stop: impl Future<Output = T>,
) -> io::Result<Option<T>> {
    let (input, output) = (input()?, output()?);
    let out = Arc::clone(front.out());
    let mut writer = tokio::spawn(async move { out.drain(output).await });
    let stopped = tokio::select! {
        () = front.read(input) => None,
        _ = &mut writer => None,
        stopped = stop => Some(stopped),
    };
    front.end().await;
    if !writer.is_finished() && timeout(DRAIN_TIMEOUT, &mut writer).await.is_err() {
        tracing::warn!("the client did not read the last messages queued for it");
    }
    Ok(stopped)
}

/// The input, to which the client writes.
pub(crate) fn input() -> io::Result<Box<dyn AsyncRead + Send + Unpin>> {
    let fd = io::stdin().as_fd().try_clone_to_owned()?;
    match kind(&fd)? {
        Kind::Pipe => Ok(Box::new(pipe::Receiver::from_owned_fd(fd)?)),
        Kind::Socket => Ok(Box::new(socket(fd)?)),
        Kind::Other => Ok(Box::new(tokio::io::stdin())),
    }
}

/// The output, from which the client reads. Only messages of the protocol are written to it.
pub(crate) fn output() -> io::Result<Box<dyn AsyncWrite + Send + Unpin>> {
    let fd = io::stdout().as_fd().try_clone_to_owned()?;
    // If standard error shares the pipe, a non-blocking pipe would lose lines of standard error.
    let kind = if is_shared_with_stderr(&fd)? { Kind::Other } else { kind(&fd)? };
    match kind {
        Kind::Pipe => Ok(Box::new(pipe::Sender::from_owned_fd(fd)?)),
        Kind::Socket => Ok(Box::new(socket(fd)?)),
        Kind::Other => Ok(Box::new(tokio::io::stdout())),
    }
}

enum Kind {
    Pipe,
    Socket,
    /// A file or a terminal: other processes share it, so its mode must not change.
    Other,
}

fn kind(fd: &OwnedFd) -> io::Result<Kind> {
    let file_type = File::from(fd.try_clone()?).metadata()?.file_type();
    Ok(match (file_type.is_fifo(), file_type.is_socket()) {
        (true, _) => Kind::Pipe,
        (_, true) => Kind::Socket,
        _ => Kind::Other,
    })
}

fn socket(fd: OwnedFd) -> io::Result<UnixStream> {
    let socket = StdUnixStream::from(fd);
    socket.set_nonblocking(true)?;
    UnixStream::from_std(socket)
}

fn is_shared_with_stderr(fd: &OwnedFd) -> io::Result<bool> {
    let stderr = File::from(io::stderr().as_fd().try_clone_to_owned()?).metadata()?;
    let stdout = File::from(fd.try_clone()?).metadata()?;
    Ok((stderr.dev(), stderr.ino()) == (stdout.dev(), stdout.ino()))
}
