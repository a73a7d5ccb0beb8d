//! The servers of clients as tables of toolgate.toml.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use serde_json::json;
use toolgate::middleware::{
    audit::{RedactConfig, Redactor},
    sanitize::without_secrets,
};
use toolgate_gateway::{
    client_files::{
        ClientFile, FileScope, Machine, ResolvedServer, ResolvedText, ServerEntry,
        installed as files_of, resolve,
    },
    document::{Node, NodeMember},
};
use toolgate_wire::Json;

/// A server of a client, as text for the config.
#[derive(Debug)]
pub(super) struct Found {
    /// Its name in the config.
    pub(super) name: String,
    /// The client or the file.
    pub(super) from: String,
    /// The table.
    pub(super) text: String,
    /// Why the table is a comment.
    pub(super) reason: Option<String>,
    /// The files that its secrets are written to, with their content.
    pub(super) secrets: Vec<(PathBuf, String)>,
}

/// The servers of all clients on this machine. `secrets` is the folder for their secrets. A file that cannot be read is left out; `toolgate doctor` reports it.
pub(super) fn installed(secrets: &Path) -> anyhow::Result<Vec<Found>> {
    let files =
        files_of(&Machine::current()).into_iter().filter(|one| one.scope != FileScope::Managed);
    let files = files.filter_map(|one| Some((one.client.name.clone(), one.file.ok()?)));
    tables(&files.collect::<Vec<_>>(), secrets)
}

/// The servers of these files.
pub(super) fn of_files(paths: &[PathBuf], secrets: &Path) -> anyhow::Result<Vec<Found>> {
    let read = |path: &PathBuf| anyhow::Ok((path.display().to_string(), ClientFile::read(path)?));
    tables(&paths.iter().map(read).collect::<Result<Vec<_>, _>>()?, secrets)
}

fn tables(files: &[(String, ClientFile)], secrets: &Path) -> anyhow::Result<Vec<Found>> {
    let folder = std::env::current_dir().unwrap_or_default();
    let finder = SecretFinder::new()?;
    let mut found: Vec<Found> = Vec::new();
    let (mut names, mut known) = (BTreeSet::new(), BTreeSet::new());
    for (from, file) in files {
        // The server behind an entry that is wrapped already is not known here.
        for entry in file.servers_in(&folder).into_iter().filter(|entry| !entry.is_wrapped()) {
            let table = |name: &str| {
                let texts =
                    Texts { file, name, folder: secrets, finder: &finder, secrets: Vec::new() };
                ServerTable::new(texts, entry, &folder)
            };
            // Several clients often have the same server.
            let own = table(&entry.name);
            if !known.insert((entry.name.clone(), own.body, own.secrets)) {
                continue;
            }
            let name = free_name(&entry.name, &mut names);
            let table = table(&name);
            let text = table.text(&name, from);
            let ServerTable { reason, secrets, .. } = table;
            found.push(Found { name, from: from.clone(), text, reason, secrets });
        }
    }
    Ok(found)
}

/// A name that no other server has: `files`, `files-2`.
fn free_name(name: &str, names: &mut BTreeSet<String>) -> String {
    let name = name.replace('/', "-");
    let name = if name.is_empty() { "server".to_owned() } else { name };
    let others = (2..).map(|number| format!("{name}-{number}"));
    let mut free = std::iter::once(name.clone()).chain(others).filter(|name| !names.contains(name));
    let free = free.next().unwrap_or(name);
    names.insert(free.clone());
    free
}

/// One table, without its heading.
struct ServerTable {
    body: String,
    reason: Option<String>,
    secrets: Vec<(PathBuf, String)>,
}

