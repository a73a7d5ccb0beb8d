//! Listens on addresses, and distributes the accepted connections among the workers.

use std::{
    fs::File,
    future::poll_fn,
    io,
    net::{SocketAddr, TcpStream as StdTcpStream},
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::{
    io::Errno,
    process::{Resource, Rlimit, getrlimit, setrlimit},
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    runtime::{Builder, Runtime},
    sync::{mpsc, oneshot},
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    Handler, HttpLimits,
    over_capacity::{self, OverCapacity},
    worker::{Worker, WorkerShared},
};

/// The maximum number of connections that wait in the system to be accepted.
const BACKLOG: u32 = 4096;
/// The maximum number of accepted connections that wait for one worker.
const QUEUE: usize = 256;
/// How long the acceptor pauses after it ran out of file descriptors.
const SHORTAGE: Duration = Duration::from_millis(50);
/// How long after the deadline a thread may take to end.
const LATE: Duration = Duration::from_secs(2);

/// An address cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BindError {
    #[error("`{0}` is in use: stop the other program, or choose another with `--listen`")]
    InUse(SocketAddr),
    #[error("`{0}` is no address of this machine: choose another with `--listen`")]
    NotHere(SocketAddr),
    #[error("`{0}` may not be listened on by this user: choose a port above 1023 with `--listen`")]
    NotAllowed(SocketAddr),
    #[error("cannot listen on `{address}`: {error}; choose another with `--listen`")]
    Other { address: SocketAddr, error: io::Error },
    #[error("cannot listen: {0}")]
    Runtime(io::Error),
}

impl BindError {
    fn new(address: SocketAddr, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::AddrInUse => Self::InUse(address),
            io::ErrorKind::AddrNotAvailable => Self::NotHere(address),
            io::ErrorKind::PermissionDenied => Self::NotAllowed(address),
            _ => Self::Other { address, error },
        }
    }
}

/// Bound addresses on which no connection is accepted yet.
#[derive(Debug)]
pub(crate) struct BoundAddresses {
    runtime: SpareRuntime,
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
}

/// The acceptor's runtime, which may be dropped unused within another runtime.
#[derive(Debug)]
struct SpareRuntime(Option<Runtime>);

impl Drop for SpareRuntime {
    fn drop(&mut self) {
        // A plain drop waits for blocking tasks, and panics in an asynchronous context.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl BoundAddresses {
    /// Binds all of the addresses, or none.
    pub(crate) fn bind(addresses: &[SocketAddr]) -> Result<Self, BindError> {
        let runtime =
            Builder::new_current_thread().enable_all().build().map_err(BindError::Runtime)?;
        let bound = {
            let _within = runtime.enter();
            let bound = addresses
                .iter()
                .map(|address| take(*address).map_err(|error| BindError::new(*address, error)));
            bound.collect::<Result<Vec<_>, _>>().map(|bound| bound.into_iter().unzip())
        };
        let runtime = SpareRuntime(Some(runtime));
        let (listeners, addresses) = bound?;
        Ok(Self { runtime, listeners, addresses })
    }

    /// The bound addresses, with the ports that the system picked.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Starts the threads that accept and serve connections. The first worker runs on the current thread, which also
    /// reads and writes the pipes of servers: a request from one of its connections to such a server wakes no other
    /// thread.
    pub(crate) fn serve<H: Handler>(
        mut self,
        handler: &Arc<H>,
        settings: HttpLimits,
    ) -> io::Result<RunningListener> {
        let (connections, settings) = (settings.connections, Arc::new(settings));
        let shared = Arc::new(WorkerShared::default());
        let mut threads = Vec::new();
        let mut workers = Vec::new();
        for number in 0..settings.threads.max(1) {
            let (sender, incoming) = mpsc::channel(QUEUE);
            let worker =
                Worker::new(Arc::clone(handler), Arc::clone(&settings), Arc::clone(&shared));
            let work = async move { worker.run(incoming).await };
            threads.push(if number == 0 {
                Thread::Current(tokio::spawn(work))
            } else {
                let runtime = Builder::new_current_thread().enable_all().build()?;
                Thread::start(format!("http-{number}"), runtime, work)?
            });
            workers.push(sender);
        }
        let stop = CancellationToken::new();
        let gate = Acceptor {
            listeners: self.listeners,
            workers,
            next: 0,
            connections,
            shared: Arc::clone(&shared),
            handler: Arc::clone(handler),
        };
        let accept = gate.run(stop.clone());
        let runtime = self.runtime.0.take();
        let runtime = runtime.ok_or_else(|| io::Error::other("the addresses were released"))?;
        threads.push(Thread::start("http-accept".to_owned(), runtime, accept)?);
        Ok(RunningListener { stop, shared, threads })
    }
}

fn take(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Allows an address to be bound again right after its last listener has closed.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(BACKLOG)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Raises the process's limit of open files to the hard limit. Returns the limit that is in force then.
pub(crate) fn raise_open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if setrlimit(Resource::Nofile, raised).is_err() {
        return limit.current;
    }
    limit.maximum
}

/// The running HTTP server. Dropping it stops the server at once, with all open connections.
#[derive(Debug)]
pub(crate) struct RunningListener {
    stop: CancellationToken,
    shared: Arc<WorkerShared>,
    threads: Vec<Thread>,
}

impl RunningListener {
    /// The number of open connections.
    #[cfg(test)]
    pub(crate) fn open(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// Stops accepting connections, ends idle connections, waits up to `within` for requests under way, and drops the
    /// remaining connections.
    pub(crate) async fn stop(mut self, within: Duration) {
        let deadline = Instant::now() + within;
        // Only this function sets the deadline, and it consumes the server.
        let _is_first = self.shared.deadline.set(deadline);
        self.stop.cancel();
        for thread in std::mem::take(&mut self.threads) {
            thread.end(deadline + LATE).await;
        }
    }
}

impl Drop for RunningListener {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What runs a worker or the acceptor.
#[derive(Debug)]
enum Thread {
    /// A task on the thread that started the server.
    Current(tokio::task::JoinHandle<()>),
    Own {
        handle: JoinHandle<()>,
        ended: oneshot::Receiver<()>,
    },
}

impl Thread {
    fn start(
        name: String,
        runtime: Runtime,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<Self> {
        let (end, ended) = oneshot::channel();
        let run = move || {
            runtime.block_on(work);
            // A plain drop would wait for blocking tasks.
            runtime.shutdown_background();
            drop(end);
        };
        Ok(Self::Own { handle: thread::Builder::new().name(name).spawn(run)?, ended })
    }

    async fn end(self, deadline: Instant) {
        let is_orderly = match self {
            Self::Current(task) => timeout_at(deadline, task).await.map(|ended| ended.is_ok()),
            Self::Own { handle, ended } => {
                timeout_at(deadline, ended).await.map(|_| handle.join().is_ok())
            }
        };
        match is_orderly {
            Ok(true) => {}
            Ok(false) => tracing::error!("a thread of the HTTP server panicked"),
            Err(_) => {
                tracing::warn!(
                    "a thread of the HTTP server did not end in time; it is left running"
                );
            }
        }
    }
}

/// Accepts connections.
struct Acceptor<H> {
    listeners: Vec<TcpListener>,
    workers: Vec<mpsc::Sender<StdTcpStream>>,
    next: usize,
    connections: usize,
    shared: Arc<WorkerShared>,
    handler: Arc<H>,
}

impl<H: Handler> Acceptor<H> {
    async fn run(mut self, stop: CancellationToken) {
        let mut refusals = OverCapacity::default();
        // A reserved file descriptor. The acceptor closes it when no other is left, to accept and refuse connections.
        let mut spare = spare();
        let mut is_short = false;
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                accepted = poll_fn(|cx| self.poll_accept(cx)) => accepted,
            };
            match accepted {
                Ok(stream) => {
                    is_short = false;
                    if self.shared.open.load(Ordering::Relaxed) < self.connections {
                        self.hand_over(stream).await;
                    } else {
                        self.handler.connection_refused(stream.peer_addr().ok());
                        refusals.refuse(stream);
                    }
                }
                Err(error) if is_of_one_client(&error) => {}
                Err(error) => {
                    if !std::mem::replace(&mut is_short, true) {
                        tracing::warn!(%error, "connections cannot be accepted: raise the limit of open files");
                    }
                    drop(spare.take());
                    self.turn_all_away().await;
                    spare = self::spare();
                    tokio::time::sleep(SHORTAGE).await;
                }
            }
        }
    }

