//! The servers of clients as tables of toolgate.toml.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    path::{Path, PathBuf},
};

use toolgate_gateway::{
    client_files::{
        ClientFile, FileScope, Machine, ResolvedServer, ResolvedText, ServerEntry,
        installed as files_of, resolve,
    },
    document::{Node, NodeMember},
};

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
}

/// The servers of all clients on this machine. A file that cannot be read is left out; `toolgate doctor` reports it.
pub(super) fn installed() -> Vec<Found> {
    let files =
        files_of(&Machine::current()).into_iter().filter(|one| one.scope != FileScope::Managed);
    let files = files.filter_map(|one| Some((one.client.name.clone(), one.file.ok()?)));
    tables(&files.collect::<Vec<_>>())
}

/// The servers of these files.
pub(super) fn of_files(paths: &[PathBuf]) -> anyhow::Result<Vec<Found>> {
    let read = |path: &PathBuf| anyhow::Ok((path.display().to_string(), ClientFile::read(path)?));
    Ok(tables(&paths.iter().map(read).collect::<Result<Vec<_>, _>>()?))
}

fn tables(files: &[(String, ClientFile)]) -> Vec<Found> {
    let folder = std::env::current_dir().unwrap_or_default();
    let mut found: Vec<Found> = Vec::new();
    let (mut names, mut bodies) = (BTreeSet::new(), BTreeSet::new());
    for (from, file) in files {
        // The server behind an entry that is wrapped already is not known here.
        for entry in file.servers_in(&folder).into_iter().filter(|entry| !entry.is_wrapped()) {
            let table = ServerTable::new(file, entry, &folder);
            // Several clients often have the same server.
            if !bodies.insert((entry.name.clone(), table.body.clone())) {
                continue;
            }
            let name = free_name(&entry.name, &mut names);
            let text = table.text(&name, from);
            found.push(Found { name, from: from.clone(), text, reason: table.reason });
        }
    }
    found
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
}

impl ServerTable {
    fn new(file: &ClientFile, entry: &ServerEntry, folder: &Path) -> Self {
        match resolve(file, entry, folder) {
            Ok(server) => {
                let reason = entry.is_off.then(|| "it is switched off there".to_owned());
                Self { body: body(file, entry, &server), reason }
            }
            Err(problems) => {
                let first = problems.first().map(|problem| problem.message.clone());
                let words: Vec<String> = entry.words().iter().map(|word| quoted(word)).collect();
                let body = match words.split_first() {
                    Some((command, args)) => {
                        format!("command = {command}\nargs = [{}]\n", args.join(", "))
                    }
                    None => String::new(),
                };
                Self { body, reason: Some(first.unwrap_or_else(|| "it is invalid".to_owned())) }
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

fn body(file: &ClientFile, entry: &ServerEntry, server: &ResolvedServer) -> String {
    let mut body = String::new();
    if let Some(command) = &server.command {
        let written = written_words(entry);
        let words = std::iter::once(command).chain(&server.args).enumerate();
        let mut texts =
            words.map(|(at, text)| shown(file, text, written.get(at).copied().flatten()));
        let command = texts.next().unwrap_or_default();
        let _ = writeln!(body, "command = {command}");
        let args: Vec<String> = texts.collect();
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
        let _ = writeln!(body, "url = {}", shown(file, url, written));
    }
    if server.is_sse {
        body.push_str("transport = \"sse\"\n");
    }
    let pairs =
        [("env", &server.env, entry.environment()), ("headers", &server.headers, entry.headers())];
    for (key, texts, member) in pairs {
        let written =
            |name: &str| member.and_then(|member: &NodeMember| member.node.get(name)?.as_str());
        let pairs: Vec<String> = texts
            .iter()
            .map(|(name, text)| format!("{} = {}", quoted(name), shown(file, text, written(name))))
            .collect();
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

/// A text of the config. Without variables it is the value; else it names the variables as toolgate does, so that their
/// values stay out of the file.
fn shown(file: &ClientFile, text: &ResolvedText, written: Option<&str>) -> String {
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
    for input in &file.inputs {
        let (from, to) = (format!("${{input:{}}}", input.id), format!("${{{}}}", input.variable()));
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

/// A basic string of TOML. JSON escapes the same characters in the same way.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}
