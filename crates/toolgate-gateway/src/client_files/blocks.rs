//! The lines of an entry in a TOML or YAML file, and how an entry of toolgate is written there.

use std::ops::Range;

use super::{ClientFile, ServerEntry};
use crate::document::{Node, NodeValue, Notation};

/// The whole entry: in JSON its member, else its lines. `None` if it shares a line with something else.
pub(super) fn whole(file: &ClientFile, entry: &ServerEntry) -> Option<Range<usize>> {
    if file.document.notation == Notation::Json {
        return Some(entry.name_span.start..entry.node.span.end);
    }
    let text = file.document.text.as_str();
    let first = if is_in_list(file, entry) { entry.node.span.start } else { entry.name_span.start };
    let start = text.get(..first)?.rfind('\n').map_or(0, |at| at + 1);
    let before = text.get(start..first)?.trim_start_matches('\u{feff}').trim();
    let is_alone = match file.document.notation {
        Notation::Toml => before.starts_with('[') && !before.starts_with("[["),
        _ if is_in_list(file, entry) => before == "-",
        _ => before.is_empty(),
    };
    if !is_alone {
        return None;
    }
    let start =
        start + if text.get(start..)?.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let last = last_byte(text, &entry.node).max(entry.name_span.end).max(first);
    let rest = text.get(last.saturating_sub(1)..)?;
    let end = rest.find('\n').map_or(text.len(), |at| last.saturating_sub(1) + at + 1);
    Some(start..end)
}

/// Whether the table of servers is a list, whose entries have their names inside.
fn is_in_list(file: &ClientFile, entry: &ServerEntry) -> bool {
    file.document.notation == Notation::Yaml && entry.node.span.contains(&entry.name_span.start)
}

/// The end of a value. The list or map of YAML that has no brackets ends with its last item.
fn last_byte(text: &str, node: &Node) -> usize {
    let has_brackets = text.get(node.span.start..).is_some_and(|t| t.starts_with(['[', '{']));
    let inner = match &node.value {
        NodeValue::List(items) => items.iter().map(|item| last_byte(text, item)).max(),
        NodeValue::Map(members) => {
            let ends = members.iter();
            ends.map(|member| last_byte(text, &member.node).max(member.key_span.end)).max()
        }
        _ => None,
    };
    // A table of TOML may go on after another header: its own span ends before.
    if has_brackets {
        inner.unwrap_or_default().max(node.span.end)
    } else {
        inner.unwrap_or(node.span.end)
    }
}

/// An entry that starts this command, in the notation of the file and in place of `first`.
pub(super) fn entry(
    file: &ClientFile,
    first: &ServerEntry,
    name: &str,
    program: &str,
    words: &[&str],
) -> Option<String> {
    let text = file.document.text.as_str();
    let at = whole(file, first)?;
    let string =
        |text: &str| serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f");
    let list: Vec<String> = words.iter().map(|word| string(word)).collect();
    let list = format!("[{}]", list.join(", "));
    let program = string(program);
    let lines = if file.document.notation == Notation::Toml {
        let header = text.get(at.start..first.name_span.start)?;
        vec![format!("{header}{name}]"), format!("command = {program}"), format!("args = {list}")]
    } else {
        let command = file.client.and_then(|client| client.command.as_deref()).unwrap_or("command");
        let line = text.get(at.clone())?;
        let indent = line.get(..line.len() - line.trim_start_matches(' ').len())?;
        let mut lines = if is_in_list(file, first) {
            vec![format!("{indent}- name: {name}")]
        } else {
            vec![format!("{indent}{name}:")]
        };
        let is_goose = first.section.first().is_some_and(|section| section == "extensions");
        if is_goose {
            lines.extend([format!("{indent}  name: {name}"), format!("{indent}  enabled: true")]);
            lines.push(format!("{indent}  type: stdio"));
        }
        let command = if is_goose { "cmd" } else { command };
        lines
            .extend([format!("{indent}  {command}: {program}"), format!("{indent}  args: {list}")]);
        lines
    };
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut block = lines.join(newline);
    if text.get(at)?.ends_with('\n') {
        block.push_str(newline);
    }
    Some(block)
}

/// A file with these entries only, which toolgate reads as it reads the client's file.
pub(super) fn file_of(file: &ClientFile, entries: &[&ServerEntry]) -> Option<String> {
    let blocks = entries.iter().map(|entry| {
        let block = file.document.text.get(whole(file, entry)?)?;
        Some(if block.ends_with('\n') { block.to_owned() } else { format!("{block}\n") })
    });
    let blocks = blocks.collect::<Option<Vec<String>>>()?.concat();
    let section = entries.first()?.section.last()?;
    Some(match file.document.notation {
        Notation::Toml => blocks,
        _ => format!("{section}:\n{blocks}"),
    })
}
