//! `[servers.NAME]`: the servers that the gateway may start or connect to. No API can add a server.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

use hyper::header::HeaderName;
use serde::{Deserialize, Serialize};
use toolgate::settings::Switch;

use super::Text;
use crate::{
    client_files::{ResolvedServer, ResolvedText},
    process::child::{Environment, ServerCommand},
};

/// One server: a command (`command`), a URL (`url`) or a built-in server (`builtin`).
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// The program to start.
    pub command: Option<Text>,
    /// The arguments of the command.
    pub args: Vec<Text>,
    /// Environment variables of the command. It also gets `HOME`, `LOGNAME`, `PATH`, `SHELL`, `TERM` and `USER` of
    /// toolgate, as with the official SDKs.
    pub env: BTreeMap<String, Text>,
    /// Further variables of toolgate's environment that the command gets, by name. `LANG`, `LC_ALL`, `TMPDIR` and `TZ`
    /// are then passed too.
    pub only_env: Option<Vec<String>>,
    /// Whether the command gets toolgate's whole environment. Left out are `TOOLGATE_OTLP`, `TOOLGATE_STORE`, and the
    /// variables that other parts of this file read.
    pub inherit_env: bool,
    /// The folder in which the command starts; default: that of toolgate.
    pub cwd: Option<PathBuf>,
    /// The URL of a server with streamable HTTP or HTTP+SSE.
    pub url: Option<Text>,
    /// HTTP headers of all requests to `url`.
    pub headers: BTreeMap<String, Text>,
    /// A built-in server: `tmux`, configured in `[tmux]`. For `toolgate serve` and `toolgate stdio`.
    pub builtin: Option<Builtin>,
    /// When the gateway starts the command or connects to `url`.
    pub start: Start,
    /// Whether all clients share one process or connection, or each session has its own. Clients of 2026-07-28 are
    /// identified by principal, name and version.
    pub sharing: Sharing,
    /// The limit of processes with `sharing = "session"`, over all sessions. One principal may use a share of it
    /// (`serve.per_principal`).
    pub processes: usize,
    /// The time without use after which the command is stopped until a client needs it again.
    pub idle_stop: Switch<Duration>,
    /// How long the server may take to answer `initialize` or `server/discover`.
    #[serde(with = "toolgate::duration")]
    #[schemars(with = "String")]
    pub start_timeout: Duration,
    /// The protocol versions that the gateway uses with the server.
    pub protocol: Protocol,
    /// The transport of `url`.
    pub transport: HttpTransport,
    /// The prefix of its tools and prompts, where names have one; default: the name of the server.
    pub prefix: Option<String>,
    /// Variables that the file also reads outside of this entry. The command does not inherit them.
    #[serde(skip)]
    hidden: Vec<String>,
    /// Why the server cannot be started.
    #[serde(skip)]
    unusable: Option<String>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            command: None,
            args: Vec::new(),
            env: BTreeMap::new(),
            only_env: None,
            inherit_env: false,
            cwd: None,
            url: None,
            headers: BTreeMap::new(),
            builtin: None,
            start: Start::default(),
            sharing: Sharing::default(),
            processes: 256,
            idle_stop: Switch::Off,
            start_timeout: Duration::from_mins(1),
            protocol: Protocol::default(),
            transport: HttpTransport::default(),
            prefix: None,
            hidden: Vec::new(),
            unusable: None,
        }
    }
}

/// Whether a command is no file itself, and its first word is a program.
fn has_arguments(command: &str) -> bool {
    let Some((program, _)) = command.split_once(' ') else { return false };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_program = program.contains('/') && Path::new(program).is_file()
        || std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    is_program && !Path::new(command).exists()
}

/// `builtin = "tmux"`
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Builtin {
    /// The terminal of `toolgate tmux`.
    Tmux,
}

/// `start = "at-once" | "on-demand"`
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// With the gateway, and again whenever the server ends.
    #[default]
    AtOnce,
    /// When a client first needs it. Until then clients see the lists of the last time.
    OnDemand,
}

/// `sharing = "shared" | "session"`
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    /// One for all clients.
    #[default]
    Shared,
    /// One per session: for servers with state of their client, and for servers that ask the client during calls.
    Session,
}

/// What is spoken to a server.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// 2026-07-28 if the server supports it, else the newest legacy version.
    #[default]
    Auto,
    /// 2025-11-25 and earlier.
    Legacy,
    /// 2026-07-28.
    Modern,
}

/// `transport = "auto" | "http" | "sse"`
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum HttpTransport {
    /// Streamable HTTP; if the server does not support it, HTTP+SSE.
    #[default]
    Auto,
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE of 2024-11-05.
    Sse,
}

