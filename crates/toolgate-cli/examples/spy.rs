//! An MCP server over stdio for the tests of incidents: records each line that reaches it and each tool that it runs.
//!
//! It behaves like the careless servers that attacks rely on. It runs `tools/call` without an id, and with
//! `--universal-newlines` it ends lines at CR too, as Python's text streams do. `--log FILE` receives `line TEXT` for
//! every line and `ran NAME ARGUMENTS` for every tool.
//!
//! Tools: `safe` (read-only) and `wipe` (destructive) answer with their name and arguments; `emit` (read-only) writes the texts in
//! `raw` to stdout as they are, then answers; `ask` (read-only) sends `elicitation/create` with the given `params`, under the given `id` if there is one, and
//! answers with the response, or without it after `patience_ms`; `structured` among the arguments adds structured content of so many values; `env` answers with its environment. `--tool NAME` adds a tool without annotations. The request `spy/tools` replaces those.
//! `--leak TEXT` puts this text into results, tasks, prompts, resources, completions, errors, notifications and questions.
//! `--lists FILE` lists what the file says at that moment instead (`{"tools": [NAME], "prompts": [NAME], "resources": [URI],
//! "templates": [TEMPLATE]}`; only the tool `safe` without the file), and `--name NAME` says who answers. With `--grow`, every list of tools but the first has the tool
//! `evil` too, and the first is followed by `list_changed` at once.
//! `--rich` (for the transport matrix) announces prompts, resources with subscriptions, and logging, supports `completion/complete` and
//! `vendor/echo` without announcing them, and adds the tools `respond` (its result or error object is the text in `result` or `error`), `hang` (never
//! answers), `die` (ends the server), `progress` (sends so many `steps`), `grow` (adds the tool `fresh` and tells of it) and `tell` (sends the notification `method` with `params`; in 2026-07-28 once for each request that listens).
//! With `--list-fails`, `tools/list` is answered with an error. `--pages N` lists ten further tools, `N` on a page.
//! Speaks legacy versions and, without `--legacy-only`, 2026-07-28.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::needless_pass_by_value,
    reason = "a server that exists for the tests; a failure should end it"
)]

use std::{
    collections::HashMap,
    io::{Read as _, Write as _},
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
};

use serde_json::{Value, json};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// What `ask` asks for unless it is told.
static QUESTION: LazyLock<Value> = LazyLock::new(|| {
    json!({"message": "Which colour?", "requestedSchema":
        {"type": "object", "properties": {"colour": {"type": "string"}}}})
});

#[derive(Clone)]
struct Spy {
    options: Arc<Vec<String>>,
    log: Option<Arc<Mutex<std::fs::File>>>,
    stdout: Arc<Mutex<std::io::Stdout>>,
    questions: Arc<Mutex<HashMap<String, mpsc::Sender<Value>>>>,
    tools: Arc<Mutex<Vec<Value>>>,
    /// How often tools were listed.
    lists: Arc<AtomicUsize>,
    /// The ids of `subscriptions/listen`.
    listeners: Arc<Mutex<Vec<Value>>>,
}

fn main() {
    let options: Vec<String> = std::env::args().skip(1).collect();
    let values = |name: &str| -> Vec<String> {
        let pairs = options.windows(2).filter(|pair| pair[0] == name);
        pairs.map(|pair| pair[1].clone()).collect()
    };
    let open = |path: &String| {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        Arc::new(Mutex::new(file))
    };
    let extra = values("--tool").into_iter().map(|name| tool(&name, json!({}))).collect();
    let spy = Spy {
        log: values("--log").first().map(open),
        options: Arc::new(options.clone()),
        stdout: Arc::new(Mutex::new(std::io::stdout())),
        questions: Arc::default(),
        tools: Arc::new(Mutex::new(extra)),
        lists: Arc::default(),
        listeners: Arc::default(),
    };
    let universal = options.iter().any(|option| option == "--universal-newlines");
    let mut line = Vec::new();
    for byte in std::io::stdin().lock().bytes().map_while(Result::ok) {
        if byte != b'\n' && !(universal && byte == b'\r') {
            line.push(byte);
            continue;
        }
        let text = String::from_utf8_lossy(&line).into_owned();
        line.clear();
        if text.trim().is_empty() {
            continue;
        }
        spy.record("line", &text);
        if let Ok(message) = serde_json::from_str::<Value>(&text) {
            let spy = spy.clone();
            // What runs is recorded in the order in which it arrived; only questions wait.
            spy.take(message);
        }
    }
}

