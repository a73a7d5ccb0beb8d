//! One entry of a client's file, as it is written: its command or URL, whether it is switched off, and what is wrong.

use std::ops::Range;

use super::sections::Section;
use crate::document::{Document, Node, NodeMember, NodeValue, Problem};

/// The keys of a command, its environment, its folder and a URL, in the words of all clients.
pub(super) const COMMAND: [&str; 2] = ["command", "cmd"];
pub(super) const ENVIRONMENT: [&str; 3] = ["env", "environment", "envs"];
pub(super) const FOLDER: [&str; 2] = ["cwd", "working_directory"];
pub(super) const URL: [&str; 4] = ["url", "serverUrl", "httpUrl", "uri"];
pub(super) const HEADERS: [&str; 2] = ["headers", "http_headers"];

/// The keys whose misspelling would change what runs.
const EFFECTIVE: [&str; 16] = [
    "command",
    "args",
    "env",
    "environment",
    "envFile",
    "env_vars",
    "cwd",
    "url",
    "serverUrl",
    "httpUrl",
    "headers",
    "http_headers",
    "type",
    "transport",
    "disabled",
    "enabled",
];

/// Other keys of clients. They have no meaning for toolgate.
const OTHER: [&str; 47] = [
    "cmd",
    "envs",
    "env_keys",
    "working_directory",
    "uri",
    "env_http_headers",
    "http_headers_helper",
    "headersHelper",
    "bearer_token_env_var",
    "requestOptions",
    "timeout",
    "name",
    "description",
    "oauth",
    "auth",
    "authorization",
    "tools",
    "trust",
    "includeTools",
    "excludeTools",
    "disabledTools",
    "enabledTools",
    "enabled_tools",
    "disabled_tools",
    "available_tools",
    "autoApprove",
    "alwaysAllow",
    "alwaysLoad",
    "startup_timeout_sec",
    "startup_timeout_ms",
    "tool_timeout_sec",
    "bundled",
    "dev",
    "sandbox",
    "sandboxEnabled",
    "gallery",
    "version",
    "metadata",
    "settings",
    "remote",
    "source",
    "required",
    "scopes",
    "id",
    "icon",
    "display_name",
    "args_schema",
];

/// The keys that restrict which tools a client shows. toolgate does not apply them.
const TOOL_LISTS: [&str; 7] = [
    "includeTools",
    "excludeTools",
    "disabledTools",
    "enabledTools",
    "enabled_tools",
    "disabled_tools",
    "available_tools",
];

/// What an entry starts or reaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerForm {
    /// A command.
    Command,
    /// A URL.
    Url,
    /// Part of the client itself: nothing that another program can start.
    BuiltIn,
    /// Neither: the entry has a problem.
    Invalid,
}

/// One entry of a client's file.
#[derive(Clone, Debug)]
pub struct ServerEntry {
    /// The name of the server.
    pub name: String,
    /// The line of the entry, counted from 1.
    pub line: usize,
    /// The keys that lead to the table that holds the entry.
    pub section: Vec<String>,
    /// The folder of the project to which the entry belongs, in a file with several projects.
    pub project: Option<String>,
    /// The bytes of the name.
    pub name_span: Range<usize>,
    /// The whole entry.
    pub node: Node,
    /// The table that has the command or the URL: the entry, or its `transport`.
    pub holder: Node,
    /// What the entry starts or reaches.
    pub form: ServerForm,
    /// Whether the entry is switched off.
    pub is_off: bool,
    /// Everything that is wrong with the entry. Variables are not looked at yet.
    pub problems: Vec<Problem>,
    /// What the client does with the entry and toolgate does not.
    pub hints: Vec<Problem>,
}

/// The first of several keys that a table has.
fn first<'a>(node: &'a Node, keys: &[&str]) -> Option<&'a NodeMember> {
    keys.iter().find_map(|key| node.member(key))
}

impl ServerEntry {
    /// The command: a text, or a list that begins with the program.
    #[must_use]
    pub fn command(&self) -> Option<&NodeMember> {
        first(&self.holder, &COMMAND)
    }

