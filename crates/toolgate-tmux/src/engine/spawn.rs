//! The tmux program: how it is started, and one process for one list of commands.

use std::{ffi::OsString, process::Stdio, sync::Arc, time::Duration};

use tokio::{process::Command as Process, sync::Mutex, time::timeout};

use super::{command::Batch, error::TmuxError, socket::Socket};

/// A tmux program for a socket.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) binary: OsString,
    pub(crate) socket: Socket,
    /// Held by a client of ours while it attaches, and while it leaves.
    ///
    /// tmux 3.3a crashes if it tells a client that another has left before that client is fully attached.
    pub(crate) gate: Arc<Mutex<()>>,
}

impl Program {
    /// `tmux -u -L NAME`, without the pane that we may run in: tmux would take it for a target.
    pub(crate) fn command(&self) -> Process {
        let mut process = Process::new(&self.binary);
        // UTF-8 whatever the locale: else tmux writes `_` for what is not ASCII.
        process.arg("-u").args(self.socket.arguments());
        process.env_remove("TMUX").env_remove("TMUX_PANE");
        process
    }

    /// Runs the commands in a process of their own; what they print comes as one text.
    pub(crate) async fn run(
        &self,
        batch: &Batch,
        patience: Duration,
    ) -> Result<Vec<u8>, TmuxError> {
        let mut process = self.command();
        process.args(batch.arguments()?).stdin(Stdio::null()).kill_on_drop(true);
        let output = timeout(patience, process.output()).await.map_err(|_| {
            TmuxError::TimedOut { command: batch.name().to_owned(), after: patience, sent: true }
        })?;
        let output = output.map_err(|_| TmuxError::NoBinary)?;
        if output.status.success() {
            let mut printed = output.stdout;
            printed.pop_if(|last| *last == b'\n');
            return Ok(printed);
        }
        let said = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        let down = ["no server running", "error connecting", "server exited", "lost server"];
        Err(if down.iter().any(|words| said.contains(words)) {
            TmuxError::NoServer
        } else {
            TmuxError::Refused(said)
        })
    }
}
