//! A small MCP server for the tests: well behaved when asked nicely, and every kind of bad when asked so.
//!
//! Written by hand, without an SDK: an SDK would not let it misbehave. `--page-size N` splits the
//! listing, `--extra-tool NAME` adds a tool, with a title and a schema, that answers with the line that
//! it got; `--answering` adds the tool `answer`, which answers with its argument `result` and promises structured
//! content; `--die-at-start`, `--hang-initialize`, `--modern-only`, `--legacy-only`, `--noise`, `--ignore-eof` and `--ignore-term` do what
//! they say. The request `vendor/grow` adds such a tool while it runs. Requests of 2026-07-28 are answered in their own form.
//!
//! `--reply METHOD TEXT` answers a method with a line that ends in this text (`"error":{…}`), as it is written;
//! `--capabilities JSON` is what it says that it can do.
//!
//! `--full NAME` is for tests of the gateway: prompts and resources, and the tools `write` (counts in the file of
//! `--writes`), `elicit`, `sample`, `log`, `touch` (a resource changed) and `whoami`.
//!
//! As servers of others do: `--discover-after MS` takes so long for `server/discover`, `--ignore-unknown` never answers it,
//! `--die-of-unknown` ends at it, `--no-logging` does not say that it has log messages, `--no-rounds` cannot ask in
//! 2026-07-28. `--vendor` adds `vendor_ask`, which asks the client `vendor/ask` and tells the answer, and `vendor_tell`.
//! `--version V` is the version that it says it has. `--seen FILE` notes the process and the method of each message, and the level of each `logging/setLevel`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::disallowed_methods,
    clippy::zombie_processes,
    reason = "a server that is there to fail"
)]

use std::{
    io::{BufRead as _, Write as _},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

/// What the server was started with, and what it shares between its threads.
#[derive(Clone)]
struct Server {
    options: Arc<Vec<String>>,
    out: Arc<Mutex<std::io::Stdout>>,
    cancelled: Arc<Mutex<Vec<Value>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
    grown: Arc<Mutex<Vec<String>>>,
    /// The ids of `subscriptions/listen` that are open.
    listening: Arc<Mutex<Vec<Value>>>,
}

/// A request of ours that the client has not answered yet.
type Asked = (Value, std::sync::mpsc::Sender<Value>);

fn main() {
    let server = Server {
        options: Arc::new(std::env::args().skip(1).collect()),
        out: Arc::new(Mutex::new(std::io::stdout())),
        cancelled: Arc::default(),
        asked: Arc::default(),
        grown: Arc::default(),
        listening: Arc::default(),
    };
    if server.has("--ignore-term") {
        // Default handling is what a test needs to be without; the flag is never read.
        let flag = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let _ = signal_hook::flag::register(signal_hook::consts::SIGTERM, flag);
    }
    if server.has("--die-at-start") {
        eprintln!("no reason to live");
        std::process::exit(3);
    }
    if server.has("--noise") {
        server.raw("Server starting up...\n{\"level\":\"info\",\"message\":\"not protocol\"}\n");
    }
    eprintln!("fixture is up");
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        if let Ok(message) = serde_json::from_str::<Value>(&line) {
            server.take(message, &line);
        }
    }
    while server.has("--ignore-eof") {
        std::thread::park();
    }
}

impl Server {
    fn has(&self, option: &str) -> bool {
        self.options.iter().any(|o| o == option)
    }

    /// What follows an option.
    fn value(&self, option: &str) -> Option<&str> {
        let at = self.options.iter().position(|o| o == option)?;
        self.options.get(at + 1).map(String::as_str)
    }

    /// The values of `--extra-tool`, and what has grown since.
    fn extra_tools(&self) -> Vec<String> {
        let names = self.options.windows(2).filter(|pair| pair[0] == "--extra-tool");
        let grown = self.grown.lock().unwrap().clone();
        names.map(|pair| pair[1].clone()).chain(grown).collect()
    }