    /// The arguments.
    #[must_use]
    pub fn arguments(&self) -> Option<&NodeMember> {
        self.holder.member("args")
    }

    /// The environment.
    #[must_use]
    pub fn environment(&self) -> Option<&NodeMember> {
        first(&self.holder, &ENVIRONMENT).or_else(|| first(&self.node, &ENVIRONMENT))
    }

    /// The folder in which the command starts.
    #[must_use]
    pub fn folder(&self) -> Option<&NodeMember> {
        first(&self.holder, &FOLDER).or_else(|| first(&self.node, &FOLDER))
    }

    /// The URL.
    #[must_use]
    pub fn url(&self) -> Option<&NodeMember> {
        first(&self.holder, &URL)
    }

    /// The HTTP headers.
    #[must_use]
    pub fn headers(&self) -> Option<&NodeMember> {
        let options = || self.holder.get("requestOptions")?.member("headers");
        first(&self.holder, &HEADERS).or_else(|| first(&self.node, &HEADERS)).or_else(options)
    }

    /// The `type`.
    #[must_use]
    pub fn kind(&self) -> Option<&str> {
        let kind = self.holder.get("type").or_else(|| self.node.get("transport"));
        kind.and_then(Node::as_str)
    }

    /// The program and its arguments, as they are written: variables are not replaced.
    #[must_use]
    pub fn words(&self) -> Vec<&str> {
        let command = self.command().map(|member| &member.node);
        let program = command.and_then(Node::as_str);
        let listed = command.map(Node::items).unwrap_or_default();
        let arguments = self.arguments().map(|member| member.node.items()).unwrap_or_default();
        let listed = listed.iter().chain(arguments).filter_map(Node::as_str);
        program.into_iter().chain(listed).collect()
    }

    /// Whether the entry starts toolgate already.
    #[must_use]
    pub fn is_wrapped(&self) -> bool {
        let words = self.words();
        let program = words.first().and_then(|word| word.rsplit(['/', '\\']).next());
        let of_package = words.iter().skip(1).take(3).any(|word| *word == "toolgate");
        let commands = ["wrap", "stdio", "tmux", "serve"];
        let has_command = words.get(1).is_some_and(|word| commands.contains(word));
        // The program may have been renamed: `toolgate-0.2`.
        let is_own = program.is_some_and(|name| name.starts_with("toolgate") && has_command);
        is_own
            || matches!(program, Some("toolgate" | "toolgate.exe"))
            || (matches!(program, Some("npx" | "uvx" | "bunx")) && of_package)
    }
}

/// The entries of a section.
pub(super) fn entries(document: &Document, section: &Section<'_>) -> Vec<ServerEntry> {
    let new = |name: &str, span: &Range<usize>, node: &Node| {
        Reading { document, node }.entry(name.to_owned(), span.clone(), section)
    };
    if let NodeValue::List(items) = &section.node.value {
        let named = |(index, item): (usize, &Node)| {
            let name = item.member("name").filter(|member| member.node.as_str().is_some());
            match name.and_then(|member| Some((member.node.as_str()?, &member.node.span))) {
                Some((name, span)) => new(name, span, item),
                None => new(&format!("server-{}", index + 1), &item.span, item),
            }
        };
        return items.iter().enumerate().map(named).collect();
    }
    let members = section.node.members();
    // Of two entries with one name, the last one counts.
    let last = |(index, member): &(usize, &NodeMember)| {
        !members.iter().skip(index + 1).any(|other| other.key == member.key)
    };
    let members = members.iter().enumerate().filter(last).map(|(_, member)| member);
    members.map(|member| new(&member.key, &member.key_span, &member.node)).collect()
}

/// Reads one entry.
struct Reading<'a> {
    document: &'a Document,
    node: &'a Node,
}

