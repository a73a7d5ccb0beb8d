//! Finds the tables of servers in the file of a client.

use std::fmt::Write as _;

use crate::document::{Document, Node, NodeValue, Notation, Problem};

/// One table (or list) of servers.
pub(super) struct Section<'a> {
    /// The entries, by name.
    pub(super) node: &'a Node,
    /// The keys that lead to the table.
    pub(super) keys: Vec<String>,
    /// The folder of the project whose servers these are, in a file with several projects.
    pub(super) project: Option<String>,
}

/// The keys under which clients keep their servers.
const KEYS: [&str; 5] = ["mcpServers", "servers", "context_servers", "mcp_servers", "mcp"];

/// The tables of servers.
pub(super) fn sections(document: &Document) -> Result<Vec<Section<'_>>, Problem> {
    let root = &document.root;
    if !root.is_map() {
        return Err(document.problem(
            root.span.clone(),
            format!("the file holds {}: write a table with `mcpServers`", root.kind()),
        ));
    }
    let mut found = Vec::new();
    for key in KEYS {
        let Some(member) = root.member(key) else { continue };
        let node = &member.node;
        let is_list = key == "mcpServers" && matches!(node.value, NodeValue::List(_));
        if key == "mcp" {
            found.extend(under_mcp(node, key));
        } else if node.is_map() || is_list {
            found.push(section(node, &[key]));
        } else if !matches!(node.value, NodeValue::Null) {
            let what = format!("`{key}` is {}: write a table of servers by name", node.kind());
            return Err(document.problem(node.span.clone(), what));
        }
    }
    if document.notation == Notation::Yaml {
        let extensions = root.get("extensions").filter(|node| node.is_map());
        found.extend(extensions.map(|node| section(node, &["extensions"])));
    }
    let container = ["customizations", "vscode", "mcp", "servers"];
    let inside = container.iter().try_fold(root, |node, key| node.get(key));
    found.extend(inside.filter(|node| node.is_map()).map(|node| section(node, &container)));
    for project in root.get("projects").map(Node::members).unwrap_or_default() {
        let servers = project.node.get("mcpServers").filter(|node| node.is_map());
        found.extend(servers.map(|node| Section {
            project: Some(project.key.clone()),
            ..section(node, &["projects", &project.key, "mcpServers"])
        }));
    }
    if found.is_empty()
        && !root.members().is_empty()
        && root.members().iter().all(|m| is_entry(&m.node))
    {
        found.push(section(root, &[]));
    }
    Ok(found)
}

fn section<'a>(node: &'a Node, keys: &[&str]) -> Section<'a> {
    Section { node, keys: keys.iter().map(ToString::to_string).collect(), project: None }
}

/// `mcp` holds the servers themselves (opencode), a table `servers` (settings of VS Code), or something else.
fn under_mcp<'a>(node: &'a Node, key: &str) -> Option<Section<'a>> {
    if let Some(servers) = node.get("servers").filter(|node| node.is_map()) {
        return Some(section(servers, &[key, "servers"]));
    }
    node.members().iter().any(|member| is_entry(&member.node)).then(|| section(node, &[key]))
}

/// Whether a value looks like the entry of a server.
fn is_entry(node: &Node) -> bool {
    let keys = ["command", "cmd", "url", "serverUrl", "httpUrl", "uri", "transport"];
    keys.iter().any(|key| node.get(key).is_some())
}

/// What is said of a file that has no table of servers.
pub(super) fn nothing_found(document: &Document, found: &[Section<'_>]) -> Option<Problem> {
    let root = &document.root;
    let has_key =
        KEYS.iter().any(|key| root.member(key).is_some()) || root.get("projects").is_some();
    if has_key || !found.is_empty() || root.members().is_empty() {
        return None;
    }
    let members = document.root.members();
    let names: Vec<String> =
        members.iter().take(8).map(|member| format!("`{}`", member.key)).collect();
    let mut message = format!(
        "the file names no servers: write them under `mcpServers`; it has {}",
        names.join(", ")
    );
    let near = members.iter().find_map(|member| {
        let distance = |key: &&&str| {
            strsim::damerau_levenshtein(&member.key.to_lowercase(), &key.to_lowercase())
        };
        let nearest = KEYS.iter().filter(|key| key.len() > 4).min_by_key(distance)?;
        (distance(&nearest) <= 3).then_some((member, *nearest))
    });
    let mut at = members.first().map(|member| member.key_span.clone()).unwrap_or_default();
    if let Some((member, nearest)) = near {
        at = member.key_span.clone();
        let _ = write!(message, "\nhelp: did you mean `{nearest}` instead of `{}`?", member.key);
    }
    Some(document.problem(at, message))
}
