//! Connections that wait for their next request, by the thread that opened them.

use std::{
    cell::Cell,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    HeaderMap,
    client::conn::http1::SendRequest,
    header::{HeaderName, HeaderValue},
};
use tokio::{
    runtime::{Handle, Id},
    task::AbortHandle,
    time::timeout,
};

use super::{Bounds, watched::Look};

/// How long a connection may take to see that its last answer is over.
const SETTLE: Duration = Duration::from_millis(100);

/// A server that closes idle connections after some time does so at its own clock: so much earlier ours are not
/// used any more, lest a request meets a connection that is being closed.
const MARGIN: Duration = Duration::from_secs(1);

/// A connection, driven by a task of the runtime that opened it. Dropped, it is closed.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) sender: SendRequest<Full<Bytes>>,
    driver: AbortHandle,
    look: Look,
    runtime: Option<Id>,
    /// For how long the server keeps it while nobody uses it, once it has said so.
    kept_for: Duration,
    is_new: bool,
    use_until: Instant,
    idle_since: Instant,
}

impl Connection {
    pub(super) fn new(sender: SendRequest<Full<Bytes>>, driver: AbortHandle, look: Look) -> Self {
        let now = Instant::now();
        Self {
            sender,
            driver,
            look,
            runtime: runtime(),
            kept_for: Duration::MAX,
            is_new: true,
            use_until: now,
            idle_since: now,
        }
    }

    /// Looks up in its first answer how long the server will keep it.
    pub(super) fn heed(&mut self, headers: &HeaderMap) {
        static KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
        if std::mem::take(&mut self.is_new)
            && let Some(time) = headers.get(&KEEP_ALIVE).and_then(timeout_of)
        {
            self.kept_for = time.saturating_sub(MARGIN);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// `timeout=5, max=100`
fn timeout_of(value: &HeaderValue) -> Option<Duration> {
    let mut parts = value.to_str().ok()?.split(',').map(str::trim);
    let seconds = parts.find_map(|part| part.strip_prefix("timeout="))?;
    Some(Duration::from_secs(seconds.parse().ok()?))
}

fn runtime() -> Option<Id> {
    Handle::try_current().ok().map(|handle| handle.id())
}

/// The connections of one thread that wait. On a cache line of its own: threads must not get in each other's way.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Shard {
    idle: Mutex<Vec<Connection>>,
    origin: Arc<str>,
    bounds: Bounds,
}

impl Shard {
    /// A connection that waits for a request, the last one that was used.
    pub(super) async fn take(&self) -> Option<Connection> {
        let runtime = runtime();
        while let Some(mut connection) = self.pop(runtime) {
            if connection.sender.is_ready() {
                return Some(connection);
            }
            if let Ok(Ok(())) = timeout(SETTLE, connection.sender.ready()).await {
                return Some(connection);
            }
        }
        None
    }

    fn pop(&self, runtime: Option<Id>) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.is_empty() {
            return None;
        }
        let now = Instant::now();
        // More threads than shards may share one: each has its own connections in it.
        while let Some(place) = idle.iter().rposition(|idle| idle.runtime == runtime) {
            let connection = idle.remove(place);
            if !connection.sender.is_closed() && now < connection.use_until {
                // Servers close what was idle for a while: is this one still there?
                if now.saturating_duration_since(connection.idle_since) >= self.bounds.look_after {
                    connection.look.store(true, Ordering::Relaxed);
                }
                return Some(connection);
            }
        }
        None
    }

    /// Takes a connection back whose answer was read to its end.
    pub(super) fn put(&self, mut connection: Connection) {
        if connection.sender.is_closed() {
            return;
        }
        let now = Instant::now();
        connection.idle_since = now;
        connection.use_until = now + connection.kept_for.min(self.bounds.idle_for);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // The one that was not used for longest is the first.
        let oldest = idle.first();
        if oldest.is_some_and(|oldest| oldest.sender.is_closed() || oldest.use_until <= now) {
            idle.remove(0);
        }
        if idle.len() < self.bounds.idle {
            idle.push(connection);
        }
    }

    pub(super) fn origin(&self) -> &str {
        &self.origin
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
