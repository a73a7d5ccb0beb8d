//! `[servers.NAME]`: what may be started or reached. No API can add to it.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use serde::Deserialize;

use super::Text;
use crate::outbound::child::{Environment, ServerCommand};

/// One server: a command to start, or an address to reach.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// The program to start.
    pub command: Option<Text>,
    /// Its arguments.
    pub args: Vec<Text>,
    /// Variables set in its environment, over ours.
    pub env: BTreeMap<String, Text>,
    /// Of our own variables it gets only these, besides `PATH`, `HOME` and the like; all if not set.
    pub only_env: Option<Vec<String>>,
    /// The folder that it is started in.
    pub cwd: Option<PathBuf>,
    /// The address of a server that is reached over HTTP.
    pub url: Option<Text>,
    /// Headers sent to that address.
    pub headers: BTreeMap<String, Text>,
}

impl ServerConfig {
    /// What is wrong with it, if something is.
    pub(super) fn fault(&self) -> Option<&'static str> {
        match (&self.command, &self.url) {
            (Some(_), Some(_)) => Some("has a command and an url: write one of them"),
            (None, None) => Some("has neither a command nor an url: write one of them"),
            (None, Some(_)) if !self.args.is_empty() || !self.env.is_empty() => {
                Some("has an url, so `args` and `env` mean nothing: remove them")
            }
            (Some(_), None) if !self.headers.is_empty() => {
                Some("has a command, so `headers` mean nothing: remove them")
            }
            _ => None,
        }
    }

    /// The command to start; `None` for a server that is reached by its address.
    #[must_use]
    pub fn to_command(&self) -> Option<ServerCommand> {
        let program = self.command.as_ref()?;
        let words = std::iter::once(program).chain(&self.args);
        Some(ServerCommand {
            command: words.map(|word| OsString::from(word.as_str())).collect(),
            environment: match &self.only_env {
                Some(names) => Environment::Only(names.iter().map(OsString::from).collect()),
                None => Environment::All,
            },
            set: self.env.iter().map(|(k, v)| (k.into(), v.as_str().into())).collect(),
            folder: self.cwd.clone(),
        })
    }
}

/// One entry of `mcpServers` in the file of an existing client. Keys that other clients need are
/// left alone.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ClientEntry {
    command: Option<Text>,
    args: Vec<Text>,
    env: BTreeMap<String, Text>,
    cwd: Option<PathBuf>,
    url: Option<Text>,
    headers: BTreeMap<String, Text>,
    disabled: bool,
}

/// The file of an existing client.
#[derive(Debug, Deserialize)]
struct ClientFile {
    #[serde(rename = "mcpServers")]
    servers: BTreeMap<String, ClientEntry>,
}

/// Reads `mcp.json`: the servers that are not switched off there.
pub(super) fn from_client_file(text: &str) -> serde_json::Result<BTreeMap<String, ServerConfig>> {
    let file: ClientFile = serde_json::from_str(text)?;
    let enabled = file.servers.into_iter().filter(|(_, entry)| !entry.disabled);
    let server = |entry: ClientEntry| ServerConfig {
        command: entry.command,
        args: entry.args,
        env: entry.env,
        only_env: None,
        cwd: entry.cwd,
        url: entry.url,
        headers: entry.headers,
    };
    Ok(enabled.map(|(name, entry)| (name, server(entry))).collect())
}
