//! Errors of toolgate.toml that deserialization cannot detect: all of them at once, each with its place.

use std::{collections::BTreeMap, path::Path};

use toolgate::{
    Selector,
    middleware::{
        audit::OpenError, overrides, policy::PrincipalPattern, rate_limit, response_limit, scopes,
    },
    stack::StackError,
};

use super::{NAMESPACE, Text, file::File};
use crate::document::{Document, Node, Notation};

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
    if let Some(Err(error)) =
        file.store.as_ref().map(|url| toolgate_store::sqlite_path(url.as_str()))
    {
        found.push(fault(&["store"], format!("the store cannot be used: {error}")));
    }
    found.extend(addresses(&[], file.telemetry.as_ref(), file.trail.as_ref()));
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
    let own = ["namespaces", name];
    found.extend(addresses(&own, namespace.telemetry.as_ref(), namespace.trail.as_ref()));
    if let Some(policy) =
        namespace.policy.as_ref().filter(|name| !file.policies.contains_key(*name))
    {
        let why = format!("namespace `{name}` {}", unknown_policy(file, policy));
        found.push(fault(&["namespaces", name, "policy"], why));
    }
    for (pattern, policy) in &namespace.principals {
        if !file.policies.contains_key(policy) {
            let why = format!("the principal `{pattern}` {}", unknown_policy(file, policy));
            found.push(fault(&["namespaces", name, "principals", &pattern.to_string()], why));
        }
    }
    found.extend(unknown_tokens(file, name, &namespace.principals, "principals"));
    found.extend(namespace.grants.iter().flat_map(|g| unknown_tokens(file, name, g, "grants")));
    for selector in namespace.tools.keys() {
        if let Err(error) = selector.parse::<Selector>() {
            let why = format!("namespace `{name}`: {error}");
            found.push(fault(&["namespaces", name, "tools", selector], why));
        }
    }
}

/// The end of a sentence about a binding to a policy that the file does not define.
fn unknown_policy(file: &File, name: &str) -> String {
    let known: Vec<&str> = file.policies.keys().map(String::as_str).collect();
    let known = match (nearest(name, &known), known.is_empty()) {
        (Some(nearest), _) => format!("did you mean `{nearest}`?"),
        (None, true) => format!("write it as [policies.{name}]"),
        (None, false) => format!("the policies are `{}`", known.join("`, `")),
    };
    format!("is bound to the policy `{name}`, which does not exist: {known}")
}

/// Entries for `key:NAME` where no token has this name: they apply to no client.
fn unknown_tokens<T>(
    file: &File,
    namespace: &str,
    entries: &BTreeMap<PrincipalPattern, T>,
    table: &str,
) -> Vec<ConfigFault> {
    let tokens = file.serve.iter().flat_map(|serve| serve.tokens.keys().map(String::as_str));
    let tokens: Vec<&str> = tokens.collect();
    let named = entries.keys().map(ToString::to_string).filter_map(|pattern| {
        let name = pattern.strip_prefix("key:")?.to_owned();
        Some((pattern, name))
    });
    // Without tokens in the file, this may be a file for `wrap`, or for a program with its own tokens.
    let unknown = named.filter(|(_, name)| {
        !tokens.is_empty() && !name.contains(['*', '?']) && !tokens.contains(&name.as_str())
    });
    let faults = unknown.map(|(pattern, name)| {
        let known = match nearest(&name, &tokens) {
            Some(nearest) => format!("did you mean `key:{nearest}`?"),
            None => format!("the tokens are `{}`", tokens.join("`, `")),
        };
        let why = format!("`{pattern}` is no client: [serve.tokens] has no `{name}`; {known}");
        fault(&["namespaces", namespace, table, &pattern], why)
    });
    faults.collect()
}

/// URLs without a scheme in `[telemetry]` and `[trail]`.
fn addresses(
    tables: &[&str],
    telemetry: Option<&super::TelemetryConfig>,
    trail: Option<&super::TrailConfig>,
) -> Vec<ConfigFault> {
    let otlp = telemetry.and_then(|telemetry| telemetry.otlp.as_ref());
    let urls = [(["telemetry", "otlp"], otlp), (["trail", "url"], trail.map(|trail| &trail.url))];
    let has_scheme =
        |url: &Text| ["http://", "https://"].iter().any(|s| url.as_str().starts_with(s));
    let wrong = urls.into_iter().filter(|(_, url)| url.is_some_and(|url| !has_scheme(url)));
    let faults = wrong.map(|(key, _)| {
        let why = format!("`{}` is no URL: write `http://` or `https://` before it", key.join("."));
        fault(&[tables, &key].concat(), why)
    });
    faults.collect()
}

