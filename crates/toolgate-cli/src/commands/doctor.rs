//! `toolgate doctor`

mod clients;
mod gateway;
mod machine;

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::Args;
use serde_json::{Value, json};

use super::log::style::{Paint, Style, wrapped};
use crate::chain_args::ChainArgs;

/// Find problems of the machine, config, servers and clients
///
/// Reads the config that `toolgate serve` would read, starts its servers as `toolgate check` does, and looks at the
/// machine: PATH, ports, clock, free space, the files of toolgate and of MCP clients. It changes nothing. Each problem has a next step.
///
/// Exit status: 0 without errors, also if there are warnings; 1 with errors.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Look at this config: a toolgate.toml, or the mcp.json of an MCP client [default: the one in this folder]
    #[arg(value_name = "CONFIG", env = "TOOLGATE_CONFIG")]
    config: Option<PathBuf>,

    /// Start no server
    #[arg(long)]
    offline: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Ok,
    Warning,
    Error,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// What was looked at, and what to do about it.
#[derive(Debug)]
struct Finding {
    section: &'static str,
    level: Level,
    what: String,
    fix: Option<String>,
}

/// The findings of one section after the other.
#[derive(Debug, Default)]
struct Report {
    section: &'static str,
    findings: Vec<Finding>,
}

impl Report {
    fn begin(&mut self, section: &'static str) {
        self.section = section;
    }

    fn add(&mut self, level: Level, what: impl Into<String>, fix: Option<String>) {
        let section = self.section;
        self.findings.push(Finding { section, level, what: what.into(), fix });
    }

    fn ok(&mut self, what: impl Into<String>) {
        self.add(Level::Ok, what, None);
    }

    fn warn(&mut self, what: impl Into<String>, fix: impl Into<String>) {
        self.add(Level::Warning, what, Some(fix.into()));
    }

    fn error(&mut self, what: impl Into<String>, fix: impl Into<String>) {
        self.add(Level::Error, what, Some(fix.into()));
    }

    fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }

    fn worst(&self) -> Level {
        self.findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
    }
}

impl Doctor {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let mut chain_args = ChainArgs::of_config(self.config.clone());
        super::serve::find_config(&mut chain_args);
        let mut report = Report::default();
        machine::look(&mut report);
        gateway::look(&mut report, &chain_args, self.offline);
        clients::look(&mut report);
        let mut out = io::stdout().lock();
        let written = if self.json {
            writeln!(out, "{}", toolgate::printable::json(&to_json(&report).to_string()))
        } else {
            write(&report, &Style::of_stdout(), &mut out)
        };
        match written {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error.into()),
            _ => {}
        }
        Ok(if report.worst() == Level::Error { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }
}

fn to_json(report: &Report) -> Value {
    let findings = report.findings.iter().map(|finding| {
        json!({
            "section": finding.section,
            "level": finding.level.name(),
            "what": finding.what,
            "fix": finding.fix,
        })
    });
    json!({"ok": report.worst() < Level::Error, "findings": findings.collect::<Vec<_>>()})
}

fn write(report: &Report, style: &Style, out: &mut impl Write) -> io::Result<()> {
    let width = style.width.unwrap_or(usize::MAX).max(40);
    let mut section = "";
    for finding in &report.findings {
        if finding.section != section {
            let gap = if section.is_empty() { "" } else { "\n" };
            section = finding.section;
            writeln!(out, "{gap}{}", style.paint(Paint::Strong, section))?;
        }
        let paint = match finding.level {
            Level::Ok => Paint::Good,
            Level::Warning => Paint::Warn,
            Level::Error => Paint::Bad,
        };
        let mut label = style.paint(paint, &format!("{:7}", finding.level.name())).into_owned();
        for line in wrapped(&finding.what, width.saturating_sub(INDENT)) {
            writeln!(out, "  {label}  {line}")?;
            label = " ".repeat(7);
        }
        let mut start = "→";
        for line in
            finding.fix.iter().flat_map(|fix| wrapped(fix, width.saturating_sub(INDENT + 2)))
        {
            writeln!(
                out,
                "{:INDENT$}{}",
                "",
                style.paint(Paint::Quiet, &format!("{start} {line}"))
            )?;
            start = " ";
        }
    }
    let (errors, warnings) = (report.count(Level::Error), report.count(Level::Warning));
    let counted = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    let (paint, text) = match (errors, warnings) {
        (0, 0) => (Paint::Good, "no problem found".to_owned()),
        (0, _) => (Paint::Warn, counted(warnings, "warning")),
        (_, 0) => (Paint::Bad, counted(errors, "error")),
        _ => {
            (Paint::Bad, format!("{}, {}", counted(errors, "error"), counted(warnings, "warning")))
        }
    };
    writeln!(out, "\n{}", style.paint(paint, &text))
}

/// The width of what stands before a text.
const INDENT: usize = 11;
