//! One call in detail, with its tree of nested calls.

use std::io::{self, Write};

use serde_json::Value;
use toolgate_store::{CallRecord, Node, Tree};

use super::{
    super::next_step,
    style::{Paint, Style, ago, clean, fit, paint_of, short, size, took, wrapped},
    table::identity,
};

/// The column in which values begin.
const MARGIN: usize = 11;

/// Shows the call `id` of the tree.
pub(super) fn show(tree: &Tree, id: &str, style: &Style, out: &mut impl Write) -> io::Result<()> {
    let Some(node) = tree.nodes.iter().find(|node| node.record.id == id) else { return Ok(()) };
    facts(&node.record, style, out)?;
    payload(
        "arguments",
        node.record.arguments.as_deref(),
        node.record.arguments_bytes,
        style,
        out,
    )?;
    if node.record.result_bytes.is_some() || node.record.result.is_some() {
        payload("result", node.record.result.as_deref(), node.record.result_bytes, style, out)?;
    }
    family(tree, id, style, out)
}

fn line(name: &str, value: &str, style: &Style, out: &mut impl Write) -> io::Result<()> {
    let name = if value.is_empty() { name.to_owned() } else { format!("{name:MARGIN$}") };
    writeln!(out, "{}{value}", style.paint(Paint::Quiet, &name))
}

fn facts(record: &CallRecord, style: &Style, out: &mut impl Write) -> io::Result<()> {
    let began = style.local(record.at_us).strftime("%A, %-d %B %Y %H:%M:%S%.3f %Z").to_string();
    let ran = match record.ran.as_str() {
        "yes" => "the tool ran",
        "no" => "the tool did not run",
        _ => "the tool may have run",
    };
    let outcome = style.paint(paint_of(&record.outcome), &record.outcome).into_owned();
    let tool = match &record.wire_name {
        Some(name) if Some(name) != record.tool.as_ref() => {
            format!("{}, called as `{}`", identity(record), clean(name))
        }
        _ => identity(record),
    };
    line("call", &style.paint(Paint::Strong, &clean(&record.id)), style, out)?;
    line("tool", &tool, style, out)?;
    line("outcome", &format!("{outcome} in {}, {ran}", took(record.duration_us)), style, out)?;
    if let Some(code) = &record.code {
        let by = record.decided_by.as_ref().map(|by| format!(" by {}", clean(by)));
        let rule = record.rule.as_ref().map(|rule| format!(", rule `{}`", clean(rule)));
        let reason =
            format!("{}{}{}", clean(code), by.unwrap_or_default(), rule.unwrap_or_default());
        line("reason", &reason, style, out)?;
    }
    if let Some(approval) = record.approval.as_deref().and_then(approval) {
        line("approval", &clean(&approval), style, out)?;
    }
    let room = style.width.map_or(usize::MAX, |width| width.saturating_sub(MARGIN)).max(24);
    let error = record.error.as_deref().unwrap_or_default();
    for (at, words) in wrapped(error, room).iter().enumerate() {
        line(if at == 0 { "message" } else { "" }, words, style, out)?;
    }
    if let Some(next) = record.code.as_deref().and_then(next_step::of_code) {
        line("", &style.paint(Paint::Quiet, &next), style, out)?;
    }
    line("began", &format!("{began} ({})", ago(record.at_us, jiff::Timestamp::now())), style, out)?;
    line("principal", &clean(&record.principal), style, out)?;
    if let Some(client) = &record.client {
        line("client", &clean(client), style, out)?;
    }
    let session = format!("{} in namespace {}", clean(&record.session), clean(&record.namespace));
    line("session", &session, style, out)?;
    if let Some(parent) = &record.parent {
        line("part of", &clean(parent), style, out)?;
    }
    Ok(())
}

/// The decision of a person, as text.
fn approval(json: &str) -> Option<String> {
    let note: Value = serde_json::from_str(json).ok()?;
    let text = |name: &str| note.get(name).and_then(|value| value.as_str());
    let by = text("by").map(|by| format!(" by {by}")).unwrap_or_default();
    let at = text("at").map(|at| format!(" at {at}")).unwrap_or_default();
    let reason = text("reason").map(|reason| format!(": {reason}")).unwrap_or_default();
    Some(format!("{} {}{by}{at}{reason}", text("id")?, text("state")?))
}