/// The answer to a request that is no call, with the text in it.
fn leaked(method: &str, params: &Value, leak: &str) -> Option<Value> {
    let content = json!({"type": "text", "text": leak});
    Some(match method {
        "initialize" => json!({"protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}, "prompts": {}, "resources": {}, "completions": {},
                "logging": {}, "tasks": {"requests": {"tools": {"call": {}}}}},
            "serverInfo": {"name": "spy", "version": "1"}}),
        "server/discover" => json!({"supportedVersions": ["2026-07-28", "2025-11-25"],
            "capabilities": {"tools": {}, "prompts": {}, "resources": {}, "completions": {},
                "logging": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
            "serverInfo": {"name": "spy", "version": "1"}, "ttlMs": 0, "cacheScope": "private"}),
        "logging/setLevel" => json!({}),
        "prompts/list" => json!({"prompts": [{"name": "p"}], "ttlMs": 0, "cacheScope": "private"}),
        "prompts/get" => json!({"messages": [{"role": "user", "content": content}]}),
        "resources/list" => {
            json!({"resources": [{"uri": "spy://r", "name": "r"}], "ttlMs": 0, "cacheScope": "private"})
        }
        "resources/templates/list" => {
            json!({"resourceTemplates": [], "ttlMs": 0, "cacheScope": "private"})
        }
        "resources/read" => json!({"contents": [{"uri": "spy://r", "text": leak}],
            "ttlMs": 0, "cacheScope": "private"}),
        "completion/complete" => json!({"completion": {"values": [leak], "hasMore": false}}),
        "tasks/result" => json!({"content": [content]}),
        "tasks/get" => {
            json!({"taskId": params["taskId"], "status": "completed", "statusMessage": leak,
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z",
            "ttl": 60000, "ttlMs": 60000, "result": {"content": [content]}})
        }
        _ => return None,
    })
}

fn tool(name: &str, annotations: Value) -> Value {
    json!({"name": name, "description": format!("The tool {name}."),
        "inputSchema": {"type": "object"}, "annotations": annotations})
}

impl Spy {
    fn record(&self, kind: &str, text: &str) {
        if let Some(log) = &self.log {
            log.lock().unwrap().write_all(format!("{kind} {text}\n").as_bytes()).unwrap();
        }
    }

    fn write(&self, text: &str) {
        let mut stdout = self.stdout.lock().unwrap();
        let _ = stdout.write_all(text.as_bytes());
        let _ = stdout.flush();
    }

    fn has(&self, option: &str) -> bool {
        self.options.iter().any(|known| known == option)
    }

