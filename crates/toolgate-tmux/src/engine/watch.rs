//! Waiting for panes: news wakes, nothing polls.
//!
//! tmux 3.3a dies if a control client leaves, or says that it wants no more output, while output waits to be sent to
//! it. A pane that is paused has none: panes are paused unless somebody watches them, and all of them before a client
//! leaves. It also dies if something is told to all clients while one is about to attach, so clients stay a while, and
//! of ours only one comes or goes at a time. What tmux says waits behind the output that it has not sent yet; it pauses
//! a pane by itself when that is older than a second, and the pane is told to go on.

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
    PATIENCE,
    command::{Batch, Command},
    connection::Connection,
    error::TmuxError,
    parting::{self, Boxed, Leave},
    spawn::Program,
    wake::Watch,
};

/// A client stays for so long after its last watcher: waits that follow each other attach once.
const LINGER: Duration = Duration::from_secs(5);
/// No part in sizes; output that is not read within five seconds is dropped, and said to be.
const HEARING: &str = "ignore-size,pause-after=5";
/// So long the next client waits for one to leave.
const LEAVES: Duration = Duration::from_secs(1);

/// Clients that get output, one for each session that somebody watches.
#[derive(Debug, Default)]
pub(super) struct Watching {
    clients: Arc<Clients>,
}

#[derive(Debug, Default)]
struct Clients {
    all: Mutex<HashMap<String, Weak<Client>>>,
    /// Held by whoever comes or goes. Whoever gives up leaves its attaching to the next one.
    gate: tokio::sync::Mutex<Option<JoinHandle<Result<(), TmuxError>>>>,
}

/// A client, and how many watch through it.
#[derive(Debug)]
struct Client {
    connection: Connection,
    watchers: AtomicUsize,
    /// The panes whose output comes. Held while panes are paused or go on.
    turn: tokio::sync::Mutex<HashSet<String>>,
}

impl Client {
    /// Lets the output of a pane come.
    async fn listen(&self, pane: &str, patience: Duration) -> Result<(), TmuxError> {
        let mut heard = self.turn.lock().await;
        if self.watchers.load(SeqCst) == 0 {
            return Ok(());
        }
        heard.insert(pane.to_owned());
        let go_on = Command::new("refresh-client").option("-A", format!("{pane}:continue"));
        self.connection.run(&Batch::read([go_on]), patience).await.map(drop)
    }

    /// Pauses all panes if nobody watches.
    async fn rest(&self) {
        let mut heard = self.turn.lock().await;
        if self.watchers.load(SeqCst) == 0 {
            self.pause(&mut heard).await;
        }
    }

    /// Leaves, whoever watches.
    async fn leave(&self) {
        let mut heard = self.turn.lock().await;
        self.pause(&mut heard).await;
        self.connection.leave().await;
    }

    /// Pauses all panes. What fails here leaves things as they were.
    async fn pause(&self, heard: &mut HashSet<String>) {
        if self.connection.is_closed() {
            return;
        }
        // First those that are known: whatever tmux says comes after the output that still waits.
        let known: Vec<String> = heard.drain().collect();
        if !known.is_empty() {
            self.pause_these(known.iter().map(String::as_str)).await;
        }
        let list = Command::new("list-panes").flag("-s").option("-F", "#{pane_id}");
        let Ok(printed) = self.connection.run(&Batch::read([list]), PATIENCE).await else {
            return;
        };
        let panes = printed.first().map(|panes| String::from_utf8_lossy(panes)).unwrap_or_default();
        self.pause_these(panes.lines()).await;
    }

    async fn pause_these(&self, panes: impl Iterator<Item = &str>) {
        let pause = panes.fold(Command::new("refresh-client"), |command, pane| {
            command.option("-A", format!("{pane}:pause"))
        });
        let _ = self.connection.run(&Batch::read([pause]), PATIENCE).await;
    }
}

impl Leave for Client {
    fn leave(&self) -> Boxed<'_> {
        Box::pin(self.leave())
    }
}

