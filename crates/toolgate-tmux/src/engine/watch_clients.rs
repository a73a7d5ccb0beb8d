//! Control clients that receive the output of panes, for [`Watch`](super::Watch).
//!
//! tmux 3.3a crashes if a control client disconnects, or turns its output off, while output for it is queued. A paused
//! pane has no queued output: panes are paused unless they are watched, and all of them before a client disconnects. It
//! also crashes if it notifies all clients while one is attaching, so a client stays open for a while after its last
//! watcher, and only one of ours connects or disconnects at a time. Answers and notifications are queued behind output
//! that was not sent yet; tmux pauses a pane when its queued output is older than the client's `pause-after`, and the
//! watch resumes it.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tokio::{
    runtime::Handle,
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{
    ANSWER_TIMEOUT,
    command::{Batch, Command},
    connection::Connection,
    error::TmuxError,
    open_clients::{Boxed, ControlClient},
    program::Program,
};

/// How long a client stays open after its last watcher, so that consecutive waits attach once.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Client flags: the client does not influence window sizes, and tmux pauses a pane whose output was not read for five
/// seconds.
const OUTPUT_FLAGS: &str = "ignore-size,pause-after=5";
/// How long the next client waits for one to disconnect.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The clients that receive output, one for each session with a watched pane.
#[derive(Debug, Default)]
pub(super) struct WatchClients {
    clients: Arc<SessionClients>,
}

#[derive(Debug, Default)]
struct SessionClients {
    all: Mutex<HashMap<String, Weak<SessionClient>>>,
    /// Held while a client connects or disconnects. Contains a connection attempt whose caller was cancelled: the next
    /// caller waits for it.
    gate: tokio::sync::Mutex<Option<JoinHandle<Result<(), TmuxError>>>>,
}

/// A client, and the number of its watchers.
#[derive(Debug)]
struct SessionClient {
    connection: Connection,
    watchers: AtomicUsize,
    /// The panes that are not paused. Locked while panes are paused or resumed.
    resumed: tokio::sync::Mutex<HashSet<String>>,
}

impl SessionClient {
    /// Tells tmux to send the output of a pane.
    async fn resume(&self, pane: &str, time_limit: Duration) -> Result<(), TmuxError> {
        let mut resumed = self.resumed.lock().await;
        if self.watchers.load(SeqCst) == 0 {
            return Ok(());
        }
        resumed.insert(pane.to_owned());
        let resume = Command::new("refresh-client").option("-A", format!("{pane}:continue"));
        self.connection.run(&Batch::read([resume]), time_limit).await.map(drop)
    }

    /// Pauses all panes if there is no watcher.
    async fn pause_if_unwatched(&self) {
        let mut resumed = self.resumed.lock().await;
        if self.watchers.load(SeqCst) == 0 {
            self.pause(&mut resumed).await;
        }
    }

    /// Disconnects, also if there are watchers.
    async fn close(&self) {
        let mut resumed = self.resumed.lock().await;
        self.pause(&mut resumed).await;
        self.connection.close().await;
    }

    /// Pauses all panes. A failure is ignored: the panes stay as they were.
    async fn pause(&self, resumed: &mut HashSet<String>) {
        if self.connection.is_closed() {
            return;
        }
        // First those that are known to send output: tmux answers `list-panes` only after the output that it has queued.
        let known: Vec<String> = resumed.drain().collect();
        if !known.is_empty() {
            self.pause_these(known.iter().map(String::as_str)).await;
        }
        let list = Command::new("list-panes").flag("-s").option("-F", "#{pane_id}");
        let Ok(printed) = self.connection.run(&Batch::read([list]), ANSWER_TIMEOUT).await else {
            return;
        };
        let panes = printed.first().map(|panes| String::from_utf8_lossy(panes)).unwrap_or_default();
        self.pause_these(panes.lines()).await;
    }

    async fn pause_these(&self, panes: impl Iterator<Item = &str>) {
        let pause = panes.fold(Command::new("refresh-client"), |command, pane| {
            command.option("-A", format!("{pane}:pause"))
        });
        let _ = self.connection.run(&Batch::read([pause]), ANSWER_TIMEOUT).await;
    }
}

impl ControlClient for SessionClient {
    fn close(&self) -> Boxed<'_> {
        Box::pin(self.close())
    }
}

