//! A request for approval as text and as JSON.

use std::io::{self, Write};

use jiff::Timestamp;
use serde_json::{Value, json};
use toolgate_gateway::approvals::{ApprovalRecord, ApprovalState};

use super::super::log::style::{Paint, Style, clean, fit};

/// The width of the labels.
const LABEL_WIDTH: usize = 13;
/// The width if the output is not a terminal.
const DEFAULT_WIDTH: usize = 80;
/// The most lines of one value that are shown.
const MAX_VALUE_LINES: usize = 40;

/// Writes a request with everything that a person needs to decide it.
pub(super) fn block(
    record: &ApprovalRecord,
    now: Timestamp,
    style: &Style,
    out: &mut impl Write,
) -> io::Result<()> {
    let width = style.width.unwrap_or(DEFAULT_WIDTH).max(40);
    let tool = clean(&format!("{}/{}", record.server, record.tool)).into_owned();
    let room = width.saturating_sub(LABEL_WIDTH + 2);
    let id = style.paint(Paint::Strong, &record.id).into_owned();
    let pad = " ".repeat(LABEL_WIDTH.saturating_sub(record.id.len()).max(1));
    writeln!(out, "{id}{pad}{}", style.paint(Paint::Warn, &fit(&tool, room)))?;
    let mut line = |label: &str, text: &str| {
        let mut label = label;
        for part in wrapped(text, room) {
            let shown =
                format!("{label:<w$}", w = if part.is_empty() { 0 } else { LABEL_WIDTH - 2 });
            writeln!(out, "  {}{part}", style.paint(Paint::Quiet, &shown))?;
            label = "";
        }
        io::Result::Ok(())
    };
    let client = record.client.as_ref().map(|client| format!(" with {}", clean(client)));
    let who = format!(
        "{}{} in namespace {}",
        clean(&record.principal),
        client.unwrap_or_default(),
        clean(&record.namespace)
    );
    line("who", &who)?;
    line("when", &times(record, now))?;
    if !record.why.is_empty() {
        line("why", &clean(&record.why))?;
    }
    match record.arguments.as_object() {
        Some(arguments) if arguments.is_empty() => line("arguments", "none")?,
        Some(arguments) => {
            line("arguments", "")?;
            for (name, value) in arguments {
                argument(name, value, room, style, out)?;
            }
        }
        None => line("arguments", &clean(&record.arguments.to_string()))?,
    }
    if !record.is_whole {
        let text = "The arguments are too long to show in full.";
        writeln!(out, "    {}", style.paint(Paint::Bad, text))?;
    }
    Ok(())
}

/// `asked 12s ago, expires in 4m`
fn times(record: &ApprovalRecord, now: Timestamp) -> String {
    let now = now.as_millisecond();
    let asked = format!("asked {} ago", length(now - record.created_ms));
    match record.state {
        ApprovalState::Pending if now < record.expires_ms => {
            format!("{asked}, expires in {}", length(record.expires_ms - now))
        }
        ApprovalState::Pending => {
            format!("{asked}, expired {} ago", length(now - record.expires_ms))
        }
        ApprovalState::Used => format!("{asked}, approved and used"),
        ApprovalState::Approved if now < record.expires_ms => {
            format!("{asked}, approved, expires in {}", length(record.expires_ms - now))
        }
        ApprovalState::Approved => {
            format!("{asked}, approved, expired before the agent repeated the call")
        }
        ApprovalState::Denied => {
            let reason = record.reason.as_deref().map(|reason| format!(": {}", clean(reason)));
            format!("{asked}, denied{}", reason.unwrap_or_default())
        }
    }
}

