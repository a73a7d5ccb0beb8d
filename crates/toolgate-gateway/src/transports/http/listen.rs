//! Listens on addresses, and shares what comes out among the workers.

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

/// So many connections wait in the system to be accepted.
const BACKLOG: u32 = 4096;
/// So many accepted ones wait for a worker that is behind.
const QUEUE: usize = 256;
/// How long to wait when the system has no handle left.
const SHORTAGE: Duration = Duration::from_millis(50);
/// How much longer than the deadline a thread may take to end.
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

/// Addresses that are ours, where nobody is let in yet.
#[derive(Debug)]
pub(crate) struct BoundAddresses {
    runtime: SpareRuntime,
    listeners: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
}

/// A runtime that may turn out not to be needed, inside of another one.
#[derive(Debug)]
struct SpareRuntime(Option<Runtime>);

impl Drop for SpareRuntime {
    fn drop(&mut self) {
        // A plain drop waits for what blocks, and panics where nobody may wait.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl BoundAddresses {
    /// Takes all of the addresses, or none.
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

    /// The addresses, with the ports that were picked.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Lets clients in.
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
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let work = async move { worker.run(incoming).await };
            threads.push(Thread::start(format!("http-{number}"), runtime, work)?);
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
        let runtime = runtime.ok_or_else(|| io::Error::other("the addresses were given up"))?;
        threads.push(Thread::start("http-accept".to_owned(), runtime, accept)?);
        Ok(RunningListener { stop, shared, threads })
    }
}

fn take(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // An address that was given up a moment ago can be taken again.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let listener = socket.listen(BACKLOG)?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Raises the number of files that this process may have open to what the system allows at most. Gives that number.
pub(crate) fn raise_open_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if setrlimit(Resource::Nofile, raised).is_err() {
        return limit.current;
    }
    limit.maximum
}

/// The door while it is open; dropped, it is shut at once.
#[derive(Debug)]
pub(crate) struct RunningListener {
    stop: CancellationToken,
    shared: Arc<WorkerShared>,
    threads: Vec<Thread>,
}

impl RunningListener {
    /// How many connections there are.
    #[cfg(test)]
    pub(crate) fn open(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// Lets nobody in any more, ends connections that are idle, waits for requests under way as long as that, and drops
    /// what is left then.
    pub(crate) async fn stop(mut self, within: Duration) {
        let deadline = Instant::now() + within;
        // Set once only: by this.
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

#[derive(Debug)]
struct Thread {
    handle: JoinHandle<()>,
    ended: oneshot::Receiver<()>,
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
            // Not a drop: that would wait for whatever blocks.
            runtime.shutdown_background();
            drop(end);
        };
        Ok(Self { handle: thread::Builder::new().name(name).spawn(run)?, ended })
    }

    async fn end(self, deadline: Instant) {
        if timeout_at(deadline, self.ended).await.is_ok() {
            if self.handle.join().is_err() {
                tracing::error!("a thread of the door for HTTP ended by a panic");
            }
        } else {
            tracing::warn!("a thread of the door for HTTP is stuck, and left behind");
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
        let mut turned_away = OverCapacity::default();
        // Kept so that a client can be told that there are no more.
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
                        self.handler.turned_away(stream.peer_addr().ok());
                        turned_away.tell(stream);
                    }
                }
                Err(error) if is_of_one_client(&error) => {}
                Err(error) => {
                    if !std::mem::replace(&mut is_short, true) {
                        tracing::warn!(%error, "clients cannot be let in: raise the limit of open files");
                    }
                    drop(spare.take());
                    self.turn_all_away().await;
                    spare = self::spare();
                    tokio::time::sleep(SHORTAGE).await;
                }
            }
        }
    }

    /// The next connection at any of the listeners. Another one is asked first each time, so that none has to wait
    /// for a crowd at another.
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        let count = self.listeners.len();
        for listener in self.listeners.iter().cycle().skip(self.next % count.max(1)).take(count) {
            if let Poll::Ready(accepted) = listener.poll_accept(cx) {
                return Poll::Ready(accepted.map(|(stream, _)| stream));
            }
        }
        Poll::Pending
    }

    /// With one handle, those who wait can be told one after the other that there is no room.
    async fn turn_all_away(&self) {
        for _ in 0..BACKLOG {
            let next = poll_fn(|cx| Poll::Ready(self.poll_accept(cx)));
            let Poll::Ready(Ok(stream)) = next.await else { return };
            self.handler.turned_away(stream.peer_addr().ok());
            over_capacity::unheard(&stream);
        }
    }

    /// Gives a connection to the next worker; to another one if that is behind; and waits if all are.
    async fn hand_over(&mut self, stream: TcpStream) {
        let mut stream = match stream.into_std() {
            Ok(stream) => stream,
            Err(error) => return tracing::debug!(%error, "a connection could not be taken"),
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

/// Whether an error means that one client left before it was let in, and nothing else.
fn is_of_one_client(error: &io::Error) -> bool {
    let of_one = [Errno::CONNABORTED, Errno::CONNRESET, Errno::INTR, Errno::PROTO];
    Errno::from_io_error(error).is_some_and(|errno| of_one.contains(&errno))
}
