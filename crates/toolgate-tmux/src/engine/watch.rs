//! Waiting for tmux's notifications about a pane, or about a whole server.

use std::{sync::Arc, time::Duration};

use tokio::sync::broadcast::{
    Receiver,
    error::{RecvError, TryRecvError},
};

use super::{
    connection::Connection, error::TmuxError, parse::Notification, watch_clients::Watcher,
};

/// The notifications about one pane or one server, until it is dropped.
#[derive(Debug)]
pub struct Watch {
    notifications: Receiver<Notification>,
    pane: Arc<str>,
    source: WatchSource,
}

/// Which client receives the notifications.
#[derive(Debug)]
enum WatchSource {
    /// A client of its own, which also receives output.
    Watcher(Watcher),
    /// The engine's connection, which receives no output.
    Link(Arc<Connection>),
}

/// What a watch reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The pane's program wrote these bytes.
    Output(Arc<[u8]>),
    /// Something about the pane or the windows changed: read their state again.
    Changed,
    /// Notifications were missed: read the state again.
    Missed,
    /// tmux closed the client: the session or the server ended.
    Gone,
}

impl Watch {
    /// A watch of a pane. Call [`start`](Self::start) next.
    pub(super) fn new(watcher: Watcher, pane: &str) -> Self {
        let notifications = watcher.connection().notifications();
        Self { notifications, pane: pane.into(), source: WatchSource::Watcher(watcher) }
    }

    /// Tells tmux to send the pane's output. The watch exists before that, so it misses none.
    pub(super) async fn start(&self, time_limit: Duration) -> Result<(), TmuxError> {
        match &self.source {
            WatchSource::Watcher(watcher) => watcher.resume(&self.pane, time_limit).await,
            WatchSource::Link(_) => Ok(()),
        }
    }

    /// A watch of sessions, windows and panes of a server.
    pub(super) fn of_server(connection: Arc<Connection>) -> Self {
        let notifications = connection.notifications();
        Self { notifications, pane: "".into(), source: WatchSource::Link(connection) }
    }

    /// Waits for the next notification about the pane. Cancel safe.
    pub async fn next(&mut self) -> Wake {
        loop {
            let received = self.receive().await;
            if matches!(received, Ok(Notification::ObjectsChanged)) {
                continue;
            }
            if let Some(wake) = self.wake(received) {
                return wake;
            }
        }
    }

    /// Waits for the next notification about the pane, or about anything that was created, changed or removed. Cancel
    /// safe.
    pub async fn next_of_all(&mut self) -> Wake {
        loop {
            match self.receive().await {
                Ok(Notification::Mode { .. }) => return Wake::Changed,
                received => {
                    if let Some(wake) = self.wake(received) {
                        return wake;
                    }
                }
            }
        }
    }

    async fn receive(&mut self) -> Result<Notification, RecvError> {
        match self.notifications.try_recv() {
            Err(TryRecvError::Empty) if self.is_gone() => Err(RecvError::Closed),
            Err(TryRecvError::Empty) => self.notifications.recv().await,
            Err(TryRecvError::Closed) => Err(RecvError::Closed),
            Err(TryRecvError::Lagged(count)) => Err(RecvError::Lagged(count)),
            Ok(notification) => Ok(notification),
        }
    }

    fn wake(&self, received: Result<Notification, RecvError>) -> Option<Wake> {
        match received {
            Ok(Notification::Output { pane, bytes }) if pane == self.pane => {
                Some(Wake::Output(bytes))
            }
            Ok(Notification::Mode { pane }) if pane == self.pane => Some(Wake::Changed),
            Ok(Notification::Paused { pane }) if pane == self.pane => {
                self.resume_output();
                Some(Wake::Missed)
            }
            Ok(Notification::WindowsChanged | Notification::ObjectsChanged) => Some(Wake::Changed),
            Ok(Notification::Exit) | Err(RecvError::Closed) => Some(Wake::Gone),
            Err(RecvError::Lagged(_)) => {
                self.resume_output();
                Some(Wake::Missed)
            }
            Ok(_) => None,
        }
    }

    fn resume_output(&self) {
        if let WatchSource::Watcher(watcher) = &self.source {
            watcher.resume_later(&self.pane);
        }
    }

    /// Discards the notifications so far: for a caller that reads the pane's state right after this.
    pub fn forget(&mut self) {
        loop {
            match self.notifications.try_recv() {
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                Ok(Notification::Paused { pane }) if pane == self.pane => self.resume_output(),
                // One of them may be a pause; resuming a pane that is not paused does nothing.
                Err(TryRecvError::Lagged(_)) => self.resume_output(),
                Ok(_) => {}
            }
        }
    }

    /// Whether tmux has closed the client, so that no more notifications will come.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match &self.source {
            WatchSource::Watcher(watcher) => watcher.connection().is_closed(),
            WatchSource::Link(connection) => connection.is_closed(),
        }
    }
}
