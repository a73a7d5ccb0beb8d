//! Refuses the connections beyond the limit with status 503, so that their clients do not wait.

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

/// How long a client may take to send its request and to read the refusal.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum number of refused connections whose request is read at a time; further ones are refused without reading.
const MAX_REFUSALS_AT_ONCE: usize = 256;

/// The refusals in progress.
#[derive(Debug, Default)]
pub(super) struct OverCapacity(JoinSet<()>);

impl OverCapacity {
    /// Refuses a connection. Never waits for the client.
    pub(super) fn refuse(&mut self, stream: TcpStream) {
        while self.0.try_join_next().is_some() {}
        if self.0.len() < MAX_REFUSALS_AT_ONCE {
            self.0.spawn(async move {
                let _late = timeout(RESPONSE_TIMEOUT, read_and_refuse(stream)).await;
            });
        } else {
            refuse_unread(&stream);
        }
    }
}

/// Refuses a connection without reading its request: some clients do not expect that, but no file descriptor stays
/// open.
pub(super) fn refuse_unread(stream: &TcpStream) {
    let _gone = stream.try_write(ANSWER);
}

async fn read_and_refuse(mut stream: TcpStream) -> std::io::Result<()> {
    let mut waste = [0; 4096];
    let _request = stream.read(&mut waste).await?;
    stream.write_all(ANSWER).await?;
    stream.shutdown().await?;
    // Closing a socket with unread bytes resets the connection, and the client may lose the response.
    while stream.read(&mut waste).await? > 0 {}
    Ok(())
}
