//! Waits for changes of one pane: a tmux notification wakes the wait, and a capture shows which lines are new.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until, timeout};
use toolgate::Failure;

use crate::{
    baseline::{Baseline, NewLines},
    call::ToolContext,
    engine::{Batch, Command, ListTarget, Server, TmuxError, Wake, Watch},
    pane_capture::{self, PaneCapture},
    progress::Progress,
    target::PaneArgs,
};

/// How often the state is read without a notification: tmux does not report the end of a program whose pane stays.
const STATE_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// How long tmux may take to answer, at least, also when the deadline is near.
const MIN_ANSWER_TIME: Duration = Duration::from_millis(250);
/// A capture may take at most one part in this many of the time.
const MAX_CAPTURE_SHARE: u32 = 5;
/// How many rows may scroll between two captures before the whole history is captured: at first, and at most.
const SCROLL_MARGIN: i64 = 100;
const MAX_SCROLL_MARGIN: i64 = 10_000;

/// A wait in progress.
pub(crate) struct PaneWait {
    server: Arc<Server>,
    pane: String,
    watch: Watch,
    watched: String,
    started: Instant,
    deadline: Instant,
    interval: Duration,
    progress: Progress,
    entry: PaneCapture,
    echo: Echo,
    baseline: Baseline,
    slack: i64,
    looked: Instant,
    cost: Duration,
    saw_output: bool,
    saw_alternate: bool,
}

/// The result of one capture.
pub(crate) enum PaneUpdate {
    /// The lines that are new since the previous capture.
    Lines(Vec<String>, PaneCapture),
    /// The deadline has passed.
    Timeout(PaneCapture),
}

impl PaneWait {
    /// Begins to wait. The deadline counts from here.
    pub(crate) async fn enter(
        cx: &ToolContext,
        pane: &PaneArgs,
        longest: Duration,
        interval: Duration,
    ) -> Result<Self, Failure> {
        let started = Instant::now();
        let deadline = started + longest;
        let (server, pane) = pane.find(cx).await?;
        let session = session(&server, &pane).await?;
        // The watch starts before the first capture, so that no change in between is missed.
        let watch = server.watch(&session, &pane).await?;
        let looked = Instant::now();
        let entry = PaneCapture::at(&server, &pane, Some(-SCROLL_MARGIN)).await?;
        if entry.state.dead {
            return Err(pane_capture::died(&pane));
        }
        let hidden =
            if entry.state.alternate { PaneCapture::hidden(&server, &pane).await? } else { None };
        let progress = Progress::new(cx, longest, format!("Waiting on pane {pane}"));
        Ok(Self {
            echo: Echo::new(&entry, server.recent_input(&pane)),
            baseline: Baseline::of(hidden.as_ref().unwrap_or(&entry)),
            saw_alternate: entry.state.alternate,
            server,
            pane,
            watch,
            watched: session,
            started,
            deadline,
            interval,
            progress,
            entry,
            slack: SCROLL_MARGIN,
            looked,
            cost: looked.elapsed(),
            saw_output: false,
        })
    }

    /// The capture at the beginning of the wait.
    pub(crate) fn entry(&self) -> &PaneCapture {
        &self.entry
    }

    pub(crate) fn pane(&self) -> &str {
        &self.pane
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn saw_output(&self) -> bool {
        self.saw_output
    }

    pub(crate) fn saw_alternate(&self) -> bool {
        self.saw_alternate
    }

    /// Waits for a change or the deadline, and captures the pane.
    pub(crate) async fn next(&mut self) -> Result<PaneUpdate, Failure> {
        self.sleep().await;
        let over = Instant::now() >= self.deadline;
        self.looked = Instant::now();
        let (lines, look) = self.look().await?;
        self.cost = self.looked.elapsed();
        self.follow(&look.state.session).await?;
        if !lines.is_empty() {
            self.saw_output = true;
            if !look.state.alternate {
                return Ok(PaneUpdate::Lines(lines, look));
            }
        }
        if over { Ok(PaneUpdate::Timeout(look)) } else { Ok(PaneUpdate::Lines(Vec::new(), look)) }
    }

    /// Sleeps until the next capture is due, at least for the interval.
    async fn sleep(&mut self) {
        let heartbeat = self.looked + STATE_CHECK_INTERVAL.max(self.interval);
        let mut woken = false;
        loop {
            let pause = self.interval.max(self.cost * MAX_CAPTURE_SHARE);
            let until = if woken { self.looked + pause } else { heartbeat };
            // The first notification after a quiet time is handled immediately.
            let until = until.min(self.deadline);
            tokio::select! {
                biased;
                () = self.progress.tick() => {}
                () = sleep_until(until) => break,
                wake = self.watch.next(), if !woken => {
                    woken = true;
                    if wake == Wake::Gone { break; }
                }
            }
        }
        self.watch.forget();
    }

    /// Captures the pane; the whole history if the usual rows are too few.
    async fn look(&mut self) -> Result<(Vec<String>, PaneCapture), Failure> {
        let mut look = self.at(Some(self.baseline.from(self.slack))).await?;
        self.check(&look)?;
        if look.state.alternate {
            self.saw_alternate = true;
            let changed = self.baseline.written_over(&look);
            let lines = changed.map_or_else(Vec::new, texts);
            return Ok((lines, look));
        }
        let grown = look.state.history - self.baseline.history;
        let trimmed = if look.state.may_be_trimmed() { look.state.step() } else { 0 };
        self.slack = (2 * grown + trimmed + SCROLL_MARGIN).clamp(SCROLL_MARGIN, MAX_SCROLL_MARGIN);
        if self.baseline.since(&look) == NewLines::LookFurther {
            look = self.at(None).await?;
            self.check(&look)?;
        }
        let lines = match self.baseline.since(&look) {
            NewLines::Exactly(mut lines) | NewLines::Lost(mut lines) => {
                lines.retain(|line| !self.echo.is(&line.text));
                texts(lines)
            }
            NewLines::LookFurther => Vec::new(),
        };
        self.baseline = Baseline::of(&look);
        Ok((lines, look))
    }

    async fn at(&self, from: Option<i64>) -> Result<PaneCapture, Failure> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let time_limit = left.clamp(MIN_ANSWER_TIME, self.server.time_limit().max(MIN_ANSWER_TIME));
        let look = timeout(time_limit, PaneCapture::at(&self.server, &self.pane, from)).await;
        match look {
            Err(_) => {
                let command = "capture-pane".to_owned();
                Err(TmuxError::TimedOut { command, after: time_limit, sent: true }.into())
            }
            Ok(Err(error)) if error.says("can't find pane") => Err(pane_capture::died(&self.pane)),
            Ok(look) => Ok(look?),
        }
    }

