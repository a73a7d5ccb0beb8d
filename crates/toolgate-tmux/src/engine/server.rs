//! One tmux server: commands run over one control connection, or in processes where no connection can be opened.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Mutex, task::JoinHandle, time::timeout};

use super::{
    channel_wait::{CancelledWaits, ChannelWait, Signal},
    command::{Batch, Command},
    connection::{Connection, PrintedBytes},
    error::TmuxError,
    identity::Identity,
    pane_locks::{PaneLock, PaneLocks},
    program::Program,
    recent_input::RecentInput,
    rows::{ListTarget, Listing, Row},
    socket::Socket,
    watch::Watch,
    watch_clients::WatchClients,
};

/// Client flags: the client does not influence window sizes and receives no pane output.
const NO_SIZE_NO_OUTPUT: &str = "ignore-size,no-output";

/// The tmux server on one socket. The server may be down, start and end at any time.
#[derive(Debug)]
pub struct Server {
    program: Program,
    time_limit: Duration,
    links: Mutex<Links>,
    watch_clients: WatchClients,
    recent_input: RecentInput,
    cancelled_waits: Arc<CancelledWaits>,
    pane_locks: PaneLocks,
}

#[derive(Debug, Default)]
struct Links {
    open: Option<Link>,
    opening: Option<JoinHandle<Result<Option<Link>, TmuxError>>>,
}

#[derive(Clone, Debug)]
struct Link {
    connection: Arc<Connection>,
    identity: Arc<Identity>,
}

impl Server {
    pub(super) fn new(program: Program, time_limit: Duration) -> Self {
        Self {
            program,
            time_limit,
            links: Mutex::default(),
            watch_clients: WatchClients::default(),
            recent_input: RecentInput::default(),
            cancelled_waits: Arc::default(),
            pane_locks: PaneLocks::default(),
        }
    }

    /// The socket.
    #[must_use]
    pub fn socket(&self) -> &Socket {
        &self.program.socket
    }

    /// How long tmux may take to answer.
    #[must_use]
    pub fn time_limit(&self) -> Duration {
        self.time_limit
    }

    /// Runs commands in one round trip and returns what each of them printed.
    pub async fn run(&self, batch: impl Into<Batch>) -> Result<Vec<PrintedBytes>, TmuxError> {
        let batch = batch.into();
        self.recent_input.note(&batch);
        match self.link().await? {
            None => self.spawn(&batch).await,
            Some(link) => match link.connection.run(&batch, self.time_limit).await {
                // The server ended; another one may listen on the socket by now.
                Err(TmuxError::Lost) if batch.replays() => match self.link().await? {
                    None => self.spawn(&batch).await,
                    Some(link) => link.connection.run(&batch, self.time_limit).await,
                },
                reply => reply,
            },
        }
    }

    /// Runs commands and returns what the last one printed, as text.
    pub async fn ask(&self, batch: impl Into<Batch>) -> Result<String, TmuxError> {
        let printed = self.run(batch).await?.pop().unwrap_or_default();
        Ok(text(printed))
    }

    /// Runs one command in a process of its own, with `input` on its standard input (`-` as a file), and returns
    /// exactly the bytes that it prints. Over the connection, some commands print escaped text, and tmux parses long
    /// arguments slowly.
    pub async fn exchange(
        &self,
        command: Command,
        input: &[u8],
    ) -> Result<PrintedBytes, TmuxError> {
        self.program.exchange(&Batch::write([command]), input, self.time_limit).await
    }

    /// Waits for a signal on a channel (`wait-for`), in a client of its own. A signal that comes after this future was
    /// dropped is kept for the next call that waits for the channel.
    pub async fn wait_for(&self, channel: &str) -> Result<Signal, TmuxError> {
        let identity = self.current_identity().await?;
        let waiter = self.cancelled_waits.take(channel, &identity);
        let waiter = waiter.map_or_else(|| self.program.waiter(channel, identity.clone()), Ok)?;
        let wait = ChannelWait::new(Arc::clone(&self.cancelled_waits), waiter);
        let signalled = wait.ended().await;
        let now = match self.current_identity().await {
            Ok(now) => Some(now),
            Err(TmuxError::NoServer | TmuxError::Lost) => None,
            Err(error) => return Err(error),
        };
        wait.finish();
        match (now == Some(identity), signalled) {
            (false, _) => Ok(Signal::ServerGone),
            (true, true) => Ok(Signal::Came),
            (true, false) => Err(TmuxError::Lost),
        }
    }

