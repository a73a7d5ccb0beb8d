//! A worker: one thread with a runtime of its own, and the connections that it was given.

use std::{
    collections::HashMap,
    net::TcpStream as StdTcpStream,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    net::TcpStream,
    sync::mpsc,
    task::{AbortHandle, Id, JoinError, JoinSet},
    time::{Instant, Interval, MissedTickBehavior, interval, timeout_at},
};

use super::{
    Handler, HttpLimits,
    connection::{self, ConnectionState},
    connection_phase::{PhaseTracker, SweepLimits, Sweeps},
};

/// The state that the accepting thread and the workers share.
#[derive(Debug, Default)]
pub(super) struct WorkerShared {
    /// The number of accepted connections that have not ended.
    pub(super) open: AtomicUsize,
    /// The deadline for requests under way; set when the server stops.
    pub(super) deadline: OnceLock<Instant>,
}

/// A worker and its connections.
pub(super) struct Worker<H> {
    handler: Arc<H>,
    settings: Arc<HttpLimits>,
    shared: Arc<WorkerShared>,
    patience: SweepLimits,
    sweeps: Sweeps,
    tasks: JoinSet<()>,
    known: HashMap<Id, (Arc<PhaseTracker>, AbortHandle)>,
}

impl<H: Handler> Worker<H> {
    pub(super) fn new(
        handler: Arc<H>,
        settings: Arc<HttpLimits>,
        shared: Arc<WorkerShared>,
    ) -> Self {
        let patience = SweepLimits::new(&settings);
        Self {
            handler,
            settings,
            shared,
            patience,
            sweeps: Sweeps::default(),
            tasks: JoinSet::new(),
            known: HashMap::new(),
        }
    }

    /// Serves incoming connections until the acceptor closes the channel, then the remaining ones until the deadline.
    pub(super) async fn run(mut self, mut incoming: mpsc::Receiver<StdTcpStream>) {
        let mut clock = interval(self.settings.sweep);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                stream = incoming.recv() => match stream {
                    Some(stream) => self.take(stream),
                    None => break,
                },
                () = self.round(&mut clock), if !self.tasks.is_empty() => {}
            }
        }
        for (phase, _) in self.known.values() {
            phase.stop();
        }
        let deadline = self.shared.deadline.get().copied().unwrap_or_else(Instant::now);
        let rest = async {
            while !self.tasks.is_empty() {
                self.round(&mut clock).await;
            }
        };
        if timeout_at(deadline, rest).await.is_err() {
            tracing::debug!(
                connections = self.tasks.len(),
                "connections dropped: the deadline for requests under way has passed"
            );
        }
        self.shared.open.fetch_sub(self.known.len(), Ordering::Relaxed);
    }

    /// Waits for a connection to end, or for the next sweep.
    async fn round(&mut self, clock: &mut Interval) {
        tokio::select! {
            ended = self.tasks.join_next_with_id() => {
                if let Some(ended) = ended {
                    self.forget(ended);
                }
            }
            _ = clock.tick() => {
                self.sweeps.fetch_add(1, Ordering::Relaxed);
                for (phase, task) in self.known.values() {
                    if phase.is_overdue(&self.patience) {
                        task.abort();
                    }
                }
            }
        }
    }

    fn take(&mut self, stream: StdTcpStream) {
        let stream = match stream.set_nodelay(true).and_then(|()| TcpStream::from_std(stream)) {
            Ok(stream) => stream,
            Err(error) => {
                // The client has most likely disconnected already.
                tracing::debug!(%error, "an accepted connection could not be served");
                self.shared.open.fetch_sub(1, Ordering::Relaxed);
                return;
            }
        };
        let peer = stream.peer_addr().ok();
        let phase = Arc::new(PhaseTracker::new(Arc::clone(&self.sweeps)));
        let site = ConnectionState {
            handler: Arc::clone(&self.handler),
            settings: Arc::clone(&self.settings),
            phase: Arc::clone(&phase),
            peer,
        };
        let task = self.tasks.spawn(connection::serve(stream, site));
        self.known.insert(task.id(), (phase, task));
    }

    fn forget(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match ended {
            Ok((id, ())) => id,
            Err(error) => {
                if error.is_panic() {
                    tracing::error!(%error, "a request was not answered");
                }
                error.id()
            }
        };
        if self.known.remove(&id).is_some() {
            self.shared.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
