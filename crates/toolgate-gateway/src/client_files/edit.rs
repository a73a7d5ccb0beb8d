//! Edits of a client's file by ranges of bytes: `toolgate wrap` is put in front of a command, and taken away again. All
//! other bytes stay.

use std::ops::Range;

use super::{ClientFile, ServerEntry, ServerForm, entry::HEADERS};
use crate::document::{Node, NodeMember, Notation};

/// A replacement of some bytes of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The bytes that are replaced; an empty range inserts.
    pub at: Range<usize>,
    /// The new text.
    pub text: String,
}

/// Applies edits that do not overlap.
#[must_use]
pub fn apply_edits(text: &str, edits: &[Edit]) -> String {
    let mut edits: Vec<&Edit> = edits.iter().collect();
    edits.sort_by_key(|edit| (edit.at.start, edit.at.end));
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for edit in edits {
        out.push_str(text.get(from..edit.at.start).unwrap_or_default());
        out.push_str(&edit.text);
        from = edit.at.end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

/// Why an entry is left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftAlone {
    /// It starts toolgate already.
    Wrapped,
    /// It is switched off.
    Off,
    /// It has problems.
    Invalid,
    /// The client runs the server itself.
    BuiltIn,
    /// The client signs in for it, which toolgate cannot.
    SignIn,
    /// It has a URL and no header: it may need to sign in.
    MaySignIn,
    /// Its headers are set in a way that a command cannot take over.
    Headers,
    /// It starts a container in the background.
    Detached,
    /// It uses what only its client knows.
    ClientValues,
    /// It is in another table than the first one, or in that of a project.
    Elsewhere,
}

impl LeftAlone {
    /// The reason, in words.
    #[must_use]
    pub fn why(self) -> &'static str {
        match self {
            Self::Wrapped => "already behind toolgate",
            Self::Off => "switched off; choose it with `--server` to wrap it too",
            Self::Invalid => "not valid; `toolgate check FILE` says why",
            Self::BuiltIn => "part of the client",
            Self::SignIn => {
                "the client signs in for it with OAuth, which toolgate cannot do for a client"
            }
            Self::MaySignIn => {
                "has a URL without headers, so the client may sign in for it; choose it with `--server` to wrap it"
            }
            Self::Headers => "the client computes its headers",
            Self::Detached => "starts a container in the background",
            Self::ClientValues => {
                "uses what only its client knows: an input, or the folder of the project"
            }
            Self::Elsewhere => "belongs to a project of its own",
        }
    }
}

/// How entries are wrapped.
#[derive(Clone, Debug)]
pub struct Wrapping {
    /// The absolute path of toolgate.
    pub program: String,
    /// Options of `toolgate wrap`.
    pub options: Vec<String>,
    /// Whether entries are wrapped that are switched off or may need to sign in: the user named them.
    pub includes_doubtful: bool,
}

impl Wrapping {
    /// The edits that put `toolgate wrap` in front of the entry's command, or in place of its URL.
    pub fn edits(&self, file: &ClientFile, entry: &ServerEntry) -> Result<Vec<Edit>, LeftAlone> {
        if entry.is_wrapped() {
            return Err(LeftAlone::Wrapped);
        }
        if !entry.problems.is_empty() {
            return Err(LeftAlone::Invalid);
        }
        if entry.is_off && !self.includes_doubtful {
            return Err(LeftAlone::Off);
        }
        let entry = Place { file, entry, text: &file.document.text };
        match entry.entry.form {
            ServerForm::Command => self.command_edits(&entry),
            ServerForm::Url => self.url_edits(&entry),
            ServerForm::BuiltIn => Err(LeftAlone::BuiltIn),
            ServerForm::Invalid => Err(LeftAlone::Invalid),
        }
    }

    /// The arguments of toolgate, up to what is wrapped.
    fn words(&self, name: &str) -> Vec<String> {
        let start = ["wrap".to_owned(), format!("--name={name}")];
        start.into_iter().chain(self.options.iter().cloned()).collect()
    }

    fn command_edits(&self, place: &Place<'_>) -> Result<Vec<Edit>, LeftAlone> {
        let entry = place.entry;
        let words = entry.words();
        let runs_container = matches!(words.first(), Some(&("docker" | "podman")));
        if runs_container && words.iter().any(|word| matches!(*word, "-d" | "--detach")) {
            return Err(LeftAlone::Detached);
        }
        let command = entry.command().ok_or(LeftAlone::Invalid)?;
        let mut own: Vec<String> =
            self.words(&entry.name).iter().map(|word| quoted(word)).collect();
        own.push(quoted("--"));
        let program = quoted(&self.program);
        if command.node.as_str().is_none() {
            own.insert(0, program);
            return Ok(vec![place.prepend(&command.node, &own)]);
        }
        own.push(place.moved(&command.node));
        let replaced = Edit { at: command.node.span.clone(), text: program };
        match entry.arguments() {
            Some(arguments) => Ok(vec![replaced, place.prepend(&arguments.node, &own)]),
            None => {
                Ok(place.with_member(replaced, command, "args", &format!("[{}]", own.join(", "))))
            }
        }
    }

