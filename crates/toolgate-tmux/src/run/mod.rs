//! Runs a command in the shell of a pane: returns its own output and its exit status, and leaves nothing behind.
//!
//! `shell` explains how the command gets to the shell. Known limits:
//! - zsh keeps the loader in its history unless `HIST_IGNORE_SPACE` is set; the command itself is never in it. fish
//!   before version 4 cannot add the command to its history.
//! - In fish the command runs in a fish of its own: functions and variables that were not exported are not known there.
//! - A prompt that is `>` and nothing else is taken for the middle of a command, and refused.
//! - Text right of the cursor is not restored in zsh and fish (their kill ring has it): on the screen it looks like
//!   suggestions and right prompts. A line editor in vi's command mode drops the loader's first letters: the rest
//!   works, and stays on the screen.
//! - A shell without line editor that reads a line for a script (`read`) looks as if it were at its prompt.

mod command_output;
mod delivery;
mod foreground;
mod prompt_screen;
mod render;
mod shell;

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::oneshot,
    time::{Instant, timeout, timeout_at},
};
use toolgate::{Executed, Failure};

use self::{
    delivery::{Delivery, RunningCommand},
    foreground::{Foreground, foreground, is_young},
    prompt_screen::PromptScreen,
    render::{OutputReader, Phase},
    shell::Shell,
};
use crate::engine::{ListTarget, PaneLock, Server, Wake, Watch, nonce, not_found};

pub(crate) use command_output::CommandOutput;

/// How long a shell may take to return to its prompt.
const PROMPT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a shell that was just started may take to show its prompt.
const STARTUP_TIMEOUT: Duration = Duration::from_secs(3);
/// How often the terminal is checked: a line editor gives no sign when it takes the terminal over.
const PROMPT_CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// If output was missed, the pane is checked for a prompt after a silence of this length.
const SILENCE_TIMEOUT: Duration = Duration::from_millis(250);

