//! A client of the transport matrix: what a test can do, whichever way the bytes go.

use std::{
    path::PathBuf,
    process::ExitStatus,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{Setup, Via};

use crate::harness::{
    Session,
    clients::{
        CAPABILITIES_KEY, Legacy, MODERN, Modern, Pending, VERSION_KEY, input_rounds,
        old_sse::OldSse,
    },
    gateway::{Gateway, Place, descendants},
    outcomes,
    tmux::Tmux,
};

/// What a tmux server has in place of the spy's `safe`: a read-only tool that needs no arguments.
pub(super) const TMUX_SAFE: &str = "list_sessions";
/// What it has in place of `wipe`: a destructive tool.
pub(super) const TMUX_WIPE: &str = "kill_session";

pub(super) enum Kind {
    Pipe(Box<Session>),
    Legacy(Box<Legacy>),
    Modern(Box<Modern>),
    Sse(Box<OldSse>),
}

/// A client that is connected through one of the transports.
///
/// Fields are dropped in this order: the client first, then the gateway, then the tmux server.
pub struct Client {
    pub via: Via,
    /// How long it waits for what must come.
    pub patience: Duration,
    pub(super) kind: Kind,
    /// Streamable HTTP: requests without a response so far, and streams of notifications.
    pub(super) streams: Vec<Pending>,
    /// Streamable HTTP: messages of streams that have ended, and that nobody asked for so far.
    pub(super) kept: Vec<Value>,
    /// The running `toolgate serve`, where the transport has one.
    pub gateway: Option<Gateway>,
    /// The folder, where no gateway holds it.
    pub(super) place: Option<Place>,
    pub(super) folder: PathBuf,
    /// The tmux server behind `toolgate tmux`.
    pub terminal: Option<Tmux>,
    pub(super) setup: Setup,
    pub(super) fences: u32,
}

fn is_response(message: &Value, id: &Value) -> bool {
    message.get("method").is_none() && message["id"] == *id
}

fn is_request(message: &Value) -> bool {
    message.get("method").is_some() && message.get("id").is_some()
}

/// Requests and responses.
impl Client {
    /// Sends a request, answers what the client is asked meanwhile, and returns the response.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.start(method, params);
        self.response(&id)
    }

    /// Sends a request whose response is waited for later, and returns its id.
    pub fn start(&mut self, method: &str, params: Value) -> Value {
        let params = if self.via.is_modern() { self.with_meta(params) } else { params };
        let pending = match &mut self.kind {
            Kind::Pipe(session) => return json!(session.post(method, params)),
            Kind::Sse(client) => return client.start(method, params),
            Kind::Legacy(client) => client.open(method, params),
            Kind::Modern(client) => client.open(method, params),
        };
        let id = pending.id.clone();
        self.streams.push(pending);
        id
    }

    /// Sends a call whose response is waited for later, and returns its id.
    pub fn start_call(&mut self, tool: &str, arguments: Value) -> Value {
        self.start("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The response to a request; answers what the client is asked before it.
    pub fn response(&mut self, id: &Value) -> Value {
        let response = self.try_response(id);
        response.unwrap_or_else(|| panic!("no response to {id} {}", self.situation()))
    }

    /// The same, if it comes in time.
    pub fn try_response(&mut self, id: &Value) -> Option<Value> {
        let deadline = Instant::now() + self.patience;
        let answering = self.setup.answering.clone();
        loop {
            let asked = |message: &Value| answering.is_some() && is_request(message);
            let message =
                self.next(id, deadline, &|message| is_response(message, id) || asked(message))?;
            match &answering {
                Some(answering) if is_request(&message) => {
                    let result = answering(&message);
                    self.respond(&message["id"], result);
                }
                _ => return Some(message),
            }
        }
    }

    /// The first message for which `wanted` holds, or over streamable HTTP whatever responds to the request with this id.
    fn next(
        &mut self,
        id: &Value,
        deadline: Instant,
        wanted: &dyn Fn(&Value) -> bool,
    ) -> Option<Value> {
        let left = deadline.saturating_duration_since(Instant::now());
        match &mut self.kind {
            Kind::Pipe(session) => return session.find(left, wanted),
            Kind::Sse(client) => {
                return client.stream.find(left, |message| wanted(message)).map(|m| (*m).clone());
            }
            Kind::Legacy(_) | Kind::Modern(_) => {}
        }
        loop {
            if let Some(at) = self.streams.iter().position(|stream| stream.id == *id) {
                let stream = &mut self.streams[at];
                let wait = Duration::from_millis(5);
                let response = stream.find(wait, |message| message.is_answer() || wanted(message));
                if let Some(message) = response {
                    if message.is_answer() {
                        self.close(at);
                    }
                    return Some((*message).clone());
                }
                if stream.has_ended() && stream.seen.is_empty() {
                    let status = stream.status();
                    self.close(at);
                    return Some(json!({"status": status}));
                }
            } else {
                std::thread::park_timeout(Duration::from_millis(2));
            }
            if let Some(message) = self.take(wanted) {
                return Some(message);
            }
            if Instant::now() >= deadline {
                return None;
            }
        }
    }

    /// Takes a message of streamable HTTP that is there already.
    fn take(&mut self, wanted: &dyn Fn(&Value) -> bool) -> Option<Value> {
        if let Some(at) = self.kept.iter().position(wanted) {
            return Some(self.kept.remove(at));
        }
        for stream in &mut self.streams {
            let found = stream.so_far().iter().position(|message| wanted(message));
            if let Some(at) = found {
                return Some((*stream.seen.remove(at)).clone());
            }
        }
        None
    }

    fn close(&mut self, at: usize) {
        let stream = self.streams.remove(at);
        self.kept.extend(stream.seen.iter().map(|message| (**message).clone()));
    }

    fn with_meta(&self, mut params: Value) -> Value {
        let given = params["_meta"].take();
        let mut meta = json!({VERSION_KEY: MODERN, CAPABILITIES_KEY: self.setup.capabilities,
            "io.modelcontextprotocol/clientInfo": {"name": "harness", "version": "9"}});
        meta.as_object_mut().unwrap().extend(given.as_object().cloned().unwrap_or_default());
        params["_meta"] = meta;
        params
    }

    /// The text of a request with any id, with `_meta` where the protocol version has it.
    pub fn text_of(&self, id: Value, method: &str, params: Value) -> String {
        let params = if self.via.is_modern() { self.with_meta(params) } else { params };
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
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
        match self.setup.answering.clone() {
            None => self.request("tools/call", params),
            Some(answering) => {
                let send = |params| self.request("tools/call", params);
                input_rounds(params, |request| answering(request), send).1
            }
        }
    }

    /// Calls a tool with a progress token; returns the response, and the notifications with this token that came before it.
    pub fn progress(&mut self, tool: &str, arguments: Value, token: Value) -> (Value, Vec<Value>) {
        let answer = self.call_with(tool, arguments, json!({"progressToken": token}));
        let steps = self.seen().into_iter().filter(|message| {
            message["method"] == "notifications/progress"
                && message["params"]["progressToken"] == token
        });
        (answer, steps.collect())
    }

    /// Cancels a request: with a notification, or over HTTP of 2026-07-28 by closing its stream.
    pub fn cancel(&mut self, id: &Value) {
        if matches!(self.kind, Kind::Modern(_)) {
            return self.streams.retain(|stream| stream.id != *id);
        }
        self.notify("notifications/cancelled", json!({"requestId": id}));
    }

    /// All pages of a list, page by page.
    pub fn pages(&mut self, method: &str, key: &str) -> Vec<Vec<Value>> {
        let mut pages = Vec::new();
        let mut params = json!({});
        for _ in 0..1000 {
            let page = self.request(method, params);
            let entries = page["result"][key].as_array();
            pages.push(entries.unwrap_or_else(|| panic!("no {key} in {page}")).clone());
            match page["result"].get("nextCursor") {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => return pages,
            }
        }
        panic!("pages without end");
    }

    /// All entries of a list.
    pub fn list(&mut self, method: &str, key: &str) -> Vec<Value> {
        self.pages(method, key).concat()
    }

    /// The names of the listed tools, all pages.
    pub fn tools(&mut self) -> Vec<String> {
        let tools = self.list("tools/list", "tools");
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// The definition of one listed tool.
    pub fn definition(&mut self, name: &str) -> Value {
        let tools = self.list("tools/list", "tools");
        tools.into_iter().find(|tool| tool["name"] == name).unwrap_or(Value::Null)
    }

    /// Sends a batch; returns what responds to it: an array, or an error that refuses it.
    pub fn batch(&mut self, messages: &[Value]) -> Value {
        self.exchange(&json!(messages).to_string())
    }

    /// Sends any text and waits for what responds to it: the next message that is no request and no notification, in the body where
    /// HTTP responds with one, or `{"status": …}` where HTTP responds with nothing else.
    pub fn exchange(&mut self, text: &str) -> Value {
        match self.raw(text) {
            Some((_, body)) if !body.is_null() => return body,
            Some((status, _)) if self.via != Via::Sse || status != 202 => {
                return json!({"status": status});
            }
            _ => {}
        }
        self.wait_for(|message| message.get("method").is_none())
    }

    /// Sends any text, and returns the exact text of the response that contains `mark`.
    pub fn exchange_text(&mut self, text: &str, mark: &str) -> String {
        let patience = self.patience;
        let found = match &mut self.kind {
            Kind::Pipe(session) => {
                session.send_line(text);
                session.find_line(patience, |line| line.contains(mark))
            }
            Kind::Legacy(client) => client.raw(text).1.map(|answer| answer.raw),
            Kind::Modern(client) => client.raw(text, &[]).1.map(|answer| answer.raw),
            Kind::Sse(client) => {
                client.post(text);
                let found = client.stream.find(patience, |message| message.raw.contains(mark));
                found.map(|message| message.raw)
            }
        };
        found.unwrap_or_else(|| panic!("no response with {mark} {}", self.situation()))
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
            Kind::Sse(client) => {
                let mut answer = client.exchange(text);
                let body = serde_json::from_str(&answer.text()).unwrap_or(Value::Null);
                Some((answer.status, body))
            }
        }
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        let params = match self.via {
            Via::WrapModern | Via::StdioModern | Via::BridgeModern | Via::TmuxModern => {
                self.with_meta(params)
            }
            _ => params,
        };
        let notification = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.raw(&notification.to_string());
    }

    /// Answers a request that the server or the gateway sent.
    pub fn respond(&mut self, id: &Value, result: Value) {
        let response = json!({"jsonrpc": "2.0", "id": id, "result": result});
        self.raw(&response.to_string());
    }
}

/// What comes without being asked for.
impl Client {
    /// Listens for notifications where the transport wants a stream for them: over streamable HTTP, and in 2026-07-28. Returns the id of the
    /// request that listens, if one does.
    pub fn listen(&mut self) -> Option<Value> {
        self.listen_to(&[])
    }

    fn listen_to(&mut self, resources: &[&str]) -> Option<Value> {
        if let Kind::Legacy(client) = &self.kind {
            if !self.streams.iter().any(|stream| stream.id == "GET") {
                self.streams.push(client.listen());
            }
            return None;
        }
        if !self.via.is_modern() {
            return None;
        }
        let wanted = json!({"toolsListChanged": true, "promptsListChanged": true,
            "resourcesListChanged": true, "resourceSubscriptions": resources});
        let id = self.start("subscriptions/listen", json!({"notifications": wanted}));
        self.notification("notifications/subscriptions/acknowledged");
        Some(id)
    }

    /// Subscribes to a resource: with a request, or in 2026-07-28 by listening to it.
    pub fn subscribe(&mut self, uri: &str) -> Option<Value> {
        let listening = self.listen_to(&[uri]);
        if !self.via.is_modern() {
            let answer = self.request("resources/subscribe", json!({"uri": uri}));
            assert!(answer["result"].is_object(), "not subscribed to {uri}: {answer}");
        }
        listening
    }

    /// Waits for a notification with this method.
    pub fn notification(&mut self, method: &str) -> Value {
        self.wait_for(|message| message["method"] == method && message.get("id").is_none())
    }

    /// Waits for a message that is no response to a request of this interface. Over streamable HTTP it comes on the stream of a request that
    /// was started, or on that of [`Self::listen`].
    pub fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let found = self.find(&wanted);
        found.unwrap_or_else(|| panic!("no such message {}", self.situation()))
    }

    /// For messages of failed tests.
    fn situation(&mut self) -> String {
        let (seen, stderr) = (self.seen(), self.stderr());
        let (patience, via) = (self.patience, self.via);
        format!("within {patience:?} via {via:?}; seen: {seen:#?}; stderr: {stderr:#?}")
    }

    /// The same, if it comes in time.
    pub fn find(&mut self, wanted: &dyn Fn(&Value) -> bool) -> Option<Value> {
        let deadline = Instant::now() + self.patience;
        self.next(&Value::Null, deadline, wanted)
    }

    /// Whatever came from the gateway so far that was no response to a request of this interface, and that no wait took.
    pub fn seen(&mut self) -> Vec<Value> {
        let fresh = match &mut self.kind {
            Kind::Pipe(session) => return session.seen_so_far().to_vec(),
            Kind::Sse(client) => {
                return client.stream.so_far().iter().map(|seen| (**seen).clone()).collect();
            }
            Kind::Legacy(client) => client.seen(),
            Kind::Modern(client) => client.seen(),
        };
        self.kept.extend(fresh.iter().map(|seen| (**seen).clone()));
        let mut all = self.kept.clone();
        for stream in &mut self.streams {
            all.extend(stream.so_far().iter().map(|seen| (**seen).clone()));
        }
        all
    }

    /// Forgets what [`Self::seen`] has.
    pub fn forget_seen(&mut self) {
        self.seen();
        self.kept.clear();
        self.streams.iter_mut().for_each(|stream| stream.seen.clear());
        match &mut self.kind {
            Kind::Pipe(session) => session.seen.clear(),
            Kind::Sse(client) => client.stream.seen.clear(),
            Kind::Legacy(_) | Kind::Modern(_) => {}
        }
    }
}

/// The processes behind the transport.
impl Client {
    /// The processes of toolgate: the one with the config first, then the bridge to it.
    pub fn processes(&self) -> Vec<u32> {
        let gateway = self.gateway.iter().map(Gateway::pid);
        let pipe = match &self.kind {
            Kind::Pipe(session) => Some(session.child.id()),
            _ => None,
        };
        gateway.chain(pipe).collect()
    }

    /// What toolgate started, and those that they started.
    pub fn descendants(&self) -> Vec<u32> {
        self.processes().into_iter().flat_map(descendants).collect()
    }

    /// Sends a signal to every process of toolgate.
    pub fn signal(&self, signal: Signal) {
        for pid in self.processes() {
            let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
            let _ = kill_process(pid, signal);
        }
    }

    /// Whether each process of toolgate still runs.
    pub fn runs(&mut self) -> bool {
        let gateway = self.gateway.as_mut().map(|gateway| gateway.child.try_wait().unwrap());
        let pipe = match &mut self.kind {
            Kind::Pipe(session) => Some(session.child.try_wait().unwrap()),
            _ => None,
        };
        [gateway, pipe].into_iter().flatten().all(|ended| ended.is_none())
    }

    /// Sends SIGTERM, and waits for the end of every process of toolgate.
    pub fn terminate(&mut self) -> Vec<ExitStatus> {
        self.signal(Signal::TERM);
        let mut ended: Vec<ExitStatus> = self.gateway.iter_mut().map(Gateway::wait).collect();
        if let Kind::Pipe(session) = &mut self.kind {
            ended.push(session.wait());
        }
        ended
    }

    /// Writes another config (without `[servers.main]`) over the one in use. The gateway notices the file by itself.
    pub fn configure(&mut self, config: &str) {
        config.clone_into(&mut self.setup.config);
        let text = self.setup.text(self.via, &self.folder);
        let place = self.gateway.as_ref().map(Gateway::place).or(self.place.as_ref());
        place.expect("a folder").write("toolgate.toml", &text);
    }

    /// The same, applied as `toolgate reload` does, also where it widens access. A bridge has no config.
    pub fn reload(&mut self, config: &str) {
        self.configure(config);
        let pid = self.processes()[0];
        let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        let _ = kill_process(pid, Signal::USR1);
    }
}

/// What is known besides the protocol.
impl Client {
    /// A tool that is read-only and needs no arguments.
    pub fn safe(&self) -> &'static str {
        if self.via.is_tmux() { TMUX_SAFE } else { "safe" }
    }

    /// A destructive tool; called without arguments it changes nothing.
    pub fn wipe(&self) -> &'static str {
        if self.via.is_tmux() { TMUX_WIPE } else { "wipe" }
    }

    /// A call that does not end by itself, at least not soon: its tool and arguments.
    pub fn hanging(&self) -> (&'static str, Value) {
        if self.via.is_tmux() {
            return ("wait_for_channel", json!({"channel": "never"}));
        }
        ("hang", json!({}))
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

    /// What the spy recorded of a kind so far.
    pub fn log(&self, kind: &str) -> Vec<String> {
        let log = std::fs::read_to_string(self.path("spy.log")).unwrap_or_default();
        log.lines().filter_map(|line| line.strip_prefix(kind)).map(str::to_owned).collect()
    }

    /// The audit's records of how calls ended, so far.
    pub fn audit(&self) -> Vec<Value> {
        outcomes(&self.audit_text())
    }

    /// Waits for a record of how a call ended: the audit's thread writes it after the response.
    pub fn recorded(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + self.patience;
        loop {
            if let Some(found) = self.audit().into_iter().find(&wanted) {
                return found;
            }
            let text = self.audit_text();
            assert!(Instant::now() < deadline, "the audit has no such record: {text}");
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }

    /// Waits, within the client's patience, for something that no event tells of.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + self.patience;
        while !holds(self) {
            assert!(Instant::now() < deadline, "not within {:?}: {what}", self.patience);
            std::thread::park_timeout(Duration::from_millis(5));
        }
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
