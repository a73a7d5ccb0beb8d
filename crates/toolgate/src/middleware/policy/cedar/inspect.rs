//! Inspects the JSON form of a rule: which arguments it reads, and whether it misspells an attribute.
//!
//! Cedar evaluates `has` on an attribute that does not exist to `false`, so a `forbid` with a misspelt name would
//! never match. Such a rule is an error at startup.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::ARGUMENTS;

/// The inputs that a rule reads and that differ between calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reads {
    pub(super) arguments: Members,
    pub(super) client: bool,
}

/// Members of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Members {
    /// The members with these names.
    Named(BTreeSet<String>),
    /// All members.
    All,
}

impl Default for Members {
    fn default() -> Self {
        Self::Named(BTreeSet::new())
    }
}

impl Members {
    pub(super) fn has(&self, name: &str) -> bool {
        match self {
            Self::Named(names) => names.contains(name),
            Self::All => true,
        }
    }
}

impl Reads {
    /// Adds the inputs of another rule.
    pub(super) fn add(&mut self, other: &Self) {
        self.client |= other.client;
        match (&mut self.arguments, &other.arguments) {
            (Members::Named(names), Members::Named(more)) => names.extend(more.iter().cloned()),
            (all, Members::All) => *all = Members::All,
            (Members::All, Members::Named(_)) => {}
        }
    }

    fn add_argument(&mut self, name: &str) {
        if let Members::Named(names) = &mut self.arguments {
            names.insert(name.to_owned());
        }
    }
}

/// The attributes of each variable.
const ATTRIBUTES: &[(&str, &[&str])] = &[
    ("principal", &[]),
    ("action", &[]),
    (
        "resource",
        &[
            "server",
            "name",
            "tier",
            "readOnlyHint",
            "destructiveHint",
            "idempotentHint",
            "openWorldHint",
        ],
    ),
    ("context", &["namespace", "client", ARGUMENTS]),
];

/// The entity types.
const TYPES: [&str; 3] = ["Principal", "Action", "Tool"];

/// The inputs of a rule from its JSON form, or its fault.
pub(super) fn reads(rule: &Value) -> Result<Reads, String> {
    let mut reads = Reads::default();
    walk(rule, &mut reads)?;
    Ok(reads)
}

fn walk(value: &Value, reads: &mut Reads) -> Result<(), String> {
    match value {
        Value::Array(elements) => elements.iter().try_for_each(|element| walk(element, reads)),
        Value::Object(members) => {
            members.iter().try_for_each(|(key, inner)| member(key, inner, reads))
        }
        _ => Ok(()),
    }
}

fn member(key: &str, inner: &Value, reads: &mut Reads) -> Result<(), String> {
    match (key, inner) {
        ("Var", Value::String(name)) if name == "context" => {
            // The variable is used as a whole, so all members matter.
            *reads = Reads { arguments: Members::All, client: true };
            Ok(())
        }
        ("entity_type", Value::String(name)) if !TYPES.contains(&name.as_str()) => Err(format!(
            "asks for the type `{name}`, which nothing has: the types are `Principal`, `Action`, `Tool`"
        )),
        ("hasTag" | "getTag", _) => Err("asks for a tag, and nothing has tags here".to_owned()),
        ("." | "has", Value::Object(access)) => attribute(key, access, reads),
        _ => walk(inner, reads),
    }
}

/// `left.attr`, `left has attr` or `left has attr.attr`.
fn attribute(key: &str, access: &Map<String, Value>, reads: &mut Reads) -> Result<(), String> {
    let (left, names) = (access.get("left"), access.get("attr").and_then(names));
    let (Some(left), Some(names)) = (left, names) else {
        return access.values().try_for_each(|inner| walk(inner, reads));
    };
    match path(left) {
        Some((variable, mut path)) => {
            path.extend(names);
            of_variable(key, variable, &path, reads)
        }
        None => walk(left, reads),
    }
}