impl Reading<'_> {
    fn entry(&self, name: String, name_span: Range<usize>, section: &Section<'_>) -> ServerEntry {
        let node = self.node;
        let nested = ["transport", "command"]
            .into_iter()
            .find_map(|key| node.get(key).filter(|n| n.is_map()));
        let holder = nested.unwrap_or(node).clone();
        let mut entry = ServerEntry {
            line: self.document.line(name_span.start),
            section: section.keys.clone(),
            project: section.project.clone(),
            node: node.clone(),
            holder,
            form: ServerForm::Invalid,
            is_off: node.get("disabled").and_then(Node::as_bool) == Some(true)
                || node.get("enabled").and_then(Node::as_bool) == Some(false),
            problems: Vec::new(),
            hints: Vec::new(),
            name,
            name_span,
        };
        if let Some(path) = nested
            .filter(|_| node.get("command").is_some_and(Node::is_map))
            .and_then(|n| n.member("path"))
        {
            // The notation that Zed used before: `command = { path, args, env }`.
            let path = NodeMember { key: "command".to_owned(), ..path.clone() };
            if let NodeValue::Map(members) = &mut entry.holder.value {
                members.push(path);
            }
        }
        if !node.is_map() {
            let what =
                format!("the entry is {}: write a table with `command` or `url`", node.kind());
            entry.problems.push(self.document.problem(node.span.clone(), what));
            return entry;
        }
        self.repeated(&mut entry);
        self.keys(&mut entry);
        self.types(&mut entry);
        self.form(&mut entry);
        entry
    }

    /// Keys that occur twice in the entry.
    fn repeated(&self, entry: &mut ServerEntry) {
        let inside = |at: &Range<usize>| {
            self.node.span.contains(&at.start)
                || self.node.members().iter().any(|m| m.key_span == *at)
        };
        for (second, first) in self.document.repeated_keys() {
            if inside(&second.key_span) {
                let what = format!(
                    "`{}` occurs twice, first in line {}: remove one of them",
                    second.key,
                    self.document.line(first.key_span.start)
                );
                entry.problems.push(self.document.problem(second.key_span.clone(), what));
            }
        }
    }

    /// Misspelt keys, and keys that restrict tools.
    fn keys(&self, entry: &mut ServerEntry) {
        for member in self.node.members().iter().chain(if entry.holder.span == self.node.span {
            &[]
        } else {
            entry.holder.members()
        }) {
            let key = member.key.as_str();
            if TOOL_LISTS.contains(&key) {
                let what = format!(
                    "toolgate does not apply `{key}`: set `allow` or `deny` for these tools in a toolgate.toml"
                );
                entry.hints.push(self.document.problem(member.key_span.clone(), what));
            }
            let nearest =
                if EFFECTIVE.contains(&key) || OTHER.contains(&key) { None } else { nearest(key) };
            if let Some(nearest) = nearest {
                let what = format!("unknown key `{key}`; did you mean `{nearest}`?");
                entry.problems.push(self.document.problem(member.key_span.clone(), what));
            }
        }
    }

    /// Values of the wrong type.
    fn types(&self, entry: &mut ServerEntry) {
        let mut wrong = Vec::new();
        let command = first(&entry.holder, &COMMAND);
        let texts = [command, entry.url(), entry.folder(), entry.node.member("envFile")];
        for member in texts.into_iter().flatten() {
            let may_be_list = command.is_some_and(|other| other.key_span == member.key_span);
            let is_list = matches!(member.node.value, NodeValue::List(_));
            if member.node.as_str().is_none() && !(may_be_list && is_list) {
                wrong.push((
                    &member.node,
                    format!("`{}` is {}: write a string", member.key, member.node.kind()),
                ));
            }
        }
        for member in
            [entry.arguments(), command.filter(|c| c.node.as_str().is_none())].into_iter().flatten()
        {
            if member.key == "args" && !matches!(member.node.value, NodeValue::List(_)) {
                let what = format!(
                    "`args` is {}: write a list, one item for each argument",
                    member.node.kind()
                );
                wrong.push((&member.node, what));
            }
            for item in member.node.items().iter().filter(|item| scalar(item).is_none()) {
                wrong.push((
                    item,
                    format!("an item of `{}` is {}: write a string", member.key, item.kind()),
                ));
            }
        }
        for member in [entry.environment(), entry.headers()].into_iter().flatten() {
            if !member.node.is_map() && !matches!(member.node.value, NodeValue::Null) {
                let what = format!(
                    "`{}` is {}: write a table of names and values",
                    member.key,
                    member.node.kind()
                );
                wrong.push((&member.node, what));
            }
            for inner in member.node.members() {
                let is_null = matches!(inner.node.value, NodeValue::Null);
                if scalar(&inner.node).is_none() && !is_null {
                    let what = format!(
                        "`{}.{}` is {}: write a string",
                        member.key,
                        inner.key,
                        inner.node.kind()
                    );
                    wrong.push((&inner.node, what));
                }
            }
        }
        for key in ["disabled", "enabled"] {
            if let Some(node) = entry.node.get(key).filter(|node| node.as_bool().is_none()) {
                wrong.push((node, format!("`{key}` is {}: write true or false", node.kind())));
            }
        }
        let wrong: Vec<Problem> = wrong
            .into_iter()
            .map(|(node, what)| self.document.problem(node.span.clone(), what))
            .collect();
        entry.problems.extend(wrong);
    }

    /// Whether the entry has a command or a URL.
    fn form(&self, entry: &mut ServerEntry) {
        let kind = entry.kind().unwrap_or_default().to_owned();
        let problem = |span: &Range<usize>, what: &str| self.document.problem(span.clone(), what);
        entry.form = match (entry.command(), entry.url()) {
            (Some(_), None) => ServerForm::Command,
            (None, Some(_)) => ServerForm::Url,
            (Some(_), Some(url)) => {
                let what = format!("the entry has a command and `{}`: remove one of them", url.key);
                let problem = problem(&url.key_span, &what);
                entry.problems.push(problem);
                ServerForm::Invalid
            }
            (None, None)
                if matches!(
                    kind.as_str(),
                    "builtin" | "platform" | "frontend" | "inline_python"
                ) || entry.node.get("settings").is_some() =>
            {
                ServerForm::BuiltIn
            }
            (None, None) => {
                // A misspelt key was reported already.
                if entry.problems.is_empty() {
                    let what =
                        "the entry has neither a command nor a URL: write `command` or `url`";
                    entry.problems.push(problem(&entry.name_span, what));
                }
                ServerForm::Invalid
            }
        };
        if entry.name.is_empty() || entry.name.contains('/') {
            let what =
                format!("`{}` cannot be the name of a server: write one without `/`", entry.name);
            let problem = problem(&entry.name_span, &what);
            entry.problems.push(problem);
        }
        if kind == "ws" || kind == "websocket" {
            let at =
                entry.holder.get("type").map_or(entry.name_span.clone(), |node| node.span.clone());
            let problem =
                problem(&at, "toolgate does not speak WebSocket: use a URL with streamable HTTP");
            entry.problems.push(problem);
        }
    }
}

/// A value as text: strings, numbers and booleans.
pub(super) fn scalar(node: &Node) -> Option<String> {
    match &node.value {
        NodeValue::String(text) | NodeValue::Number(text) => Some(text.clone()),
        NodeValue::Bool(value) => Some(value.to_string()),
        NodeValue::Null | NodeValue::List(_) | NodeValue::Map(_) => None,
    }
}

/// The key that a misspelt key probably means.
fn nearest(key: &str) -> Option<&'static str> {
    let plain = |text: &str| text.to_lowercase().replace(['_', '-'], "");
    let key = plain(key);
    let distance = |other: &&str| strsim::damerau_levenshtein(&key, &plain(other));
    let nearest = EFFECTIVE.into_iter().min_by_key(distance)?;
    // Short words are near each other without being meant.
    (distance(&nearest) <= usize::from(key.len() > 2) + usize::from(key.len() > 5))
        .then_some(nearest)
}
