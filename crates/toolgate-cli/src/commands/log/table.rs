//! The list of calls: one line per call, the newest last, with a heading per day.

use std::io::{self, Write};

use toolgate_store::{CallRecord, RecordKind};

use super::style::{Paint, Style, clean, fit, paint_of, short, size, took};

const TIME: usize = "17:48:03.123".len();
const NUMBER: usize = "999.9 kB".len();
const ID: usize = 8;
const GAP: usize = 2;
/// The narrowest column that is still readable.
const MIN_COLUMN: usize = 12;

/// A table that grows at its end.
#[derive(Debug)]
pub(super) struct Table {
    style: Style,
    columns: Option<Columns>,
    day: Option<String>,
    /// Whether a row has an error code.
    has_code: bool,
}

/// The widths that depend on what is shown.
#[derive(Clone, Copy, Debug)]
struct Columns {
    outcome: usize,
    tool: usize,
    principal: usize,
}

impl Table {
    pub(super) fn new(style: Style) -> Self {
        Self { style, columns: None, day: None, has_code: false }
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
            self.has_code |= reason(record).is_some() && record.code.is_some();
        }
        Ok(())
    }

    /// Writes the next step, for people.
    pub(super) fn finish(&self, out: &mut impl Write) -> io::Result<()> {
        if self.style.width.is_none() || !self.has_code {
            return Ok(());
        }
        let next = "`toolgate log ID` shows one call, `toolgate explain CODE` an error code.";
        writeln!(out, "\n{}", self.style.paint(Paint::Quiet, next))
    }

    /// Writes the header. The first records decide the widths of the columns.
    fn head(&mut self, records: &[CallRecord], out: &mut impl Write) -> io::Result<Columns> {
        let columns = Columns::of(records, self.style.width);
        self.columns = Some(columns);
        let Columns { outcome, tool, principal } = columns;
        let line = format!(
            "{:TIME$}  {:outcome$}  {:tool$}  {:>NUMBER$}  {:>NUMBER$}  {:principal$}  id",
            "time", "outcome", "tool", "took", "result", "principal",
        );
        writeln!(out, "{}", self.style.paint(Paint::Strong, &line))?;
        Ok(columns)
    }

    fn day(&mut self, record: &CallRecord, out: &mut impl Write) -> io::Result<()> {
        let day = self.style.local(record.at_us).strftime("%A, %-d %B %Y").to_string();
        if self.day.as_ref() != Some(&day) {
            writeln!(out, "{}", self.style.paint(Paint::Quiet, &day))?;
            self.day = Some(day);
        }
        Ok(())
    }

    fn row(&self, record: &CallRecord, columns: Columns, out: &mut impl Write) -> io::Result<()> {
        let Columns { outcome, tool, principal } = columns;
        let style = &self.style;
        let padded = |text: &str, width: usize| format!("{:width$}", fit(text, width));
        write!(
            out,
            "{}  {}  {}  {:>NUMBER$}  {:>NUMBER$}  {}  {}",
            style.paint(Paint::Quiet, &style.time(record.at_us)),
            style.paint(paint_of(&record.outcome), &padded(&clean(&record.outcome), outcome)),
            padded(&name(record), tool),
            took(record.duration_us),
            record.result_bytes.map_or_else(|| "–".to_owned(), size),
            padded(&clean(&record.principal), principal),
            style.paint(Paint::Quiet, &clean(short(&record.id))),
        )?;
        let Some(reason) = reason(record) else { return writeln!(out) };
        match style.width {
            // The reason is on a line of its own.
            Some(width) => {
                let indent = TIME + GAP;
                let reason =
                    fit(&reason, width.saturating_sub(indent).max(MIN_COLUMN)).into_owned();
                writeln!(out, "\n{:indent$}{}", "", style.paint(Paint::Quiet, &reason))
            }
            // Without a terminal a call is one line, so that `grep` finds all of it.
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
        let mut tool = longest(&|record| name(record).chars().count(), MIN_COLUMN);
        let mut principal =
            longest(&|record| clean(&record.principal).chars().count(), "principal".len());
        if let Some(width) = width {
            let others = TIME + outcome + NUMBER + NUMBER + ID + 6 * GAP;
            let both = width.saturating_sub(others).max(MIN_COLUMN + "principal".len());
            // Neither a long principal nor a long tool takes the width of the other.
            principal =
                principal.min(both.saturating_sub(tool).max(both / 3)).max("principal".len());
            tool = tool.min(both - principal.min(both - MIN_COLUMN));
        }
        Self { outcome, tool, principal }
    }
}

/// `files/read_file`, with a mark for nested calls.
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

/// Why a call failed, in one line.
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

/// The first text of a result with `isError`.
fn first_text(record: &CallRecord) -> Option<String> {
    let result = record.result.as_ref().filter(|_| record.outcome == "tool_error")?;
    let result: serde_json::Value = serde_json::from_str(result).ok()?;
    let texts = result.get("content")?.as_array()?.iter();
    let mut texts = texts.filter_map(|block| block.get("text")?.as_str());
    texts.next().map(str::to_owned)
}