    fn check(&self, look: &PaneCapture) -> Result<(), Failure> {
        pane_capture::check_life(&self.pane, self.entry.state.pid, &look.state)?;
        if !self.baseline.is_cleared(&look.state) {
            return Ok(());
        }
        let (then, now) = (self.baseline.history, look.state.history);
        let message = format!(
            "pane {} history shrank below entry baseline (history_size {then} -> {now}); baseline anchor lost — \
             re-arm wait_for_text or use wait_for_channel for deterministic synchronization",
            self.pane
        );
        Err(Failure::tool("ExpectedToolError", message))
    }

    /// Watches the session of the pane from now on, if the pane has moved there or the watch has ended.
    async fn follow(&mut self, session: &str) -> Result<(), Failure> {
        let gone = self.watch.is_gone();
        if !gone && (session == self.watched || self.is_in_watched().await) {
            return Ok(());
        }
        self.watch = self.server.watch(session, &self.pane).await?;
        session.clone_into(&mut self.watched);
        // Output from before the new watch is looked for immediately.
        self.looked = self.looked.checked_sub(STATE_CHECK_INTERVAL).unwrap_or(self.looked);
        Ok(())
    }

    /// A window may be linked into several sessions.
    async fn is_in_watched(&self) -> bool {
        let panes = self.server.each(ListTarget::Panes(Some(&self.watched)), &["pane_id"]).await;
        panes.is_ok_and(|rows| rows.iter().any(|row| row.get("pane_id") == Some(&self.pane)))
    }
}

/// Recognises the echo of text that was typed before the wait began. An echo is no output.
struct Echo {
    /// The text before the cursor when the wait began: the prompt.
    prompt: String,
    typed: Vec<String>,
}

impl Echo {
    fn new(entry: &PaneCapture, typed: Vec<String>) -> Self {
        let line = entry.lines.iter().rfind(|line| line.row <= entry.state.cursor);
        let prompt = line.map(|line| line.text.clone()).unwrap_or_default();
        Self { prompt, typed }
    }

    /// Whether a line is the prompt with the typed text, or with the beginning of it.
    fn is(&self, line: &str) -> bool {
        // Without a prompt, an echo cannot be told from output with the same text.
        !self.prompt.is_empty()
            && self.typed.iter().any(|typed| {
                let typed = typed.trim_end();
                let all = line.strip_suffix(typed).map(str::trim_end);
                let part = line.strip_prefix(&*self.prompt).map(str::trim_start);
                all.is_some_and(|before| !before.is_empty() && self.prompt.starts_with(before))
                    || part.is_some_and(|part| !part.is_empty() && typed.starts_with(part))
            })
    }
}

fn texts(lines: Vec<&pane_capture::PaneLine>) -> Vec<String> {
    lines.into_iter().map(|line| line.text.clone()).collect()
}

/// The id of a session that contains the pane.
async fn session(server: &Server, pane: &str) -> Result<String, Failure> {
    let output = Command::new("list-panes").target(pane).option("-F", "#{session_id}");
    let output = server.ask(Batch::read([output])).await?;
    Ok(output.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_echo_is_a_prompt_with_what_was_typed() {
        let typed = vec!["ls -l ".to_owned(), "make all".to_owned()];
        let echo = |prompt: &str| Echo { prompt: prompt.to_owned(), typed: typed.clone() };
        for line in ["$ make all", "$ ls -l", "$ ma"] {
            assert!(echo("$").is(line), "{line}");
        }
        assert!(echo("$ mak").is("$ make all"), "a part was there already");
        for line in ["make all", "+ make all", "$ make all done", "$ x", "$"] {
            assert!(!echo("$").is(line), "{line}");
        }
        assert!(!echo("").is("make all"), "cat answers with what it is given");
    }
}
