//! Waiting for a channel (`wait-for`).
//!
//! tmux forgets no waiter: one that went away still takes the next signal, and whoever waits then waits in vain. So a
//! wait that is given up stays, as a client of ours, and the next call that waits for the same channel goes on with
//! it. All of them end with this process, however that ends: a control client lives as long as its input is open.

use std::{
    collections::VecDeque,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{io::AsyncReadExt as _, process::ChildStdin, sync::watch};

use super::{
    command::{Batch, Command},
    error::TmuxError,
    parting::{self, Boxed, Leave},
    server::{Identity, Server},
    spawn::Program,
};

/// How many waits that were given up are kept; then the oldest ends, and a signal for it may be lost.
const MOST: usize = 32;

/// A client that waits for one signal.
#[derive(Debug)]
pub(super) struct Waiter {
    channel: String,
    identity: Identity,
    client: Arc<Client>,
}

/// The client's process.
#[derive(Debug)]
struct Client {
    /// It ends when this is closed.
    input: Mutex<Option<ChildStdin>>,
    /// Whether it ended well, once it has ended.
    ended: watch::Receiver<Option<bool>>,
}

impl Leave for Client {
    fn leave(&self) -> Boxed<'_> {
        drop(self.input.lock().unwrap_or_else(PoisonError::into_inner).take());
        let mut ended = self.ended.clone();
        // It fails if the reader is gone, and then there is nothing to wait for.
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
            // What it prints says nothing: its end does.
            let _ = output.read_to_end(&mut Vec::new()).await;
            let status = child.wait().await;
            end.send_replace(Some(status.is_ok_and(|status| status.success())));
        });
        let client = Arc::new(Client { input: Mutex::new(Some(input)), ended });
        parting::enlist(Arc::downgrade(&client) as _);
        Ok(Waiter { channel: channel.to_owned(), identity, client })
    }
}

/// The waits that were given up, oldest first.
#[derive(Debug, Default)]
pub(super) struct Waiters(Mutex<VecDeque<Waiter>>);

impl Waiters {
    /// The wait for this channel of this very server, if one was given up. It may have its signal already.
    pub(super) fn take(&self, channel: &str, identity: &Identity) -> Option<Waiter> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|waiter| waiter.identity == *identity);
        let at = all.iter().position(|waiter| waiter.channel == channel)?;
        all.remove(at)
    }

    fn keep(&self, waiter: Waiter) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            all.pop_front();
        }
        all.push_back(waiter);
    }
}

/// A wait in progress. Dropping it gives the wait up, without losing a signal that comes later.
#[derive(Debug)]
pub struct Waiting {
    server: Arc<Server>,
    waiter: Option<Waiter>,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// The channel was signalled.
    Came,
    /// The server ended, or another one runs by now: tmux ends a wait then as if there had been a signal.
    ServerGone,
}

impl Waiting {
    pub(super) fn new(server: Arc<Server>, waiter: Waiter) -> Self {
        Self { server, waiter: Some(waiter) }
    }

    /// Waits until the wait ends.
    pub async fn signalled(mut self) -> Result<Signal, TmuxError> {
        let Some(waiter) = &self.waiter else {
            return Err(TmuxError::Lost);
        };
        let mut ended = waiter.client.ended.clone();
        let ended = ended.wait_for(Option::is_some).await.map(|ended| *ended);
        let identity = waiter.identity.clone();
        match self.server.who().await {
            Ok(now) if now == identity => {}
            Ok(_) | Err(TmuxError::NoServer | TmuxError::Lost) => {
                self.waiter = None;
                return Ok(Signal::ServerGone);
            }
            Err(error) => return Err(error),
        }
        self.waiter = None;
        match ended {
            Ok(Some(true)) => Ok(Signal::Came),
            _ => Err(TmuxError::Lost),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter.take() {
            self.server.waiters().keep(waiter);
        }
    }
}
