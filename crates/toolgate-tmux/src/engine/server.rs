//! One tmux server: asked over one connection where there can be one, by processes where not.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Mutex, task::JoinHandle, time::timeout};

use super::{
    command::{Batch, Command},
    connection::{Connection, Printed},
    error::TmuxError,
    parting,
    rows::{Kind, Listing, Row},
    socket::Socket,
    spawn::Program,
    typed::Typed,
    waiter::{Waiters, Waiting},
    wake::Watch,
    watch::Watching,
};

/// A client that takes no part in sizes, and gets no output.
const SILENT: &str = "ignore-size,no-output";

/// Which server answers behind a socket: a new one has another process or another start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The server's process.
    pub pid: u32,
    /// When it started, in seconds of the epoch.
    pub started: u64,
    /// The socket, in tmux's own words.
    pub socket: String,
    /// tmux's version.
    pub version: String,
}

impl Identity {
    /// What to ask for.
    pub const FORMAT: &str = "#{pid} #{start_time} #{version} #{socket_path}";

    /// Reads the answer.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(4, ' ');
        Some(Self {
            pid: words.next()?.parse().ok()?,
            started: words.next()?.parse().ok()?,
            version: words.next()?.to_owned(),
            socket: words.next()?.to_owned(),
        })
    }
}

/// A tmux server, which may be down, come and go.
#[derive(Debug)]
pub struct Server {
    program: Program,
    patience: Duration,
    links: Mutex<Links>,
    watching: Watching,
    typed: Typed,
    waiters: Waiters,
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
    pub(super) fn new(program: Program, patience: Duration) -> Self {
        Self {
            program,
            patience,
            links: Mutex::default(),
            watching: Watching::default(),
            typed: Typed::default(),
            waiters: Waiters::default(),
        }
    }

    /// The socket.
    #[must_use]
    pub fn socket(&self) -> &Socket {
        &self.program.socket
    }

    /// How long tmux may take to answer.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// Runs commands in one round trip and gives what each of them printed.
    pub async fn run(&self, batch: impl Into<Batch>) -> Result<Vec<Printed>, TmuxError> {
        let batch = batch.into();
        self.typed.note(&batch);
        match self.link().await? {
            None => self.spawn(&batch).await,
            Some(link) => match link.connection.run(&batch, self.patience).await {
                // The server went away, perhaps another has come.
                Err(TmuxError::Lost) if batch.replays() => match self.link().await? {
                    None => self.spawn(&batch).await,
                    Some(link) => link.connection.run(&batch, self.patience).await,
                },
                reply => reply,
            },
        }
    }

    /// Runs one command and gives what it printed, as text.
    pub async fn ask(&self, batch: impl Into<Batch>) -> Result<String, TmuxError> {
        let printed = self.run(batch).await?.pop().unwrap_or_default();
        Ok(text(printed))
    }

    /// Runs one command in a process of its own, with these bytes on its standard input (`-` as a file), and gives
    /// exactly the bytes that it prints. Over the connection some commands print escaped text, and a long argument
    /// keeps tmux's parser busy.
    pub async fn exchange(&self, command: Command, input: &[u8]) -> Result<Printed, TmuxError> {
        self.program.exchange(&Batch::write([command]), input, self.patience).await
    }

    /// Waits for a signal on a channel (`wait-for`), by a client of its own.
    pub async fn wait_for(self: &Arc<Self>, channel: &str) -> Result<Waiting, TmuxError> {
        let identity = self.who().await?;
        let waiter = self.waiters.take(channel, &identity);
        let waiter = waiter.map_or_else(|| self.program.waiter(channel, identity), Ok)?;
        Ok(Waiting::new(Arc::clone(self), waiter))
    }

    pub(super) fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    /// Which server it is, also where it has no session.
    pub(super) async fn who(&self) -> Result<Identity, TmuxError> {
        let ask = Command::new("display-message").flag("-p").argument(Identity::FORMAT);
        let said = self.ask(Batch::read([ask])).await?;
        Identity::parse(&said).ok_or(TmuxError::Garbled("it does not say who it is"))
    }

