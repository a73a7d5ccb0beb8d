//! One client interface for every transport, in front of one server that records what reaches it (`examples/spy.rs`).

#![expect(
    dead_code,
    unreachable_pub,
    reason = "each area of incidents uses its own part of the interface"
)]

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use serde_json::{Value, json};

use super::harness::{
    Session,
    clients::{Legacy, MODERN, Modern, VERSION_KEY, old_sse::OldSse},
    example,
    gateway::{Gateway, Place, until_or},
    outcomes,
    tmux::Tmux,
    toolgate,
};

/// How the client reaches the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// `toolgate serve`, streamable HTTP with a session of 2025-11-25.
    Legacy,
    /// `toolgate serve`, 2026-07-28.
    Modern,
    /// `toolgate serve`, HTTP+SSE of 2024-11-05.
    Sse,
}

/// Every way to the gateway. `toolgate tmux` has no server behind it; see [`tmux`].
pub const ALL: [Via; 8] = [
    Via::Wrap,
    Via::WrapModern,
    Via::Stdio,
    Via::StdioModern,
    Via::Bridge,
    Via::Legacy,
    Via::Modern,
    Via::Sse,
];

impl Via {
    /// Whether the client speaks 2026-07-28.
    pub fn is_modern(self) -> bool {
        matches!(self, Self::WrapModern | Self::StdioModern | Self::Modern)
    }

    /// Whether the client speaks over pipes, where a message is a line.
    pub fn is_pipe(self) -> bool {
        !matches!(self, Self::Legacy | Self::Modern | Self::Sse)
    }
}

/// Answers a request of the server: the request, and the result for it.
type Answering = Arc<dyn Fn(&Value) -> Value + Send + Sync>;

/// What a test needs: the config around the server `main`, and what the client can do.
#[derive(Clone)]
pub struct Setup {
    config: String,
    spy: Vec<String>,
    server: String,
    capabilities: Value,
    answering: Option<Answering>,
    environment: Vec<(String, String)>,
    version: String,
}

impl Setup {
    /// Config without `[servers.main]`, which is the spy. The audit goes to `audit.jsonl`.
    pub fn new(config: &str) -> Self {
        Self {
            config: config.to_owned(),
            spy: Vec::new(),
            server: String::new(),
            capabilities: json!({}),
            answering: None,
            environment: Vec::new(),
            version: "2025-11-25".to_owned(),
        }
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
    fn text(&self, folder: &Path) -> String {
        let log = folder.join("spy.log").display().to_string();
        let mut arguments = vec!["--log".to_owned(), log];
        arguments.extend(self.spy.iter().cloned());
        let program = example("spy").display().to_string();
        let server = &self.server;
        format!(
            "{}\n[servers.main]\ncommand = {program:?}\nargs = {arguments:?}\n{server}\n",
            self.config
        )
    }

    /// Runs a scenario through every transport.
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
        place.configure(&self.text(place.path("").as_path()));
        self.client_in(place, via)
    }

    /// The same in a folder that has a config already.
    fn client_in(&self, place: Place, via: Via) -> Client {
        let folder = place.path("");
        let serves = matches!(via, Via::Bridge | Via::Legacy | Via::Modern | Via::Sse);
        let (kind, gateway, place) = if serves {
            let mut command = place.command();
            command.envs(self.environment.iter().map(|(name, value)| (name, value)));
            let gateway = place.start_as(command);
            (self.connect(via, &folder, &gateway), Some(gateway), None)
        } else {
            (Kind::Pipe(Box::new(self.pipe(via, &folder, None))), None, Some(place))
        };
        Client {
            via,
            kind,
            gateway,
            place,
            folder,
            capabilities: self.capabilities.clone(),
            answering: self.answering.clone(),
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
            Via::Sse => Kind::Sse(Box::new(OldSse::connect(address, "/sse"))),
            _ => {
                let url = format!("http://{address}/mcp");
                Kind::Pipe(Box::new(self.pipe(via, folder, Some(&url))))
            }
        }
    }