impl SessionClients {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Weak<SessionClient>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, session: &str) -> Option<Arc<SessionClient>> {
        let known = self.all().get(session).and_then(Weak::upgrade);
        known.filter(|client| !client.connection.is_closed())
    }

    /// Removes the client if the caller holds the last reference to it; whether it did.
    fn remove_unused(&self, client: &Arc<SessionClient>) -> bool {
        let mut all = self.all();
        let last = Arc::strong_count(client) == 1;
        all.retain(|_, known| !last || known.as_ptr() != Arc::as_ptr(client));
        last
    }

    async fn open(self: Arc<Self>, program: Program, session: String) -> Result<(), TmuxError> {
        let connection = Connection::open(&program, Some(&session), OUTPUT_FLAGS).await?;
        let (watchers, resumed) = (AtomicUsize::new(0), tokio::sync::Mutex::default());
        let client = Arc::new(SessionClient { connection, watchers, resumed });
        program.clients.register(Arc::downgrade(&client) as _);
        client.pause_if_unwatched().await;
        let mut clients = self.all();
        clients.retain(|_, client| client.strong_count() > 0);
        clients.insert(session, Arc::downgrade(&client));
        drop(clients);
        self.close_when_idle(client);
        Ok(())
    }

    /// Disconnects a client after [`IDLE_TIMEOUT`], if it has no watcher then.
    fn close_when_idle(self: Arc<Self>, client: Arc<SessionClient>) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        runtime.spawn(async move {
            client.pause_if_unwatched().await;
            sleep(IDLE_TIMEOUT).await;
            let _gate = self.gate.lock().await;
            // Panes that were created since are not paused yet.
            client.pause_if_unwatched().await;
            if !self.remove_unused(&client) {
                return;
            }
            let _ = timeout(CLOSE_TIMEOUT, client.connection.close()).await;
        });
    }
}

impl WatchClients {
    /// How many of these clients are attached to the session.
    pub(super) fn attached(&self, session: &str) -> usize {
        let clients = self.clients.all();
        let clients = clients.values().filter_map(Weak::upgrade);
        clients.filter(|client| client.connection.session().as_deref() == Some(session)).count()
    }

    /// The process ids of these clients.
    pub(super) fn pids(&self) -> Vec<u32> {
        let clients = self.clients.all();
        let clients = clients.values().filter_map(Weak::upgrade);
        clients.filter_map(|client| client.connection.pid()).collect()
    }

    /// A watcher of a session, through its client.
    pub(super) async fn watcher(
        &self,
        program: &Program,
        session: &str,
        time_limit: Duration,
    ) -> Result<Watcher, TmuxError> {
        let client = timeout(time_limit, self.client(program, session)).await;
        let client = client.map_err(|_| TmuxError::TimedOut {
            command: "attach-session".to_owned(),
            after: time_limit,
            sent: false,
        })??;
        client.watchers.fetch_add(1, SeqCst);
        Ok(Watcher { client, clients: Arc::clone(&self.clients) })
    }

    async fn client(
        &self,
        program: &Program,
        session: &str,
    ) -> Result<Arc<SessionClient>, TmuxError> {
        if let Some(client) = self.clients.get(session) {
            return Ok(client);
        }
        let mut gate = self.clients.gate.lock().await;
        if let Some(abandoned) = gate.as_mut() {
            // It may have been for another session: then it only has to end before the next one begins.
            let _ = abandoned.await;
            *gate = None;
        }
        if let Some(client) = self.clients.get(session) {
            return Ok(client);
        }
        let open = Arc::clone(&self.clients).open(program.clone(), session.to_owned());
        let opened = gate.insert(tokio::spawn(open)).await;
        *gate = None;
        opened.map_err(|_| TmuxError::Lost)??;
        self.clients.get(session).ok_or(TmuxError::Lost)
    }
}

/// A user of a client. The client disconnects a while after its last watcher is dropped.
#[derive(Debug)]
pub(super) struct Watcher {
    client: Arc<SessionClient>,
    clients: Arc<SessionClients>,
}

impl Watcher {
    pub(super) fn connection(&self) -> &Connection {
        &self.client.connection
    }

    /// Tells tmux to send the output of a pane.
    pub(super) async fn resume(&self, pane: &str, time_limit: Duration) -> Result<(), TmuxError> {
        self.client.resume(pane, time_limit).await
    }

    /// Resumes a pane that tmux has paused because its output was read too slowly, without waiting for tmux.
    pub(super) fn resume_later(&self, pane: &Arc<str>) {
        if let Ok(runtime) = Handle::try_current() {
            let (client, pane) = (Arc::clone(&self.client), Arc::clone(pane));
            runtime.spawn(async move { client.resume(&pane, ANSWER_TIMEOUT).await });
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.client.watchers.fetch_sub(1, SeqCst);
        Arc::clone(&self.clients).close_when_idle(Arc::clone(&self.client));
    }
}