/// The known name that a misspelt one probably means.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |other: &&str| strsim::damerau_levenshtein(name, other);
    let nearest = known.iter().copied().min_by_key(distance)?;
    (distance(&nearest) <= name.len().max(3) / 3).then_some(nearest)
}

/// The errors that do not follow from keys that were left out because they are invalid.
pub(super) fn not_caused_by(
    faults: Vec<ConfigFault>,
    left_out: &[Vec<String>],
) -> Vec<ConfigFault> {
    // Namespaces name the entries of these tables.
    let is_named = |keys: &[String]| {
        keys.len() <= 2
            && matches!(
                keys.first().map(String::as_str),
                Some("servers" | "policies" | "namespaces")
            )
    };
    let names_others = |fault: &ConfigFault| {
        matches!(fault.keys.first().map(String::as_str), Some("namespaces" | "serve"))
    };
    let is_related = |fault: &ConfigFault| {
        left_out.iter().any(|keys| {
            keys.starts_with(&fault.keys)
                || fault.keys.starts_with(keys)
                || is_named(keys) && names_others(fault)
        })
    };
    faults.into_iter().filter(|fault| !is_related(fault)).collect()
}

/// The errors with their lines.
pub(super) fn shown(faults: &[ConfigFault], text: &str) -> Vec<String> {
    if faults.is_empty() {
        return Vec::new();
    }
    let document = Document::parse(text.to_owned(), Notation::Toml).ok();
    let one = |fault: &ConfigFault| {
        let place = document.as_ref().and_then(|document| {
            let keys: Vec<&str> = fault.keys.iter().map(String::as_str).collect();
            Some((document, place(&document.root, &keys, Found::Partly)?))
        });
        match place {
            Some((document, at)) => document.problem(at, fault.why.clone()).to_string(),
            None => fault.why.clone(),
        }
    };
    faults.iter().map(one).collect()
}

/// Whether a place is also that of the innermost table, if the key itself is not in the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Whole,
    Partly,
}

/// The place of a key.
fn place(root: &Node, keys: &[&str], found: Found) -> Option<std::ops::Range<usize>> {
    let (mut node, mut at) = (root, None);
    for key in keys {
        match node.member(key) {
            Some(member) => (node, at) = (&member.node, Some(member.key_span.clone())),
            None if found == Found::Whole => return None,
            None => break,
        }
    }
    at
}

/// The error of a chain with its line in the file. `None` if the file does not have the key.
pub(super) fn located(path: &Path, namespace: &str, error: &StackError) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let document = Document::parse(text, Notation::Toml).ok()?;
    let of_namespace = document.root.get("namespaces").and_then(|all| all.get(namespace));
    let find = |keys: &[&str]| {
        let own = of_namespace.and_then(|table| place(table, keys, Found::Whole));
        own.or_else(|| place(&document.root, keys, Found::Whole))
    };
    let at = match error {
        StackError::Unknown { name, .. } => {
            let listed = of_namespace?.get("chain")?.items().iter();
            let mut named = listed.filter(|item| item.as_str() == Some(name));
            named.next().map(|item| item.span.clone())
        }
        StackError::Chain(_)
        | StackError::Placed { .. }
        | StackError::NotSet { .. }
        | StackError::Unheeded { .. } => find(&["chain"]),
        StackError::Audit(OpenError::KeyFile { .. }) => {
            find(&["audit", "key_file"]).or_else(|| find(&["redact", "key_file"]))
        }
        StackError::Audit(_) => find(&["audit", "file"]).or_else(|| find(&["audit"])),
        StackError::Layer { key, .. } if !key.is_empty() => {
            let key: Vec<&str> = key.iter().map(String::as_str).collect();
            find(&key)
        }
        StackError::Layer { layer, .. } => tables(layer).iter().find_map(|table| find(&[*table])),
        _ => None,
    };
    let problem = document.problem(at?, error.to_string());
    Some(format!("the config `{}` is refused:\n{problem}", path.display()))
}

/// The keys that hold the settings of a layer.
fn tables<'a>(layer: &'a &'static str) -> Vec<&'a str> {
    match *layer {
        overrides::NAME => vec!["tools"],
        scopes::NAME => vec!["scopes", "grants"],
        rate_limit::NAME | response_limit::NAME => vec!["limits"],
        "confirm-argument" => vec!["confirm"],
        "preconditions" => vec!["preconditions", "confirm"],
        other => vec![other],
    }
}
