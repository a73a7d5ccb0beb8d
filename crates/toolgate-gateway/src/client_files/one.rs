//! One entry for toolgate in place of several: toolgate then serves the others itself, from a file of its own.

use serde_json::{Value, json};

use super::{
    ClientFile, ServerEntry, UnsafeEdit, blocks,
    edit::{Edit, LeftAlone, Wrapping, apply_edits},
    plan::{ChangedEntry, FilePlan, same, same_outside},
};
use crate::document::{Document, Node, NodeValue, Notation};

/// The name of the entry.
pub const ONE_ENTRY: &str = "toolgate";

/// A plan, and the file from which toolgate will serve the servers.
#[derive(Clone, Debug)]
pub struct OnePlan {
    /// The change of the client's file.
    pub plan: FilePlan,
    /// The servers that toolgate serves.
    pub names: Vec<String>,
    /// The content of toolgate's own file.
    pub servers: String,
}

/// Plans one entry in place of the entries that `wants` chooses. `servers` is the path of the file from which toolgate will
/// serve them. Only the first table of servers with such entries counts. `None` if there are none.
pub fn plan_one(
    file: &ClientFile,
    wrapping: &Wrapping,
    servers: &str,
    wants: &dyn Fn(&ServerEntry) -> bool,
) -> Result<Option<OnePlan>, UnsafeEdit> {
    let text = &file.document.text;
    let (mut chosen, mut left): (Vec<&ServerEntry>, Vec<_>) = (Vec::new(), Vec::new());
    for entry in file.servers.iter().filter(|entry| wants(entry)) {
        let is_elsewhere = chosen.first().is_some_and(|first| first.section != entry.section);
        let why = match wrapping.edits(file, entry) {
            _ if is_elsewhere || entry.section.is_empty() || entry.project.is_some() => {
                Some(LeftAlone::Elsewhere)
            }
            _ if needs_client(&entry.node) => Some(LeftAlone::ClientValues),
            Err(why) => Some(why),
            Ok(_) => None,
        };
        match why {
            Some(why) => left.push((entry.name.clone(), why)),
            None => chosen.push(entry),
        }
    }
    let Some((first, rest)) = chosen.split_first() else {
        return Ok((!left.is_empty()).then(|| OnePlan {
            plan: FilePlan { left, ..FilePlan::none(file) },
            names: Vec::new(),
            servers: String::new(),
        }));
    };
    let is_taken = |entry: &ServerEntry| entry.name == ONE_ENTRY && entry.section == first.section;
    if file.servers.iter().any(is_taken) {
        return Err(UnsafeEdit);
    }
    let is_json = file.document.notation == Notation::Json;
    let whole = |entry: &ServerEntry| blocks::whole(file, entry).ok_or(UnsafeEdit);
    let member = if is_json {
        format!("\"{ONE_ENTRY}\": {}", one_entry(file, first, wrapping, servers))
    } else {
        let words = ["stdio", &format!("--config={servers}")];
        let entry = blocks::entry(file, first, ONE_ENTRY, &wrapping.program, &words);
        entry.ok_or(UnsafeEdit)?
    };
    let mut edits = vec![Edit { at: whole(first)?, text: member.clone() }];
    for entry in rest {
        let mut at = whole(entry)?;
        if is_json {
            let before = file.servers.iter().filter(|other| other.section == entry.section);
            let before =
                before.map(|other| other.node.span.end).filter(|end| *end < entry.name_span.start);
            // With the comma before it.
            at.start = before.max().ok_or(UnsafeEdit)?;
        }
        edits.push(Edit { at, text: String::new() });
    }
    let after = apply_edits(text, &edits);
    check(file, &after, &chosen)?;
    let mut written = Vec::new();
    for entry in &chosen {
        written.push(text.get(whole(entry)?).ok_or(UnsafeEdit)?);
    }
    let separator = if is_json { ",\n" } else { "" };
    let undo = vec![(0..member.len(), written.join(separator))];
    let changed = ChangedEntry::new(ONE_ENTRY.to_owned(), first.section.clone(), member, undo);
    let servers = if is_json {
        let open = |key: &String| format!("{{\n{}: ", Value::from(key.as_str()));
        let open = first.section.iter().map(open).collect::<Vec<_>>().concat();
        format!("{open}{{\n{}\n}}{}\n", written.join(",\n"), "\n}".repeat(first.section.len()))
    } else {
        blocks::file_of(file, &chosen).ok_or(UnsafeEdit)?
    };
    Ok(Some(OnePlan {
        plan: FilePlan { after, edits, changed: vec![changed], left },
        names: chosen.iter().map(|entry| entry.name.clone()).collect(),
        servers,
    }))
}

