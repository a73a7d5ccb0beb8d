//! The transport matrix: one client interface for every transport, in front of one server that records what reaches it
//! (`examples/spy.rs`). `toolgate tmux` is its own server.

mod client;

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use serde_json::{Value, json};

pub use self::client::Client;
use super::{
    Session, TEST_TIMEOUT,
    clients::{Legacy, Modern, old_sse::OldSse},
    example,
    gateway::{Gateway, Place},
    tmux::Tmux,
    toolgate,
};
use client::Kind;

/// How the client reaches the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Via {
    /// `toolgate wrap --config FILE --server main`, legacy client.
    Wrap,
    /// The same with a client of 2026-07-28.
    WrapModern,
    /// `toolgate stdio --config FILE`, legacy client.
    Stdio,
    /// The same with a client of 2026-07-28.
    StdioModern,
    /// `toolgate stdio --to URL`, legacy client.
    Bridge,
    /// The same with a client of 2026-07-28.
    BridgeModern,
    /// `toolgate serve`, streamable HTTP with a session of 2025-11-25.
    Legacy,
    /// `toolgate serve`, 2026-07-28.
    Modern,
    /// `toolgate serve`, HTTP+SSE of 2024-11-05.
    Sse,
    /// `toolgate tmux --config FILE`, legacy client. There is no spy behind it.
    Tmux,
    /// The same with a client of 2026-07-28.
    TmuxModern,
}

/// Every way to the gateway with a server behind it.
pub const ALL: [Via; 9] = [
    Via::Wrap,
    Via::WrapModern,
    Via::Stdio,
    Via::StdioModern,
    Via::Bridge,
    Via::BridgeModern,
    Via::Legacy,
    Via::Modern,
    Via::Sse,
];

/// Every transport, also those of `toolgate tmux`, which is its own server: for scenarios that use [`Client::safe`] and
/// [`Client::wipe`] instead of the spy's names and log.
pub const EVERYWHERE: [Via; 11] = [
    Via::Wrap,
    Via::WrapModern,
    Via::Stdio,
    Via::StdioModern,
    Via::Bridge,
    Via::BridgeModern,
    Via::Legacy,
    Via::Modern,
    Via::Sse,
    Via::Tmux,
    Via::TmuxModern,
];

impl Via {
    /// Whether the client speaks 2026-07-28.
    pub fn is_modern(self) -> bool {
        matches!(
            self,
            Self::WrapModern
                | Self::StdioModern
                | Self::BridgeModern
                | Self::Modern
                | Self::TmuxModern
        )
    }

    /// Whether the client speaks over pipes, where a message is a line.
    pub fn is_pipe(self) -> bool {
        !matches!(self, Self::Legacy | Self::Modern | Self::Sse)
    }

    /// Whether `toolgate tmux` answers, and no server behind a gateway.
    pub fn is_tmux(self) -> bool {
        matches!(self, Self::Tmux | Self::TmuxModern)
    }
}

/// Answers a request of the server: the request, and the result for it.
type Answering = Arc<dyn Fn(&Value) -> Value + Send + Sync>;

/// What a test needs: the config around the server `main`, and what the client can do.
#[derive(Clone)]
pub struct Setup {
    config: String,
    audited: bool,
    spy: Vec<String>,
    server: String,
    capabilities: Value,
    answering: Option<Answering>,
    environment: Vec<(String, String)>,
    version: String,
}

impl Setup {
    /// Config without `[servers.main]`, which is the spy. The audit goes to `audit.jsonl`. For `toolgate tmux`, `main/safe` and
    /// `main/wipe` in it become the tools that [`Client::safe`] and [`Client::wipe`] name.
    pub fn new(config: &str) -> Self {
        Self {
            config: config.to_owned(),
            audited: true,
            spy: Vec::new(),
            server: String::new(),
            capabilities: json!({}),
            answering: None,
            environment: Vec::new(),
            version: "2025-11-25".to_owned(),
        }
    }

    /// The config says itself where the audit goes.
    pub fn own_audit(mut self) -> Self {
        self.audited = false;
        self
    }

    /// Options of the spy.
    pub fn spy(mut self, options: &[&str]) -> Self {
        self.spy.extend(options.iter().map(ToString::to_string));
        self
    }

    /// More keys of `[servers.main]`.
    pub fn server(mut self, keys: &str) -> Self {
        self.server.push_str(keys);
        self
    }

