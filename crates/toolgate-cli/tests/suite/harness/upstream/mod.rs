//! A server behind the gateway, inside the test: speaks MCP over HTTP in any era, tells what it saw, and
//! fails in every way when asked to. Written by hand: an SDK would not let it misbehave.

mod answering;
mod serving;
mod tools;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, mpsc::Sender},
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    TEST_TIMEOUT,
    http::{Headers, hang_up},
};

/// What the server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// 2025-11-25, streamable HTTP with sessions.
    Legacy,
    /// 2026-07-28.
    Modern,
    /// 2024-11-05, HTTP+SSE.
    OldSse,
    /// Both 2025-11-25 and 2026-07-28, as each request says.
    Dual,
}

/// What goes wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// It is read and never answered.
    Hang,
    /// The connection ends before anything was done.
    CloseBefore,
    /// The same, if the connection has served a request before: as if it had been closed while nobody used it.
    CloseKept,
    /// The connection ends after everything was done, without a byte of answer.
    CloseAfter,
    /// The same in the middle of the answer.
    CloseMid,
    /// Only this status.
    Status(u16),
    /// Something that is not JSON.
    Garbage,
    /// The answer to a request that nobody made.
    WrongId,
    /// The answer, twice.
    Duplicate,
    /// The answer, a few bytes at a time.
    Drip,
    /// A stream that ends in order without the answer.
    NoAnswer,
    /// The same, but the answer can be fetched: by a GET that names the last event.
    Poll,
    /// These bytes, with the answer for `{body}`, its length for `{length}`, in hex for `{hex}`.
    Raw { bytes: &'static str, closes: bool },
    /// A body that never ends: of one event, or of JSON.
    Endless { events: bool },
}

/// What it does otherwise than it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Habit {
    /// It does not say that it has log messages.
    UnannouncedLogs,
    /// It lists 2026-07-28 alone, asks nobody in it, and takes `initialize` all the same.
    HiddenLegacy,
    /// It answers the GET for its notifications late, and complains about a call that comes before that.
    LateStream,
    /// It announces subscriptions and takes them only where it was greeted by `initialize`.
    LegacySubscriptions,
}

/// When something goes wrong.
struct Rule {
    method: String,
    name: Option<String>,
    fault: Fault,
    times: usize,
}

/// One message that came in.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    /// The tool, prompt or resource.
    pub name: String,
    pub raw: String,
    pub message: Value,
    pub headers: Headers,
}

/// What the server keeps of a client that said hello.
#[derive(Default)]
struct Session {
    version: String,
    capabilities: Value,
    initialized: bool,
    streams: Vec<Sender<String>>,
    subscriptions: HashSet<String>,
    level: Option<String>,
}

/// A `subscriptions/listen` that is open.
struct Listening {
    id: Value,
    filter: Value,
    stream: Sender<String>,
}

#[derive(Default)]
struct State {
    /// Rises when the server stops: what belongs to an earlier life is over.
    life: u64,
    open: bool,
    connections: Vec<TcpStream>,
    sessions: HashMap<String, Session>,
    listening: Vec<Listening>,
    seen: Vec<Seen>,
    executions: BTreeMap<(String, String), usize>,
    released: HashSet<String>,
    waiting: Vec<String>,
    answers: HashMap<String, Value>,
    /// Answers that wait to be fetched, by the last event that their client saw.
    polled: HashMap<String, String>,
    cancelled: Vec<Value>,
    hung_up: Vec<String>,
    rules: VecDeque<Rule>,
    complaints: Vec<String>,
    tools: Vec<Value>,
    raw_tools: Vec<String>,
    page: Option<usize>,
    endless: bool,
    /// Each page of tools has a new tool and another page.
    growing: bool,
    habits: HashSet<Habit>,
    /// What it says that it can do, if that is not everything.
    capabilities: Option<Value>,
    /// Results and errors by method, as they are written, instead of its own.
    replies: HashMap<String, Result<String, String>>,
    next: u64,
}

