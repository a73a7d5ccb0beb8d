//! Waiting for panes: news wakes, nothing polls.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    time::timeout,
};

use super::{connection::Connection, error::TmuxError, parse::News, spawn::Program};

/// Clients that get output, one for each session that somebody watches.
#[derive(Debug, Default)]
pub(super) struct Watching {
    clients: Mutex<HashMap<String, Weak<Connection>>>,
}

impl Watching {
    /// How many clients of ours are attached to the session for this.
    pub(super) fn attached(&self, session: &str) -> usize {
        let clients = self.clients();
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
        let known = self.clients().get(session).and_then(Weak::upgrade);
        let client = if let Some(client) = known.filter(|client| !client.is_closed()) {
            client
        } else {
            let client = Connection::open(program, Some(session), "ignore-size");
            let client = timeout(patience, client).await.map_err(|_| TmuxError::TimedOut {
                command: "attach-session".to_owned(),
                after: patience,
                sent: false,
            })?;
            let client = Arc::new(client?);
            let mut clients = self.clients();
            clients.retain(|_, client| client.strong_count() > 0);
            clients.insert(session.to_owned(), Arc::downgrade(&client));
            client
        };
        Ok(Watch { news: client.news(), pane: pane.into(), _client: client })
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<String, Weak<Connection>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// News of one pane. Nothing is sent by tmux for it once it is dropped.
#[derive(Debug)]
pub struct Watch {
    news: Receiver<News>,
    pane: Arc<str>,
    _client: Arc<Connection>,
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
            match self.news.recv().await {
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

    /// Waits for the next news of the pane, or of anything that came, went or changed. Dropping the future loses
    /// nothing.
    pub async fn next_of_all(&mut self) -> Wake {
        loop {
            match self.news.recv().await {
                Ok(News::Output { pane, bytes }) if pane == self.pane => {
                    return Wake::Output(bytes);
                }
                Ok(News::Mode { .. } | News::Windows | News::Things) => return Wake::Changed,
                Ok(News::Exit) | Err(RecvError::Closed) => return Wake::Gone,
                Err(RecvError::Lagged(_)) => return Wake::Missed,
                Ok(_) => {}
            }
        }
    }

    /// News over a client that is there anyway.
    pub(super) fn over(client: Arc<Connection>) -> Self {
        Self { news: client.news(), pane: "".into(), _client: client }
    }
}
