//! Errors of toolgate.toml that deserialization cannot detect: all of them at once, each with its place.

use toolgate::Selector;

use super::{NAMESPACE, file::File};
use crate::document::{Document, Notation};

/// An error at a key of the file.
pub(super) struct ConfigFault {
    /// The key, with the tables around it.
    keys: Vec<String>,
    why: String,
}

fn fault(keys: &[&str], why: String) -> ConfigFault {
    ConfigFault { keys: keys.iter().map(ToString::to_string).collect(), why }
}

/// All errors, in the order of the tables.
pub(super) fn faults(file: &File) -> Vec<ConfigFault> {
    let mut found = Vec::new();
    for (name, server) in &file.servers {
        if let Some(why) = server.fault() {
            found.push(fault(&["servers", name], format!("server `{name}` {why}")));
        }
        if name.contains('/') || name.is_empty() {
            let why = format!("server `{name}`: a name has no `/` and is not empty");
            found.push(fault(&["servers", name], why));
        }
    }
    let namespaces: Vec<&str> = file.namespaces.keys().map(String::as_str).collect();
    let namespaces = if namespaces.is_empty() { vec![NAMESPACE] } else { namespaces };
    if let Some(serve) = &file.serve {
        let why = serve.fault().or_else(|| serve.unbound(&namespaces));
        found.extend(why.map(|why| fault(&["serve"], why)));
    }
    for name in file.namespaces.keys() {
        namespace_faults(file, name, &mut found);
    }
    found
}

fn namespace_faults(file: &File, name: &str, found: &mut Vec<ConfigFault>) {
    let Some(namespace) = file.namespaces.get(name) else { return };
    // The name is part of an address: /mcp/NAME.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.~".contains(c);
    if name.is_empty() || !name.chars().all(is_plain) {
        let why = format!(
            "namespace `{name}`: its name is part of an address: use letters, digits, `-`, `_` and `.`"
        );
        found.push(fault(&["namespaces", name], why));
    }
    let unknown = namespace.servers.iter().flatten();
    for server in unknown.filter(|server| !file.servers.contains_key(*server)) {
        let known: Vec<_> = file.servers.keys().map(|known| format!("`{known}`")).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let why = format!(
            "namespace `{name}` names an unknown server `{server}`: write one of [servers], which has {known}"
        );
        found.push(fault(&["namespaces", name, "servers"], why));
    }
    for selector in namespace.tools.keys() {
        if let Err(error) = selector.parse::<Selector>() {
            let why = format!("namespace `{name}`: {error}");
            found.push(fault(&["namespaces", name, "tools", selector], why));
        }
    }
}

/// The errors with their lines.
pub(super) fn shown(faults: &[ConfigFault], text: &str) -> String {
    let document = Document::parse(text.to_owned(), Notation::Toml).ok();
    let one = |fault: &ConfigFault| {
        let problem = document.as_ref().and_then(|document| {
            let mut node = &document.root;
            let mut place = None;
            for key in &fault.keys {
                let Some(member) = node.member(key) else { break };
                (node, place) = (&member.node, Some(member.key_span.clone()));
            }
            Some(document.problem(place?, fault.why.clone()))
        });
        problem.map_or_else(|| fault.why.clone(), |problem| problem.to_string())
    };
    faults.iter().map(one).collect::<Vec<_>>().join("\n\n")
}