    fn grow(&self, params: &Value) -> Value {
        self.grown.lock().unwrap().push(params["name"].as_str().unwrap().to_owned());
        if params["announced"] == true {
            self.send(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
        }
        json!({})
    }

    fn raw(&self, text: &str) {
        let mut out = self.out.lock().unwrap();
        let _ = out.write_all(text.as_bytes());
        let _ = out.flush();
    }

    fn send(&self, message: &Value) {
        self.raw(&format!("{message}\n"));
    }

    fn note(&self, message: &Value) {
        let (Some(path), Some(method)) = (self.value("--seen"), message["method"].as_str()) else {
            return;
        };
        let level = message["params"]["level"].as_str().unwrap_or_default();
        let line = format!("{} {method} {level}\n", std::process::id());
        let file = std::fs::File::options().create(true).append(true).open(path);
        file.unwrap().write_all(line.as_bytes()).unwrap();
    }

    fn take(&self, message: Value, line: &str) {
        self.note(&message);
        let id = message.get("id").cloned();
        match (message["method"].as_str(), id) {
            (Some("notifications/cancelled"), _) => {
                self.cancelled.lock().unwrap().push(message["params"]["requestId"].clone());
            }
            (Some(method), Some(id)) => {
                let (server, method, line) = (self.clone(), method.to_owned(), line.to_owned());
                // Each request has its own thread: answers come in any order.
                std::thread::spawn(move || server.answer(&method, &id, &message["params"], &line));
            }
            (None, Some(id)) => {
                let mut asked = self.asked.lock().unwrap();
                if let Some(at) = asked.iter().position(|(asked, _)| *asked == id) {
                    let _ = asked.swap_remove(at).1.send(message);
                }
            }
            (_, None) => {}
        }
    }

    fn answer(&self, method: &str, id: &Value, params: &Value, line: &str) {
        let is_modern = params["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28";
        if self.has("--modern-only") && !is_modern {
            return self.error(id, -32602, "no protocol version in _meta");
        }
        if method == "server/discover" {
            if self.has("--die-of-unknown") {
                std::process::exit(4);
            }
            if self.has("--ignore-unknown") {
                return;
            }
            let after = self.value("--discover-after").and_then(|ms| ms.parse().ok());
            std::thread::sleep(std::time::Duration::from_millis(after.unwrap_or_default()));
        }
        let mut replies = self.options.windows(3).filter(|three| three[0] == "--reply");
        if let Some([_, _, text]) = replies.find(|three| three[1] == method) {
            return self.raw(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{text}}}\n"));
        }
        if self.has("--legacy-only") && method == "server/discover" {
            return self.error(id, -32601, "no such method");
        }
        let mut result = match method {
            "server/discover" => json!({
                "supportedVersions": ["2026-07-28"],
                "capabilities": self.capabilities(),
            }),
            "initialize" if self.has("--hang-initialize") => return,
            "initialize" => json!({
                "protocolVersion": params["protocolVersion"],
                "capabilities": self.capabilities(),
                "serverInfo": {"name": "fixture", "version": self.value("--version").unwrap_or("1")},
                "xVendor": {"kept": 1e3},
            }),
            "tools/list" => self.list(params),
            "tools/call" => match self.call(id, params, line) {
                Some(result) => result,
                None => return,
            },
            _ if let Some(result) = self.full(method, params) => result,
            "subscriptions/listen" if is_modern => return self.listen(id, params),
            "resources/read" => {
                let size =
                    params["uri"].as_str().and_then(|uri| uri.rsplit('/').next()?.parse().ok());
                json!({"contents": [{"uri": params["uri"], "text": "y".repeat(size.unwrap_or(5))}]})
            }
            "vendor/echo" => params.clone(),
            "vendor/grow" => self.grow(params),
            _ => return self.error(id, -32601, "no such method"),
        };
        if is_modern {
            if result.get("resultType").is_none() {
                result["resultType"] = json!("complete");
            }
            if method != "tools/call" {
                result["ttlMs"] = json!(0);
                result["cacheScope"] = json!("private");
            }
        }
        self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    fn error(&self, id: &Value, code: i64, message: &str) {
        let error = json!({"code": code, "message": message, "data": {"vendor": true}});
        self.send(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
    }

    fn list(&self, params: &Value) -> Value {
        let size: usize = self.value("--page-size").and_then(|n| n.parse().ok()).unwrap_or(1000);
        let mut all = tools();
        all.extend(self.extra_tools().iter().map(|name| extra_tool(name)));
        let from: usize = params["cursor"].as_str().and_then(|c| c.parse().ok()).unwrap_or(0);
        let tools: Vec<Value> = all.iter().skip(from).take(size).cloned().collect();
        let mut result = json!({"tools": tools, "xVendor": "kept"});
        if from + size < all.len() {
            result["nextCursor"] = json!((from + size).to_string());
        }
        result
    }

    fn call(&self, id: &Value, params: &Value, line: &str) -> Option<Value> {
        let arguments = &params["arguments"];
        let number = |key: &str, default: u64| arguments[key].as_u64().unwrap_or(default);
        let text = |text: String| Some(json!({"content": [{"type": "text", "text": text}]}));
        match params["name"].as_str().unwrap_or_default() {
            "echo" => text(arguments["text"].as_str().unwrap_or_default().to_owned()),
            "see_line" => text(line.to_owned()),
            "fail" => {
                Some(json!({"content": [{"type": "text", "text": "it failed"}], "isError": true}))
            }
            "reject" => {
                self.error(
                    id,
                    number_or(arguments, -32602),
                    arguments["message"].as_str().unwrap_or("bad"),
                );
                None
            }
            "big" => {
                text("line of text\n".repeat(usize::try_from(number("lines", 1)).unwrap_or(1)))
            }
            "structured" => {
                let rows: Vec<Value> = (0..number("rows", 3))
                    .map(|n| json!({"n": n, "name": format!("row {n}")}))
                    .collect();
                let value = json!({"rows": rows, "log": "x".repeat(usize::try_from(number("log", 10)).unwrap_or(10))});
                Some(
                    json!({"content": [{"type": "text", "text": value.to_string()}], "structuredContent": value}),
                )
            }
            "rigid" => {
                let map: serde_json::Map<String, Value> =
                    (0..number("keys", 10)).map(|n| (format!("key{n}"), json!(n))).collect();
                Some(json!({"content": [], "structuredContent": map}))
            }
            "crash" => std::process::exit(9),
            "hang" => self.hang(id),
            "pid" => text(std::process::id().to_string()),
            "spawn" => {
                let child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
                text(child.id().to_string())
            }
            "env" => text(
                std::env::var(arguments["name"].as_str().unwrap_or_default()).unwrap_or_default(),
            ),
            "progress" => {
                for step in 1..=3 {
                    self.send(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params":
                        {"progressToken": params["_meta"]["progressToken"], "progress": step, "total": 3}}));
                }
                text("done".to_owned())
            }
            "ask" => self.ask("sampling/createMessage", &json!({"xVendor": 1})),
            "cancelled" => text(json!(*self.cancelled.lock().unwrap()).to_string()),
            "wrong_id" => {
                self.send(&json!({"jsonrpc": "2.0", "id": 987_654, "result": {}}));
                self.send(&json!({"jsonrpc": "2.0", "id": "invented", "error": {"code": 1, "message": "x"}}));
                text("the right one".to_owned())
            }
            "garbage" => {
                self.raw(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[]}},\"result\":{{}}}}\n"));
                None
            }
            "flood" => {
                for n in 0..number("lines", 1000) {
                    self.raw(&format!("debug line {n} that should not be here\n"));
                }
                text("after the flood".to_owned())
            }
            // Asks something itself, as servers do from 2026-07-28 on; then tells what it got.
            "rounds" if params.get("requestState").is_none() => Some(
                json!({"resultType": "input_required", "requestState": "srv.1", "inputRequests": {"n": {
                    "method": "elicitation/create", "params": {"mode": "form", "message": "which?",
                        "requestedSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}}}}),
            ),
            "changed" => {
                self.announce("notifications/tools/list_changed", json!({}));
                text("changed".to_owned())
            }
            "elicit" if self.has("--no-rounds") && params["_meta"].get(VERSION).is_some() => Some(
                json!({"content": [{"type": "text", "text": "cannot ask in 2026-07-28"}], "isError": true}),
            ),
            name if self.has("--full") && FULL.contains(&name) => self.full_call(name, params),
            "vendor_ask" if self.has("--vendor") => self.ask("vendor/ask", &json!({"q": [1e3]})),
            "vendor_tell" if self.has("--vendor") => {
                self.send(&json!({"jsonrpc": "2.0", "method": "notifications/vendor/said", "params": {"x": 1}}));
                text("told".to_owned())
            }
            "answer" if self.has("--answering") => Some(arguments["result"].clone()),
            name if self.extra_tools().iter().any(|extra| extra == name) => text(line.to_owned()),
            _ => {
                self.error(id, -32602, "Unknown tool");
                None
            }
        }
    }

    /// Answers only once it is cancelled, and then never: waits until told, then leaves.
    fn hang(&self, id: &Value) -> Option<Value> {
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/message",
            "params": {"level": "info", "data": {"hanging": id}}}));
        eprintln!("hanging");
        loop {
            std::thread::park();
        }
    }

