//! Handing a command to a shell, and putting back what was on its line.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout, timeout_at},
};
use toolgate::{Executed, Failure};

use super::{
    foreground::{Foreground, foreground, hush},
    prompt_screen::PromptScreen,
    shell::{LoadedScript, Shell},
};
use crate::engine::{Batch, Command, PaneLock, Server, TmuxError, Wake, Watch};

/// How long a shell at its prompt may take to answer a knock.
const LOADER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a knock is waited for that was not answered in time, so that it can be taken back.
const LATE_LOADER_TIMEOUT: Duration = Duration::from_mins(10);
/// How often it is looked whether a prompt is there to put text back on; rare enough to be no burden.
const PROMPT_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A command on its way to a shell.
pub(super) struct Delivery {
    pub(super) server: Arc<Server>,
    pub(super) pane: String,
    pub(super) shell: Shell,
    pub(super) before: PromptScreen,
    pub(super) command: String,
    pub(super) keep: bool,
    pub(super) nonce: String,
    pub(super) pane_lock: Arc<PaneLock>,
}

/// A command that a shell has got.
pub(super) struct RunningCommand {
    pub(super) watch: Watch,
    _turn: Arc<PaneLock>,
    _line: Option<LineToRestore>,
}

impl Delivery {
    /// Knocks, waits for the answer and sends the script. Whoever stops waiting before the script was sent has the
    /// knock taken back, and nothing is run.
    pub(super) async fn run(
        self,
        mut watch: Watch,
        deadline: Instant,
        tell: oneshot::Sender<Result<RunningCommand, Failure>>,
    ) {
        if let Err(error) = self.loader().await {
            let _ = tell.send(Err(error.into()));
            return;
        }
        let answered =
            timeout_at(deadline.min(Instant::now() + LOADER_TIMEOUT), answer(&mut watch)).await;
        match answered {
            Ok(true) if !tell.is_closed() => {
                let delivered = self.send(watch).await;
                let _ = tell.send(delivered);
            }
            Ok(true) => drop(self.script(None).await),
            Ok(false) => drop(tell.send(Err(super::pane_ended(&self.pane)))),
            Err(_) => {
                let _ = tell.send(Err(unanswered(&self.pane)));
                if let Ok(true) = timeout(LATE_LOADER_TIMEOUT, answer(&mut watch)).await {
                    let _ = self.script(None).await;
                }
            }
        }
    }

    async fn loader(&self) -> Result<(), TmuxError> {
        let keys = || Command::new("send-keys").target(&*self.pane);
        // What is on the line goes first: right of the cursor if there is something (where C-k is no command it would
        // stay), then left of it. Without the space there might be nothing to kill, at which readline rings the bell.
        let kill = keys().flag("-H");
        let kill = if self.before.ends_at_cursor() { kill } else { kill.argument("0b") };
        let kill = kill.argument("20").argument("15");
        let loader = keys().flag("-l").end().argument(self.shell.loader());
        self.server.run(Batch::write([kill, loader, keys().argument("Enter")])).await.map(drop)
    }

    async fn send(&self, watch: Watch) -> Result<RunningCommand, Failure> {
        let line = self.script(Some(&self.command)).await?;
        Ok(RunningCommand { watch, _turn: Arc::clone(&self.pane_lock), _line: line })
    }

    /// Sends the script; gives what is to be put back on the line later.
    async fn script(&self, command: Option<&str>) -> Result<Option<LineToRestore>, Failure> {
        let found = PromptScreen::of(&self.server, &self.pane).await?.find(self.shell.loader());
        let half = found.as_ref().map(|typed| {
            // Right of the cursor, zsh and fish show what nobody typed.
            self.before.half_typed(typed.prompt(), !self.shell.prefills())
        });
        let half = half.unwrap_or_default();
        let erase = found.map(|typed| typed.erase()).unwrap_or_default();
        let script = LoadedScript {
            nonce: &self.nonce,
            command,
            erase: &erase,
            keep: self.keep,
            half: &half,
        };
        let script = self.shell.script(script);
        // The knock did that, unless the line editor took its first letters for something else.
        hush(&self.before.tty);
        let buffer = format!("toolgate-{}", self.nonce);
        let set = Command::new("set-buffer").option("-b", &*buffer).end().argument(script);
        let paste = Command::new("paste-buffer").flag("-d").flag("-r").option("-b", &*buffer);
        self.server.run(Batch::write([set, paste.target(&*self.pane)])).await?;
        let put_back = !half.is_empty() && !self.shell.prefills();
        Ok(put_back.then(|| LineToRestore {
            server: Arc::clone(&self.server),
            pane: self.pane.clone(),
            keys: self.put_back(half),
            pane_lock: Arc::clone(&self.pane_lock),
        }))
    }

    /// readline has what it killed, with our space at its end, and knows it better than the screen.
    fn put_back(&self, half: String) -> Command {
        let keys = Command::new("send-keys").target(&*self.pane);
        if self.shell == Shell::Bash && self.before.ends_at_cursor() {
            return keys.flag("-H").argument("19").argument("7f");
        }
        keys.flag("-l").end().argument(half)
    }
}

/// Whether the shell answers before tmux lets go.
async fn answer(watch: &mut Watch) -> bool {
    loop {
        match watch.next().await {
            Wake::Output(bytes) if bytes.contains(&0) => return true,
            Wake::Gone => return false,
            // Should the answer be among what was missed, it is better to go on than to wait.
            Wake::Missed => return true,
            _ => {}
        }
    }
}

fn unanswered(pane: &str) -> Failure {
    let message = format!("The shell in pane {pane} does not take a command");
    Failure::tool("PaneBusy", message)
        .with_executed(Executed::No)
        .suggest("Call capture_pane to see what it does. The command will not be run.")
}

/// Text that was on the shell's line. It is put back once the shell is at its prompt again, whoever still waits.
struct LineToRestore {
    server: Arc<Server>,
    pane: String,
    keys: Command,
    pane_lock: Arc<PaneLock>,
}

impl Drop for LineToRestore {
    fn drop(&mut self) {
        let (server, pane) = (Arc::clone(&self.server), std::mem::take(&mut self.pane));
        let (keys, pane_lock) = (self.keys.clone(), Arc::clone(&self.pane_lock));
        let put_back = async move {
            let _turn = pane_lock;
            let until = Instant::now() + LATE_LOADER_TIMEOUT;
            while Instant::now() < until {
                sleep(PROMPT_CHECK_INTERVAL).await;
                let view = PromptScreen::of(&server, &pane).await?;
                if matches!(foreground(view.pid, &view.tty, &view.current), Foreground::Prompt(_)) {
                    server.run(keys).await?;
                    break;
                }
            }
            Ok::<_, Failure>(())
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(put_back);
        }
    }
}
