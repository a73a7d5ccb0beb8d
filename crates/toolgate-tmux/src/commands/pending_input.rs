//! What was typed into a pane and is not entered yet: a command may come in several calls.

use std::collections::{HashMap, VecDeque};

use tokio::sync::{Mutex, MutexGuard};
use toolgate::CallId;

use crate::engine::Socket;

/// So many calls that a person is asked about are remembered.
const MAX_ASKED_CALLS: usize = 64;

/// A pane.
pub(crate) type Pane = (Socket, String);

/// Lines that are not entered, by pane.
#[derive(Debug, Default)]
pub(crate) struct PendingInput(Mutex<Lines>);

#[derive(Default)]
pub(crate) struct Lines {
    open: HashMap<Pane, String>,
    /// What the lines are once these calls run: a person may still say no.
    asked: VecDeque<(CallId, Vec<(Pane, String)>)>,
}

impl std::fmt::Debug for Lines {
    /// It may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lines")
    }
}

impl PendingInput {
    /// All of them, for as long as one call is judged: of two calls at once the second sees what the first types.
    pub(crate) async fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().await
    }

    /// A call runs. If somebody was asked about it, they said yes.
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

    /// What stands in a pane's line.
    pub(crate) fn before(&self, pane: &Pane) -> &str {
        self.open.get(pane).map_or("", String::as_str)
    }

    /// What stands in these lines from now on.
    pub(crate) fn put(&mut self, after: Vec<(Pane, String)>) {
        for (pane, line) in after {
            if line.is_empty() {
                self.open.remove(&pane);
            } else {
                self.open.insert(pane, line);
            }
        }
    }

    /// What stands in these lines if the call runs.
    pub(crate) fn ask(&mut self, call: CallId, after: Vec<(Pane, String)>) {
        if self.asked.len() >= MAX_ASKED_CALLS {
            self.asked.pop_front();
        }
        self.asked.push_back((call, after));
    }
}
