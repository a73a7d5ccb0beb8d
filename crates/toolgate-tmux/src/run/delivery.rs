//! Delivers a command to a shell, and restores the text that was on the shell's line.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout, timeout_at},
};
use toolgate::{Executed, Failure};

use super::{
    foreground::{Foreground, disable_echo, foreground},
    prompt_screen::PromptScreen,
    shell::{LoadedScript, Shell},
};
use crate::engine::{Batch, Command, PaneLock, Server, TmuxError, Wake, Watch};

/// How long a shell at its prompt may take to run the loader.
const LOADER_TIMEOUT: Duration = Duration::from_secs(5);
/// After `LOADER_TIMEOUT` the call fails. The task then waits this long for the shell to run the loader (see `shell`), and
/// removes the loader's line from the screen.
const LATE_LOADER_TIMEOUT: Duration = Duration::from_mins(10);
/// How often the pane is checked for a prompt on which text can be restored.
const PROMPT_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A command that is being delivered to a shell.
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

/// A command that a shell has received.
pub(super) struct RunningCommand {
    pub(super) watch: Watch,
    _turn: Arc<PaneLock>,
    _line: Option<LineToRestore>,
}

impl Delivery {
    /// Types the loader, waits until the shell runs it, and sends the script. If the caller is cancelled before the
    /// script is sent, the loader is removed from the screen and nothing is run.
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
        // First removes the text on the line: right of the cursor if there is some (where C-k is no command it would
        // stay), then left of it. The space ensures that there is text to remove: otherwise readline rings the bell.
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

    /// Sends the script; returns the text to restore on the line later. Without a command, the script only removes the
    /// loader.
    async fn script(&self, command: Option<&str>) -> Result<Option<LineToRestore>, Failure> {
        let found = PromptScreen::of(&self.server, &self.pane).await?.find(self.shell.loader());
        let half = found.as_ref().map(|typed| {
            // Right of the cursor, zsh and fish show suggestions and right prompts, which were not typed.
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
        // The loader has turned the echo off, unless the line editor took its first letters for a command.
        disable_echo(&self.before.tty);
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

    /// The keys that restore the line. readline yanks what it removed, with our space at its end, more exactly than the
    /// screen shows it.
    fn put_back(&self, half: String) -> Command {
        let keys = Command::new("send-keys").target(&*self.pane);
        if self.shell == Shell::Bash && self.before.ends_at_cursor() {
            return keys.flag("-H").argument("19").argument("7f");
        }
        keys.flag("-l").end().argument(half)
    }
}

/// Whether the shell runs the loader before tmux closes the watch.
async fn answer(watch: &mut Watch) -> bool {
    loop {
        match watch.next().await {
            Wake::Output(bytes) if bytes.contains(&0) => return true,
            Wake::Gone => return false,
            // The loader's output may be among what was missed: continue instead of waiting for the timeout.
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

/// Text that was on the shell's line. When this is dropped, a task restores it once the shell is at its prompt again.
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