    /// Locks a pane for one `run_command`; `None` if another one holds the lock.
    pub(crate) fn lock_pane(&self, pane: &str) -> Option<PaneLock> {
        self.pane_locks.lock(pane)
    }

    /// Which server answers now, also if it has no session.
    async fn current_identity(&self) -> Result<Identity, TmuxError> {
        let ask = Command::new("display-message").flag("-p").argument(Identity::FORMAT);
        let output = self.ask(Batch::read([ask])).await?;
        Identity::parse(&output).ok_or(TmuxError::Garbled("it does not say who it is"))
    }

    /// Lists sessions, windows, panes or clients with these fields, in one round trip. Each is listed once.
    pub async fn list(
        &self,
        kind: ListTarget<'_>,
        fields: &[&'static str],
    ) -> Result<Vec<Row>, TmuxError> {
        Ok(kind.once_each(self.each(kind, fields).await?))
    }

    /// Like [`list`](Self::list), with one row for each session that a window is linked into.
    pub async fn each(
        &self,
        kind: ListTarget<'_>,
        fields: &[&'static str],
    ) -> Result<Vec<Row>, TmuxError> {
        match self.then_each(Batch::read([]), kind, fields).await {
            // A server without a session: tmux looks for a current session before it sees `-a`.
            Err(error) if kind.is_everywhere() && error.says("no current target") => Ok(Vec::new()),
            listed => Ok(listed?.1),
        }
    }

    /// Runs commands and then lists, in one round trip: returns what the commands printed, and the rows.
    pub async fn then_each(
        &self,
        batch: Batch,
        kind: ListTarget<'_>,
        fields: &[&'static str],
    ) -> Result<(Vec<PrintedBytes>, Vec<Row>), TmuxError> {
        let listing = Listing::new(fields);
        let list = kind.command().option("-F", listing.format());
        let mut printed = self.run(batch.and(list)).await?;
        let mut rows = listing.rows(&text(printed.pop().unwrap_or_default()))?;
        self.uncount(&mut rows).await;
        Ok((printed, rows))
    }

    /// The process ids of the tmux clients that this engine has started.
    pub async fn own_clients(&self) -> Vec<u32> {
        let main = self.links.lock().await.open.as_ref().and_then(|link| link.connection.pid());
        main.into_iter().chain(self.watch_clients.pids()).collect()
    }

    /// Runs a command that creates something and prints it (`-P -F`); returns the row of what was created.
    pub async fn make(
        &self,
        command: Command,
        fields: &[&'static str],
        arguments: impl FnOnce(Command) -> Command,
    ) -> Result<Row, TmuxError> {
        let listing = Listing::new(fields);
        let command = arguments(command.flag("-P").option("-F", listing.format()));
        let printed = self.ask(command).await?;
        let mut rows = listing.rows(&printed)?;
        self.uncount(&mut rows).await;
        rows.pop().ok_or(TmuxError::Garbled("it made something and did not say what"))
    }

    /// Subtracts this engine's own clients from `session_attached`, which counts the users that are attached.
    async fn uncount(&self, rows: &mut [Row]) {
        let main = self.links.lock().await.open.as_ref().and_then(|link| link.connection.session());
        for row in rows.iter_mut().filter(|row| row.get("session_attached").is_some()) {
            let session = row.text("session_id");
            let ours = usize::from(main.as_deref() == Some(&*session));
            row.reduce("session_attached", ours + self.watch_clients.attached(&session));
        }
    }

    /// Which server answers; `None` if no server runs or it has no session.
    pub async fn identity(&self) -> Result<Option<Arc<Identity>>, TmuxError> {
        Ok(self.link().await?.map(|link| link.identity))
    }

    /// Whether a connection is open or is being opened.
    pub(super) fn is_linked(&self) -> bool {
        let links = self.links.try_lock();
        links.map_or(true, |links| links.open.is_some() || links.opening.is_some())
    }

    /// Whether a process listens on the socket.
    pub async fn is_listening(&self) -> bool {
        self.program.socket.is_listened_to().await
    }

    /// Notifications about a pane of this session, from now on.
    ///
    /// While at least one watch exists, a second client is attached to the session; it is closed after the last one.
    pub async fn watch(&self, session: &str, pane: &str) -> Result<Watch, TmuxError> {
        let watcher = self.watch_clients.watcher(&self.program, session, self.time_limit).await?;
        let watch = Watch::new(watcher, pane);
        watch.start(self.time_limit).await?;
        Ok(watch)
    }

    /// Notifications about sessions, windows and panes that are created, changed or removed, over the engine's own
    /// connection; `None` if there is no server or no session. tmux reports layout changes only of windows in the session
    /// that the connection is attached to.
    pub async fn watch_all(&self) -> Result<Option<Watch>, TmuxError> {
        Ok(self.link().await?.map(|link| Watch::of_server(link.connection)))
    }

    /// The lines that were recently typed into a pane over this connection, whose echo may still come.
    #[must_use]
    pub fn recent_input(&self, pane: &str) -> Vec<String> {
        self.recent_input.lines(pane)
    }

    /// The connection, opened if possible, within the deadline; `None` if there is no server or no session.
    async fn link(&self) -> Result<Option<Link>, TmuxError> {
        timeout(self.time_limit, self.linked()).await.unwrap_or_else(|_| {
            let command = "attach-session".to_owned();
            Err(TmuxError::TimedOut { command, after: self.time_limit, sent: false })
        })
    }

    async fn linked(&self) -> Result<Option<Link>, TmuxError> {
        let mut links = self.links.lock().await;
        if let Some(open) = links.open.as_ref().filter(|link| !link.connection.is_closed()) {
            return Ok(Some(open.clone()));
        }
        links.open = None;
        if links.opening.is_none() && !self.program.socket.is_listened_to().await {
            return Ok(None);
        }
        let program = &self.program;
        let opening = links.opening.get_or_insert_with(|| tokio::spawn(connect(program.clone())));
        // If this future is dropped here, the next caller continues to wait for the same task.
        let opened = opening.await;
        links.opening = None;
        links.open = opened.map_err(|_| TmuxError::Lost)??;
        Ok(links.open.clone())
    }

    /// Runs each command in a process of its own, so that their output stays separate.
    async fn spawn(&self, batch: &Batch) -> Result<Vec<PrintedBytes>, TmuxError> {
        let mut printed = Vec::new();
        for one in batch.singles() {
            printed.push(self.program.run(&one, self.time_limit).await?);
        }
        Ok(printed)
    }
}

/// Opens a control connection and asks the tmux server for its identity. This function sets no deadline; its callers do.
async fn connect(program: Program) -> Result<Option<Link>, TmuxError> {
    let connection = match Connection::open(&program, None, NO_SIZE_NO_OUTPUT).await {
        Ok(connection) => Arc::new(connection),
        Err(TmuxError::Refused(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    program.clients.register(Arc::downgrade(&connection) as _);
    let ask = Command::new("display-message").flag("-p").argument(Identity::FORMAT);
    let printed = connection.run(&Batch::read([ask]), Duration::MAX).await?.pop();
    let identity = Identity::parse(&text(printed.unwrap_or_default()));
    let identity = identity.ok_or(TmuxError::Garbled("it does not say who it is"))?;
    Ok(Some(Link { connection, identity: Arc::new(identity) }))
}

/// What tmux printed as text. Invalid UTF-8 becomes U+FFFD.
pub(crate) fn text(printed: PrintedBytes) -> String {
    String::from_utf8(printed)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
