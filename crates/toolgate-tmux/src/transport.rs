//! A line transport for rmcp that reads messages as strictly as the gateway does.
//!
//! rmcp's own transport drops lines that are too long, invalid or ambiguous, and the client waits forever. This one
//! answers each with the same error as every other transport of toolgate.

use std::{io, sync::Arc};

use rmcp::{
    RoleServer,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::Mutex,
    task::JoinHandle,
};
use toolgate::{
    Code, Failure,
    admission::{CallRequest, refusal},
};
use toolgate_wire::{
    Id, Limits, Message, Shape, is_batch,
    lines::{Line, Lines},
    mcp::method,
    salvage_id,
};

/// The message with which a batch is refused: rmcp has none.
const NO_BATCHES: &str = "`toolgate tmux` takes no batches: send each message on its own";

/// Reads and writes one message per line.
pub(crate) struct LineTransport<R, W> {
    input: R,
    lines: Lines,
    limits: Limits,
    /// `None` after it was closed.
    output: Arc<Mutex<Option<W>>>,
    /// The task that writes an error response. It completes even if `receive` is cancelled.
    refusing: Option<JoinHandle<io::Result<()>>>,
    /// Whether the client has closed its output.
    is_closed: bool,
}

impl<R, W: AsyncWrite + Send + Unpin + 'static> LineTransport<R, W> {
    pub(crate) fn new(input: R, output: W, max_bytes: usize) -> Self {
        let limits = Limits { max_bytes, ..Limits::default() };
        let output = Arc::new(Mutex::new(Some(output)));
        let lines = Lines::new(max_bytes);
        Self { input, lines, limits, output, refusing: None, is_closed: false }
    }

    /// Reads the message of a line. If the message is invalid and its sender may expect a response, an error is sent.
    fn read(&mut self, line: Line) -> Option<RxJsonRpcMessage<RoleServer>> {
        let line = match line {
            Line::Whole(line) => line,
            Line::TooLong { head, tail, length } => {
                let failure = refusal::too_long(length, self.limits.max_bytes);
                return self.refuse(salvage_id(&head, &tail).as_ref(), &failure);
            }
        };
        if is_batch(&line) {
            let failure = Failure::new(Code::InvalidRequest, NO_BATCHES);
            return self.refuse(None, &failure);
        }
        let message = match Message::parse(line, &self.limits) {
            Ok(message) => message,
            Err(refused) if refusal::expects_response(&refused) => {
                return self.refuse(refused.id.as_ref(), &refusal::unreadable(&refused));
            }
            Err(refused) => {
                tracing::warn!("a message of the client cannot be read: {}", refused.error);
                return None;
            }
        };
        // rmcp reports a call without a name as an unknown method.
        if message.method() == method::TOOLS_CALL
            && let Err(failure) = CallRequest::read(&message)
        {
            return self.refuse(message.id(), &failure);
        }
        match serde_json::from_slice(message.line()) {
            Ok(read) => Some(read),
            Err(error) if message.shape() == Shape::Request => {
                let failure = Failure::new(Code::InvalidRequest, error.to_string())
                    .suggest("Send the params that the method has.");
                self.refuse(message.id(), &failure)
            }
            Err(error) => {
                tracing::warn!("a message of the client cannot be read: {error}");
                None
            }
        }
    }

    fn refuse<T>(&mut self, id: Option<&Id>, failure: &Failure) -> Option<T> {
        let (output, line) = (Arc::clone(&self.output), refusal::line(id, failure));
        self.refusing = Some(tokio::spawn(async move { write(&output, line).await }));
        None
    }
}

async fn write<W: AsyncWrite + Unpin>(
    output: &Mutex<Option<W>>,
    line: impl AsRef<[u8]>,
) -> io::Result<()> {
    let mut output = output.lock().await;
    let output = output.as_mut().ok_or(io::ErrorKind::NotConnected)?;
    output.write_all(line.as_ref()).await?;
    output.write_all(b"\n").await?;
    output.flush().await
}

impl<R, W> Transport<RoleServer> for LineTransport<R, W>
where
    R: AsyncRead + Send + Sync + Unpin,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let output = Arc::clone(&self.output);
        async move { write(&output, serde_json::to_vec(&message)?).await }
    }

    /// Cancel safe.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(refusing) = &mut self.refusing {
                let refused = refusing.await;
                self.refusing = None;
                refused.ok()?.ok()?;
            }
            let line = if self.is_closed { self.lines.finish() } else { self.lines.next() };
            match line {
                Some(line) => {
                    let message = self.read(line);
                    if message.is_some() {
                        return message;
                    }
                }
                None if self.is_closed => return None,
                None => self.is_closed = self.input.read_buf(self.lines.buffer()).await.ok()? == 0,
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.output.lock().await.take();
        Ok(())
    }
}
