//! The tmux program: how it is started, and how one process runs one list of commands.

use std::{ffi::OsString, process::Stdio, sync::Arc, time::Duration};

use tokio::{io::AsyncWriteExt as _, process::Command as Process, time::timeout};

use super::{command::Batch, error::TmuxError, open_clients::OpenClients, socket::Socket};

/// The tmux program, with the socket of one server.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) binary: OsString,
    /// A program with its arguments that executes tmux and ends it when this process ends. Empty: tmux is started
    /// directly.
    pub(crate) launcher: Arc<[OsString]>,
    pub(crate) socket: Socket,
    /// Where clients that stay connected are registered.
    pub(super) clients: Arc<OpenClients>,
}

impl Program {
    /// `tmux -u -L NAME`, without the environment variables of the pane that this process runs in: tmux would use that
    /// pane as the default target.
    pub(crate) fn command(&self) -> Process {
        self.with_arguments(Process::new(&self.binary))
    }

    /// Like [`command`](Self::command), for a client that stays connected: started through the launcher.
    ///
    /// A control client ends when its input closes, but tmux 3.3a misses that if the input closes before the server has
    /// registered the client: one in four of the clients whose parent dies within 5 ms of their start never ends.
    /// SIGTERM ends those, too. SIGKILL also does, but crashes the tmux server in one case of a hundred.
    pub(crate) fn staying_command(&self) -> Process {
        let Some((launcher, arguments)) = self.launcher.split_first() else {
            return self.command();
        };
        let mut process = Process::new(launcher);
        process.args(arguments).arg(&self.binary);
        self.with_arguments(process)
    }

    fn with_arguments(&self, mut process: Process) -> Process {
        // UTF-8 in every locale: otherwise tmux writes `_` for each character that is not ASCII.
        process.arg("-u").args(self.socket.arguments());
        process.env_remove("TMUX").env_remove("TMUX_PANE");
        process
    }

    /// Runs the commands in a process of their own and returns all that they print as one text.
    pub(crate) async fn run(
        &self,
        batch: &Batch,
        time_limit: Duration,
    ) -> Result<Vec<u8>, TmuxError> {
        let mut printed = self.exchange(batch, &[], time_limit).await?;
        printed.pop_if(|last| *last == b'\n');
        Ok(printed)
    }

    /// Like [`run`](Self::run), with `input` on standard input; returns exactly the bytes that are printed.
    pub(crate) async fn exchange(
        &self,
        batch: &Batch,
        input: &[u8],
        time_limit: Duration,
    ) -> Result<Vec<u8>, TmuxError> {
        let mut process = self.command();
        process.args(batch.arguments()?).kill_on_drop(true);
        process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let exchange = async {
            let mut child = process.spawn()?;
            if let Some(mut stdin) = child.stdin.take() {
                // If tmux does not read it, its error output says why.
                let _ = stdin.write_all(input).await;
            }
            child.wait_with_output().await
        };
        let output = timeout(time_limit, exchange).await.map_err(|_| TmuxError::TimedOut {
            command: batch.name().to_owned(),
            after: time_limit,
            sent: true,
        })?;
        let output = output.map_err(|_| TmuxError::NoBinary)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let message = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        let down = ["no server running", "error connecting", "server exited", "lost server"];
        Err(if down.iter().any(|words| message.contains(words)) {
            TmuxError::NoServer
        } else {
            TmuxError::Refused(message)
        })
    }
}
