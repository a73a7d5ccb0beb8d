//! A preview of edits: the lines that change, without values that may be secrets.

use super::{ClientFile, ServerEntry, edit::Edit};
use crate::document::{Node, NodeValue, Notation};

/// One place where lines change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedLines {
    /// The first line, counted from 1.
    pub line: usize,
    /// The lines before the change.
    pub before: Vec<String>,
    /// The lines after it.
    pub after: Vec<String>,
}

/// The lines that edits change. Keys, commands and toolgate's own words are shown; all other texts are blanked.
#[must_use]
pub fn preview(file: &ClientFile, edits: &[Edit]) -> Vec<ChangedLines> {
    let masked = masked(file);
    let starts: Vec<usize> =
        std::iter::once(0).chain(masked.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let line_of = |at: usize| starts.partition_point(|start| *start <= at).saturating_sub(1);
    let mut edits: Vec<&Edit> = edits.iter().collect();
    edits.sort_by_key(|edit| (edit.at.start, edit.at.end));
    let mut groups: Vec<(usize, usize, Vec<&Edit>)> = Vec::new();
    for edit in edits {
        let (first, last) = (line_of(edit.at.start), line_of(edit.at.end));
        match groups.last_mut() {
            Some((_, end, own)) if first <= *end + 1 => {
                *end = last.max(*end);
                own.push(edit);
            }
            _ => groups.push((first, last, vec![edit])),
        }
    }
    let shown = |(first, last, own): (usize, usize, Vec<&Edit>)| {
        let start = starts.get(first).copied().unwrap_or_default();
        let end = starts.get(last + 1).copied().unwrap_or(masked.len());
        let before = masked.get(start..end).unwrap_or_default();
        let own: Vec<Edit> = own
            .into_iter()
            .map(|edit| Edit {
                at: edit.at.start - start..edit.at.end - start,
                text: without_query(&edit.text),
            })
            .collect();
        let after = super::edit::apply_edits(before, &own);
        let lines = |text: &str| text.lines().map(str::to_owned).collect();
        ChangedLines { line: first + 1, before: lines(before), after: lines(&after) }
    };
    groups.into_iter().map(shown).collect()
}

/// A URL's query and its user may be secrets.
fn without_query(text: &str) -> String {
    let Some((before, url)) = text.split_once("--url=") else { return text.to_owned() };
    let (url, after) = url.split_at(url.find('"').unwrap_or(url.len()));
    let shown = url.split(['?', '#']).next().unwrap_or_default();
    let shown = match shown
        .split_once("://")
        .and_then(|(scheme, rest)| Some((scheme, rest.split_once('@')?.1)))
    {
        Some((scheme, host)) => format!("{scheme}://…@{host}"),
        None => shown.to_owned(),
    };
    let cut = if shown.len() < url.split('#').next().unwrap_or_default().len() && url.contains('?')
    {
        "?…"
    } else {
        ""
    };
    format!("{before}--url={shown}{cut}{after}")
}

/// The text with as many bytes, in which only keys, commands, booleans and punctuation are readable.
fn masked(file: &ClientFile) -> String {
    let text = &file.document.text;
    let is_sign = |byte: u8| byte.is_ascii_whitespace() || b"{}[],:=\"'".contains(&byte);
    let mut out: Vec<u8> =
        text.bytes().map(|byte| if is_sign(byte) { byte } else { b'*' }).collect();
    let mut keep = |at: std::ops::Range<usize>| {
        if let (Some(to), Some(from)) = (out.get_mut(at.clone()), text.as_bytes().get(at)) {
            to.copy_from_slice(from);
        }
    };
    visible(&file.document.root, &mut keep);
    for entry in &file.servers {
        commands(entry, &mut keep);
    }
    if file.document.notation != Notation::Json {
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let signs = line.len() - line.trim_start_matches([' ', '-', '\t']).len();
            let is_header =
                file.document.notation == Notation::Toml && line.trim_start().starts_with('[');
            keep(start..start + if is_header { line.find(']').unwrap_or(0) } else { signs });
            start += line.len();
        }
    }
    String::from_utf8(out).unwrap_or_default()
}

fn visible(node: &Node, keep: &mut dyn FnMut(std::ops::Range<usize>)) {
    match &node.value {
        NodeValue::Bool(_) | NodeValue::Null => keep(node.span.clone()),
        NodeValue::List(items) => {
            for item in items {
                visible(item, keep);
            }
        }
        NodeValue::Map(members) => {
            for member in members {
                keep(member.key_span.clone());
                visible(&member.node, keep);
            }
        }
        NodeValue::Number(_) | NodeValue::String(_) => {}
    }
}

fn commands(entry: &ServerEntry, keep: &mut dyn FnMut(std::ops::Range<usize>)) {
    let command = entry.command().map(|member| &member.node);
    let program = command.map(|node| node.items().first().unwrap_or(node));
    let kind = entry.holder.get("type");
    for node in program.into_iter().chain(kind).filter(|node| node.as_str().is_some()) {
        keep(node.span.clone());
    }
}
