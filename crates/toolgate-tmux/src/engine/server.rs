//! One tmux server: asked over one connection where there can be one, by processes where not.

use std::{sync::Arc, time::Duration};

use tokio::{sync::Mutex, task::JoinHandle, time::timeout};

use super::{
    command::{Batch, Command},
    connection::{Connection, Printed},
    error::TmuxError,
    rows::{Kind, Listing, Row},
    socket::Socket,
    spawn::Program,
    watch::{Watch, Watching},
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
        Self { program, patience, links: Mutex::default(), watching: Watching::default() }
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
        let listing = Listing::new(fields);
        let command = kind.command().option("-F", listing.format());
        let printed = self.ask(Batch::read([command])).await?;
        let mut rows = listing.rows(&printed)?;
        self.uncount(&mut rows).await;
        Ok(rows)
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

    /// Lets go of the connection.
    pub(super) async fn close(&self) {
        drop(self.links.lock().await.open.take());
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