/// The recorded arguments or result, below their size.
fn payload(
    name: &str,
    kept: Option<&str>,
    bytes: Option<u64>,
    style: &Style,
    out: &mut impl Write,
) -> io::Result<()> {
    let heading = match (bytes, kept) {
        (None, None) => "none".to_owned(),
        (None, Some(_)) => String::new(),
        (Some(bytes), Some(_)) => size(bytes),
        (Some(bytes), None) => format!("{}, not kept", size(bytes)),
    };
    writeln!(out)?;
    line(name, &style.paint(Paint::Quiet, &heading), style, out)?;
    let Some(kept) = kept else { return Ok(()) };
    match serde_json::from_str::<Value>(kept) {
        Ok(value) if name == "result" => result(&value, out),
        Ok(value) => pretty(&value, out),
        Err(_) => indented(kept, out),
    }
}

/// Text blocks as text, everything else as JSON.
fn result(value: &Value, out: &mut impl Write) -> io::Result<()> {
    let mut rest = value.clone();
    if let Some(blocks) = value.get("content").and_then(Value::as_array) {
        let mut others = Vec::new();
        for block in blocks {
            match block.get("text").and_then(Value::as_str) {
                Some(text) => indented(text, out)?,
                None => others.push(block.clone()),
            }
        }
        if let Some(rest) = rest.as_object_mut() {
            rest.remove("content");
            // The outcome shows it already.
            rest.remove("isError");
            if !others.is_empty() {
                rest.insert("content".to_owned(), others.into());
            }
        }
    }
    if rest.as_object().is_some_and(serde_json::Map::is_empty) {
        return Ok(());
    }
    pretty(&rest, out)
}

fn pretty(value: &Value, out: &mut impl Write) -> io::Result<()> {
    let text = serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string());
    indented(&text, out)
}

fn indented(text: &str, out: &mut impl Write) -> io::Result<()> {
    text.lines().try_for_each(|line| writeln!(out, "  {}", clean(line)))
}

fn family(tree: &Tree, id: &str, style: &Style, out: &mut impl Write) -> io::Result<()> {
    if tree.nodes.len() < 2 && tree.missing_parent.is_none() {
        return Ok(());
    }
    writeln!(out)?;
    let count = format!("{} calls", tree.nodes.len());
    line("tree", &style.paint(Paint::Quiet, &count), style, out)?;
    if let Some(parent) = &tree.missing_parent {
        let gone = format!("  {} (not in the log)", clean(parent));
        writeln!(out, "{}", style.paint(Paint::Quiet, &gone))?;
    }
    let names: Vec<String> = branches(&tree.nodes)
        .into_iter()
        .zip(&tree.nodes)
        .map(|(branch, node)| format!("{branch}{}", identity(&node.record)))
        .collect();
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let others = 2 + 2 + 15 + 2 + 8 + 2 + 8 + 2;
    let width = style.width.map_or(longest, |all| longest.min(all.saturating_sub(others).max(20)));
    for (name, Node { record, .. }) in names.iter().zip(&tree.nodes) {
        let name = format!("{:width$}", fit(name, width));
        let is_it = record.id == id;
        let outcome = format!("{:15}", record.outcome);
        writeln!(
            out,
            "{} {}  {}  {:>8}  {}",
            if is_it { "▸" } else { " " },
            style.paint(if is_it { Paint::Strong } else { Paint::Plain }, &name),
            style.paint(paint_of(&record.outcome), &outcome),
            took(record.duration_us),
            style.paint(Paint::Quiet, &clean(short(&record.id))),
        )?;
    }
    if tree.is_cut {
        writeln!(out, "  {}", style.paint(Paint::Quiet, "… and more than can be shown"))?;
    }
    Ok(())
}

/// The tree lines in front of each node: `│  └─ `.
fn branches(nodes: &[Node]) -> Vec<String> {
    // Whether a node of this depth follows before one of a lower depth.
    let goes_on = |from: usize, depth: usize| {
        let rest = nodes.iter().skip(from + 1).map(|node| node.depth);
        rest.take_while(|other| *other >= depth).any(|other| other == depth)
    };
    let branch = |(at, node): (usize, &Node)| {
        let mut line = String::new();
        for depth in 1..=node.depth {
            line.push_str(match (depth == node.depth, goes_on(at, depth)) {
                (true, true) => "├─ ",
                (true, false) => "└─ ",
                (false, true) => "│  ",
                (false, false) => "   ",
            });
        }
        line
    };
    nodes.iter().enumerate().map(branch).collect()
}
