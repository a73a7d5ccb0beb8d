//! The tmux program: how it is started, and one process for one list of commands.

use std::{ffi::OsString, process::Stdio, sync::Arc, time::Duration};

use tokio::{io::AsyncWriteExt as _, process::Command as Process, time::timeout};

use super::{command::Batch, error::TmuxError, socket::Socket};

/// A tmux program for a socket.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) binary: OsString,
    /// A program and its arguments that become tmux and end it with this process. Empty: tmux is started directly.
    pub(crate) launcher: Arc<[OsString]>,
    pub(crate) socket: Socket,
}

impl Program {
    /// `tmux -u -L NAME`, without the pane that we may run in: tmux would take it for a target.
    pub(crate) fn command(&self) -> Process {
        self.with_arguments(Process::new(&self.binary))
    }

    /// The same for a client that stays, through the launcher.
    ///
    /// A control client ends when its input closes, but tmux 3.3a misses that if the input closes before the server has
    /// registered the client: one in four of the clients that lose their owner within 5 ms of their start stays for ever.
    /// SIGTERM ends those, too; SIGKILL does as well, but crashes that tmux in one case of a hundred.
    pub(crate) fn staying_command(&self) -> Process {
        let Some((launcher, arguments)) = self.launcher.split_first() else {
            return self.command();
        };
        let mut process = Process::new(launcher);
        process.args(arguments).arg(&self.binary);
        self.with_arguments(process)
    }

    fn with_arguments(&self, mut process: Process) -> Process {
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
        let mut printed = self.exchange(batch, &[], patience).await?;
        printed.pop_if(|last| *last == b'\n');
        Ok(printed)
    }

    /// The same with bytes on its standard input, and exactly the bytes that it prints.
    pub(crate) async fn exchange(
        &self,
        batch: &Batch,
        input: &[u8],
        patience: Duration,
    ) -> Result<Vec<u8>, TmuxError> {
        let mut process = self.command();
        process.args(batch.arguments()?).kill_on_drop(true);
        process.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let exchange = async {
            let mut child = process.spawn()?;
            if let Some(mut stdin) = child.stdin.take() {
                // A process that does not read it says why in its own words.
                let _ = stdin.write_all(input).await;
            }
            child.wait_with_output().await
        };
        let output = timeout(patience, exchange).await.map_err(|_| TmuxError::TimedOut {
            command: batch.name().to_owned(),
            after: patience,
            sent: true,
        })?;
        let output = output.map_err(|_| TmuxError::NoBinary)?;
        if output.status.success() {
            return Ok(output.stdout);
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
