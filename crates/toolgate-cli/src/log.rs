//! Messages for people, on stderr: `toolgate: warning: …`. Standard output belongs to the protocol.

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

/// How many messages are wanted.
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
    // What others say in detail is whole messages, with whatever a client types into a pane in them.
    let others = level.min(LevelFilter::WARN);
    // What the protocol's library warns of is told to the client in better words.
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

/// Says why the program ends.
#[expect(clippy::print_stderr, reason = "this is where the program says its last words")]
pub(crate) fn fail(error: &anyhow::Error) {
    let (bold, plain) = if has_colours() { ("\u{1b}[1;31m", "\u{1b}[0m") } else { ("", "") };
    // The message may quote files, clients and servers: its own further lines are indented, so that none of
    // them looks like another message of toolgate.
    let error = error.to_string();
    let text = printable::lines(error.trim_end()).replace('\n', "\n  ");
    eprintln!("toolgate: {bold}error{plain}: {text}");
}

pub(crate) fn has_colours() -> bool {
    let is_off = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal() && !is_off("NO_COLOR")
}

/// So many warnings of one kind are written in one [`PERIOD`]: a client that is denied over and over does not
/// fill the operator's log.
const MOST_ALIKE: u32 = 50;
const PERIOD: Duration = Duration::from_secs(10);

/// One line for each message: level, words, then its fields. Whatever a message quotes is escaped and cut.
#[derive(Default)]
struct Lines {
    /// Warnings by the place in the code that makes them.
    warnings: Mutex<HashMap<Identifier, Recent>>,
}

/// The warnings of one kind in the current period.
struct Recent {
    since: Instant,
    written: u32,
    left_out: u64,
}

/// Whether a warning is written.
enum Turn {
    /// Yes, after a word about those that were not.
    Write {
        left_out: u64,
    },
    LeaveOut,
}

impl Lines {
    fn turn(&self, event: &Event<'_>) -> Turn {
        let metadata = event.metadata();
        if *metadata.level() != Level::WARN {
            return Turn::Write { left_out: 0 };
        }
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Recent { since: Instant::now(), written: 0, left_out: 0 };
        let recent = warnings.entry(metadata.callsite()).or_insert_with(new);
        let mut left_out = 0;
        if recent.since.elapsed() > PERIOD {
            left_out = recent.left_out;
            *recent = new();
        }
        if recent.written >= MOST_ALIKE {
            recent.left_out += 1;
            return Turn::LeaveOut;
        }
        recent.written += 1;
        Turn::Write { left_out }
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
        let left_out = match self.turn(event) {
            Turn::Write { left_out } => left_out,
            Turn::LeaveOut => return Ok(()),
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
        if left_out > 0 {
            write!(writer, " [{left_out} more of this kind were left out]")?;
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