    /// What the client can do, and how it answers when it is asked.
    pub fn able(
        mut self,
        capabilities: Value,
        answering: impl Fn(&Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        self.capabilities = capabilities;
        self.answering = Some(Arc::new(answering));
        self
    }

    /// The version that a legacy client of streamable HTTP or over pipes speaks.
    pub fn version(mut self, version: &str) -> Self {
        version.clone_into(&mut self.version);
        self
    }

    /// A variable of toolgate's own environment.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The text of the config with the spy, which logs to `spy.log` in this folder.
    fn text(&self, via: Via, folder: &Path) -> String {
        let audit = if self.audited { "audit = { file = \"audit.jsonl\" }\n" } else { "" };
        if via.is_tmux() {
            let safe = format!("tmux/{}", client::TMUX_SAFE);
            let wipe = format!("tmux/{}", client::TMUX_WIPE);
            let config = self.config.replace("main/safe", &safe).replace("main/wipe", &wipe);
            return format!("{audit}{config}");
        }
        let log = folder.join("spy.log").display().to_string();
        let mut arguments = vec!["--log".to_owned(), log];
        arguments.extend(self.spy.iter().cloned());
        let program = example("spy").display().to_string();
        let server = &self.server;
        format!(
            "{audit}{}\n[servers.main]\ncommand = {program:?}\nargs = {arguments:?}\n{server}\n",
            self.config
        )
    }

    /// Runs a scenario through every transport with a server behind it.
    pub fn each(&self, scenario: impl Fn(&mut Client)) {
        self.through(&ALL, scenario);
    }

    /// Runs a scenario through some transports; a test that leaves one out says why.
    pub fn through(&self, ways: &[Via], scenario: impl Fn(&mut Client)) {
        for via in ways {
            // Shown when the scenario fails.
            eprintln!("via {via:?}");
            scenario(&mut self.client(*via));
        }
    }

    /// A connected client.
    pub fn client(&self, via: Via) -> Client {
        let place = Place::new("");
        place.write("toolgate.toml", &self.text(via, &place.path("")));
        self.client_in(place, via)
    }

    /// The same in a folder that has a config already.
    fn client_in(&self, place: Place, via: Via) -> Client {
        let folder = place.path("");
        let serves =
            matches!(via, Via::Bridge | Via::BridgeModern | Via::Legacy | Via::Modern | Via::Sse);
        let terminal = via.is_tmux().then(Tmux::start);
        let (kind, gateway, place) = if serves {
            let mut command = place.command();
            command.envs(self.environment.iter().map(|(name, value)| (name, value)));
            let gateway = place.start_as(command);
            (self.connect(via, &folder, &gateway), Some(gateway), None)
        } else {
            let command = pipe_command(via, &folder, terminal.as_ref());
            (Kind::Pipe(Box::new(self.pipe(via, &folder, command))), None, Some(place))
        };
        Client {
            via,
            patience: TEST_TIMEOUT,
            kind,
            streams: Vec::new(),
            kept: Vec::new(),
            gateway,
            place,
            folder,
            terminal,
            setup: self.clone(),
            fences: 0,
        }
    }

    /// Kills toolgate without warning, starts it again in the same folder and connects anew.
    pub fn killed_and_restarted(&self, client: Client) -> Client {
        let via = client.via;
        drop(client.kind);
        let place = match client.gateway {
            Some(mut gateway) => {
                gateway.kill();
                gateway.into_place()
            }
            None => client.place.expect("a folder"),
        };
        self.client_in(place, via)
    }

    fn connect(&self, via: Via, folder: &Path, gateway: &Gateway) -> Kind {
        let address = gateway.address;
        match via {
            Via::Legacy => {
                let mut client = Legacy::new(address, "/mcp").of_version(&self.version);
                if let Some(answering) = self.answering.clone() {
                    client = client.able(self.capabilities.clone(), move |asked| answering(asked));
                }
                Kind::Legacy(Box::new(client.connected()))
            }
            Via::Modern => {
                Kind::Modern(Box::new(Modern::new(address, "/mcp").able(self.capabilities.clone())))
            }
            Via::Sse => {
                Kind::Sse(Box::new(OldSse::connect_able(address, "/sse", &self.capabilities)))
            }
            _ => {
                let mut command = Command::new(toolgate());
                command.args(["stdio", "--to", &format!("http://{address}/mcp")]);
                Kind::Pipe(Box::new(self.pipe(via, folder, command)))
            }
        }
    }

    /// A toolgate that speaks over its pipes, after the handshake of its era.
    fn pipe(&self, via: Via, folder: &Path, mut command: Command) -> Session {
        command.current_dir(folder).env("TOOLGATE_LOG", "info").env_remove("TOOLGATE_CONFIG");
        command.env("XDG_STATE_HOME", folder.join("state"));
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let mut session = Session::spawn(command, tempfile::tempdir().unwrap());
        session.audit = folder.join("audit.jsonl");
        if !via.is_modern() {
            let params = json!({"protocolVersion": self.version, "capabilities": self.capabilities,
                "clientInfo": {"name": "harness", "version": "7"}});
            session.request("initialize", params);
            session.notify("notifications/initialized", json!({}));
        }
        session
    }
}

/// The command that reads the config in this folder and speaks over its pipes.
fn pipe_command(via: Via, folder: &Path, terminal: Option<&Tmux>) -> Command {
    let mut command = Command::new(toolgate());
    let config: PathBuf = folder.join("toolgate.toml");
    match (via, terminal) {
        (_, Some(tmux)) => {
            command.arg("tmux").env_remove("TMUX").env_remove("TMUX_PANE");
            command.env("LIBTMUX_SOCKET", &tmux.name)
        }
        (Via::Wrap | Via::WrapModern, None) => command.args(["wrap", "--server", "main"]),
        _ => command.arg("stdio"),
    };
    command.arg("--config").arg(config);
    command
}

/// `toolgate tmux` in front of a private tmux server with one session.
pub fn tmux(options: &[&str]) -> (Tmux, Session) {
    let tmux = Tmux::start();
    let session = tmux.serve(options);
    (tmux, session)
}

/// Whether a response refuses: a protocol error, an error result, or an HTTP status of the 400s without a message.
pub fn refused(answer: &Value) -> bool {
    answer.get("error").is_some()
        || answer["result"]["isError"] == true
        || answer["status"].as_u64().is_some_and(|status| status >= 400)
}