    /// A toolgate that speaks over its pipes, after the handshake of its era.
    fn pipe(&self, via: Via, folder: &Path, url: Option<&str>) -> Session {
        let mut command = Command::new(toolgate());
        let config = folder.join("toolgate.toml");
        match (via, url) {
            (_, Some(url)) => command.args(["stdio", "--to", url]),
            (Via::Wrap | Via::WrapModern, None) => {
                command.args(["wrap", "--server", "main", "--config"]).arg(config)
            }
            _ => command.args(["stdio", "--config"]).arg(config),
        };
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

enum Kind {
    Pipe(Box<Session>),
    Legacy(Box<Legacy>),
    Modern(Box<Modern>),
    Sse(Box<OldSse>),
}

/// A client that is connected through one of the transports.
pub struct Client {
    pub via: Via,
    kind: Kind,
    /// The running `toolgate serve`, where the transport has one.
    pub gateway: Option<Gateway>,
    /// The folder, where no gateway holds it.
    place: Option<Place>,
    folder: PathBuf,
    capabilities: Value,
    answering: Option<Answering>,
    fences: u32,
}

impl Client {
    /// Sends a request, answers what the client is asked meanwhile, and returns the response.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let params = if self.via.is_modern() { self.with_meta(params) } else { params };
        let answering = self.answering.clone();
        match &mut self.kind {
            Kind::Pipe(session) => {
                let id = session.post(method, params);
                pipe_answer(session, id, answering.as_ref())
            }
            Kind::Legacy(client) => {
                let (status, answer) = client.try_request(method, params);
                answer.map_or_else(|| json!({"status": status}), |answer| (*answer).clone())
            }
            Kind::Modern(client) => {
                let (status, answer) = client.raw(&client.body(method, params).1, &[]);
                answer.map_or_else(|| json!({"status": status}), |answer| (*answer).clone())
            }
            Kind::Sse(client) => (*client.request(method, params)).clone(),
        }
    }

    fn with_meta(&self, mut params: Value) -> Value {
        let given = params["_meta"].take();
        let mut meta = json!({VERSION_KEY: MODERN,
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            "io.modelcontextprotocol/clientInfo": {"name": "harness", "version": "9"}});
        meta.as_object_mut().unwrap().extend(given.as_object().cloned().unwrap_or_default());
        params["_meta"] = meta;
        params
    }

    /// Calls a tool. A client of 2026-07-28 answers input-required results, round by round.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.call_with(tool, arguments, json!({}))
    }

    /// The same with members of `_meta`.
    pub fn call_with(&mut self, tool: &str, arguments: Value, meta: Value) -> Value {
        let mut params = json!({"name": tool, "arguments": arguments});
        if meta.as_object().is_some_and(|meta| !meta.is_empty()) {
            params["_meta"] = meta;
        }
        for _ in 0..10 {
            let answer = self.request("tools/call", params.clone());
            let result = &answer["result"];
            let Some(answering) = self.answering.clone() else { return answer };
            if result["resultType"] != "input_required" {
                return answer;
            }
            let asked = result["inputRequests"].as_object().cloned().unwrap_or_default();
            let answers: serde_json::Map<String, Value> =
                asked.iter().map(|(key, request)| (key.clone(), answering(request))).collect();
            params["inputResponses"] = Value::Object(answers);
            match result.get("requestState") {
                Some(state) => params["requestState"] = state.clone(),
                None => drop(params.as_object_mut().unwrap().remove("requestState")),
            }
        }
        panic!("{tool} asks without end");
    }

    /// The names of the listed tools, all pages.
    pub fn tools(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        let mut params = json!({});
        loop {
            let page = self.request("tools/list", params);
            let tools = page["result"]["tools"].as_array();
            let tools = tools.unwrap_or_else(|| panic!("no tools in {page}"));
            names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
            match page["result"].get("nextCursor") {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => return names,
            }
        }
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        let notification = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.raw(&notification.to_string());
    }

    /// Sends any text: as a body, or as what a pipe carries, with a newline behind it. Returns what HTTP responded:
    /// the status, and the message in the body.
    pub fn raw(&mut self, text: &str) -> Option<(u16, Value)> {
        match &mut self.kind {
            Kind::Pipe(session) => {
                session.send_line(text);
                None
            }
            Kind::Legacy(client) => {
                let (status, answer) = client.raw(text);
                Some((status, answer.map_or(Value::Null, |answer| (*answer).clone())))
            }
            Kind::Modern(client) => {
                let (status, answer) = client.raw(text, &[]);
                Some((status, answer.map_or(Value::Null, |answer| (*answer).clone())))
            }
            Kind::Sse(client) => Some((client.post(text), Value::Null)),
        }
    }