    /// Lists sessions, windows or panes with these fields of theirs, in one round trip.
    pub async fn list(
        &self,
        kind: Kind<'_>,
        fields: &'static [&'static str],
    ) -> Result<Vec<Row>, TmuxError> {
        Ok(kind.once_each(self.each(kind, fields).await?))
    }

    /// The same as tmux lists them: what is linked into several sessions, once for each.
    pub async fn each(
        &self,
        kind: Kind<'_>,
        fields: &'static [&'static str],
    ) -> Result<Vec<Row>, TmuxError> {
        match self.then_each(Batch::read([]), kind, fields).await {
            // A server without a session: tmux looks for one before it sees that all are meant.
            Err(error) if kind.is_everywhere() && error.says("no current target") => Ok(Vec::new()),
            listed => Ok(listed?.1),
        }
    }

    /// Commands and then a list, in one round trip: what the commands printed, and the rows as tmux lists them.
    pub async fn then_each(
        &self,
        batch: Batch,
        kind: Kind<'_>,
        fields: &'static [&'static str],
    ) -> Result<(Vec<Printed>, Vec<Row>), TmuxError> {
        let listing = Listing::new(fields);
        let list = kind.command().option("-F", listing.format());
        let mut printed = self.run(batch.and(list)).await?;
        let mut rows = listing.rows(&text(printed.pop().unwrap_or_default()))?;
        self.uncount(&mut rows).await;
        Ok((printed, rows))
    }

    /// The processes of our own clients.
    pub async fn own_clients(&self) -> Vec<u32> {
        let main = self.links.lock().await.open.as_ref().and_then(|link| link.connection.pid());
        main.into_iter().chain(self.watching.pids()).collect()
    }

    /// Makes something with a command that prints what it made (`-P -F`).
    pub async fn make(
        &self,
        command: Command,
        fields: &'static [&'static str],
        arguments: impl FnOnce(Command) -> Command,
    ) -> Result<Row, TmuxError> {
        let listing = Listing::new(fields);
        let command = arguments(command.flag("-P").option("-F", listing.format()));
        let printed = self.ask(command).await?;
        let mut rows = listing.rows(&printed)?;
        self.uncount(&mut rows).await;
        rows.pop().ok_or(TmuxError::Garbled("it made something and did not say what"))
    }

    /// Clients of ours are no users: they are taken off the count of those that are attached.
    async fn uncount(&self, rows: &mut [Row]) {
        let main = self.links.lock().await.open.as_ref().and_then(|link| link.connection.session());
        for row in rows.iter_mut().filter(|row| row.get("session_attached").is_some()) {
            let session = row.text("session_id");
            let ours = usize::from(main.as_deref() == Some(&*session));
            row.reduce("session_attached", ours + self.watching.attached(&session));
        }
    }

    /// Which server it is, or `None` if none runs or it has no session.
    pub async fn identity(&self) -> Result<Option<Arc<Identity>>, TmuxError> {
        Ok(self.link().await?.map(|link| link.identity))
    }

    /// Whether there is a connection, or may be one in a moment.
    pub(super) fn is_linked(&self) -> bool {
        let links = self.links.try_lock();
        links.map_or(true, |links| links.open.is_some() || links.opening.is_some())
    }

    /// Whether somebody listens on the socket.
    pub async fn is_listening(&self) -> bool {
        self.program.socket.is_listened_to().await
    }

    /// News of a pane of this session, from now on.
    ///
    /// While somebody watches, a second client is attached to the session; it is gone with the last watcher.
    pub async fn watch(&self, session: &str, pane: &str) -> Result<Watch, TmuxError> {
        self.watching.watch(&self.program, session, pane, self.patience).await
    }

    /// News of what comes, goes and changes in all sessions, over the connection that is there anyway; `None` if
    /// there is no server or no session. Layouts are told of those windows only that its session has.
    pub async fn watch_all(&self) -> Result<Option<Watch>, TmuxError> {
        Ok(self.link().await?.map(|link| Watch::over(link.connection)))
    }

    /// The lines that were typed into a pane over this connection a moment ago, and may not have been echoed yet.
    #[must_use]
    pub fn typed(&self, pane: &str) -> Vec<String> {
        self.typed.lines(pane)
    }

    /// The connection, if there can be one, within the deadline.
    async fn link(&self) -> Result<Option<Link>, TmuxError> {
        timeout(self.patience, self.linked()).await.unwrap_or_else(|_| {
            let command = "attach-session".to_owned();
            Err(TmuxError::TimedOut { command, after: self.patience, sent: false })
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
        // Whoever gives up here leaves it to the next one.
        let opened = opening.await;
        links.opening = None;
        links.open = opened.map_err(|_| TmuxError::Lost)??;
        Ok(links.open.clone())
    }

    /// Without a connection each command has a process, so that their answers stay apart.
    async fn spawn(&self, batch: &Batch) -> Result<Vec<Printed>, TmuxError> {
        let mut printed = Vec::new();
        for one in batch.singles() {
            printed.push(self.program.run(&one, self.patience).await?);
        }
        Ok(printed)
    }
}

/// Attaches and asks who is there. Those who wait for it have deadlines.
async fn connect(program: Program) -> Result<Option<Link>, TmuxError> {
    let connection = match Connection::open(&program, None, SILENT).await {
        Ok(connection) => Arc::new(connection),
        Err(TmuxError::Refused(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    parting::enlist(Arc::downgrade(&connection) as _);
    let ask = Command::new("display-message").flag("-p").argument(Identity::FORMAT);
    let printed = connection.run(&Batch::read([ask]), Duration::MAX).await?.pop();
    let identity = Identity::parse(&text(printed.unwrap_or_default()));
    let identity = identity.ok_or(TmuxError::Garbled("it does not say who it is"))?;
    Ok(Some(Link { connection, identity: Arc::new(identity) }))
}

/// Bytes of tmux as text. What is not UTF-8 becomes U+FFFD.
pub(crate) fn text(printed: Printed) -> String {
    String::from_utf8(printed)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