impl ServerConfig {
    /// The first invalid setting of the entry, as the end of a sentence that begins with the server's name.
    pub(super) fn fault(&self) -> Option<&'static str> {
        if self.builtin.is_some() && (self.command.is_some() || self.url.is_some()) {
            return Some("is built in, so it has neither a command nor an url: remove them");
        }
        if self.inherit_env && self.only_env.is_some() {
            return Some("has `inherit_env` and `only_env`: write one of them");
        }
        if self.processes == 0 {
            return Some("may have no process: write `processes = 1` at least");
        }
        if let Some(command) = &self.command {
            if command.as_str().is_empty() {
                return Some("has an empty command: write the program to start");
            }
            if has_arguments(command.as_str()) {
                return Some("has arguments in its `command`: put them into `args`, one item each");
            }
        }
        let is_header = |name: &String| HeaderName::from_bytes(name.as_bytes()).is_ok();
        if !self.headers.keys().all(is_header) {
            return Some("has a header whose name is invalid: write letters, digits and `-`");
        }
        match (&self.command, &self.url) {
            (None, None) if self.builtin.is_some() => None,
            (Some(_), Some(_)) => Some("has a command and an url: write one of them"),
            (None, None) => Some("has neither a command nor an url: write one of them"),
            (None, Some(url))
                if !["http://", "https://"]
                    .iter()
                    .any(|scheme| url.as_str().starts_with(scheme)) =>
            {
                Some("has an url without a scheme: write `http://` or `https://` before it")
            }
            (None, Some(_)) if !self.args.is_empty() || !self.env.is_empty() => {
                Some("has an url, so `args` and `env` mean nothing: remove them")
            }
            (Some(_), None) if !self.headers.is_empty() => {
                Some("has a command, so `headers` mean nothing: remove them")
            }
            _ => None,
        }
    }

    /// Notes the variables that the file also reads outside of this entry: those that occur more often in the file than
    /// in the entry. `named` are the variables of the whole file, with one item for each occurrence.
    pub(super) fn hide(&mut self, named: &[String]) {
        let own: Vec<&String> = self.texts().flat_map(Text::variables).collect();
        let count = |name: &String| named.iter().filter(|other| *other == name).count();
        let own_count = |name: &String| own.iter().filter(|other| **other == name).count();
        let mut hidden: Vec<String> = named.to_vec();
        hidden.sort_unstable();
        hidden.dedup();
        hidden.retain(|name| count(name) > own_count(name));
        self.hidden = hidden;
    }

    /// All texts in which variables were replaced.
    pub(super) fn texts(&self) -> impl Iterator<Item = &Text> {
        let texts = self.command.iter().chain(&self.args).chain(&self.url);
        texts.chain(self.env.values()).chain(self.headers.values())
    }

    fn environment(&self) -> Environment {
        let names = |names: &[String]| names.iter().map(OsString::from).collect();
        match (&self.only_env, self.builtin) {
            _ if self.inherit_env => Environment::Except(names(&self.hidden)),
            (Some(only), _) => {
                let kept = only.iter().filter(|name| !self.hidden.contains(name));
                Environment::Selected(kept.map(OsString::from).collect())
            }
            (None, Some(Builtin::Tmux)) => Environment::Terminal(names(&self.hidden)),
            (None, None) => Environment::Usual,
        }
    }

    /// A server from the words after `--` on the command line. The command inherits toolgate's environment, as with
    /// `inherit_env`.
    /// `None` if there are no words, or if a word is not UTF-8.
    #[must_use]
    pub fn from_words(words: &[OsString]) -> Option<Self> {
        let mut words = words.iter().map(|word| Some(Text::from(word.to_str()?.to_owned())));
        let command = Some(words.next()??);
        let args = words.collect::<Option<Vec<Text>>>()?;
        Some(Self { command, args, inherit_env: true, ..Self::default() })
    }

    /// A server at a URL, with HTTP headers, for one client: each session has a connection of its own, so that what the
    /// server asks reaches the client that it asks.
    #[must_use]
    pub fn at_url(url: String, headers: BTreeMap<String, String>) -> Self {
        let headers = headers.into_iter().map(|(name, value)| (name, Text::from(value)));
        Self {
            url: Some(url.into()),
            headers: headers.collect(),
            sharing: Sharing::Session,
            ..Self::default()
        }
    }

    /// The command to start; `None` for a server with a `url`.
    #[must_use]
    pub fn to_command(&self) -> Option<ServerCommand> {
        let program = self.command.as_ref()?;
        let words = std::iter::once(program).chain(&self.args);
        Some(ServerCommand {
            command: words.map(|word| OsString::from(word.as_str())).collect(),
            environment: self.environment(),
            set: self.env.iter().map(|(k, v)| (k.into(), v.as_str().into())).collect(),
            folder: self.cwd.clone(),
        })
    }
}

impl ServerConfig {
    /// An entry of a client's file.
    pub(super) fn from_client(resolved: ResolvedServer) -> Self {
        let table = |pairs: Vec<(String, ResolvedText)>| -> BTreeMap<String, Text> {
            pairs.into_iter().map(|(name, text)| (name, Text::from(text))).collect()
        };
        let defaults = Self::default();
        // A client ignores the keys of a command beside a URL, and the headers beside a command.
        let is_command = resolved.command.is_some();
        Self {
            command: resolved.command.map(Text::from),
            args: resolved.args.into_iter().map(Text::from).collect(),
            env: if is_command { table(resolved.env) } else { BTreeMap::new() },
            only_env: resolved.passed,
            cwd: resolved.cwd,
            url: resolved.url.map(Text::from),
            headers: if is_command { BTreeMap::new() } else { table(resolved.headers) },
            transport: if resolved.is_sse { HttpTransport::Sse } else { HttpTransport::Auto },
            start_timeout: resolved.start_timeout.unwrap_or(defaults.start_timeout),
            ..defaults
        }
    }

    /// An entry of a client's file that cannot be used, with the reason. Its server is shown as failed.
    pub(super) fn unusable(why: String) -> Self {
        Self { unusable: Some(why), ..Self::default() }
    }

    /// Why the server cannot be started: its entry in the file of a client is not valid.
    #[must_use]
    pub fn why_unusable(&self) -> Option<&str> {
        self.unusable.as_deref()
    }
}