impl ServerTable {
    fn new(mut texts: Texts<'_>, entry: &ServerEntry, folder: &Path) -> Self {
        match resolve(texts.file, entry, folder) {
            Ok(server) => {
                let reason = entry.is_off.then(|| "it is switched off there".to_owned());
                let body = body(&mut texts, entry, &server);
                Self { body, reason, secrets: texts.secrets }
            }
            Err(problems) => {
                let first = problems.first().map(|problem| problem.message.clone());
                let words = entry.words();
                let shown = words.iter().enumerate().map(|(at, word)| {
                    let before = at.checked_sub(1).and_then(|at| words.get(at)).copied();
                    let is_secret = at > 0 && texts.finder.is_secret_argument(word, before);
                    quoted(if is_secret { "…" } else { word })
                });
                let words: Vec<String> = shown.collect();
                let body = match words.split_first() {
                    Some((command, args)) => {
                        format!("command = {command}\nargs = [{}]\n", args.join(", "))
                    }
                    None => String::new(),
                };
                let reason = Some(first.unwrap_or_else(|| "it is invalid".to_owned()));
                Self { body, reason, secrets: Vec::new() }
            }
        }
    }

    fn text(&self, name: &str, from: &str) -> String {
        let is_bare =
            |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        let key = if is_bare(name) { name.to_owned() } else { quoted(name) };
        let from = from.replace(char::is_control, " ");
        let table = format!("[servers.{key}]\n{}", self.body);
        let Some(reason) = &self.reason else { return format!("\n# From {from}.\n{table}") };
        let reason = reason.lines().next().unwrap_or_default().replace(char::is_control, " ");
        let mut text = format!("\n# From {from}. Not used: {reason}\n");
        for line in table.lines() {
            let _ = writeln!(text, "# {line}");
        }
        text
    }
}

fn body(texts: &mut Texts<'_>, entry: &ServerEntry, server: &ResolvedServer) -> String {
    let mut body = String::new();
    if let Some(command) = &server.command {
        let written = written_words(entry);
        let written = |at: usize| written.get(at).copied().flatten();
        let _ = writeln!(body, "command = {}", texts.plain(command, written(0)));
        let mut before = None;
        let args = server.args.iter().enumerate().map(|(at, text)| {
            let is_secret = texts.finder.is_secret_argument(&text.value, before);
            before = Some(text.value.as_str());
            texts.shown(&format!("arg{}", at + 1), text, written(at + 1), is_secret)
        });
        let args: Vec<String> = args.collect();
        if !args.is_empty() {
            let _ = writeln!(body, "args = [{}]", args.join(", "));
        }
    }
    if let Some(cwd) = &server.cwd {
        let _ = writeln!(body, "cwd = {}", quoted(&cwd.to_string_lossy()));
    }
    if let Some(passed) = &server.passed {
        let names: Vec<String> = passed.iter().map(|name| quoted(name)).collect();
        let _ = writeln!(body, "only_env = [{}]", names.join(", "));
    }
    if let Some(url) = &server.url {
        let written = entry.url().and_then(|member| member.node.as_str());
        let is_secret = texts.finder.is_secret_url(&url.value);
        let _ = writeln!(body, "url = {}", texts.shown("url", url, written, is_secret));
    }
    if server.is_sse {
        body.push_str("transport = \"sse\"\n");
    }
    let pairs =
        [("env", &server.env, entry.environment()), ("headers", &server.headers, entry.headers())];
    for (key, values, member) in pairs {
        let written =
            |name: &str| member.and_then(|member: &NodeMember| member.node.get(name)?.as_str());
        let pairs = values.iter().map(|(name, text)| {
            let is_secret = texts.finder.is_secret(name, &text.value);
            format!("{} = {}", quoted(name), texts.shown(name, text, written(name), is_secret))
        });
        let pairs: Vec<String> = pairs.collect();
        if !pairs.is_empty() {
            let _ = writeln!(body, "{key} = {{ {} }}", pairs.join(", "));
        }
    }
    body
}

/// The program and its arguments as the file has them; `None` for one that is no string.
fn written_words(entry: &ServerEntry) -> Vec<Option<&str>> {
    let command = entry.command().map(|member| &member.node);
    let program = command.and_then(Node::as_str).map(Some);
    let arguments = entry.arguments().map(|member| member.node.items()).unwrap_or_default();
    let items = command.map(Node::items).unwrap_or_default().iter().chain(arguments);
    program.into_iter().chain(items.map(Node::as_str)).collect()
}

