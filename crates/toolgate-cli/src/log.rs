//! The log on stderr: `toolgate: warning: …`. Standard output carries only protocol messages and command output.

use std::{
    collections::HashMap,
    fmt,
    io::IsTerminal as _,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::bail;
use toolgate::printable;
use tracing::{
    Event, Level, Subscriber, callsite::Identifier, field::Field, level_filters::LevelFilter,
};
use tracing_subscriber::{
    filter::Targets,
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    layer::SubscriberExt as _,
    registry::LookupSpan,
    util::SubscriberInitExt as _,
};

use crate::wrapped::wrapped;

/// The least width of a line.
const MIN_WIDTH: usize = 40;
/// The variable that sets the log level.
const VARIABLE: &str = "TOOLGATE_LOG";

/// Starts the log.
pub(crate) fn start() -> anyhow::Result<()> {
    let level = match std::env::var(VARIABLE).as_deref() {
        Err(_) | Ok("" | "warn") => LevelFilter::WARN,
        Ok("off") => LevelFilter::OFF,
        Ok("error") => LevelFilter::ERROR,
        Ok("info") => LevelFilter::INFO,
        Ok("debug") => LevelFilter::DEBUG,
        Ok(other) => {
            bail!("{VARIABLE}=`{other}` is unknown: write off, error, warn, info or debug")
        }
    };
    // The debug messages of dependencies contain whole requests, with what a client types into a pane.
    let others = level.min(LevelFilter::WARN);
    // The client gets an error for what rmcp warns about.
    let library = if level > LevelFilter::WARN { others } else { level.min(LevelFilter::ERROR) };
    let wanted = Targets::new().with_default(others).with_target("rmcp", library);
    let wanted = wanted.with_target("toolgate", level);
    let log = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(has_colours())
        .with_writer(std::io::stderr)
        .event_format(Lines::default())
        .finish();
    log.with(wanted).init();
    Ok(())
}

/// Writes the error that ends the program.
pub(crate) fn fail(error: &anyhow::Error) {
    write_lines("error", "\u{1b}[1;31m", &error.to_string());
}

/// Writes a warning of several lines: an excerpt of a file. All other warnings are written by `tracing`.
pub(crate) fn warn_lines(text: &str) {
    if tracing::enabled!(Level::WARN) {
        write_lines("warning", "\u{1b}[1;33m", text);
    }
}

#[expect(clippy::print_stderr, reason = "messages with an excerpt of a file")]
fn write_lines(name: &str, colour: &str, text: &str) {
    let (bold, plain) = if has_colours() { (colour, "\u{1b}[0m") } else { ("", "") };
    // The message may quote files, clients and servers. All lines but the first are indented, so that none of
    // them looks like another message of toolgate.
    let start = format!("toolgate: {name}: ");
    let text = start.clone() + &printable::lines(text.trim_end());
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
    let columns = size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0);
    let width = columns.unwrap_or(usize::MAX).max(MIN_WIDTH) - 2;
    // An excerpt of a file keeps its lines, so that marks stay below what they mark.
    let lines = text.lines().flat_map(|line| {
        if line.contains(" | ") { vec![line.to_owned()] } else { wrapped(line, width) }
    });
    let text = lines.collect::<Vec<_>>().join("\n  ");
    let text = text.strip_prefix(&start).unwrap_or(&text);
    eprintln!("toolgate: {bold}{name}{plain}: {text}");
}

pub(crate) fn has_colours() -> bool {
    let is_off = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal() && !is_off("NO_COLOR")
}

/// The most warnings of one kind in one [`PERIOD`], so that a client that is denied in a loop does not fill the log.
const MAX_SIMILAR: u32 = 50;
const PERIOD: Duration = Duration::from_secs(10);

/// Formats one line per message: level, text, then fields. Quoted input is escaped and shortened.
#[derive(Default)]
struct Lines {
    /// Recent warnings by call site.
    warnings: Mutex<HashMap<Identifier, WarningCount>>,
}

/// The warnings of one kind in the current period.
struct WarningCount {
    since: Instant,
    written: u32,
    skipped: u64,
}

/// Whether a warning is written.
enum Decision {
    /// Yes, with the number of warnings that were skipped before it.
    Write {
        skipped: u64,
    },
    Skip,
}

impl Lines {
    fn decide(&self, event: &Event<'_>) -> Decision {
        let metadata = event.metadata();
        if *metadata.level() != Level::WARN {
            return Decision::Write { skipped: 0 };
        }
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || WarningCount { since: Instant::now(), written: 0, skipped: 0 };
        let recent = warnings.entry(metadata.callsite()).or_insert_with(new);
        let mut skipped = 0;
        if recent.since.elapsed() > PERIOD {
            skipped = recent.skipped;
            *recent = new();
        }
        if recent.written >= MAX_SIMILAR {
            recent.skipped += 1;
            return Decision::Skip;
        }
        recent.written += 1;
        Decision::Write { skipped }
    }
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let skipped = match self.decide(event) {
            Decision::Write { skipped } => skipped,
            Decision::Skip => return Ok(()),
        };
        let (name, colour) = match *event.metadata().level() {
            Level::ERROR => ("error", "\u{1b}[1;31m"),
            Level::WARN => ("warning", "\u{1b}[1;33m"),
            Level::INFO => ("info", "\u{1b}[32m"),
            _ => ("debug", "\u{1b}[2m"),
        };
        if writer.has_ansi_escapes() {
            write!(writer, "toolgate: {colour}{name}\u{1b}[0m: ")?;
        } else {
            write!(writer, "toolgate: {name}: ")?;
        }
        let mut parts = Parts::default();
        event.record(&mut parts);
        write!(writer, "{}", printable::message(&parts.message))?;
        if !parts.fields.is_empty() {
            write!(writer, " ({})", printable::message(&parts.fields.join(", ")))?;
        }
        if skipped > 0 {
            write!(writer, " [{skipped} similar warnings were left out]")?;
        }
        writeln!(writer)
    }
}

#[derive(Default)]
struct Parts {
    message: String,
    fields: Vec<String>,
}

impl tracing::field::Visit for Parts {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            self.fields.push(format!("{} {value:?}", field.name()));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}
