//! The whole gateway for one client over stdio.

use std::{sync::Arc, time::Duration};

use tokio::io::AsyncReadExt as _;
use toolgate::{CallId, Principal, Transport};
use toolgate_wire::lines::{Line, Lines};

use super::gateway::Serve;
use crate::{
    inbound::{lines::LineClient, stdio},
    outbox::Outbox,
};

/// What is queued for the client may take this long to be read.
const LAST_WORDS: Duration = Duration::from_secs(2);

impl Serve {
    /// Serves one client on standard input and output, until it is gone or `stop` is done.
    pub async fn one(
        &self,
        namespace: &str,
        stop: impl Future<Output = ()>,
    ) -> std::io::Result<()> {
        let missing = || std::io::Error::other(format!("there is no namespace `{namespace}`"));
        let namespace = self.gateway.namespace(namespace).ok_or_else(missing)?;
        let (mut input, output) = (stdio::input()?, stdio::output()?);
        let out = Arc::new(Outbox::new());
        let writing = Arc::clone(&out);
        let mut writer = tokio::spawn(async move { writing.drain(output).await });
        let id = CallId::next().to_string().into();
        let client = Arc::new(LineClient::new(
            Arc::clone(&self.gateway),
            namespace,
            Principal::local(),
            Transport::Stdio,
            Arc::clone(&out),
            id,
            None,
        ));
        let limits = self.gateway.limits;
        let reading = async {
            let mut lines = Lines::new(limits.max_bytes);
            loop {
                match input.read_buf(lines.buffer()).await {
                    Ok(0) | Err(_) => break,
                    Ok(_) => {}
                }
                while let Some(line) = lines.next() {
                    take(&client, line, limits.max_bytes).await;
                }
            }
            if let Some(line) = lines.finish() {
                take(&client, line, limits.max_bytes).await;
            }
        };
        tokio::pin!(stop);
        tokio::select! {
            () = reading => {
                tokio::select! {
                    () = client.finish() => {}
                    () = &mut stop => client.end(),
                }
            }
            _ = &mut writer => {}
            () = &mut stop => {}
        }
        client.end();
        if !writer.is_finished() {
            let _ = tokio::time::timeout(LAST_WORDS, &mut writer).await;
        }
        Ok(())
    }
}

async fn take(client: &Arc<LineClient>, line: Line, most: usize) {
    match line {
        Line::Whole(line) => client.take(line).await,
        Line::TooLong { head, tail, length } => {
            let id = toolgate_wire::salvage_id(&head, &tail);
            let why = format!("a message of {length} bytes is over the limit of {most} bytes");
            client.refuse(id.as_ref(), -32600, &why).await;
        }
    }
}
