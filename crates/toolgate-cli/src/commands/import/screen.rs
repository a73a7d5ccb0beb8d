//! What `toolgate import` prints: the plan with its changed lines, and what was written.

use std::io::{self, Write};

use serde_json::{Value, json};
use toolgate::printable;
use toolgate_gateway::{
    client_files::{self, ClientFile, FileScope, Machine, ServerEntry, ServerForm},
    document::{Document, Notation},
};

use super::{
    super::log::style::{Paint, Style, wrapped},
    Candidate, CandidateState, Planned,
};

/// The longest line of a preview: a minified file is one line.
const MAX_LINE: usize = 400;

/// The least width of a line.
const MIN_WIDTH: usize = 40;

type Written<'a> = [(&'a Candidate, anyhow::Result<usize>)];

fn title(candidate: &Candidate) -> String {
    let name = candidate.client.map_or("MCP client", |client| client.name.as_str());
    format!("{name}: {}", printable::message(&candidate.path.display().to_string()))
}

/// Writes a sentence. Further lines are indented by two more than the first.
fn tell(out: &mut impl Write, style: &Style, text: &str) -> io::Result<()> {
    let indent = text.len() - text.trim_start().len();
    let width = style.width.unwrap_or(usize::MAX).max(MIN_WIDTH);
    let mut start = " ".repeat(indent);
    for line in wrapped(text.trim_start(), width - indent - 2) {
        writeln!(out, "{start}{line}")?;
        start = " ".repeat(indent + 2);
    }
    Ok(())
}

/// Writes a line of the file with its mark, over as many lines of the screen as it needs.
fn marked(
    out: &mut impl Write,
    style: &Style,
    (mark, paint): (char, Paint),
    line: &str,
) -> io::Result<()> {
    let line = shortened(&printable::message(line));
    let width = style.width.unwrap_or(usize::MAX).max(MIN_WIDTH) - 4;
    let mut start = format!("  {mark} ");
    let mut rest = line.as_str();
    loop {
        let end = rest.char_indices().nth(width).map_or(rest.len(), |(at, _)| at);
        let (part, _) = rest.split_at(end);
        // At a space, if there is one in the second half.
        let space = part.rfind(' ').filter(|at| end < rest.len() && *at > end / 2);
        let (part, more) = rest.split_at(space.map_or(end, |at| at + 1));
        writeln!(out, "{}", style.paint(paint, &format!("{start}{part}")))?;
        if more.is_empty() {
            return Ok(());
        }
        (start, rest) = (" ".repeat(4), more);
    }
}