struct Shared {
    name: String,
    era: Era,
    address: SocketAddr,
    state: Mutex<State>,
    changed: Condvar,
}

/// The server, as the test holds it.
#[derive(Clone)]
pub struct Upstream(Arc<Shared>);

impl Upstream {
    /// A server with the tools of `tools.rs`.
    pub fn start(name: &str, era: Era) -> Self {
        Self::with_tools(name, era, tools::base())
    }

    pub fn legacy(name: &str) -> Self {
        Self::start(name, Era::Legacy)
    }

    pub fn modern(name: &str) -> Self {
        Self::start(name, Era::Modern)
    }

    /// A server with so many tools `NAME_0`, `NAME_1`, … which answer with their name and their argument
    /// `text`, and with `NAME_write`, which counts.
    pub fn numbered(name: &str, era: Era, count: usize) -> Self {
        let tools = (0..count).map(|n| tools::numbered(name, n));
        Self::with_tools(
            name,
            era,
            tools.chain([tools::named(&format!("{name}_write"), false)]).collect(),
        )
    }

    fn with_tools(name: &str, era: Era, tools: Vec<Value>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            era,
            address: listener.local_addr().unwrap(),
            state: Mutex::new(State { tools, ..State::default() }),
            changed: Condvar::new(),
        });
        serving::accept(&shared, listener);
        Self(shared)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub fn url(&self) -> String {
        let path = if self.0.era == Era::OldSse { "sse" } else { "mcp" };
        format!("http://{}/{path}", self.0.address)
    }

    /// Its table in the config, with more keys.
    pub fn table(&self, more: &str) -> String {
        format!("[servers.{}]\nurl = \"{}\"\n{more}\n", self.0.name, self.url())
    }

    // What it saw.

    pub fn seen(&self) -> Vec<Seen> {
        self.state().seen.clone()
    }

    /// How often a method was asked for.
    pub fn count(&self, method: &str) -> usize {
        self.state().seen.iter().filter(|seen| seen.method == method).count()
    }

    /// How often a tool was called, whether it ran or not.
    pub fn calls(&self, tool: &str) -> usize {
        let state = self.state();
        state.seen.iter().filter(|seen| seen.method == "tools/call" && seen.name == tool).count()
    }

    /// How often a tool really ran with this `key` (or `text`).
    pub fn executions(&self, tool: &str, key: &str) -> usize {
        self.state().executions.get(&(tool.to_owned(), key.to_owned())).copied().unwrap_or(0)
    }

    /// Every execution of a tool: its key, and how often.
    pub fn all_executions(&self, tool: &str) -> BTreeMap<String, usize> {
        let state = self.state();
        let ours = state.executions.iter().filter(|((name, _), _)| name == tool);
        ours.map(|((_, key), times)| (key.clone(), *times)).collect()
    }

    /// What the gateway did that a client must not do.
    pub fn complaints(&self) -> Vec<String> {
        self.state().complaints.clone()
    }

    pub fn sessions(&self) -> usize {
        self.state().sessions.len()
    }

    /// The ids of requests that were given up by a notification.
    pub fn cancelled(&self) -> Vec<Value> {
        self.state().cancelled.clone()
    }

    /// Open streams for what the server says by itself.
    pub fn streams(&self) -> usize {
        let state = self.state();
        state.listening.len() + state.sessions.values().map(|s| s.streams.len()).sum::<usize>()
    }

    pub fn subscriptions(&self) -> HashSet<String> {
        let state = self.state();
        let legacy =
            state.sessions.values().flat_map(|session| session.subscriptions.iter().cloned());
        let modern = state.listening.iter().flat_map(|listening| {
            let uris = listening.filter["resourceSubscriptions"].as_array().cloned();
            uris.unwrap_or_default().into_iter().filter_map(|uri| Some(uri.as_str()?.to_owned()))
        });
        legacy.chain(modern).collect()
    }

    /// Waits, bounded, until something holds.
    pub fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        super::gateway::until(&format!("{}: {what}; {:?}", self.0.name, self.complaints()), || {
            holds(self)
        });
    }

    /// Waits until a `slow` call with this key is there.
    pub fn wait_for_call(&self, key: &str) {
        self.until(&format!("a call with the key {key}"), |upstream| upstream.has_call(key));
    }

    /// Whether such a call is there.
    pub fn has_call(&self, key: &str) -> bool {
        self.state().waiting.iter().any(|waiting| waiting == key)
    }

    /// Waits until the connection of such a call is gone, or it was cancelled.
    pub fn wait_for_end(&self, key: &str) {
        self.until(&format!("the end of the call with the key {key}"), |upstream| {
            upstream.state().hung_up.iter().any(|ended| ended == key)
        });
    }

    // What it does.

    /// Lets a `slow` call go on.
    pub fn release(&self, key: &str) {
        self.state().released.insert(key.to_owned());
        self.0.changed.notify_all();
    }

    /// The next `times` requests of this method (of `name`, if it says one: `tools/call:write`) fail so.
    pub fn fail(&self, method: &str, fault: Fault, times: usize) {
        let (method, name) =
            method.split_once(':').map_or((method, None), |(m, n)| (m, Some(n.to_owned())));
        self.state().rules.push_back(Rule { method: method.to_owned(), name, fault, times });
    }

    pub fn heal(&self) {
        self.state().rules.clear();
    }

    /// Every session ends; the next request of one gets 404.
    pub fn forget_sessions(&self) {
        let mut state = self.state();
        state.sessions.clear();
        state.listening.clear();
    }

    /// Every stream on which it speaks by itself ends; sessions stay.
    pub fn end_streams(&self) {
        let mut state = self.state();
        state.listening.clear();
        state.sessions.values_mut().for_each(|session| session.streams.clear());
    }

    /// Nobody listens any more, and what was open is closed.
    pub fn stop(&self) {
        {
            let mut state = self.state();
            state.life += 1;
            state.open = false;
            state.connections.drain(..).for_each(|socket| hang_up(&socket));
            state.sessions.clear();
            state.listening.clear();
        }
        self.0.changed.notify_all();
        // Whoever waits in accept must see that it is over.
        let _ = TcpStream::connect_timeout(&self.0.address, Duration::from_secs(1));
        super::gateway::until("the port is free", || TcpListener::bind(self.0.address).is_ok());
    }

    /// Listens again on the same port, as a new process would: with no memory of sessions.
    pub fn resume(&self) {
        let listener = TcpListener::bind(self.0.address).unwrap();
        serving::accept(&self.0, listener);
    }

    pub fn restart(&self) {
        self.stop();
        self.resume();
    }

    /// Lists are split into pages of this size.
    pub fn page(&self, size: usize) {
        self.state().page = Some(size);
    }

    /// The cursor of the list of tools leads back to its beginning.
    pub fn endless(&self, endless: bool) {
        self.state().endless = endless;
    }

    /// The list of tools has always another page, with another tool.
    pub fn growing(&self, growing: bool) {
        self.state().growing = growing;
    }

    /// It sends log messages and does not announce them.
    pub fn without_logging(self) -> Self {
        self.state().habits.insert(Habit::UnannouncedLogs);
        self
    }

    /// It lists 2026-07-28 as its only version, cannot ask in it, and accepts `initialize`.
    pub fn hiding_legacy(self) -> Self {
        self.state().habits.insert(Habit::HiddenLegacy);
        self
    }

    /// It answers the GET for its notifications late, and complains about a call that comes before that.
    pub fn with_late_stream(self) -> Self {
        self.state().habits.insert(Habit::LateStream);
        self
    }

    /// It announces subscriptions and takes them only where it was greeted by `initialize`.
    pub fn with_legacy_subscriptions(self) -> Self {
        self.state().habits.insert(Habit::LegacySubscriptions);
        self
    }

    /// It says that it can do this and nothing else.
    pub fn set_capabilities(&self, capabilities: Value) {
        self.state().capabilities = Some(capabilities);
    }

    /// Answers a method with this result, or this error, as it is written.
    pub fn reply(&self, method: &str, reply: Result<&str, &str>) {
        let reply = reply.map(str::to_owned).map_err(str::to_owned);
        self.state().replies.insert(method.to_owned(), reply);
    }

    /// Answers a method by itself again.
    pub fn reply_itself(&self, method: &str) {
        self.state().replies.remove(method);
    }

    pub fn add_tool(&self, name: &str) {
        self.state().tools.push(tools::named(name, true));
    }

    /// A tool whose definition is these bytes; it stands before all others.
    pub fn add_raw_tool(&self, definition: &str) {
        self.state().raw_tools.push(definition.to_owned());
    }

    pub fn remove_tool(&self, name: &str) {
        self.state().tools.retain(|tool| tool["name"] != name);
    }

    /// Changes a member of a tool's definition.
    pub fn redefine(&self, name: &str, member: &str, value: Value) {
        let mut state = self.state();
        let tool = state.tools.iter_mut().find(|tool| tool["name"] == name);
        tool.expect("such a tool")[member] = value;
    }

    /// Says by itself that something changed: `tools`, `prompts` or `resources`.
    pub fn announce(&self, what: &str) {
        self.say(&format!("notifications/{what}/list_changed"), json!({}), |filter| {
            filter[format!("{what}ListChanged")] == true
        });
    }

    /// Says that a resource changed, to whoever subscribed to it.
    pub fn touch(&self, uri: &str) {
        {
            let state = self.state();
            let message = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}});
            for session in
                state.sessions.values().filter(|session| session.subscriptions.contains(uri))
            {
                session
                    .streams
                    .iter()
                    .take(1)
                    .for_each(|stream| drop(stream.send(message.to_string())));
            }
        }
        let subscribed = |filter: &Value| {
            filter["resourceSubscriptions"]
                .as_array()
                .is_some_and(|uris| uris.contains(&json!(uri)))
        };
        self.say_to_modern("notifications/resources/updated", &json!({"uri": uri}), subscribed);
    }

    /// Says something by itself.
    pub fn say(&self, method: &str, params: Value, wanted: impl Fn(&Value) -> bool) {
        {
            let state = self.state();
            let message = json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string();
            for session in state.sessions.values() {
                session
                    .streams
                    .iter()
                    .take(1)
                    .for_each(|stream| drop(stream.send(message.clone())));
            }
        }
        self.say_to_modern(method, &params, wanted);
    }

    /// Says these bytes to every client with a session.
    pub fn say_raw(&self, message: &str) {
        for session in self.state().sessions.values() {
            session.streams.iter().take(1).for_each(|stream| drop(stream.send(message.to_owned())));
        }
    }

    fn say_to_modern(&self, method: &str, params: &Value, wanted: impl Fn(&Value) -> bool) {
        for listening in self.state().listening.iter().filter(|listening| wanted(&listening.filter))
        {
            let mut params = params.clone();
            params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": listening.id});
            let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
            let _ = listening.stream.send(message.to_string());
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap();
        state.connections.drain(..).for_each(|socket| hang_up(&socket));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The era of one request: a server of both is of the one that the request is of.
    fn era_of(&self, headers: &Headers) -> Era {
        match self.era {
            Era::Dual if headers.get("mcp-protocol-version") == Some("2026-07-28") => Era::Modern,
            Era::Dual => Era::Legacy,
            era => era,
        }
    }

    fn complain(&self, about: impl Into<String>) {
        self.state().complaints.push(about.into());
    }

    /// Waits, bounded, for what another thread brings.
    fn wait_for<T>(&self, mut wanted: impl FnMut(&mut State) -> Option<T>) -> Option<T> {
        let deadline = std::time::Instant::now() + TEST_TIMEOUT;
        let mut state = self.state();
        loop {
            if let Some(found) = wanted(&mut state) {
                return Some(found);
            }
            if std::time::Instant::now() > deadline {
                return None;
            }
            // Connections that end wake nobody: look now and then.
            state = self.changed.wait_timeout(state, Duration::from_millis(10)).unwrap().0;
        }
    }
}