/// A command to run in a pane.
#[derive(Debug)]
pub(crate) struct RunRequest {
    pub(crate) pane: String,
    pub(crate) command: String,
    pub(crate) timeout: Duration,
    /// Whether the command goes into the shell's history.
    pub(crate) keep: bool,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct RunOutcome {
    /// Whether the command has ended.
    pub(crate) ended: bool,
    /// The exit status; `None` if the command still runs, or if the end of its output was missed.
    pub(crate) status: Option<i32>,
    pub(crate) text: CommandOutput,
}

/// Runs a command and returns at the deadline at the latest. The command itself continues in the pane after the deadline,
/// and when the returned future is dropped.
pub(crate) async fn run(server: Arc<Server>, request: RunRequest) -> Result<RunOutcome, Failure> {
    let deadline = Instant::now() + request.timeout;
    let pane_lock = lock(&server, &request.pane)?;
    let (shell, before, watch) = prompt(&server, &request.pane, deadline).await?;
    let (height, nonce) = (before.height, nonce());
    let (tell, told) = oneshot::channel();
    let job = Delivery {
        server: Arc::clone(&server),
        pane: request.pane.clone(),
        shell,
        before,
        command: request.command,
        keep: request.keep,
        nonce: nonce.clone(),
        pane_lock,
    };
    // In a task of its own: a script that was begun must be sent completely, also if the caller is cancelled.
    tokio::spawn(job.run(watch, deadline, tell));
    let delivered =
        told.await.unwrap_or_else(|_| Err(Failure::internal("the delivery was lost")))?;
    record(&server, &request.pane, delivered, OutputReader::new(&nonce, height), deadline).await
}

/// Locks a pane for one command.
fn lock(server: &Server, pane: &str) -> Result<Arc<PaneLock>, Failure> {
    let lock = server.lock_pane(pane).map(Arc::new);
    lock.ok_or_else(|| {
        let message = format!("Another run_command has not ended in pane {pane}");
        Failure::tool("PaneBusy", message).with_executed(Executed::No).suggest(
            "Wait for that one, or use another pane: commands in different panes run at once.",
        )
    })
}

/// Waits for the shell's prompt, and returns the screen at that moment.
async fn prompt(
    server: &Server,
    pane: &str,
    deadline: Instant,
) -> Result<(Shell, PromptScreen, Watch), Failure> {
    let mut view = PromptScreen::of(server, pane).await?;
    let time_limit = if is_young(view.pid) { STARTUP_TIMEOUT } else { PROMPT_TIMEOUT };
    let time_limit = deadline.min(Instant::now() + time_limit);
    let mut watch = server.watch(&view.session, pane).await?;
    loop {
        let mut other = false;
        let refused = match foreground(view.pid, &view.tty, &view.current) {
            Foreground::Prompt(shell) => {
                // The screen is read again: it may have been read before the prompt appeared.
                let view = PromptScreen::of(server, pane).await?;
                return view.check_prompt(pane).map(|()| (shell, view, watch));
            }
            Foreground::Busy(name) => {
                busy(pane, &format!("its shell, {name}, is not at its prompt"))
            }
            Foreground::Other(name) => {
                // The shell of a new pane may not have started yet.
                other = !is_young(view.pid);
                busy(pane, &format!("it runs {name}, which is no shell that is known"))
            }
        };
        view.check(pane)?;
        if other || Instant::now() >= time_limit {
            return Err(refused);
        }
        let _ = timeout(PROMPT_CHECK_INTERVAL, watch.next()).await;
        view = PromptScreen::of(server, pane).await?;
    }
}

fn busy(pane: &str, why: &str) -> Failure {
    Failure::tool("PaneBusy", format!("Nothing can be run in pane {pane} now: {why}"))
        .with_executed(Executed::No)
        .suggest(
            "Use send_keys and wait_for_text to speak with the program that runs there, or use another pane.",
        )
}

/// Reads the command's output until the command ends.
async fn record(
    server: &Server,
    pane: &str,
    mut delivered: RunningCommand,
    mut recording: OutputReader,
    deadline: Instant,
) -> Result<RunOutcome, Failure> {
    let mut missed = false;
    let (ended, status) = loop {
        // The mark at the end may be among what was missed: then the prompt shows that the command has ended.
        let time_limit =
            if missed { deadline.min(Instant::now() + SILENCE_TIMEOUT) } else { deadline };
        match timeout_at(time_limit, delivered.watch.next()).await {
            Err(_) if missed && is_at_prompt(server, pane).await? => break (true, None),
            Err(_) if Instant::now() >= deadline => break (false, None),
            Err(_) => {}
            Ok(Wake::Output(bytes)) => {
                if let Phase::Ended(status) = recording.read(&bytes) {
                    break (true, Some(status));
                }
            }
            Ok(Wake::Missed) => {
                missed = true;
                recording.missed();
            }
            Ok(Wake::Changed) => {
                let panes = server.list(ListTarget::Pane(pane), &["pane_id", "pane_dead"]).await?;
                if !panes
                    .iter()
                    .any(|row| row.get("pane_id") == Some(pane) && !row.is_set("pane_dead"))
                {
                    return Err(pane_ended(pane));
                }
            }
            Ok(Wake::Gone) => return Err(pane_ended(pane)),
        }
    };
    Ok(RunOutcome { ended, status, text: recording.finish() })
}

async fn is_at_prompt(server: &Server, pane: &str) -> Result<bool, Failure> {
    let view = PromptScreen::of(server, pane).await?;
    Ok(matches!(foreground(view.pid, &view.tty, &view.current), Foreground::Prompt(_)))
}

fn pane_ended(pane: &str) -> Failure {
    let message = format!("Pane {pane} ended while the command ran");
    Failure::tool(not_found::pane(pane).error_type().to_owned(), message)
        .suggest("Call list_panes to discover valid pane ids.")
}
