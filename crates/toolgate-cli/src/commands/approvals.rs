//! `toolgate approvals`, `toolgate approve ID` and `toolgate deny ID`

mod show;

use std::{collections::HashMap, io::Write as _, process::ExitCode};

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use toolgate::Principal;
use toolgate_gateway::approvals::{ApprovalFolder, ApprovalRecord, ApprovalState, Verdict};

use super::log::style::{Paint, Style, clean, fit};
use crate::chain_args::state_folder;

/// The longest reason that is recorded, in characters.
const MAX_REASON_CHARS: usize = 500;

/// List the calls that wait for a person's approval
///
/// A call waits if it needs a confirmation and the client cannot ask its user. Decide with `toolgate approve ID` or
/// `toolgate deny ID`. The agent then repeats the call; an approved call runs once, with exactly the arguments shown
/// here. Secrets in the arguments are hidden.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    toolgate approvals               list the calls that wait now\n  \
    toolgate approvals -f            keep watching in a terminal of its own\n  \
    toolgate approve k7f2            an id, or its first characters if they are unique\n  \
    toolgate deny k7f2 --reason \"use the staging database\"")]
pub(crate) struct ApprovalsCommand {
    /// Keep watching: show calls as they arrive, and the decisions
    #[arg(short, long, visible_alias = "watch")]
    follow: bool,

    /// Also list calls that were decided or expired within the last hour
    #[arg(long)]
    all: bool,

    /// Write one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Approve waiting calls; each runs once, when the agent repeats it
#[derive(Debug, Args)]
pub(crate) struct Approve {
    /// Ids from `toolgate approvals`, or their first characters
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,

    /// Write one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Deny waiting calls, with a reason for the agent
///
/// The agent reads the denial when it repeats the call.
#[derive(Debug, Args)]
pub(crate) struct Deny {
    /// Ids from `toolgate approvals`, or their first characters
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,

    /// Tell the agent this reason
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Write one JSON object per line
    #[arg(long)]
    json: bool,
}

fn folder() -> anyhow::Result<ApprovalFolder> {
    Ok(ApprovalFolder::new(&state_folder()?, ""))
}

fn list(folder: &ApprovalFolder) -> anyhow::Result<Vec<ApprovalRecord>> {
    let path = folder.path().display();
    folder.list().map_err(|error| anyhow::anyhow!("cannot use the approvals in `{path}`: {error}"))
}

impl ApprovalsCommand {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        match self.show() {
            // The reader closed the pipe, as with `| head`.
            Err(error) if super::replay::is_closed(&error) => Ok(ExitCode::SUCCESS),
            other => other,
        }
    }

    fn show(&self) -> anyhow::Result<ExitCode> {
        let folder = folder()?;
        if self.follow {
            return super::runtime()?.block_on(self.follow(&folder));
        }
        let now = Timestamp::now();
        let mut records = list(&folder)?;
        records.retain(|record| self.all || record.is_pending(now.as_millisecond()));
        let mut out = std::io::stdout().lock();
        if records.is_empty() && !self.json {
            writeln!(out, "No calls wait for approval (in {}).", folder.path().display())?;
        }
        self.write(&records, now, &mut out)?;
        Ok(ExitCode::SUCCESS)
    }

    fn write(
        &self,
        records: &[ApprovalRecord],
        now: Timestamp,
        out: &mut impl std::io::Write,
    ) -> anyhow::Result<()> {
        let style = Style::of_stdout();
        for (at, record) in records.iter().enumerate() {
            if self.json {
                writeln!(out, "{}", show::json(record, now))?;
                continue;
            }
            if at > 0 {
                writeln!(out)?;
            }
            show::block(record, now, &style, out)?;
        }
        let waits = records.iter().find(|one| one.is_pending(now.as_millisecond()));
        if let Some(ApprovalRecord { id, .. }) = waits.filter(|_| !self.json) {
            let help = format!("toolgate approve {id}   or   toolgate deny {id} --reason \"…\"");
            writeln!(out, "\n{}", style.paint(Paint::Quiet, &help))?;
        }
        Ok(())
    }

    /// Shows the calls that wait, then every change, until it is interrupted or the reader closes the pipe.
    async fn follow(&self, folder: &ApprovalFolder) -> anyhow::Result<ExitCode> {
        let mut watch = folder.watch().context("cannot watch for approvals")?;
        let mut seen: HashMap<String, ApprovalState> = HashMap::new();
        let style = Style::of_stdout();
        if !self.json {
            let path = folder.path().display();
            let text = format!("Watching for calls that wait for approval (in {path}).\n");
            writeln!(std::io::stdout(), "{}", style.paint(Paint::Quiet, &text))?;
        }
        let mut is_first = true;
        loop {
            let now = Timestamp::now();
            for record in list(folder)? {
                let before = seen.insert(record.id.clone(), record.state);
                let is_news = before != Some(record.state);
                let is_old = is_first && !record.is_pending(now.as_millisecond());
                if !is_news || is_old {
                    continue;
                }
                let mut out = std::io::stdout().lock();
                if self.json {
                    writeln!(out, "{}", show::json(&record, now))?;
                } else if record.state == ApprovalState::Pending {
                    show::block(&record, now, &style, &mut out)?;
                    writeln!(out)?;
                } else {
                    let line = show::line(&record, &style);
                    writeln!(out, "{line}\n")?;
                }
                out.flush()?;
            }
            is_first = false;
            tokio::select! {
                () = watch.changed() => {}
                _ = tokio::signal::ctrl_c() => return Ok(ExitCode::SUCCESS),
            }
        }
    }
}

impl Approve {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        decide(&self.ids, &Verdict::Approve, self.json)
    }
}

impl Deny {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let reason =
            self.reason.as_deref().map(|reason| fit(&clean(reason), MAX_REASON_CHARS).into_owned());
        let reason = reason.filter(|reason| !reason.trim().is_empty());
        decide(&self.ids, &Verdict::Deny(reason), self.json)
    }
}

/// Decides each call. One that cannot be decided is an error and does not stop the others.
fn decide(ids: &[String], verdict: &Verdict, json: bool) -> anyhow::Result<ExitCode> {
    let folder = folder()?;
    let by = Principal::local().to_string();
    let style = Style::of_stdout();
    let mut code = ExitCode::SUCCESS;
    for id in ids {
        match folder.decide(id, verdict, &by) {
            Ok(record) if json => {
                writeln!(std::io::stdout(), "{}", show::json(&record, Timestamp::now()))?;
            }
            Ok(record) => writeln!(std::io::stdout(), "{}", show::decided(&record, &style))?,
            Err(error) => {
                crate::log::fail(&error.into());
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}
