//! The text that was typed into panes and not entered yet: a command may come in several calls.

use std::collections::{HashMap, VecDeque};

use tokio::sync::{Mutex, MutexGuard};
use toolgate::CallId;

use crate::engine::Socket;

/// How many calls that wait for a confirmation are remembered.
const MAX_ASKED_CALLS: usize = 64;

/// The socket of a pane's server, and the pane's id.
pub(crate) type Pane = (Socket, String);

/// The lines that are not entered, by pane.
#[derive(Debug, Default)]
pub(crate) struct PendingInput(Mutex<Lines>);

#[derive(Default)]
pub(crate) struct Lines {
    open: HashMap<Pane, String>,
    /// The lines as they will be after a call that waits for a confirmation.
    asked: VecDeque<(CallId, Vec<(Pane, String)>)>,
}

impl std::fmt::Debug for Lines {
    /// The lines may contain secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lines")
    }
}

impl PendingInput {
    /// Locks the lines while one call is judged: of two simultaneous calls, the second one sees what the first one
    /// types.
    pub(crate) async fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().await
    }

    /// A call runs: if it waited for a confirmation, it was confirmed, and its lines are taken over.
    pub(crate) async fn ran(&self, call: CallId) {
        let mut lines = self.0.lock().await;
        if let Some(at) = lines.asked.iter().position(|(asked, _)| *asked == call)
            && let Some((_, after)) = lines.asked.remove(at)
        {
            lines.put(after);
        }
    }
}

impl Lines {
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The text on a pane's line.
    pub(crate) fn before(&self, pane: &Pane) -> &str {
        self.open.get(pane).map_or("", String::as_str)
    }

    /// Sets the text on lines.
    pub(crate) fn put(&mut self, after: Vec<(Pane, String)>) {
        for (pane, line) in after {
            if line.is_empty() {
                self.open.remove(&pane);
            } else {
                self.open.insert(pane, line);
            }
        }
    }

    /// Remembers the text on lines in case the call is confirmed.
    pub(crate) fn ask(&mut self, call: CallId, after: Vec<(Pane, String)>) {
        if self.asked.len() >= MAX_ASKED_CALLS {
            self.asked.pop_front();
        }
        self.asked.push_back((call, after));
    }
}