/// Prints all files with their servers, and the lines that change.
pub(super) fn plan(candidates: &[Candidate]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let style = Style::of_stdout();
    if candidates.is_empty() {
        return tell(
            &mut out,
            &style,
            "No config of an MCP client was found. Name a file: `toolgate import FILE`, or see `toolgate config clients`.",
        );
    }
    for candidate in candidates {
        writeln!(out, "{}", style.paint(Paint::Strong, &title(candidate)))?;
        match &candidate.state {
            CandidateState::Failed(why) => {
                writeln!(out, "  {}", printable::lines(why).replace('\n', "\n  "))?;
            }
            CandidateState::NoServers => writeln!(out, "  no servers")?,
            CandidateState::Managed(file) => {
                let count = file.servers.len();
                writeln!(
                    out,
                    "  belongs to an administrator: its {count} servers are left as they are"
                )?;
            }
            CandidateState::Planned(file, plan) => {
                planned(&mut out, &style, candidate, file, plan)?;
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

fn planned(
    out: &mut impl Write,
    style: &Style,
    candidate: &Candidate,
    file: &ClientFile,
    planned: &Planned,
) -> io::Result<()> {
    let plan = &planned.plan;
    if plan.changed.is_empty() && plan.left.is_empty() {
        return writeln!(out, "  no servers");
    }
    let served = planned.one.iter().flat_map(|(names, _)| names);
    for name in served {
        writeln!(out, "  {}: toolgate serves it", printable::message(name))?;
    }
    for entry in plan.changed.iter().filter(|_| planned.one.is_none()) {
        let is_it =
            |other: &&ServerEntry| other.name == entry.name && other.section == entry.section;
        let form = file.servers.iter().find(is_it).map(|entry| &entry.form);
        let what = match form {
            Some(ServerForm::Url) => "the command `toolgate wrap --url` takes the place of its URL",
            _ => "toolgate goes in front",
        };
        writeln!(out, "  {}: {what}", printable::message(&entry.name))?;
    }
    for (name, why) in &plan.left {
        let text = format!("  {}: left as it is: {}", printable::message(name), why.why());
        tell(out, style, &text)?;
    }
    for lines in client_files::preview(file, &plan.edits) {
        writeln!(out, "  line {}", lines.line)?;
        for line in &lines.before {
            marked(out, style, ('-', Paint::Bad), line)?;
        }
        for line in &lines.after {
            marked(out, style, ('+', Paint::Good), line)?;
        }
    }
    if candidate.scope == FileScope::Project && !plan.changed.is_empty() {
        tell(
            out,
            style,
            "  note: a project's file may be shared; it will name the path of toolgate on this machine",
        )?;
    }
    if let Some(running) = candidate.client.filter(|_| !plan.changed.is_empty()).and_then(running) {
        let note = format!(
            "  note: {running} is running and writes this file itself: end it first, or check the file afterwards"
        );
        tell(out, style, &note)?;
    }
    Ok(())
}

/// Prints the permission rules that no longer match if toolgate serves the servers by one entry.
pub(super) fn rules(candidates: &[Candidate], machine: &Machine) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for candidate in candidates {
        let (Some(client), CandidateState::Planned(file, planned)) =
            (candidate.client, &candidate.state)
        else {
            continue;
        };
        let Some((names, _)) = &planned.one else { continue };
        let others = client.rule_files.iter().filter_map(|template| machine.path(template));
        let read = others.filter_map(|path| {
            let text = std::fs::read_to_string(&path).ok()?;
            Some((path, Document::parse(text, Notation::Json).ok()?))
        });
        for (path, document) in read.chain([(candidate.path.clone(), file.document.clone())]) {
            for rule in client_files::rules_for(&document, &client.rules, names) {
                let place = format!("{}:{}", path.display(), rule.line);
                let (place, rule) = (printable::message(&place), printable::message(&rule.rule));
                let text = format!(
                    "no longer matches: `{rule}` ({place}): its tools will have other names"
                );
                tell(&mut out, &Style::of_stdout(), &text)?;
            }
        }
    }
    Ok(())
}

fn shortened(line: &str) -> String {
    if line.chars().count() <= MAX_LINE {
        return line.to_owned();
    }
    let start: String = line.chars().take(MAX_LINE).collect();
    format!("{start}…")
}

/// The client's process, if it runs and if that matters.
fn running(client: &'static client_files::KnownClient) -> Option<&'static str> {
    let process = client.process.as_deref().filter(|_| client.is_rewritten)?;
    let mut processes = std::fs::read_dir("/proc").ok()?.flatten();
    let is_it = |entry: std::fs::DirEntry| {
        let name = std::fs::read_to_string(entry.path().join("comm"));
        name.is_ok_and(|name| name.trim_end() == process)
    };
    processes.any(is_it).then_some(process)
}

/// Prints what was written.
pub(super) fn written(written: &Written<'_>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for (candidate, result) in written {
        match result {
            Ok(count) => writeln!(out, "{}: {count} changed", title(candidate))?,
            Err(error) => writeln!(out, "{}: failed: {error:#}", title(candidate))?,
        }
    }
    let next = "Restart the clients to use it. `toolgate log` shows calls if a store is set; `toolgate import --undo` restores the files.";
    tell(&mut out, &Style::of_stdout(), next)
}

/// Prints why nothing was written, and what to do.
pub(super) fn nothing_written(candidates: &[Candidate]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if candidates.iter().any(|candidate| candidate.changes() > 0) {
        return writeln!(out, "Nothing is written. Run it with `--yes` to write this.");
    }
    if candidates.is_empty() { Ok(()) } else { writeln!(out, "Nothing to change.") }
}

/// Prints the plan, or what was written, as JSON.
pub(super) fn json(candidates: &[Candidate], written: &Written<'_>) -> io::Result<()> {
    let files: Vec<Value> = candidates
        .iter()
        .map(|candidate| {
            let result = written.iter().find(|(other, _)| std::ptr::eq(*other, candidate));
            file(candidate, result.map(|(_, result)| result))
        })
        .collect();
    writeln!(io::stdout().lock(), "{:#}", json!({"files": files}))
}

fn file(candidate: &Candidate, written: Option<&anyhow::Result<usize>>) -> Value {
    let scope = match candidate.scope {
        FileScope::User => "user",
        FileScope::Project => "project",
        FileScope::Managed => "managed",
    };
    let why = match (&candidate.state, written) {
        (CandidateState::Failed(why), _) => Some(why.clone()),
        (_, Some(Err(error))) => Some(format!("{error:#}")),
        _ => None,
    };
    let mut servers: Option<Vec<Value>> = None;
    if let CandidateState::Planned(file, planned) = &candidate.state {
        let plan = &planned.plan;
        let served: Vec<&String> = planned.one.iter().flat_map(|(names, _)| names).collect();
        let listed = file.servers.iter().map(|entry| {
            let left = plan.left.iter().find(|(name, _)| *name == entry.name).map(|(_, why)| why.why());
            let changes = plan.changed.iter().any(|one| one.name == entry.name && one.section == entry.section)
                || served.contains(&&entry.name);
            json!({"name": entry.name, "line": entry.line, "project": entry.project, "changes": changes, "left": left})
        });
        servers = Some(listed.collect());
    }
    json!({
        "client": candidate.client.map(|client| client.id.as_str()),
        "path": candidate.path.display().to_string(),
        "scope": scope,
        "written": matches!(written, Some(Ok(_))),
        "error": why,
        "servers": servers,
    })
}
