//! News of a pane, or of all that there is, as a stream of wake-ups.

use std::sync::Arc;

use tokio::sync::broadcast::{
    Receiver,
    error::{RecvError, TryRecvError},
};

use super::{connection::Connection, parse::News, watch::Watcher};

/// News of one pane, as long as it is held.
#[derive(Debug)]
pub struct Watch {
    news: Receiver<News>,
    pane: Arc<str>,
    way: Way,
}

/// Where the news comes from.
#[derive(Debug)]
enum Way {
    /// A client that gets output.
    Watcher(Watcher),
    /// The connection that is there anyway, which gets none.
    Link(Arc<Connection>),
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
    /// News of a pane.
    pub(super) fn through(watcher: Watcher, pane: &str) -> Self {
        let news = watcher.connection().news();
        Self { news, pane: pane.into(), way: Way::Watcher(watcher) }
    }

    /// News of what comes, goes and changes.
    pub(super) fn over(connection: Arc<Connection>) -> Self {
        Self { news: connection.news(), pane: "".into(), way: Way::Link(connection) }
    }

    /// Waits for the next news of the pane. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Wake {
        loop {
            let news = self.news().await;
            if matches!(news, Ok(News::Things)) {
                continue;
            }
            if let Some(wake) = self.wake(news) {
                return wake;
            }
        }
    }

    /// Waits for the next news of the pane, or of anything that came, went or changed. Dropping the future loses
    /// nothing.
    pub async fn next_of_all(&mut self) -> Wake {
        loop {
            match self.news().await {
                Ok(News::Mode { .. }) => return Wake::Changed,
                news => {
                    if let Some(wake) = self.wake(news) {
                        return wake;
                    }
                }
            }
        }
    }

    async fn news(&mut self) -> Result<News, RecvError> {
        match self.news.try_recv() {
            Err(TryRecvError::Empty) if self.is_gone() => Err(RecvError::Closed),
            Err(TryRecvError::Empty) => self.news.recv().await,
            Err(TryRecvError::Closed) => Err(RecvError::Closed),
            Err(TryRecvError::Lagged(count)) => Err(RecvError::Lagged(count)),
            Ok(news) => Ok(news),
        }
    }

    fn wake(&self, news: Result<News, RecvError>) -> Option<Wake> {
        match news {
            Ok(News::Output { pane, bytes }) if pane == self.pane => Some(Wake::Output(bytes)),
            Ok(News::Mode { pane }) if pane == self.pane => Some(Wake::Changed),
            Ok(News::Paused { pane }) if pane == self.pane => {
                self.go_on();
                Some(Wake::Missed)
            }
            Ok(News::Windows | News::Things) => Some(Wake::Changed),
            Ok(News::Exit) | Err(RecvError::Closed) => Some(Wake::Gone),
            Err(RecvError::Lagged(_)) => {
                self.go_on();
                Some(Wake::Missed)
            }
            Ok(_) => None,
        }
    }

    fn go_on(&self) {
        if let Way::Watcher(watcher) = &self.way {
            watcher.go_on(&self.pane);
        }
    }

    /// Forgets the news so far: for whoever looks at the pane itself right after this.
    pub fn forget(&mut self) {
        loop {
            match self.news.try_recv() {
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                Ok(News::Paused { pane }) if pane == self.pane => self.go_on(),
                // A pause may be among them; to go on does no harm.
                Err(TryRecvError::Lagged(_)) => self.go_on(),
                Ok(_) => {}
            }
        }
    }

    /// Whether tmux let go, so that no more news will come.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match &self.way {
            Way::Watcher(watcher) => watcher.connection().is_closed(),
            Way::Link(connection) => connection.is_closed(),
        }
    }
}