impl Clients {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Weak<Client>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, session: &str) -> Option<Arc<Client>> {
        let known = self.all().get(session).and_then(Weak::upgrade);
        known.filter(|client| !client.connection.is_closed())
    }

    /// Whether nobody else has the client; then nobody will.
    fn forget(&self, client: &Arc<Client>) -> bool {
        let mut all = self.all();
        let last = Arc::strong_count(client) == 1;
        all.retain(|_, known| !last || known.as_ptr() != Arc::as_ptr(client));
        last
    }

    async fn open(self: Arc<Self>, program: Program, session: String) -> Result<(), TmuxError> {
        let connection = Connection::open(&program, Some(&session), HEARING).await?;
        let (watchers, turn) = (AtomicUsize::new(0), tokio::sync::Mutex::default());
        let client = Arc::new(Client { connection, watchers, turn });
        parting::enlist(Arc::downgrade(&client) as _);
        client.rest().await;
        let mut clients = self.all();
        clients.retain(|_, client| client.strong_count() > 0);
        clients.insert(session, Arc::downgrade(&client));
        drop(clients);
        self.linger(client);
        Ok(())
    }

    /// Lets go of a client in a while, if nobody watches through it again.
    fn linger(self: Arc<Self>, client: Arc<Client>) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        runtime.spawn(async move {
            client.rest().await;
            sleep(LINGER).await;
            let _gate = self.gate.lock().await;
            // Panes that were made meanwhile are not paused.
            client.rest().await;
            if !self.forget(&client) {
                return;
            }
            let _ = timeout(LEAVES, client.connection.leave()).await;
        });
    }
}

impl Watching {
    /// How many clients of ours are attached to the session for this.
    pub(super) fn attached(&self, session: &str) -> usize {
        let clients = self.clients.all();
        let clients = clients.values().filter_map(Weak::upgrade);
        clients.filter(|client| client.connection.session().as_deref() == Some(session)).count()
    }

    /// The processes of these clients.
    pub(super) fn pids(&self) -> Vec<u32> {
        let clients = self.clients.all();
        let clients = clients.values().filter_map(Weak::upgrade);
        clients.filter_map(|client| client.connection.pid()).collect()
    }

    pub(super) async fn watch(
        &self,
        program: &Program,
        session: &str,
        pane: &str,
        patience: Duration,
    ) -> Result<Watch, TmuxError> {
        let client = timeout(patience, self.client(program, session)).await;
        let client = client.map_err(|_| TmuxError::TimedOut {
            command: "attach-session".to_owned(),
            after: patience,
            sent: false,
        })??;
        client.watchers.fetch_add(1, SeqCst);
        let clients = Arc::clone(&self.clients);
        // Before the pane is let go on, so that nothing of it is missed.
        let watch = Watch::through(Watcher { client: Arc::clone(&client), clients }, pane);
        client.listen(pane, patience).await?;
        Ok(watch)
    }

    async fn client(&self, program: &Program, session: &str) -> Result<Arc<Client>, TmuxError> {
        if let Some(client) = self.clients.get(session) {
            return Ok(client);
        }
        let mut gate = self.clients.gate.lock().await;
        if let Some(abandoned) = gate.as_mut() {
            // It may have been for another session: then it only had to end.
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

/// One who watches through a client. The client may go a while after the last one.
#[derive(Debug)]
pub(super) struct Watcher {
    client: Arc<Client>,
    clients: Arc<Clients>,
}

impl Watcher {
    pub(super) fn connection(&self) -> &Connection {
        &self.client.connection
    }

    /// Output was dropped, since it was read too slowly: more may come.
    pub(super) fn go_on(&self, pane: &Arc<str>) {
        if let Ok(runtime) = Handle::try_current() {
            let (client, pane) = (Arc::clone(&self.client), Arc::clone(pane));
            runtime.spawn(async move { client.listen(&pane, PATIENCE).await });
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.client.watchers.fetch_sub(1, SeqCst);
        Arc::clone(&self.clients).linger(Arc::clone(&self.client));
    }
}
