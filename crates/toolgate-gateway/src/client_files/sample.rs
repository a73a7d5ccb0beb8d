//! Examples of entries, as a client would have them: for the pages about clients.

use super::known::{FileScope, KnownClient, Platform};
use crate::document::Notation;

/// What an example entry leads to.
#[derive(Clone, Copy)]
pub(super) enum SampleServer<'a> {
    /// A program and its arguments.
    Command(&'a [&'a str]),
    /// The address of a server.
    Url(&'a str),
}

/// The file of the user that an example shows: the first one whose path does not begin with a variable of the client.
pub(super) fn path(client: &KnownClient) -> String {
    let mut templates = client.templates(Platform::Linux).into_iter();
    let found = templates.find_map(|(scope, path)| {
        let path = path.replace("$XDG_CONFIG_HOME", "~/.config");
        (scope == FileScope::User && path.starts_with('~')).then_some(path)
    });
    found.unwrap_or_default()
}

/// A file of the client with one entry. `None` for a URL if the client takes commands only.
pub(super) fn file(client: &KnownClient, name: &str, target: SampleServer<'_>) -> Option<String> {
    let fields = fields(client, target)?;
    let servers = &client.servers;
    let joined = |sign: &str, between: &str| {
        let lines = fields.iter().map(|(key, value)| format!("{key}{sign}{value}"));
        lines.collect::<Vec<_>>().join(between)
    };
    let text = match (Notation::of(path(client).as_ref()), servers.as_str()) {
        (Notation::Json, _) => {
            let lines = fields.iter().map(|(key, value)| format!("      \"{key}\": {value}"));
            let lines = lines.collect::<Vec<_>>().join(",\n");
            format!("{{\n  \"{servers}\": {{\n    \"{name}\": {{\n{lines}\n    }}\n  }}\n}}\n")
        }
        (Notation::Toml, _) => format!("[{servers}.{name}]\n{}\n", joined(" = ", "\n")),
        (Notation::Yaml, "extensions") => {
            let lines = joined(": ", "\n    ");
            format!("{servers}:\n  {name}:\n    name: {name}\n    enabled: true\n    {lines}\n")
        }
        (Notation::Yaml, _) => {
            format!("{servers}:\n  - name: {name}\n    {}\n", joined(": ", "\n    "))
        }
    };
    Some(text)
}

/// The keys of an entry and their values, written so that JSON, TOML and YAML read the same.
fn fields<'a>(client: &'a KnownClient, target: SampleServer<'_>) -> Option<Vec<(&'a str, String)>> {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let list = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        format!("[{}]", words.join(", "))
    };
    let kind = |kind: Option<&String>| kind.map(|kind| ("type", quoted(kind)));
    let mut fields = Vec::new();
    match target {
        SampleServer::Command(words) => {
            let key = client.command.as_deref().unwrap_or("command");
            let (program, arguments) = words.split_first()?;
            fields.extend(kind(client.command_type.as_ref()));
            // In opencode, the command is a list.
            if client.servers == "mcp" {
                fields.push((key, list(words)));
            } else {
                fields.extend([(key, quoted(program)), ("args", list(arguments))]);
            }
        }
        SampleServer::Url(_) if client.urls == "none" => return None,
        SampleServer::Url(url) => {
            fields.extend(kind(client.url_type.as_ref()));
            fields.push((client.urls.as_str(), quoted(url)));
        }
    }
    Some(fields)
}