/// One name, or a path of names.
fn names(attribute: &Value) -> Option<Vec<&str>> {
    match attribute {
        Value::String(name) => Some(vec![name]),
        Value::Array(names) => names.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

/// The variable and the attribute path of `variable.attr.attr`.
fn path(value: &Value) -> Option<(&str, Vec<&str>)> {
    if let Some(variable) = value.get("Var") {
        return Some((variable.as_str()?, Vec::new()));
    }
    let access = value.get(".")?;
    let (variable, mut attributes) = path(access.get("left")?)?;
    attributes.extend(names(access.get("attr")?)?);
    Some((variable, attributes))
}

fn of_variable(key: &str, variable: &str, path: &[&str], reads: &mut Reads) -> Result<(), String> {
    let row = ATTRIBUTES.iter().find(|(known, _)| *known == variable);
    let known = row.map_or(&[][..], |(_, attributes)| attributes);
    if let Some(name) = path.first().filter(|name| !known.contains(name)) {
        let there_are = match known {
            [] => format!("`{variable}` has none"),
            _ => format!("there are {}", known.join(", ")),
        };
        return Err(format!("asks for `{variable}.{name}`, which nothing has: {there_are}"));
    }
    match (variable, path, key) {
        ("context", ["client", ..], _) => reads.client = true,
        ("context", [ARGUMENTS, name, ..], _) => reads.add_argument(name),
        // `context has arguments` reads no argument; the whole record reads all.
        ("context", [ARGUMENTS], ".") => reads.arguments = Members::All,
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use cedar_policy::Policy;

    use super::*;

    fn of(condition: &str) -> Result<Reads, String> {
        let text = format!("permit (principal, action, resource) when {{ {condition} }};");
        reads(&Policy::parse(None, text).unwrap().to_json().unwrap())
    }

    fn named(names: &[&str]) -> Members {
        Members::Named(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn only_arguments_that_a_rule_names_are_read() {
        for (condition, expected) in [
            ("resource.server == \"files\"", named(&[])),
            ("context has arguments", named(&[])),
            ("context.arguments has path", named(&["path"])),
            ("context.arguments.path like \"/tmp/*\"", named(&["path"])),
            ("context[\"arguments\"][\"path\"] == 1", named(&["path"])),
            ("context.arguments.a.b.c == context.arguments.d", named(&["a", "d"])),
            ("context has arguments.a.b", named(&["a"])),
            ("context.arguments has b.c", named(&["b"])),
            ("[context.arguments.a].contains(1)", named(&["a"])),
            (
                "if context.arguments.a then {\"Var\": context.arguments.b} == {} else true",
                named(&["a", "b"]),
            ),
            ("context.arguments == {}", Members::All),
            ("(if true then context else context).arguments.path == 1", Members::All),
            ("context == {}", Members::All),
            ("[context].contains(1)", Members::All),
        ] {
            assert_eq!(of(condition).unwrap().arguments, expected, "{condition}");
        }
        assert!(of("context.client == \"x\"").unwrap().client);
        assert!(of("context has client").unwrap().client);
        assert!(!of("context.arguments.client == \"x\"").unwrap().client);
    }

    #[test]
    fn a_misspelt_name_is_refused_and_told() {
        for (condition, told) in [
            (
                "resource has teir",
                "`resource.teir`, which nothing has: there are server, name, tier",
            ),
            ("resource.readonlyHint", "`resource.readonlyHint`"),
            ("context has args.path", "`context.args`"),
            ("context has args", "`context.args`, which nothing has: there are namespace, client"),
            ("principal has groups", "`principal.groups`, which nothing has: `principal` has none"),
            ("principal is User", "the type `User`"),
            ("resource.hasTag(\"x\")", "has tags"),
        ] {
            let refused = of(condition).unwrap_err();
            assert!(refused.contains(told), "{condition}: {refused}");
        }
        // The names of arguments depend on the tool, so they cannot be checked here.
        assert!(of("context.arguments has teir").is_ok());
    }
}