/// `12s`, `4m 05s`, `2h 10m`
fn length(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 if seconds % 60 == 0 => format!("{}m", seconds / 60),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// One argument: text line by line, anything else as JSON.
fn argument(
    name: &str,
    value: &Value,
    room: usize,
    style: &Style,
    out: &mut impl Write,
) -> io::Result<()> {
    let text = match value {
        Value::String(text) => text.clone(),
        other => serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    let name = clean(name);
    let is_short =
        !text.contains('\n') && name.chars().count() + text.chars().count() + 4 <= room + 7;
    if is_short {
        let label = style.paint(Paint::Strong, &name).into_owned();
        return writeln!(out, "    {label}: {}", quoted(value, &clean(&text)));
    }
    writeln!(out, "    {}:", style.paint(Paint::Strong, &name))?;
    let lines: Vec<String> =
        text.lines().flat_map(|line| wrapped(&clean(line), room + 1)).collect();
    for line in lines.iter().take(MAX_VALUE_LINES) {
        writeln!(out, "      {} {line}", style.paint(Paint::Quiet, "│"))?;
    }
    if lines.len() > MAX_VALUE_LINES {
        let more = format!("{} more lines (--json has all)", lines.len() - MAX_VALUE_LINES);
        writeln!(out, "      {}", style.paint(Paint::Warn, &more))?;
    }
    Ok(())
}

/// Text in quotes, which tell `"true"` from `true` and show spaces at the end.
fn quoted(value: &Value, text: &str) -> String {
    if value.is_string() { format!("\"{text}\"") } else { text.to_owned() }
}

/// Breaks a text into lines of at most `width` characters, at spaces if possible.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let width = width.max(20);
    let mut lines = Vec::new();
    let mut rest: Vec<char> = text.chars().collect();
    while rest.len() > width {
        let space =
            rest.iter().take(width + 1).rposition(|c| *c == ' ').filter(|at| *at > width / 2);
        let (at, skipped) = space.map_or((width, 0), |at| (at, 1));
        lines.push(rest.iter().take(at).collect());
        rest.drain(..at + skipped);
    }
    lines.push(rest.into_iter().collect());
    lines
}

/// The outcome of a request, on one line.
pub(super) fn line(record: &ApprovalRecord, style: &Style) -> String {
    let (paint, word) = match record.state {
        ApprovalState::Pending => (Paint::Warn, "waits"),
        ApprovalState::Approved => (Paint::Good, "approved"),
        ApprovalState::Denied => (Paint::Bad, "denied"),
        ApprovalState::Used => (Paint::Quiet, "used"),
    };
    let by = match (record.state, &record.by) {
        (ApprovalState::Approved | ApprovalState::Denied, Some(by)) => format!(" by {}", clean(by)),
        _ => String::new(),
    };
    let tool = clean(&format!("{}/{}", record.server, record.tool)).into_owned();
    format!("{}  {}{by}  {tool}", style.paint(Paint::Strong, &record.id), style.paint(paint, word))
}

/// The confirmation of a decision.
pub(super) fn decided(record: &ApprovalRecord, style: &Style) -> String {
    let tool = clean(&format!("{}/{}", record.server, record.tool)).into_owned();
    let ttl = length(record.ttl_ms);
    let id = &record.id;
    if record.state == ApprovalState::Approved {
        let word = style.paint(Paint::Good, "approved");
        return format!("{word} {id}: {tool} runs once if the agent repeats the call within {ttl}");
    }
    let word = style.paint(Paint::Bad, "denied");
    format!(
        "{word} {id}: {tool} will not run; if the agent repeats the call within {ttl}, it reads the denial"
    )
}

/// One JSON object, without the digest of the call.
pub(super) fn json(record: &ApprovalRecord, now: Timestamp) -> Value {
    let time = |ms: i64| {
        let at = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX);
        format!("{at:.3}")
    };
    let state = match record.state {
        ApprovalState::Pending | ApprovalState::Approved
            if !record.is_live(now.as_millisecond()) =>
        {
            "expired"
        }
        ApprovalState::Pending => "pending",
        ApprovalState::Approved => "approved",
        ApprovalState::Denied => "denied",
        ApprovalState::Used => "used",
    };
    json!({
        "id": record.id,
        "state": state,
        "principal": record.principal,
        "namespace": record.namespace,
        "client": record.client,
        "server": record.server,
        "tool": record.tool,
        "why": record.why,
        "rule": record.rule,
        "arguments": record.arguments,
        "arguments_are_complete": record.is_whole,
        "created_at": time(record.created_ms),
        "expires_at": time(record.expires_ms),
        "decided_by": record.by,
        "decided_at": record.decided_ms.map(time),
        "reason": record.reason,
        "used_at": record.used_ms.map(time),
    })
}