    /// A URL becomes a command. Headers become variables, so that no secret is in the arguments of a process.
    fn url_edits(&self, place: &Place<'_>) -> Result<Vec<Edit>, LeftAlone> {
        let entry = place.entry;
        let has = |key: &str| entry.holder.get(key).is_some() || entry.node.get(key).is_some();
        if has("oauth") || has("auth") {
            return Err(LeftAlone::SignIn);
        }
        let computed = [
            "headersHelper",
            "http_headers_helper",
            "requestOptions",
            "env_http_headers",
            "bearer_token_env_var",
        ];
        if computed.into_iter().any(has)
            || (entry.environment().is_some() && entry.headers().is_some())
        {
            return Err(LeftAlone::Headers);
        }
        let url = entry.url().ok_or(LeftAlone::Invalid)?;
        let address = url.node.as_str().unwrap_or_default();
        let is_local = ["http://127.0.0.1", "http://localhost", "http://[::1]"]
            .iter()
            .any(|start| address.starts_with(start));
        let headers = entry.headers();
        if headers.is_none() && !is_local && !self.includes_doubtful {
            return Err(LeftAlone::MaySignIn);
        }
        let client = place.file.client;
        let mut words = self.words(&entry.name);
        words.push(format!("--url={address}"));
        let mut edits = Vec::new();
        if let Some(headers) = headers.filter(|headers| HEADERS.contains(&headers.key.as_str())) {
            let env = client.and_then(|client| client.env.as_deref()).unwrap_or("env");
            edits.push(place.renamed(headers, env));
            for header in headers.node.members() {
                let variable = header_variable(&header.key);
                words.push(format!("--header-env={}={variable}", header.key));
                edits.push(place.renamed(header, &variable));
            }
        }
        if let Some(kind) = entry.holder.member("type") {
            let stdio = client.and_then(|client| client.command_type.as_deref()).unwrap_or("stdio");
            edits.push(Edit { at: kind.node.span.clone(), text: quoted(stdio) });
        }
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let key = client.and_then(|client| client.command.as_deref()).unwrap_or("command");
        let is_list = client.is_some_and(|client| client.id == "opencode")
            || entry.section.first().is_some_and(|key| key == "mcp" && entry.section.len() == 1);
        if is_list {
            let list = format!("[{}, {}]", quoted(&self.program), words.join(", "));
            edits.push(place.renamed(url, key));
            edits.push(Edit { at: url.node.span.clone(), text: list });
            return Ok(edits);
        }
        edits.push(place.renamed(url, key));
        let program = Edit { at: url.node.span.clone(), text: quoted(&self.program) };
        edits.extend(place.with_member(program, url, "args", &format!("[{}]", words.join(", "))));
        Ok(edits)
    }
}

/// `X-Api-Key` is passed in the variable `MCP_HEADER_X_API_KEY`.
fn header_variable(header: &str) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("MCP_HEADER_{}", header.chars().map(letter).collect::<String>())
}

/// A string of JSON. TOML and YAML have the same escapes.
fn quoted(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.replace('\u{7f}', "\\u007f")
}

/// An entry in its text.
struct Place<'a> {
    file: &'a ClientFile,
    entry: &'a ServerEntry,
    text: &'a str,
}

