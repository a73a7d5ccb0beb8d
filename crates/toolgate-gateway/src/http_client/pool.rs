//! The pool of idle connections to one server. It has one shard for each core of the machine; each thread uses one
//! shard.

use std::{
    cell::Cell,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::{Handle, Id};

use super::{
    ConnectionLimits,
    connection::{HttpConnection, runtime},
};

/// How often a sweep closes idle connections that have expired or that the server has closed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// A part of the pool. Each shard has a cache line of its own, so that threads do not slow each other.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Shard {
    idle: Mutex<IdleConnections>,
    origin: Arc<str>,
    limits: ConnectionLimits,
}

#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "they come from calls and go to calls: what is moved is small")]
struct IdleConnections {
    /// Ordered by their last use, the oldest first.
    connections: Vec<Box<HttpConnection>>,
    /// The runtimes on which a sweep of this shard runs.
    swept: Vec<Option<Id>>,
}

impl Shard {
    /// Takes the idle connection of this runtime that was used last, if it can still be used.
    pub(super) fn take(&self) -> Option<Box<HttpConnection>> {
        let (runtime, now) = (runtime(), Instant::now());
        loop {
            let mut connection = {
                let mut idle = self.idle();
                let all = &mut idle.connections;
                let place = all.iter().rposition(|idle| idle.runtime == runtime)?;
                all.remove(place)
            };
            // Servers close connections that were idle for some time. After a shorter time hyper's own check before it
            // writes is enough; that check only knows what the runtime knows.
            let idle_time = now.saturating_duration_since(connection.idle_since);
            let checks_socket = idle_time >= self.limits.check_after;
            if now < connection.use_until && (!checks_socket || connection.is_idle(true)) {
                return Some(connection);
            }
        }
    }

    /// Takes back a connection whose response was read to its end.
    pub(super) fn put(self: &Arc<Self>, mut connection: Box<HttpConnection>) {
        if !connection.is_idle(false) {
            return;
        }
        let now = Instant::now();
        connection.idle_since = now;
        connection.use_until = now + connection.keep_alive.min(self.limits.idle_timeout);
        let mut idle = self.idle();
        if idle.connections.first().is_some_and(|oldest| oldest.use_until <= now) {
            idle.connections.remove(0);
        }
        if idle.connections.len() >= self.limits.max_idle {
            return;
        }
        let runtime = connection.runtime;
        idle.connections.push(connection);
        if !idle.swept.contains(&runtime)
            && let Ok(handle) = Handle::try_current()
        {
            idle.swept.push(runtime);
            drop(idle);
            handle.spawn(sweep(Sweeper { shard: Arc::downgrade(self), runtime }));
        }
    }

    /// Closes the connections of this runtime that have expired or that the server has closed. False if none is left.
    pub(super) fn sweep(&self, runtime: Option<Id>) -> bool {
        let now = Instant::now();
        let mut idle = self.idle();
        idle.connections.retain_mut(|idle| {
            idle.runtime != runtime || now < idle.use_until && idle.is_idle(true)
        });
        let is_needed = idle.connections.iter().any(|idle| idle.runtime == runtime);
        if !is_needed {
            // Under the same lock, so that the next connection that is put back starts a new sweep.
            idle.swept.retain(|swept| *swept != runtime);
        }
        is_needed
    }

    fn idle(&self) -> MutexGuard<'_, IdleConnections> {
        self.idle.lock()
    }

    /// The number of idle connections.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.idle().connections.len()
    }

    pub(super) fn origin(&self) -> &str {
        &self.origin
    }
}

/// Sweeps the idle connections of a runtime until none is left.
struct Sweeper {
    shard: Weak<Shard>,
    runtime: Option<Id>,
}

async fn sweep(sweeper: Sweeper) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(shard) = sweeper.shard.upgrade() else { return };
        if !shard.sweep(sweeper.runtime) {
            return;
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        if let Some(shard) = self.shard.upgrade() {
            shard.idle().swept.retain(|swept| *swept != self.runtime);
        }
    }
}

/// The idle connections to one server.
#[derive(Debug)]
pub(super) struct Pool {
    shards: Box<[Arc<Shard>]>,
}

impl Pool {
    pub(super) fn new(origin: &str, limits: ConnectionLimits) -> Self {
        static CORES: OnceLock<usize> = OnceLock::new();
        let cores = CORES.get_or_init(|| {
            std::thread::available_parallelism().map_or(1, usize::from).clamp(1, 64)
        });
        let origin: Arc<str> = origin.into();
        let shard =
            |_| Arc::new(Shard { idle: Mutex::default(), origin: Arc::clone(&origin), limits });
        Self { shards: (0..*cores).map(shard).collect() }
    }

    /// The shard of the current thread.
    #[expect(clippy::indexing_slicing, reason = "a remainder is within, and there is one at least")]
    pub(super) fn shard(&self) -> &Arc<Shard> {
        &self.shards[thread_number() % self.shards.len()]
    }
}

/// Threads are numbered in the order in which they send their first request.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<Option<usize>> = const { Cell::new(None) };
    }
    NUMBER.with(|number| {
        number.get().unwrap_or_else(|| {
            let next = NEXT.fetch_add(1, Ordering::Relaxed);
            number.set(Some(next));
            next
        })
    })
}
