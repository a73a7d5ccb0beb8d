//! Connections that wait for their next request, by the thread that opened them.

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
    Bounds,
    connection::{HttpConnection, runtime},
};

/// So often unused connections are looked through, for those that are not to be kept any longer.
const SWEEP: Duration = Duration::from_secs(10);

/// The connections of one thread that wait. On a cache line of its own: threads must not get in each other's way.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Shard {
    idle: Mutex<Idle>,
    origin: Arc<str>,
    bounds: Bounds,
}

#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "they come from calls and go to calls: what is moved is small")]
struct Idle {
    /// The one that was not used for longest is the first.
    connections: Vec<Box<HttpConnection>>,
    /// The runtimes on which somebody looks through them.
    swept: Vec<Option<Id>>,
}

impl Shard {
    /// A connection that waits for a request, the last one that was used.
    pub(super) fn take(&self) -> Option<Box<HttpConnection>> {
        let (runtime, now) = (runtime(), Instant::now());
        loop {
            let mut connection = {
                let mut idle = self.idle();
                let all = &mut idle.connections;
                let place = all.iter().rposition(|idle| idle.runtime == runtime)?;
                all.remove(place)
            };
            // Servers close what was idle for a while: is this one still there?
            let idle_for = now.saturating_duration_since(connection.idle_since);
            let looks = idle_for >= self.bounds.look_after;
            // What the runtime knows, hyper looks at before it writes.
            if now < connection.use_until && (!looks || connection.is_idle(true)) {
                return Some(connection);
            }
        }
    }

    /// Takes a connection back whose answer was read to its end.
    pub(super) fn put(self: &Arc<Self>, mut connection: Box<HttpConnection>) {
        if !connection.is_idle(false) {
            return;
        }
        let now = Instant::now();
        connection.idle_since = now;
        connection.use_until = now + connection.kept_for.min(self.bounds.idle_for);
        let mut idle = self.idle();
        if idle.connections.first().is_some_and(|oldest| oldest.use_until <= now) {
            idle.connections.remove(0);
        }
        if idle.connections.len() >= self.bounds.idle {
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

    /// Closes what is not to be used any more. False if there is nothing left to be looked at.
    pub(super) fn sweep(&self, runtime: Option<Id>) -> bool {
        let now = Instant::now();
        let mut idle = self.idle();
        idle.connections.retain_mut(|idle| {
            idle.runtime != runtime || now < idle.use_until && idle.is_idle(true)
        });
        let is_needed = idle.connections.iter().any(|idle| idle.runtime == runtime);
        if !is_needed {
            // With the lock held: what comes next calls for the next one.
            idle.swept.retain(|swept| *swept != runtime);
        }
        is_needed
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock()
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.idle().connections.len()
    }

    pub(super) fn origin(&self) -> &str {
        &self.origin
    }
}

/// Looks through the unused connections of a runtime, as long as there are some.
struct Sweeper {
    shard: Weak<Shard>,
    runtime: Option<Id>,
}

async fn sweep(sweeper: Sweeper) {
    loop {
        tokio::time::sleep(SWEEP).await;
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

/// The connections of all threads to one server.
#[derive(Debug)]
pub(super) struct Pool {
    shards: Box<[Arc<Shard>]>,
}

impl Pool {
    pub(super) fn new(origin: &str, bounds: Bounds) -> Self {
        static CORES: OnceLock<usize> = OnceLock::new();
        let cores = CORES.get_or_init(|| {
            std::thread::available_parallelism().map_or(1, usize::from).clamp(1, 64)
        });
        let origin: Arc<str> = origin.into();
        let shard =
            |_| Arc::new(Shard { idle: Mutex::default(), origin: Arc::clone(&origin), bounds });
        Self { shards: (0..*cores).map(shard).collect() }
    }

    /// This thread's connections.
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