    /// The next connection from any of the listeners. The listener that is polled first changes with each served
    /// connection, so that a busy listener does not starve the others.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        let count = self.listeners.len();
        for listener in self.listeners.iter().cycle().skip(self.next % count.max(1)).take(count) {
            if let Poll::Ready(accepted) = listener.poll_accept(cx) {
                return Poll::Ready(accepted.map(|(stream, _)| stream));
            }
        }
        Poll::Pending
    }

    /// With one free file descriptor, accepts and refuses the waiting connections one after the other.
    async fn turn_all_away(&self) {
        for _ in 0..BACKLOG {
            let next = poll_fn(|cx| Poll::Ready(self.poll_accept(cx)));
            let Poll::Ready(Ok(stream)) = next.await else { return };
            self.handler.connection_refused(stream.peer_addr().ok());
            over_capacity::refuse_unread(&stream);
        }
    }

    /// Hands a connection to the next worker, or to another worker if that queue is full. Waits if all queues are full.
    async fn hand_over(&mut self, stream: TcpStream) {
        let mut stream = match stream.into_std() {
            Ok(stream) => stream,
            Err(error) => {
                return tracing::debug!(%error, "an accepted connection could not be served");
            }
        };
        self.shared.open.fetch_add(1, Ordering::Relaxed);
        let count = self.workers.len();
        self.next = (self.next + 1) % count.max(1);
        let workers = self.workers.iter().cycle().skip(self.next);
        for worker in workers.clone().take(count) {
            match worker.try_send(stream) {
                Ok(()) => return,
                Err(error) => stream = error.into_inner(),
            }
        }
        for worker in workers.take(count) {
            match worker.send(stream).await {
                Ok(()) => return,
                Err(error) => stream = error.0,
            }
        }
        self.shared.open.fetch_sub(1, Ordering::Relaxed);
    }
}

fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

/// Whether an error of `accept` concerns a single connection, for example one that its client has closed already.
fn is_of_one_client(error: &io::Error) -> bool {
    let of_one = [Errno::CONNABORTED, Errno::CONNRESET, Errno::INTR, Errno::PROTO];
    Errno::from_io_error(error).is_some_and(|errno| of_one.contains(&errno))
}