    /// Waits for a message that is no response to a request of this interface: over pipes and the stream of HTTP+SSE.
    /// Streamable HTTP has responses only, so there it panics; use [`Self::legacy`] or [`Self::modern`].
    pub fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        match &mut self.kind {
            Kind::Pipe(session) => session.wait_for(wanted),
            Kind::Sse(client) => (*client.stream.wait_for(|message| wanted(message))).clone(),
            Kind::Legacy(_) | Kind::Modern(_) => panic!("streamable HTTP has no common stream"),
        }
    }

    /// Whatever came from the gateway so far that was no response to a request of this interface.
    pub fn seen(&mut self) -> Vec<Value> {
        match &mut self.kind {
            Kind::Pipe(session) => session.seen.clone(),
            Kind::Legacy(client) => client.seen().iter().map(|seen| (**seen).clone()).collect(),
            Kind::Modern(client) => client.seen().iter().map(|seen| (**seen).clone()).collect(),
            Kind::Sse(client) => {
                client.stream.so_far().iter().map(|seen| (**seen).clone()).collect()
            }
        }
    }

    /// The session over pipes.
    pub fn pipe(&mut self) -> &mut Session {
        match &mut self.kind {
            Kind::Pipe(session) => session,
            _ => panic!("{:?} has no pipes", self.via),
        }
    }

    /// The client of streamable HTTP with a session.
    pub fn legacy(&mut self) -> &mut Legacy {
        match &mut self.kind {
            Kind::Legacy(client) => client,
            _ => panic!("{:?} is not streamable HTTP with a session", self.via),
        }
    }

    /// The client of 2026-07-28 over HTTP.
    pub fn modern(&mut self) -> &mut Modern {
        match &mut self.kind {
            Kind::Modern(client) => client,
            _ => panic!("{:?} is not 2026-07-28 over HTTP", self.via),
        }
    }

    /// The folder with the config, the audit and the spy's log.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Calls `safe` with a mark of its own and waits for the result: whatever the client sent before has reached the server, if it
    /// reaches it at all.
    pub fn fence(&mut self) {
        self.fences += 1;
        let mark = format!("fence {}", self.fences);
        let answer = self.call("safe", json!({"mark": mark}));
        assert!(answer.to_string().contains(&mark), "the fence did not run: {answer}");
    }

    /// The tools that the server ran, each with its arguments, without the fences.
    pub fn ran(&mut self) -> Vec<String> {
        self.fence();
        let ran = self.log("ran ").into_iter().filter(|ran| !ran.contains("\"fence "));
        ran.collect()
    }

    /// Every line that reached the server.
    pub fn lines(&mut self) -> Vec<String> {
        self.fence();
        self.log("line ")
    }

    fn log(&self, kind: &str) -> Vec<String> {
        let log = std::fs::read_to_string(self.path("spy.log")).unwrap_or_default();
        log.lines().filter_map(|line| line.strip_prefix(kind)).map(str::to_owned).collect()
    }

    /// The audit's records of how calls ended, so far.
    pub fn audit(&self) -> Vec<Value> {
        outcomes(&self.audit_text())
    }

    /// Waits for a record of how a call ended: the audit's thread writes it after the response.
    pub fn recorded(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut found = None;
        until_or(
            || {
                found = self.audit().into_iter().find(&wanted);
                found.is_some()
            },
            || format!("the audit has the record; there is {}", self.audit_text()),
        );
        found.unwrap()
    }

    /// The audit as text, so far.
    pub fn audit_text(&self) -> String {
        std::fs::read_to_string(self.path("audit.jsonl")).unwrap_or_default()
    }

    /// What toolgate wrote to stderr so far: of the gateway, and over pipes what has not been read yet.
    pub fn stderr(&mut self) -> Vec<String> {
        let mut lines = self.gateway.as_ref().map(Gateway::stderr).unwrap_or_default();
        if let Kind::Pipe(session) = &self.kind {
            lines.extend(session.stderr_so_far());
        }
        lines
    }
}

/// Waits for a response over a pipe, and answers the requests that arrive before it.
fn pipe_answer(session: &mut Session, id: i64, answering: Option<&Answering>) -> Value {
    loop {
        let message = session.wait_for(|message| {
            let answer = message.get("method").is_none() && message["id"] == json!(id);
            let asked = message.get("method").is_some() && message.get("id").is_some();
            answer || (asked && answering.is_some())
        });
        match answering {
            Some(answering) if message.get("method").is_some() => {
                let response =
                    json!({"jsonrpc": "2.0", "id": message["id"], "result": answering(&message)});
                session.send_line(&response.to_string());
            }
            _ => return message,
        }
    }
}

/// Whether a response refuses: a protocol error, an error result, or an HTTP status of the 400s without a message.
pub fn refused(answer: &Value) -> bool {
    answer.get("error").is_some()
        || answer["result"]["isError"] == true
        || answer["status"].as_u64().is_some_and(|status| status >= 400)
}

/// `toolgate tmux` in front of a private tmux server with one session.
pub fn tmux(options: &[&str]) -> (Tmux, Session) {
    let tmux = Tmux::start();
    let session = tmux.serve(options);
    (tmux, session)
}

#[test]
fn every_transport_reaches_the_server() {
    Setup::new("").each(|client| {
        assert_eq!(client.tools(), ["safe", "wipe", "emit", "ask", "env"]);
        let answer = client.call("wipe", json!({"n": 1}));
        assert!(answer.to_string().contains("wipe ran with"), "{answer}");
        assert_eq!(client.ran(), [r#"wipe {"n":1}"#]);
        client.recorded(|record| record["tool"] == "wipe");
    });
    let asking = Setup::new("").spy(&["--legacy-only"]).able(
        json!({"elicitation": {}}),
        |_| json!({"action": "accept", "content": {"colour": "red"}}),
    );
    // A client of 2024-11-05 cannot be asked; wrap does not translate between protocol versions.
    let ways: Vec<Via> =
        ALL.into_iter().filter(|via| !matches!(via, Via::Sse | Via::WrapModern)).collect();
    asking.through(&ways, |client| {
        let answer = client.call("ask", json!({}));
        assert!(answer.to_string().contains("red"), "{answer}");
    });
}

#[test]
fn the_terminal_answers() {
    let (_tmux, mut session) = tmux(&[]);
    let answer = session.call("list_sessions", json!({}));
    assert!(answer.to_string().contains("one"), "{answer}");
}