    fn ask(&self, method: &str, params: &Value) -> Option<Value> {
        let (sender, receiver) = std::sync::mpsc::channel();
        let id = {
            let mut asked = self.asked.lock().unwrap();
            let id = json!(format!("server-{}", asked.len() + 1));
            asked.push((id.clone(), sender));
            id
        };
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        let answer = receiver.recv().ok()?;
        Some(json!({"content": [{"type": "text", "text": answer.to_string()}]}))
    }
}

/// Says in `_meta` that a request is of 2026-07-28.
const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// The tools of `--full`.
const FULL: [&str; 6] = ["write", "elicit", "sample", "log", "touch", "whoami"];

/// What only `--full` has.
impl Server {
    fn capabilities(&self) -> Value {
        if let Some(capabilities) = self.value("--capabilities") {
            return serde_json::from_str(capabilities).unwrap();
        }
        if !self.has("--full") {
            return json!({"tools": {"listChanged": true}, "resources": {}});
        }
        let mut all = json!({"tools": {"listChanged": true}, "prompts": {"listChanged": true}, "logging": {},
            "completions": {}, "resources": {"listChanged": true, "subscribe": true}});
        if self.has("--no-logging") {
            all.as_object_mut().unwrap().remove("logging");
        }
        all
    }

    /// The answer to a method that the small server does not know.
    fn full(&self, method: &str, params: &Value) -> Option<Value> {
        let name = self.value("--full")?;
        Some(match method {
            "ping" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe" => {
                json!({})
            }
            "prompts/list" => {
                json!({"prompts": [{"name": "greet", "arguments": [{"name": "who"}]}]})
            }
            "prompts/get" => {
                let text =
                    format!("{name} greets {}", params["arguments"]["who"].as_str().unwrap_or("?"));
                json!({"messages": [{"role": "user", "content": {"type": "text", "text": text}}]})
            }
            "resources/list" => {
                json!({"resources": [{"uri": format!("{name}://r/0"), "name": "0"}]})
            }
            "resources/templates/list" => {
                json!({"resourceTemplates": [{"uriTemplate": format!("{name}://t/{{id}}"), "name": "t"}]})
            }
            "completion/complete" => {
                let value = params["argument"]["value"].as_str().unwrap_or_default();
                json!({"completion": {"values": [format!("{name}-{value}")]}})
            }
            _ => return None,
        })
    }

    fn full_call(&self, tool: &str, params: &Value) -> Option<Value> {
        let arguments = &params["arguments"];
        let told = match tool {
            "write" => {
                let file = std::fs::File::options().create(true).append(true).open(self.value("--writes")?);
                let line = format!("{}\n", arguments["key"].as_str().unwrap_or_default());
                file.unwrap().write_all(line.as_bytes()).unwrap();
                if arguments["then"] == "crash" {
                    std::process::exit(9);
                }
                "written".to_owned()
            }
            "elicit" | "sample" => {
                let method = if tool == "elicit" { "elicitation/create" } else { "sampling/createMessage" };
                let asked = json!({"mode": "form", "message": "which?", "maxTokens": 5, "messages": [],
                    "requestedSchema": {"type": "object", "properties": {"color": {"type": "string"}}}});
                if params["_meta"].get(VERSION).is_none() {
                    return self.ask(method, &asked);
                }
                match params["inputResponses"].get("question") {
                    Some(_) if params["requestState"] != "full.1" => {
                        return Some(json!({"content": [{"type": "text", "text": "error: not the state that was given"}],
                            "isError": true}));
                    }
                    Some(answer) => json!({"result": answer}).to_string(),
                    None => {
                        return Some(json!({"resultType": "input_required", "requestState": "full.1",
                            "inputRequests": {"question": {"method": method, "params": asked}}}));
                    }
                }
            }
            "log" => {
                self.send(&json!({"jsonrpc": "2.0", "method": "notifications/message", "params":
                    {"level": arguments["level"], "logger": self.value("--full"), "data": {"said": "log"}}}));
                "logged".to_owned()
            }
            "touch" => {
                self.announce("notifications/resources/updated", json!({"uri": arguments["uri"]}));
                "touched".to_owned()
            }
            _ => json!({"server": self.value("--full"), "pid": std::process::id(), "meta": params["_meta"]}).to_string(),
        };
        Some(json!({"content": [{"type": "text", "text": told}]}))
    }

    fn listen(&self, id: &Value, params: &Value) {
        self.listening.lock().unwrap().push(id.clone());
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
            "_meta": {"io.modelcontextprotocol/subscriptionId": id}, "notifications": params["notifications"]}}));
    }

    /// Sends a notification that belongs to no request: on the connection to a legacy client, and on each open
    /// `subscriptions/listen` to a client of 2026-07-28.
    fn announce(&self, method: &str, mut params: Value) {
        let listening = self.listening.lock().unwrap().clone();
        if !self.has("--modern-only") {
            let mut message = json!({"jsonrpc": "2.0", "method": method});
            if params != json!({}) {
                message["params"] = params.clone();
            }
            self.send(&message);
        }
        for id in listening {
            params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": id});
            self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
        }
    }
}

