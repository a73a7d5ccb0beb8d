//! Waiting for a signal on a channel (`wait-for`).
//!
//! tmux never removes a waiter: after its client is gone it still consumes the next signal, which the next waiter then
//! misses. A cancelled wait is therefore kept, as an open client, and the next call that waits for the same channel
//! continues it. All these clients end with this process: a control client lives as long as its input is open.

use std::{
    collections::VecDeque,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{io::AsyncReadExt as _, process::ChildStdin, sync::watch};

use super::{
    command::{Batch, Command},
    error::TmuxError,
    identity::Identity,
    open_clients::{Boxed, ControlClient},
    program::Program,
};

/// How many cancelled waits are kept. One more ends the oldest, and the next signal on its channel may be lost.
const MAX_CANCELLED_WAITS: usize = 32;

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The channel was signalled.
    Came,
    /// The server ended, or another one listens on the socket: tmux ends a wait then as if there had been a signal.
    ServerGone,
}

/// A client that waits for one signal.
#[derive(Debug)]
pub(super) struct Waiter {
    channel: String,
    identity: Identity,
    client: Arc<WaitClient>,
}

/// The client's process.
#[derive(Debug)]
struct WaitClient {
    /// The process ends when this is closed.
    input: Mutex<Option<ChildStdin>>,
    /// Whether the process ended successfully; `None` while it runs.
    ended: watch::Receiver<Option<bool>>,
}

impl ControlClient for WaitClient {
    fn close(&self) -> Boxed<'_> {
        drop(self.input.lock().unwrap_or_else(PoisonError::into_inner).take());
        let mut ended = self.ended.clone();
        // It fails only if the task that reads the process is gone, and then there is nothing to wait for.
        Box::pin(async move { drop(ended.wait_for(Option::is_some).await) })
    }
}

impl Program {
    /// Starts a client that waits. It never starts a server.
    pub(super) fn waiter(&self, channel: &str, identity: Identity) -> Result<Waiter, TmuxError> {
        let wait = Command::new("wait-for").end().argument(channel);
        let mut process = self.staying_command();
        process.args(["-N", "-C"]).args(Batch::write([wait]).arguments()?);
        process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = process.spawn().map_err(|_| TmuxError::NoBinary)?;
        let (Some(input), Some(mut output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(TmuxError::NoBinary);
        };
        let (end, ended) = watch::channel(None);
        tokio::spawn(async move {
            // The output is discarded; the exit status is the answer.
            let _ = output.read_to_end(&mut Vec::new()).await;
            let status = child.wait().await;
            end.send_replace(Some(status.is_ok_and(|status| status.success())));
        });
        let client = Arc::new(WaitClient { input: Mutex::new(Some(input)), ended });
        self.clients.register(Arc::downgrade(&client) as _);
        Ok(Waiter { channel: channel.to_owned(), identity, client })
    }
}

/// The waits that were cancelled, oldest first.
#[derive(Debug, Default)]
pub(super) struct CancelledWaits(Mutex<VecDeque<Waiter>>);

impl CancelledWaits {
    /// The cancelled wait for this channel of exactly this server, if there is one. It may have its signal already.
    pub(super) fn take(&self, channel: &str, identity: &Identity) -> Option<Waiter> {
        let mut waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waits.retain(|waiter| waiter.identity == *identity);
        let at = waits.iter().position(|waiter| waiter.channel == channel)?;
        waits.remove(at)
    }

    fn keep(&self, waiter: Waiter) {
        let mut waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waits.len() >= MAX_CANCELLED_WAITS {
            waits.pop_front();
        }
        waits.push_back(waiter);
    }
}

/// A wait in progress. If it is dropped before [`finish`](Self::finish), its client is kept for the next call that waits
/// for the channel, so no later signal is lost.
#[derive(Debug)]
pub(super) struct ChannelWait {
    cancelled: Arc<CancelledWaits>,
    waiter: Option<Waiter>,
}

impl ChannelWait {
    pub(super) fn new(cancelled: Arc<CancelledWaits>, waiter: Waiter) -> Self {
        Self { cancelled, waiter: Some(waiter) }
    }

    /// Waits until the client has ended; whether it ended successfully, as it does after a signal.
    pub(super) async fn ended(&self) -> bool {
        let Some(waiter) = &self.waiter else { return false };
        let mut ended = waiter.client.ended.clone();
        ended.wait_for(Option::is_some).await.is_ok_and(|ended| *ended == Some(true))
    }

    /// Ends the wait: its client is not kept.
    pub(super) fn finish(mut self) {
        self.waiter = None;
    }
}

impl Drop for ChannelWait {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter.take() {
            self.cancelled.keep(waiter);
        }
    }
}