/// The texts of one server's table. A secret that the client's file has literally gets a file of its own, because a
/// toolgate.toml is often under version control.
struct Texts<'a> {
    file: &'a ClientFile,
    /// The name of the server.
    name: &'a str,
    /// The folder for secrets.
    folder: &'a Path,
    finder: &'a SecretFinder,
    secrets: Vec<(PathBuf, String)>,
}

impl Texts<'_> {
    /// A text that may be a secret; `key` names it within the server.
    fn shown(
        &mut self,
        key: &str,
        text: &ResolvedText,
        written: Option<&str>,
        is_secret: bool,
    ) -> String {
        if !is_secret || !text.variables.is_empty() {
            return self.plain(text, written);
        }
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
        let name: String = format!("{}.{key}", self.name)
            .split('.')
            .map(|part| part.chars().map(plain).collect::<String>())
            .collect::<Vec<_>>()
            .join(".");
        let path = self.folder.join(name.trim_start_matches('.'));
        let shown = quoted(&format!("file:{}", path.display()));
        self.secrets.push((path, text.value.clone()));
        shown
    }

    /// A text as toolgate.toml has it. Without variables it is the value; else it names the variables as toolgate does, so
    /// that their values stay out of the file.
    fn plain(&self, text: &ResolvedText, written: Option<&str>) -> String {
        if text.variables.is_empty() {
            let plain = text.value.replace("${", "$${");
            return quoted(&plain);
        }
        let Some(written) = written else {
            // A header whose value a key of the client names by its variable.
            let name = text.variables.first().map_or("", String::as_str);
            let start = if text.value.starts_with("Bearer ") { "Bearer " } else { "" };
            return quoted(&format!("{start}${{{name}}}"));
        };
        let mut named = written.replace("{env:", "${").replace("$${", "${").replace("${env:", "${");
        for input in &self.file.inputs {
            let (from, to) =
                (format!("${{input:{}}}", input.id), format!("${{{}}}", input.variable()));
            named = named.replace(&from, &to);
        }
        for name in &text.variables {
            named = named.replace(&format!("${{{{ secrets.{name} }}}}"), &format!("${{{name}}}"));
            if named == format!("${name}") {
                named = format!("${{{name}}}");
            }
        }
        quoted(&named)
    }
}

/// Finds secrets by their names and by their forms, as the audit does.
struct SecretFinder(Redactor);

impl SecretFinder {
    fn new() -> anyhow::Result<Self> {
        Ok(Self(Redactor::new(&RedactConfig::default())?))
    }

    /// Whether a value is a secret: its name says so, or it has the form of one.
    fn is_secret(&self, name: &str, value: &str) -> bool {
        let pair = json!({ name: value });
        let shown = self.0.arguments(&Json::value(&pair));
        !value.is_empty() && (shown != pair || without_secrets(value) != value)
    }

    /// `--token=VALUE`, or what follows `--token`.
    fn is_secret_argument(&self, word: &str, before: Option<&str>) -> bool {
        let flag =
            |word: &str| word.strip_prefix('-').map(|rest| rest.trim_start_matches('-').to_owned());
        let of_word = match (flag(word), word.split_once('=')) {
            (Some(_), Some((name, value))) => self.is_secret(name.trim_start_matches('-'), value),
            (Some(_), None) => false,
            // `NAME=VALUE`, as after `docker run -e`.
            (None, Some((name, value))) => self.is_secret(name, value),
            (None, None) => before.and_then(flag).is_some_and(|name| self.is_secret(&name, word)),
        };
        of_word || without_secrets(word) != word || self.is_secret_url(word)
    }

    /// A URL with a user, or with a secret in its query.
    fn is_secret_url(&self, text: &str) -> bool {
        let Some((_, rest)) = text.split_once("://") else { return false };
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let query = rest.split_once('?').map(|(_, query)| query).unwrap_or_default();
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        host.contains('@') || pairs.any(|(name, value)| self.is_secret(name, value))
    }
}

/// A basic string of TOML. JSON escapes the same characters in the same way.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}
