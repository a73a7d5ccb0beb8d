//! `toolgate approvals`, `toolgate approve ID` and `toolgate deny ID`

mod show;

use std::{collections::HashMap, io::Write as _, process::ExitCode};

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use toolgate::Principal;
use toolgate_gateway::approvals::{ApprovalFolder, ApprovalRecord, ApprovalState, Verdict};

use super::log::look::{Look, Paint, clean, fit};
use crate::overlay::state_folder;

/// The longest reason that is kept.
const LONGEST_REASON: usize = 500;

/// List the calls that wait for a person's approval
///
/// A call waits where its tool needs a confirmation and the client cannot ask its user. Decide with `toolgate approve ID`
/// or `toolgate deny ID`; the agent then repeats the call, which runs once, with exactly the arguments shown here.
/// Secrets in the arguments are hidden.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    toolgate approvals               what waits now\n  \
    toolgate approvals -f            keep watching in a terminal of its own\n  \
    toolgate approve k7f2            the id, or as much of it as tells it apart\n  \
    toolgate deny k7f2 --reason \"use the staging database\"")]
pub(crate) struct ApprovalsCommand {
    /// Keep watching: show calls as they arrive, and what becomes of them
    #[arg(short, long, visible_alias = "watch")]
    follow: bool,

    /// Also list requests that were decided or have expired within the last hour
    #[arg(long)]
    all: bool,

    /// Write one JSON object per line
    #[arg(long)]
    json: bool,
}

/// Approve calls that wait: each runs once, when the agent repeats it
#[derive(Debug, Args)]
pub(crate) struct Approve {
    /// Ids from `toolgate approvals`, or their beginnings
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

/// Deny calls that wait: the agent reads the denial when it repeats the call
#[derive(Debug, Args)]
pub(crate) struct Deny {
    /// Ids from `toolgate approvals`, or their beginnings
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,

    /// Why; the agent reads it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

fn folder() -> anyhow::Result<ApprovalFolder> {
    let state = state_folder().context("approvals are kept in the state folder")?;
    Ok(ApprovalFolder::new(&state, ""))
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
        let look = Look::of_stdout();
        for (at, record) in records.iter().enumerate() {
            if self.json {
                writeln!(out, "{}", show::json(record, now))?;
                continue;
            }
            if at > 0 {
                writeln!(out)?;
            }
            show::block(record, now, &look, out)?;
        }
        let waits = records.iter().find(|one| one.is_pending(now.as_millisecond()));
        if let Some(ApprovalRecord { id, .. }) = waits.filter(|_| !self.json) {
            let help = format!("toolgate approve {id}   or   toolgate deny {id} --reason \"…\"");
            writeln!(out, "\n{}", look.paint(Paint::Quiet, &help))?;
        }
        Ok(())
    }

    /// Shows what waits, then every change, until it is interrupted or nobody reads any more.
    async fn follow(&self, folder: &ApprovalFolder) -> anyhow::Result<ExitCode> {
        let mut watch = folder.watch().context("cannot watch for approvals")?;
        let mut seen: HashMap<String, ApprovalState> = HashMap::new();
        let look = Look::of_stdout();
        if !self.json {
            let path = folder.path().display();
            let text = format!("Watching for calls that wait for approval (in {path}).\n");
            writeln!(std::io::stdout(), "{}", look.paint(Paint::Quiet, &text))?;
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
                    show::block(&record, now, &look, &mut out)?;
                    writeln!(out)?;
                } else {
                    let line = show::line(&record, &look);
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
        decide(&self.ids, &Verdict::Approve)
    }
}

impl Deny {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let reason =
            self.reason.as_deref().map(|reason| fit(&clean(reason), LONGEST_REASON).into_owned());
        let reason = reason.filter(|reason| !reason.trim().is_empty());
        decide(&self.ids, &Verdict::Deny(reason))
    }
}

/// Decides each; those that cannot be decided are told, and the others are decided all the same.
fn decide(ids: &[String], verdict: &Verdict) -> anyhow::Result<ExitCode> {
    let folder = folder()?;
    let by = Principal::local().to_string();
    let look = Look::of_stdout();
    let mut code = ExitCode::SUCCESS;
    for id in ids {
        match folder.decide(id, verdict, &by) {
            Ok(record) => writeln!(std::io::stdout(), "{}", show::decided(&record, &look))?,
            Err(error) => {
                crate::log::fail(&error.into());
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}