impl Place<'_> {
    /// A scalar as it is written, so that it can stand elsewhere.
    fn moved(&self, node: &Node) -> String {
        match self.file.document.notation {
            // A plain scalar has other rules inside of a list in brackets.
            Notation::Yaml => quoted(node.as_str().unwrap_or_default()),
            Notation::Json | Notation::Toml => self.slice(&node.span).to_owned(),
        }
    }

    fn slice(&self, at: &Range<usize>) -> &str {
        self.text.get(at.clone()).unwrap_or_default()
    }

    /// Replaces a key.
    fn renamed(&self, member: &NodeMember, key: &str) -> Edit {
        let is_quoted = self.slice(&member.key_span).starts_with(['"', '\'']);
        let text = if is_quoted { quoted(key) } else { key.to_owned() };
        Edit { at: member.key_span.clone(), text }
    }

    /// Inserts items before the first item of a list.
    fn prepend(&self, list: &Node, items: &[String]) -> Edit {
        let is_block = !self.slice(&list.span).starts_with('[');
        let Some(first) = list.items().first() else {
            let at = list.span.start + 1;
            return Edit { at: at..at, text: items.join(", ") };
        };
        if is_block {
            let before = self.text.get(..first.span.start).unwrap_or_default();
            let at = before.rfind('-').unwrap_or(first.span.start);
            let line = self.line_start(at);
            let indent = " ".repeat(self.text.get(line..at).unwrap_or_default().chars().count());
            let newline = self.newline();
            let item = |item: &String| format!("- {item}{newline}{indent}");
            let text = items.iter().map(item).collect::<Vec<_>>().concat();
            return Edit { at: at..at, text };
        }
        let between = self.text.get(list.span.start + 1..first.span.start).unwrap_or_default();
        let is_plain = between.contains('\n') && between.trim().is_empty();
        let separator = if is_plain { between } else { " " };
        let item = |item: &String| format!("{item},{separator}");
        let text = items.iter().map(item).collect::<Vec<_>>().concat();
        Edit { at: first.span.start..first.span.start, text }
    }

    /// Adds a member after another one, whose value is replaced.
    fn with_member(&self, replaced: Edit, after: &NodeMember, key: &str, value: &str) -> Vec<Edit> {
        let end = after.node.span.end;
        let is_quoted = self.slice(&after.key_span).starts_with(['"', '\'']);
        let key = if is_quoted { quoted(key) } else { key.to_owned() };
        let start = self.line_start(after.key_span.start);
        let before = self.text.get(start..after.key_span.start).unwrap_or_default();
        let is_in_braces = self.slice(&self.entry.holder.span).starts_with('{');
        let newline = self.newline();
        let notation = self.file.document.notation;
        if notation == Notation::Json || is_in_braces {
            let assigns = if notation == Notation::Toml { " =" } else { ":" };
            let separator = if before.trim().is_empty() && start > 0 {
                format!("{newline}{before}")
            } else {
                " ".to_owned()
            };
            let text = format!("{},{separator}{key}{assigns} {value}", replaced.text);
            return vec![Edit { text, ..replaced }];
        }
        // A line of its own below, with the same start: indentation, or the first part of a dotted key.
        let rest = self.text.get(end..).unwrap_or_default();
        let line_end = end + rest.find('\n').unwrap_or(rest.len());
        let line_end = if self.text.get(..line_end).is_some_and(|t| t.ends_with('\r')) {
            line_end - 1
        } else {
            line_end
        };
        let added = if notation == Notation::Toml {
            format!("{newline}{before}{key} = {value}")
        } else {
            format!("{newline}{}{key}: {value}", " ".repeat(before.chars().count()))
        };
        vec![replaced, Edit { at: line_end..line_end, text: added }]
    }

    fn line_start(&self, at: usize) -> usize {
        self.text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |n| n + 1)
    }

    fn newline(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }
}

/// The edits that take `toolgate wrap` away from in front of a command that someone else has changed since. `None` if the
/// entry does not start with toolgate's words any more, or replaced a URL.
#[must_use]
pub fn unwrap_edits(file: &ClientFile, entry: &ServerEntry) -> Option<Vec<Edit>> {
    let place = Place { file, entry, text: &file.document.text };
    let command = entry.command()?;
    let arguments = entry.arguments().map(|member| &member.node);
    let list = if command.node.as_str().is_some() { arguments? } else { &command.node };
    let items = list.items();
    let end = items.iter().position(|item| item.as_str() == Some("--"))?;
    let own = items.get(usize::from(command.node.as_str().is_none())..end)?;
    if !entry.is_wrapped() || own.first().and_then(Node::as_str) != Some("wrap") {
        return None;
    }
    let program = items.get(end + 1)?;
    let first = items.first()?;
    if command.node.as_str().is_none() {
        return Some(vec![without(first, program)]);
    }
    let restored =
        Edit { at: command.node.span.clone(), text: place.slice(&program.span).to_owned() };
    match items.get(end + 2) {
        Some(kept) => Some(vec![restored, without(first, kept)]),
        None if place.slice(&list.span).starts_with('[') => {
            let inside = list.span.start + 1..list.span.end.saturating_sub(1);
            Some(vec![restored, Edit { at: inside, text: String::new() }])
        }
        None => None,
    }
}

/// Removes the items of a list from `first` up to `kept`.
fn without(first: &Node, kept: &Node) -> Edit {
    Edit { at: first.span.start..kept.span.start, text: String::new() }
}

#[cfg(test)]
mod tests;