    fn take(&self, message: Value) {
        let Some(method) = message["method"].as_str() else {
            let waiting = self.questions.lock().unwrap().remove(&message["id"].to_string());
            return drop(waiting.map(|waiting| waiting.send(message)));
        };
        let id = message.get("id").cloned();
        if method == "tools/call" {
            let (name, arguments) = (&message["params"]["name"], &message["params"]["arguments"]);
            self.record("ran", &format!("{} {arguments}", name.as_str().unwrap_or("?")));
            if self.has("--rich") && self.scripted(id.as_ref(), &message) {
                return;
            }
            if name == "ask" {
                let (spy, message) = (self.clone(), message.clone());
                return drop(std::thread::spawn(move || {
                    let result = spy.call(&message["params"]);
                    spy.answer(id, &message, result);
                }));
            }
            let result = match self.leak() {
                Some(leak) => self.leaking(&message["params"], &leak),
                None => self.call(&message["params"]),
            };
            return self.answer(id, &message, result);
        }
        if let (Some(leak), Some(id)) = (self.leak(), &id)
            && message["params"]["taskId"] == "t-error"
        {
            let error = json!({"code": -32000, "message": leak, "data": {"why": leak}});
            return self
                .write(&format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "error": error})));
        }
        if let ("subscriptions/listen", Some(id), true) = (method, &id, self.has("--rich")) {
            return self.listens(id, &message["params"]["notifications"]);
        }
        if method == "tools/list" && self.has("--list-fails") {
            let error = json!({"code": -32050, "message": "no list today"});
            let response = json!({"jsonrpc": "2.0", "id": id, "error": error});
            return self.write(&format!("{response}\n"));
        }
        let leaked = self.leak().and_then(|leak| leaked(method, &message["params"], &leak));
        let Some(result) = leaked.or_else(|| self.result(method, &message["params"])) else {
            if let Some(id) = id {
                let error = json!({"code": -32601, "message": format!("no method {method}")});
                self.write(&format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "error": error})));
            }
            return;
        };
        self.answer(id, &message, result);
    }

    /// Runs a tool that only `--rich` has.
    fn scripted(&self, id: Option<&Value>, message: &Value) -> bool {
        let (name, arguments) = (&message["params"]["name"], &message["params"]["arguments"]);
        let is_modern = message["params"]["_meta"].get(VERSION).is_some();
        match name.as_str() {
            Some("hang") => {}
            Some("die") => std::process::exit(7),
            Some("respond" | "promise") => {
                let member = if arguments["error"].is_string() { "error" } else { "result" };
                let text = arguments[member].as_str().unwrap();
                let id = id.unwrap_or(&Value::Null);
                self.write(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"{member}\":{text}}}\n"));
            }
            Some("progress") => {
                for step in 1..=arguments["steps"].as_u64().unwrap() {
                    let token = &message["params"]["_meta"]["progressToken"];
                    let params =
                        json!({"progressToken": token, "progress": step, "extra": "vendor"});
                    self.tell(&json!({"method": "notifications/progress", "params": params}));
                }
                self.answer(
                    id.cloned(),
                    message,
                    json!({"content": [{"type": "text", "text": "done"}]}),
                );
            }
            Some("grow") => {
                self.tools.lock().unwrap().push(tool("fresh", json!({"readOnlyHint": true})));
                self.tell(&json!({"method": "notifications/tools/list_changed", "params": {}}));
                self.answer(
                    id.cloned(),
                    message,
                    json!({"content": [{"type": "text", "text": "grown"}]}),
                );
            }
            Some("tell") => {
                self.tell(arguments);
                self.answer(
                    id.cloned(),
                    message,
                    json!({"content": [{"type": "text", "text": "told"}]}),
                );
            }
            Some("ask") if is_modern => {
                let asked = json!({"method": "elicitation/create", "params": QUESTION.clone()});
                let result = match message["params"].get("inputResponses") {
                    Some(input) => {
                        json!({"content": [{"type": "text", "text": input["q"].to_string()}]})
                    }
                    None => json!({"resultType": "input_required", "inputRequests": {"q": asked},
                        "requestState": "state of the spy"}),
                };
                self.answer(id.cloned(), message, result);
            }
            _ => return false,
        }
        true
    }

    /// Sends a notification, to each request that listens if there are such.
    fn tell(&self, arguments: &Value) {
        let listeners = self.listeners.lock().unwrap().clone();
        let is_change = ["list_changed", "updated"]
            .iter()
            .any(|end| arguments["method"].as_str().unwrap().ends_with(end));
        let mut all = vec![arguments["params"].clone()];
        if is_change && !listeners.is_empty() {
            let stamped = |id: &Value| {
                let mut params = arguments["params"].clone();
                params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": id});
                params
            };
            all = listeners.iter().map(stamped).collect();
        }
        for params in all {
            let method = &arguments["method"];
            let told = json!({"jsonrpc": "2.0", "method": method, "params": params});
            self.write(&format!("{told}\n"));
        }
    }

    /// `subscriptions/listen`: acknowledged, and never answered.
    fn listens(&self, id: &Value, wanted: &Value) {
        self.listeners.lock().unwrap().push(id.clone());
        let params = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": id}, "notifications": wanted});
        let method = "notifications/subscriptions/acknowledged";
        let told = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.write(&format!("{told}\n"));
    }

    /// What only `--rich` answers.
    fn rich(method: &str, params: &Value) -> Option<Value> {
        Some(match method {
            "prompts/list" => json!({"prompts": [{"name": "p", "vendor": {"x": 1},
                "arguments": [{"name": "who"}]}], "ttlMs": 0, "cacheScope": "private"}),
            "resources/list" => json!({"resources": [{"uri": "spy://r", "name": "r", "vendor": 1}],
                "ttlMs": 0, "cacheScope": "private"}),
            "resources/templates/list" => {
                json!({"resourceTemplates": [{"uriTemplate": "spy://t/{id}", "name": "t"}],
                    "ttlMs": 0, "cacheScope": "private"})
            }
            "resources/read" => json!({"contents": [{"uri": params["uri"],
                "text": format!("read {}", params["uri"])}], "ttlMs": 0, "cacheScope": "private"}),
            "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" => json!({}),
            "completion/complete" => {
                let value = params["argument"]["value"].as_str().unwrap_or_default();
                json!({"completion": {"values": [format!("{value}!")], "hasMore": false}})
            }
            "vendor/echo" => json!({"echo": params["said"]}),
            _ => return None,
        })
    }

    /// A page of `--pages`: the usual tools first, then ten more.
    fn page(&self, tools: Vec<Value>, cursor: &Value) -> Value {
        let size: usize = self.value("--pages").unwrap().parse().unwrap();
        let more = (0..10).map(|number| tool(&format!("more_{number}"), json!({})));
        let all: Vec<Value> = tools.into_iter().chain(more).collect();
        let start: usize = cursor.as_str().map_or(0, |cursor| cursor.parse().unwrap());
        let end = (start + size).min(all.len());
        let mut result = json!({"tools": all[start..end], "ttlMs": 0, "cacheScope": "private"});
        if end < all.len() {
            result["nextCursor"] = json!(end.to_string());
        }
        result
    }

    /// What the file of `--lists` says now.
    fn listed(&self, list: &str, key: &str) -> Vec<Value> {
        let text = self.value("--lists").and_then(|path| std::fs::read_to_string(path).ok());
        let none = json!({"tools": ["safe"]});
        let lists: Value = text.map_or(none, |text| serde_json::from_str(&text).unwrap());
        let names = lists[list].as_array().cloned().unwrap_or_default();
        let entry = |name: Value| match list {
            "tools" => tool(name.as_str().unwrap(), json!({})),
            _ => json!({"name": name, key: name}),
        };
        names.into_iter().map(entry).collect()
    }

    fn value(&self, option: &str) -> Option<&String> {
        let place = self.options.iter().position(|known| known == option)?;
        self.options.get(place + 1)
    }

    fn name(&self) -> &str {
        self.value("--name").map_or("spy", String::as_str)
    }

    fn answer(&self, id: Option<Value>, request: &Value, mut result: Value) {
        let Some(id) = id else { return };
        let version = &request["params"]["_meta"][VERSION];
        if version == "2026-07-28" && result.get("resultType").is_none() {
            result["resultType"] = json!("complete");
        }
        let mut text = format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "result": result}));
        if request["method"] == "tools/list" && self.has("--grow") {
            text += "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n";
        }
        self.write(&text);
    }

    fn result(&self, method: &str, params: &Value) -> Option<Value> {
        if let Some(result) = self.has("--rich").then(|| Self::rich(method, params)).flatten() {
            return Some(result);
        }
        Some(match method {
            "initialize" => json!({"protocolVersion": params["protocolVersion"],
                "capabilities": self.capabilities(),
                "serverInfo": {"name": "spy", "version": "1"}}),
            "server/discover" if !self.has("--legacy-only") => {
                json!({"supportedVersions": ["2026-07-28", "2025-11-25"],
                    "capabilities": self.capabilities(),
                    "serverInfo": {"name": "spy", "version": "1"},
                    "ttlMs": 0, "cacheScope": "private"})
            }
            "ping" => json!({}),
            "prompts/list" => json!({"prompts": self.listed("prompts", "name")}),
            "resources/list" => json!({"resources": self.listed("resources", "uri")}),
            "resources/templates/list" => {
                json!({"resourceTemplates": self.listed("templates", "uriTemplate")})
            }
            "prompts/get" => json!({"messages": [{"role": "user",
                "content": {"type": "text", "text": format!("{} got {}", self.name(), params["name"])}}]}),
            "resources/read" => json!({"contents": [{"uri": params["uri"],
                "text": format!("{} read {}", self.name(), params["uri"])}]}),
            "tools/list" if self.has("--lists") => json!({"tools": self.listed("tools", "name")}),
            "tools/list" => {
                let mut tools = vec![
                    tool("safe", json!({"readOnlyHint": true})),
                    tool("wipe", json!({"readOnlyHint": false, "destructiveHint": true})),
                    tool("emit", json!({"readOnlyHint": true})),
                    tool("ask", json!({"readOnlyHint": true})),
                    tool("env", json!({"readOnlyHint": true})),
                ];
                if self.has("--rich") {
                    let names = ["respond", "hang", "die", "tell", "progress", "grow"];
                    tools.extend(names.map(|name| tool(name, json!({"readOnlyHint": true}))));
                }
                if self.has("--promise") {
                    let mut promise = tool("promise", json!({"readOnlyHint": true}));
                    promise["outputSchema"] = json!({"type": "object", "required": ["a"],
                        "properties": {"a": {"type": "string", "pattern": "^a*$"}}});
                    tools.push(promise);
                }
                tools.extend(self.tools.lock().unwrap().iter().cloned());
                if self.has("--pages") {
                    return Some(self.page(tools, &params["cursor"]));
                }
                if self.has("--grow") {
                    let listed = self.lists.fetch_add(1, Ordering::SeqCst);
                    tools.extend((listed > 0).then(|| tool("evil", json!({}))));
                }
                json!({"tools": tools, "ttlMs": 0, "cacheScope": "private"})
            }
            "spy/tools" => {
                let tools = params["tools"].as_array().cloned().unwrap_or_default();
                *self.tools.lock().unwrap() = tools;
                self.write(
                    "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n",
                );
                json!({})
            }
            _ => return None,
        })
    }

    fn leak(&self) -> Option<String> {
        let mut pairs = self.options.windows(2).filter(|pair| pair[0] == "--leak");
        pairs.next().map(|pair| pair[1].clone())
    }

    /// The result of a call with the text in it, or the task that it becomes, after notifications with the text.
    fn leaking(&self, params: &Value, leak: &str) -> Value {
        if params["arguments"].get("mark").is_some() {
            return self.call(params);
        }
        let token = &params["_meta"]["progressToken"];
        let progress = json!({"progressToken": token, "progress": 1, "message": leak});
        let log = json!({"level": "error", "logger": leak, "data": {"at": [leak]}});
        let status = json!({"taskId": "t-1", "status": "working", "statusMessage": leak,
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": 60000});
        let mut told = vec![("notifications/message", log), ("notifications/tasks/status", status)];
        if !token.is_null() {
            told.push(("notifications/progress", progress));
        }
        for (method, params) in told {
            let told = json!({"jsonrpc": "2.0", "method": method, "params": params});
            self.write(&format!("{told}\n"));
        }
        let task = json!({"taskId": format!("t-{}", params["name"].as_str().unwrap()),
            "status": "working", "createdAt": "2026-01-01T00:00:00Z", "ttl": 60000, "ttlMs": 60000,
            "lastUpdatedAt": "2026-01-01T00:00:00Z", "pollInterval": 1, "pollIntervalMs": 1});
        if params.get("task").is_some() {
            return json!({"task": task});
        }
        if params["arguments"]["task"] == true {
            let mut task = task;
            task["resultType"] = json!("task");
            return task;
        }
        json!({"content": [{"type": "text", "text": leak}]})
    }

    fn capabilities(&self) -> Value {
        let changing = json!({"listChanged": true});
        if self.has("--rich") {
            return json!({"tools": changing, "prompts": changing, "logging": {},
                "resources": {"listChanged": true, "subscribe": true}});
        }
        match self.value("--lists") {
            Some(_) => json!({"tools": changing, "prompts": changing, "resources": changing}),
            None => json!({"tools": changing}),
        }
    }

    fn call(&self, params: &Value) -> Value {
        let (name, arguments) = (params["name"].as_str().unwrap_or("?"), &params["arguments"]);
        let text = match name {
            "emit" => {
                for raw in arguments["raw"].as_array().into_iter().flatten() {
                    self.write(raw.as_str().unwrap_or_default());
                }
                "emitted".to_owned()
            }
            "ask" => self.ask(arguments).to_string(),
            "env" => {
                let all: HashMap<String, String> = std::env::vars().collect();
                json!(all).to_string()
            }
            _ if self.has("--name") => format!("{} ran {name} with {arguments}", self.name()),
            _ => format!("{name} ran with {arguments}"),
        };
        let mut result = json!({"content": [{"type": "text", "text": text}]});
        if let Some(count) = arguments["structured"].as_u64() {
            result["structuredContent"] = json!({"list": vec![0; usize::try_from(count).unwrap()]});
        }
        result
    }

    /// Asks the client's user, and waits for the response.
    fn ask(&self, arguments: &Value) -> Value {
        let params = arguments.get("params").unwrap_or(&QUESTION);
        let id = arguments.get("id").cloned().unwrap_or_else(|| json!("spy-question"));
        let (sender, receiver) = mpsc::channel();
        self.questions.lock().unwrap().insert(id.to_string(), sender);
        let method = arguments["method"].as_str().unwrap_or("elicitation/create");
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.write(&format!("{request}\n"));
        let patience = arguments["patience_ms"].as_u64().unwrap_or(20_000);
        let patience = std::time::Duration::from_millis(patience);
        receiver.recv_timeout(patience).unwrap_or_else(|_| json!("no response"))
    }
}
