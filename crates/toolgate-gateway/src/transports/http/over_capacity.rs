//! Clients that there is no room for: they are told so, and not left to wait.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
    time::timeout,
};

const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    retry-after: 1\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    content-length: 42\r\n\
    connection: close\r\n\
    \r\n\
    too many connections: try again in a while";

/// How long one may take to say what it wants and to read that it cannot have it.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
/// To so many we listen at once; the others are answered unheard.
const MAX_REFUSALS_AT_ONCE: usize = 256;

/// Those who are being told.
#[derive(Debug, Default)]
pub(super) struct OverCapacity(JoinSet<()>);

impl OverCapacity {
    /// Answers a client that there is no room for, and never waits.
    pub(super) fn tell(&mut self, stream: TcpStream) {
        while self.0.try_join_next().is_some() {}
        if self.0.len() < MAX_REFUSALS_AT_ONCE {
            self.0.spawn(async move {
                let _late = timeout(RESPONSE_TIMEOUT, listen_and_tell(stream)).await;
            });
        } else {
            unheard(&stream);
        }
    }
}

/// Answers without having heard the question: some clients do not expect that, but it keeps no handle open.
pub(super) fn unheard(stream: &TcpStream) {
    let _gone = stream.try_write(ANSWER);
}

async fn listen_and_tell(mut stream: TcpStream) -> std::io::Result<()> {
    let mut waste = [0; 4096];
    let _asked = stream.read(&mut waste).await?;
    stream.write_all(ANSWER).await?;
    stream.shutdown().await?;
    // What is left unread when a socket is closed resets it, and the answer may be lost.
    while stream.read(&mut waste).await? > 0 {}
    Ok(())
}