fn number_or(arguments: &Value, default: i64) -> i64 {
    arguments["code"].as_i64().unwrap_or(default)
}

fn tools() -> Vec<Value> {
    let tool = |name: &str, annotations: Value| {
        let mut tool = json!({"name": name, "inputSchema": {"type": "object"}, "xVendor": name});
        if !annotations.is_null() {
            tool["annotations"] = annotations;
        }
        tool
    };
    let readonly = json!({"readOnlyHint": true});
    let mutating = json!({"readOnlyHint": false, "destructiveHint": false});
    let mut tools: Vec<Value> =
        ["echo", "see_line", "big", "hang", "pid", "cancelled", "wrong_id", "progress"]
            .into_iter()
            .map(|name| tool(name, readonly.clone()))
            .collect();
    tools.push(tool("ask", mutating.clone()));
    tools.push(tool("spawn", mutating));
    tools.push(tool("crash", json!({"destructiveHint": true})));
    tools.push(tool("fail", Value::Null));
    let mut structured = tool("structured", readonly.clone());
    structured["outputSchema"] = json!({"type": "object", "required": ["rows", "log"], "properties": {
        "log": {"type": "string"},
        "rows": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["n", "name"],
            "properties": {"n": {"type": "integer"}, "name": {"type": "string"}}}}}});
    tools.push(structured);
    let mut reject = tool("reject", readonly);
    reject["inputSchema"] = json!({"type": "object", "additionalProperties": false,
        "properties": {"code": {"type": "integer"}, "message": {"type": "string"}}});
    tools.push(reject);
    if std::env::args().any(|option| option == "--full") {
        tools.push(tool("changed", json!({"readOnlyHint": true})));
        tools.extend(FULL.map(|name| tool(name, json!({"readOnlyHint": name == "whoami"}))));
    }
    if std::env::args().any(|option| option == "--vendor") {
        tools.extend(
            ["vendor_ask", "vendor_tell"].map(|name| tool(name, json!({"readOnlyHint": true}))),
        );
    }
    if std::env::args().any(|option| option == "--answering") {
        let mut answer = tool("answer", json!({"readOnlyHint": true}));
        answer["outputSchema"] = json!({"type": "object", "required": ["n"], "properties": {
            "n": {"type": "integer"}, "log": {"type": "string"},
            "rows": {"type": "array", "minItems": 2, "items": {"type": "object"}}}});
        tools.push(answer);
    }
    if std::env::args().any(|option| option == "--bad-schema") {
        let mut bad = tool("bad_schema", json!({"readOnlyHint": true}));
        bad["inputSchema"] = json!({"type": "no such type"});
        tools.push(bad);
    }
    tools
}

/// A tool that answers with the line that it got. Some say nothing of themselves.
fn extra_tool(name: &str) -> Value {
    if name.starts_with("odd") || name == "rounds" {
        return json!({"name": name, "inputSchema": {"type": "object"}});
    }
    json!({"name": name, "title": format!("The tool {name}"), "description": "Answers with what it got",
        "inputSchema": {"type": "object", "properties": {
            "path": {"type": "string"}, "mode": {"type": "string", "enum": ["copy", "move"]},
            "overwrite": {"type": "boolean"}}, "required": ["path", "mode", "overwrite"]},
        "annotations": {"title": format!("Old {name}"), "readOnlyHint": true, "openWorldHint": false},
        "xVendor": [1e3, null]})
}