fn one_entry(file: &ClientFile, first: &ServerEntry, wrapping: &Wrapping, servers: &str) -> Value {
    let program = wrapping.program.as_str();
    let config = format!("--config={servers}");
    if first.section == ["mcp"] {
        return json!({"type": "local", "command": [program, "stdio", config]});
    }
    match file.client.filter(|client| client.url_type.is_some()) {
        Some(client) => {
            let kind = client.command_type.as_deref().unwrap_or("stdio");
            json!({"type": kind, "command": program, "args": ["stdio", config]})
        }
        None => json!({"command": program, "args": ["stdio", config]}),
    }
}

/// Whether an entry uses what only its client knows: the answers of its user, or the folder of its project.
fn needs_client(node: &Node) -> bool {
    let is_relative = |key: &str| {
        let path = node.get(key).and_then(Node::as_str);
        path.is_some_and(|path| !std::path::Path::new(path).is_absolute())
    };
    mentions_client(node) || ["cwd", "working_directory", "envFile"].into_iter().any(is_relative)
}

fn mentions_client(node: &Node) -> bool {
    const KNOWN_TO_CLIENT: [&str; 5] =
        ["${input:", "${workspaceFolder", "${command:", "${config:", "{file:"];
    match &node.value {
        NodeValue::String(text) => KNOWN_TO_CLIENT.iter().any(|part| text.contains(part)),
        NodeValue::List(items) => items.iter().any(mentions_client),
        NodeValue::Map(members) => members.iter().any(|member| mentions_client(&member.node)),
        _ => false,
    }
}

/// The other entries, and everything else, must mean the same.
fn check(file: &ClientFile, after: &str, chosen: &[&ServerEntry]) -> Result<(), UnsafeEdit> {
    let new = ClientFile::parse(&file.path, after.to_owned()).map_err(|_| UnsafeEdit)?;
    let is_chosen =
        |entry: &&ServerEntry| chosen.iter().any(|one| one.name_span == entry.name_span);
    let kept: Vec<&ServerEntry> = file.servers.iter().filter(|entry| !is_chosen(entry)).collect();
    let others: Vec<&ServerEntry> =
        new.servers.iter().filter(|entry| entry.name != ONE_ENTRY).collect();
    let is_same = kept.len() == others.len()
        && kept
            .iter()
            .zip(&others)
            .all(|(one, other)| one.name == other.name && same(&one.node, &other.node));
    let own = new.servers.iter().filter(|entry| entry.name == ONE_ENTRY && entry.is_wrapped());
    if is_same && own.count() == 1 && same_outside(file, &new) { Ok(()) } else { Err(UnsafeEdit) }
}

/// A permission rule of a client that names a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermissionRule {
    /// Its line in its file.
    pub line: usize,
    /// The rule.
    pub rule: String,
}

/// The rules in a file that name one of these servers, for a client whose rules begin with these patterns.
#[must_use]
pub fn rules_for(
    document: &Document,
    patterns: &[String],
    names: &[String],
) -> Vec<PermissionRule> {
    let starts = patterns.iter().flat_map(|pattern| {
        names
            .iter()
            .map(move |name| (pattern.replace("{server}", name), pattern.ends_with("{server}")))
    });
    let starts: Vec<(String, bool)> = starts.collect();
    let mut found = Vec::new();
    collect_rules(document, &document.root, &starts, &mut found);
    found.sort_by_key(|rule| rule.line);
    found
}

fn collect_rules(
    document: &Document,
    node: &Node,
    starts: &[(String, bool)],
    found: &mut Vec<PermissionRule>,
) {
    let mut check = |text: &str, at: usize| {
        let names_it = |(start, is_whole): &(String, bool)| {
            if *is_whole { text == start } else { text.starts_with(start) }
        };
        if starts.iter().any(names_it) {
            found.push(PermissionRule { line: document.line(at), rule: text.to_owned() });
        }
    };
    if let Some(text) = node.as_str() {
        check(text, node.span.start);
    }
    for member in node.members() {
        check(&member.key, member.key_span.start);
    }
    for item in node.items() {
        collect_rules(document, item, starts, found);
    }
    for member in node.members() {
        collect_rules(document, &member.node, starts, found);
    }
}
