//! Waiting for panes: news wakes, nothing polls.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::broadcast::{
        Receiver,
        error::{RecvError, TryRecvError},
    },
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{connection::Connection, error::TmuxError, parse::News, spawn::Program};

/// A client stays for so long after its last watcher: waits that follow each other attach once.
const LINGER: Duration = Duration::from_secs(2);

/// Clients that get output, one for each session that somebody watches.
#[derive(Debug, Default)]
pub(super) struct Watching {
    clients: Arc<Clients>,
    /// One attaches at a time. Whoever gives up leaves it to the next one: tmux 3.3a has crashed when clients came
    /// and went while it hung.
    opening: tokio::sync::Mutex<Option<JoinHandle<Result<(), TmuxError>>>>,
}

#[derive(Debug, Default)]
struct Clients(Mutex<HashMap<String, Weak<Connection>>>);

impl Clients {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Weak<Connection>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, session: &str) -> Option<Arc<Connection>> {
        let known = self.all().get(session).and_then(Weak::upgrade);
        known.filter(|client| !client.is_closed())
    }

    async fn open(self: Arc<Self>, program: Program, session: String) -> Result<(), TmuxError> {
        let client = Connection::open(&program, Some(&session), "ignore-size").await?;
        let client = Arc::new(client);
        let mut clients = self.all();
        clients.retain(|_, client| client.strong_count() > 0);
        clients.insert(session, Arc::downgrade(&client));
        drop(clients);
        linger(client);
        Ok(())
    }
}

/// Lets go of a client in a while. Its input closes then, and it is read to its end.
fn linger(client: Arc<Connection>) {
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(async move {
            sleep(LINGER).await;
            drop(client);
        });
    }
}

impl Watching {
    /// How many clients of ours are attached to the session for this.
    pub(super) fn attached(&self, session: &str) -> usize {
        let clients = self.clients.all();
        let clients = clients.values().filter_map(Weak::upgrade);
        clients.filter(|client| client.session().as_deref() == Some(session)).count()
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
        Ok(Watch { news: client.news(), pane: pane.into(), client })
    }

    async fn client(&self, program: &Program, session: &str) -> Result<Arc<Connection>, TmuxError> {
        if let Some(client) = self.clients.get(session) {
            return Ok(client);
        }
        let mut opening = self.opening.lock().await;
        if let Some(abandoned) = opening.as_mut() {
            // It may have been for another session: then it only had to end.
            let _ = abandoned.await;
            *opening = None;
        }
        if let Some(client) = self.clients.get(session) {
            return Ok(client);
        }
        let open = Arc::clone(&self.clients).open(program.clone(), session.to_owned());
        let opened = opening.insert(tokio::spawn(open)).await;
        *opening = None;
        opened.map_err(|_| TmuxError::Lost)??;
        self.clients.get(session).ok_or(TmuxError::Lost)
    }
}

/// News of one pane, as long as it is held.
#[derive(Debug)]
pub struct Watch {
    news: Receiver<News>,
    pane: Arc<str>,
    client: Arc<Connection>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        linger(Arc::clone(&self.client));
    }
}

/// Why a watcher wakes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The pane's program wrote these bytes.
    Output(Arc<[u8]>),
    /// Something about the pane or the windows changed: look at it again.
    Changed,
    /// News was missed: look at it again.
    Missed,
    /// tmux let go: the session or the server ended.
    Gone,
}

impl Watch {
    /// Waits for the next news of the pane. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Wake {
        loop {
            let news = match self.news.try_recv() {
                Err(TryRecvError::Empty) if self.is_gone() => return Wake::Gone,
                Err(TryRecvError::Empty) => self.news.recv().await,
                Err(TryRecvError::Closed) => Err(RecvError::Closed),
                Err(TryRecvError::Lagged(count)) => Err(RecvError::Lagged(count)),
                Ok(news) => Ok(news),
            };
            match news {
                Ok(News::Output { pane, bytes }) if pane == self.pane => {
                    return Wake::Output(bytes);
                }
                Ok(News::Mode { pane } | News::Paused { pane }) if pane == self.pane => {
                    return Wake::Changed;
                }
                Ok(News::Windows) => return Wake::Changed,
                Ok(News::Exit) | Err(RecvError::Closed) => return Wake::Gone,
                Err(RecvError::Lagged(_)) => return Wake::Missed,
                Ok(_) => {}
            }
        }
    }

    /// Forgets the news so far: for whoever looks at the pane itself right after this.
    pub fn forget(&mut self) {
        while !matches!(self.news.try_recv(), Err(TryRecvError::Empty | TryRecvError::Closed)) {}
    }

    /// Whether tmux let go, so that no more news will come.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.client.is_closed()
    }
}
