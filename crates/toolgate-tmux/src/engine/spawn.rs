//! The tmux program: how it is started, and one process for one list of commands.

use std::{ffi::OsString, process::Stdio, sync::Arc, time::Duration};

use tokio::{
    process::{Child, Command as Process},
    sync::watch,
    time::timeout,
};

use super::{command::Batch, error::TmuxError, socket::Socket};

/// A tmux program for a socket.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) binary: OsString,
    pub(crate) socket: Socket,
    pub(crate) clients: Clients,
}

/// How many clients of ours are attached, or have not left yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clients(Arc<watch::Sender<usize>>);

impl Clients {
    /// Counts one more until its end.
    pub(crate) fn count(&self, mut client: Child) {
        self.0.send_modify(|count| *count += 1);
        let clients = self.clone();
        tokio::spawn(async move {
            let _ = client.wait().await;
            clients.0.send_modify(|count| *count -= 1);
        });
    }

    /// Waits until all have left.
    pub(crate) async fn all_left(&self) {
        // It fails if this is gone, which it is not.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
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
