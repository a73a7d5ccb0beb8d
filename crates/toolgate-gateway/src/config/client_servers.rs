//! The servers of a client's file as settings of the gateway: an entry that is not valid does not stop the others.

use std::{collections::BTreeMap, path::Path};

use super::{ServerConfig, Text};
use crate::client_files::{ClientFile, ClientFileError, resolve};

/// What the file of a client says.
#[derive(Clone, Debug, Default)]
pub(super) struct ClientServers {
    /// The servers that are not switched off.
    pub(super) servers: BTreeMap<String, ServerConfig>,
    /// The lines of the servers that are switched off, by name.
    pub(super) switched_off: BTreeMap<String, usize>,
    /// What is wrong with single entries, and what toolgate does differently from the client.
    pub(super) notes: Vec<String>,
    /// The environment variables that texts of the file name, with one entry for each occurrence.
    pub(super) variables: Vec<String>,
}

/// Whether a file is that of a client. A toolgate.toml is not; the config of Codex is TOML, too.
pub(super) fn is_client_file(path: &Path, text: &str) -> bool {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json" | "jsonc" | "json5" | "yaml" | "yml") => true,
        _ if !text.contains("mcp_servers") => false,
        _ => toml::from_str::<toml::Table>(text).is_ok_and(|file| file.contains_key("mcp_servers")),
    }
}

/// Reads the servers of a client's file. A file in which no entry can be used is an error that tells all reasons.
pub(super) fn read(path: &Path, text: String) -> Result<ClientServers, String> {
    let file = ClientFile::parse(path, text).map_err(|error| match error {
        ClientFileError::Invalid { problems, .. } => {
            let shown: Vec<String> = problems.iter().map(ToString::to_string).collect();
            shown.join("\n\n")
        }
        ClientFileError::NoServers { problem, .. } => problem.to_string(),
        other @ ClientFileError::Unreadable { .. } => other.to_string(),
    })?;
    let folder = std::env::current_dir().unwrap_or_default();
    let mut read = ClientServers::default();
    let mut all_problems = Vec::new();
    let name_of_file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    for entry in file.servers_in(&folder) {
        let name = entry.name.clone();
        if entry.is_off {
            read.switched_off.insert(name, entry.line);
            continue;
        }
        let server = match resolve(&file, entry, &folder) {
            Ok(resolved) => {
                let hints = entry.hints.iter();
                read.notes.extend(hints.map(|hint| format!("the server `{name}`: {hint}")));
                ServerConfig::from_client(resolved)
            }
            Err(problems) => {
                let shown = problems
                    .iter()
                    .map(|problem| format!("the server `{name}` cannot be started: {problem}"));
                all_problems.extend(shown);
                let lines: Vec<String> =
                    problems.iter().map(|problem| problem.one_line(&name_of_file)).collect();
                ServerConfig::unusable(lines.join("; "))
            }
        };
        read.variables.extend(server.texts().flat_map(Text::variables).cloned());
        read.servers.insert(name, server);
    }
    let is_unusable = |server: &ServerConfig| server.why_unusable().is_some();
    if !all_problems.is_empty() && read.servers.values().all(is_unusable) {
        return Err(all_problems.join("\n\n"));
    }
    read.notes.splice(0..0, all_problems);
    Ok(read)
}
