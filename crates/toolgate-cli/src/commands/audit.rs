//! `toolgate audit verify [OPTIONS] [FILE]`

use std::{
    io::{self, IsTerminal as _, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{anyhow, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use toolgate::middleware::audit::{
    Target,
    verify::{Finding, Report, Verify, verify},
};
use toolgate_gateway::config::NAMESPACE;

use super::log::style::{Paint, Style, clean};
use crate::{chain_args::state_folder, config_file};

/// Verify the integrity of the audit log
#[derive(Debug, Args)]
pub(crate) struct AuditCommand {
    #[command(subcommand)]
    subcommand: AuditSubcommand,
}

#[derive(Debug, Subcommand)]
enum AuditSubcommand {
    Verify(VerifyCommand),
}

/// Check that no audit record was altered, removed, moved or added
///
/// Follows the hash chain from the oldest rotated file to the newest record, and reports each line that breaks it. It
/// also lists calls that have a start and no end: they were running when toolgate was killed, or still run.
///
/// Exit status: 0 if the audit is intact, 1 if not, 2 if it cannot be read.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    toolgate audit verify                                the default audit file\n  \
    toolgate audit verify audit.jsonl --key-file key     a file with a keyed hash chain\n  \
    toolgate audit verify --json | jq .findings          for scripts")]
struct VerifyCommand {
    /// The audit file [default: the one of the config, or audit.jsonl in the state folder]
    file: Option<PathBuf>,

    /// The key of the hash chain (`audit.key_file`)
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// Use the audit file and the key of this toolgate.toml
    #[arg(long, value_name = "FILE", env = "TOOLGATE_CONFIG")]
    config: Option<PathBuf>,

    /// Use the audit of this namespace
    #[arg(long, value_name = "NAME", default_value = NAMESPACE)]
    namespace: String,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Show the progress for files of this size or larger.
const MIN_PROGRESS_BYTES: u64 = 50 * 1024 * 1024;

impl AuditCommand {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        let AuditSubcommand::Verify(verify) = &self.subcommand;
        verify.run()
    }
}

impl VerifyCommand {
    fn run(&self) -> anyhow::Result<ExitCode> {
        let (file, key_file) = self.places()?;
        let key = key_file.map(|path| {
            std::fs::read(&path).map_err(|error| {
                anyhow!("cannot read the key file `{}`: {error}; check the path", path.display())
            })
        });
        let show = |done, total| progress(done, total);
        let progress: Option<&dyn Fn(u64, u64)> =
            if io::stderr().is_terminal() { Some(&show) } else { None };
        let how = Verify { key: key.transpose()?, progress };
        let report = verify(&file, &how).map_err(|error| {
            anyhow!("cannot read the audit file `{}`: {error}; check the path", file.display())
        })?;
        let mut out = io::stdout().lock();
        let written = if self.json {
            write_json(&report, &file, &mut out)
        } else {
            write_text(&report, &file, &Style::of_stdout(), &mut out)
        };
        match written {
            // The reader closed the pipe, as with `| head`.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error.into()),
            _ => {}
        }
        Ok(if report.is_whole() { ExitCode::SUCCESS } else { ExitCode::from(1) })
    }

    /// The audit file and its key.
    fn places(&self) -> anyhow::Result<(PathBuf, Option<PathBuf>)> {
        let config = self.config.as_deref().map(config_file::read).transpose()?;
        let (mut file, mut key) = (self.file.clone(), self.key_file.clone());
        if let Some(config) = config.filter(|_| file.is_none()) {
            let settings = config.settings(&self.namespace)?;
            key = key.or(settings.audit.key_file);
            match settings.audit.file {
                Target::File(path) => file = Some(path),
                Target::Off if !config.sets_audit_file(&self.namespace)? => {}
                Target::Off | Target::Stderr => bail!(
                    "the config `{}` names no audit file: name it as an argument",
                    config.path().display()
                ),
            }
        }
        match file {
            Some(file) => Ok((file, key)),
            None => Ok((state_folder()?.join("audit.jsonl"), key)),
        }
    }
}

/// Shows the progress on one line, over the previous one.
fn progress(done: u64, total: u64) {
    if total < MIN_PROGRESS_BYTES {
        return;
    }
    let percent = done.saturating_mul(100) / total.max(1);
    let end = if done >= total { "\r\u{1b}[K" } else { "" };
    let _ = write!(io::stderr(), "\rchecking: {percent} %{end}");
}

fn write_json(report: &Report, file: &Path, out: &mut impl Write) -> io::Result<()> {
    let summary = json!({
        "file": file,
        "verified": report.is_whole(),
        "records": report.records,
        "last_seq": report.last_seq,
        "findings": report.findings.iter().map(|finding| json!({
            "file": finding.file,
            "line": finding.line,
            "seq": finding.seq,
            "what": finding.what.name(),
            "why": finding.what.to_string(),
        })).collect::<Vec<_>>(),
        "more_findings": report.more,
        "under_way": report.under_way,
        "earlier": report.earlier,
        "unchained": report.unchained,
        "torn": report.torn,
        "lost": report.lost,
        "incomplete": report.incomplete,
    });
    writeln!(out, "{}", toolgate::printable::json(&summary.to_string()))
}

fn write_text(report: &Report, file: &Path, style: &Style, out: &mut impl Write) -> io::Result<()> {
    for finding in &report.findings {
        writeln!(
            out,
            "{} {}",
            style.paint(Paint::Bad, &clean(&place(finding))),
            clean(&finding.what.to_string())
        )?;
    }
    if report.more > 0 {
        writeln!(out, "and {} more", report.more)?;
    }
    for note in notes(report) {
        writeln!(out, "{} {note}", style.paint(Paint::Quiet, "note:"))?;
    }
    if !report.under_way.is_empty() {
        writeln!(out, "{} under way when the record ends:", calls(report.under_way.len() as u64))?;
        for call in &report.under_way {
            let tool = clean(&call.tool);
            let (at, id) = (clean(&call.ts), clean(&call.call_id));
            writeln!(out, "  {at}  {}/{tool}  {id}", clean(&call.server))?;
        }
    }
    let (paint, word) =
        if report.is_whole() { (Paint::Good, "verified") } else { (Paint::Bad, "not whole") };
    let count = report.findings.len() as u64 + report.more;
    let found = if count == 0 { String::new() } else { format!(", {count} found wrong") };
    let records = counted(report.records, "record");
    let file = file.display().to_string();
    writeln!(out, "{}: {records} in `{}`{found}", style.paint(paint, word), clean(&file))?;
    out.flush()
}

/// `audit.jsonl:12: record 40:`
fn place(finding: &Finding) -> String {
    let line = if finding.line > 0 { format!("{}:", finding.line) } else { String::new() };
    let seq = finding.seq.map(|seq| format!(" record {seq}:")).unwrap_or_default();
    format!("{}:{line}{seq}", finding.file.display())
}

fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn calls(count: u64) -> String {
    counted(count, "call")
}

fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if report.unchained > 0 {
        let lines = counted(report.unchained, "line");
        notes.push(format!("{lines} from before the hash chain began, which cannot be verified"));
    }
    if report.earlier > 0 {
        let earlier = counted(report.earlier, "earlier record");
        notes.push(format!("{earlier} in files that are no longer here"));
    }
    if report.torn > 0 {
        let torn = counted(report.torn, "line");
        notes
            .push(format!("{torn} cut off by a crash or a full disk, and named by a later record"));
    }
    if report.lost > 0 {
        notes.push(format!("{} that toolgate says it lost", counted(report.lost, "record")));
    }
    if report.incomplete {
        notes.push("the last record is incomplete: it was cut off while it was written".to_owned());
    }
    notes
}
