//! The list of calls: one line each, the newest last, a heading for each day.

use std::io::{self, Write};

use toolgate_store::{CallRecord, RecordKind};

use super::look::{Look, Paint, clean, fit, paint_of, short, size, took};

const TIME: usize = "17:48:03.123".len();
const NUMBER: usize = "999.9 kB".len();
const ID: usize = 8;
const GAP: usize = 2;
/// Narrower columns tell nothing.
const NARROWEST: usize = 12;

/// A table that grows at its end.
#[derive(Debug)]
pub(super) struct Table {
    look: Look,
    columns: Option<Columns>,
    day: Option<String>,
}

/// The widths that depend on what is shown.
#[derive(Clone, Copy, Debug)]
struct Columns {
    outcome: usize,
    tool: usize,
    principal: usize,
}

impl Table {
    pub(super) fn new(look: Look) -> Self {
        Self { look, columns: None, day: None }
    }

    pub(super) fn write(&mut self, records: &[CallRecord], out: &mut impl Write) -> io::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        let columns = match self.columns {
            Some(columns) => columns,
            None => self.head(records, out)?,
        };
        for record in records {
            self.day(record, out)?;
            self.row(record, columns, out)?;
        }
        Ok(())
    }

    /// The names of the columns. How wide they are is settled by the first records.
    fn head(&mut self, records: &[CallRecord], out: &mut impl Write) -> io::Result<Columns> {
        let columns = Columns::of(records, self.look.width);
        self.columns = Some(columns);
        let Columns { outcome, tool, principal } = columns;
        let line = format!(
            "{:TIME$}  {:outcome$}  {:tool$}  {:>NUMBER$}  {:>NUMBER$}  {:principal$}  id",
            "time", "outcome", "tool", "took", "result", "principal",
        );
        writeln!(out, "{}", self.look.paint(Paint::Strong, &line))?;
        Ok(columns)
    }

    fn day(&mut self, record: &CallRecord, out: &mut impl Write) -> io::Result<()> {
        let day = self.look.local(record.at_us).strftime("%A, %-d %B %Y").to_string();
        if self.day.as_ref() != Some(&day) {
            writeln!(out, "{}", self.look.paint(Paint::Quiet, &day))?;
            self.day = Some(day);
        }
        Ok(())
    }

    fn row(&self, record: &CallRecord, columns: Columns, out: &mut impl Write) -> io::Result<()> {
        let Columns { outcome, tool, principal } = columns;
        let look = &self.look;
        let padded = |text: &str, width: usize| format!("{:width$}", fit(text, width));
        write!(
            out,
            "{}  {}  {}  {:>NUMBER$}  {:>NUMBER$}  {}  {}",
            look.paint(Paint::Quiet, &look.time(record.at_us)),
            look.paint(paint_of(&record.outcome), &padded(&clean(&record.outcome), outcome)),
            padded(&name(record), tool),
            took(record.duration_us),
            record.result_bytes.map_or_else(|| "–".to_owned(), size),
            padded(&clean(&record.principal), principal),
            look.paint(Paint::Quiet, &clean(short(&record.id))),
        )?;
        let Some(reason) = reason(record) else { return writeln!(out) };
        match look.width {
            // A line of its own.
            Some(width) => {
                let indent = TIME + GAP;
                let reason = fit(&reason, width.saturating_sub(indent).max(NARROWEST)).into_owned();
                writeln!(out, "\n{:indent$}{}", "", look.paint(Paint::Quiet, &reason))
            }
            // Where nobody cuts lines, whoever searches them finds all of it in one.
            None => writeln!(out, "  {reason}"),
        }
    }
}

impl Columns {
    fn of(records: &[CallRecord], width: Option<usize>) -> Self {
        let longest = |text: &dyn Fn(&CallRecord) -> usize, least: usize| {
            records.iter().map(text).max().unwrap_or(0).max(least)
        };
        let outcome = longest(&|record| record.outcome.chars().count(), "outcome".len()).min(15);
        let mut tool = longest(&|record| name(record).chars().count(), NARROWEST);
        let mut principal =
            longest(&|record| clean(&record.principal).chars().count(), "principal".len());
        if let Some(width) = width {
            let others = TIME + outcome + NUMBER + NUMBER + ID + 6 * GAP;
            let both = width.saturating_sub(others).max(NARROWEST + "principal".len());
            // A long principal does not push the tool out, nor the other way round.
            principal =
                principal.min(both.saturating_sub(tool).max(both / 3)).max("principal".len());
            tool = tool.min(both - principal.min(both - NARROWEST));
        }
        Self { outcome, tool, principal }
    }
}

/// `files/read_file`; a call on behalf of another is marked.
pub(super) fn name(record: &CallRecord) -> String {
    let mark = if record.parent.is_some() { "↳ " } else { "" };
    format!("{mark}{}", identity(record))
}

pub(super) fn identity(record: &CallRecord) -> String {
    match (record.kind, &record.server, &record.tool) {
        (RecordKind::Listing, ..) => "(tools/list)".to_owned(),
        (_, Some(server), Some(tool)) => format!("{}/{}", clean(server), clean(tool)),
        (_, _, tool) => clean(tool.as_deref().unwrap_or("?")).into_owned(),
    }
}

/// Why a call did not end well, in one line.
fn reason(record: &CallRecord) -> Option<String> {
    if matches!(record.outcome.as_str(), "ok" | "preview" | "input_required") {
        return None;
    }
    let words = record.error.clone().or_else(|| first_text(record)).unwrap_or_default();
    let words = clean(words.trim());
    let reason = match (&record.code, words.is_empty()) {
        (Some(code), true) => clean(code).into_owned(),
        (Some(code), false) => format!("{}: {words}", clean(code)),
        (None, true) => return None,
        (None, false) => words.into_owned(),
    };
    Some(reason)
}

/// What a tool said that failed by its own account.
fn first_text(record: &CallRecord) -> Option<String> {
    let result = record.result.as_ref().filter(|_| record.outcome == "tool_error")?;
    let result: serde_json::Value = serde_json::from_str(result).ok()?;
    let texts = result.get("content")?.as_array()?.iter();
    let mut texts = texts.filter_map(|block| block.get("text")?.as_str());
    texts.next().map(str::to_owned)
}
