//! What the server behind the gateway answers, in the form of its era.

use serde_json::{Value, json};

use super::{
    super::{bytes::member, http::Headers},
    Era, Habit, Shared,
    serving::{Asked, Out},
};

const META: &str = "io.modelcontextprotocol";

/// A result, as a value or as bytes that must stay as they are.
enum Reply {
    Value(Value),
    Raw(String),
    RawError(String),
    Error(i64, &'static str),
    Nothing,
}

impl Shared {
    pub(super) fn has(&self, habit: Habit) -> bool {
        self.state().habits.contains(&habit)
    }

    pub(super) fn new_session(&self) -> String {
        let mut state = self.state();
        state.next += 1;
        let id = format!("{}-session-{}-{}", self.name, state.life, state.next);
        state.sessions.insert(id.clone(), super::Session::default());
        id
    }

    /// The session that a request names, if it is known.
    pub(super) fn session_of(&self, headers: &Headers) -> Option<String> {
        let id = headers.get("mcp-session-id")?.to_owned();
        self.state().sessions.contains_key(&id).then_some(id)
    }
}

/// The status and the message that answers; nothing if the call was given up.
pub(super) fn answer(
    shared: &Shared,
    asked: &Asked,
    message: &Value,
    out: &mut Out,
) -> Option<(u16, String)> {
    let id = message.get("id").cloned();
    let method = message["method"].as_str().unwrap_or_default();
    let session = match entry(shared, asked, message, method, out) {
        Ok(session) => session,
        Err((status, code, why)) => {
            return Some((status, error(&id.unwrap_or_default(), code, why)));
        }
    };
    let Some(id) = id.filter(|_| !method.is_empty()) else {
        heard(shared, session.as_deref(), message);
        return match out {
            Out::Post { .. } => Some((202, String::new())),
            Out::Stream(_) => None,
        };
    };
    let request = Request { shared, asked, session, id: &id, params: &message["params"] };
    let reply = request.reply(method, out);
    Some(match reply {
        Reply::Nothing => return None,
        Reply::Error(code, why) => {
            let status = match (shared.era_of(&asked.headers), code) {
                (Era::Modern, -32601) => 404,
                (Era::Modern, -32021) => 400,
                _ => 200,
            };
            (status, error(&id, code, why))
        }
        Reply::Value(value) => (200, result(&id, &request.finished(method, value).to_string())),
        Reply::Raw(raw) => (200, result(&id, &raw)),
        Reply::RawError(raw) => (200, format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{raw}}}"#)),
    })
}

fn error(id: &Value, code: i64, why: &str) -> String {
    let mut data = json!({"xVendor": 1});
    if code == -32021 {
        data["requiredCapabilities"] = json!({"elicitation": {}});
    }
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": why, "data": data}})
        .to_string()
}

fn result(id: &Value, raw: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{raw}}}"#)
}

type Refused = (u16, i64, &'static str);

/// Checks what each era demands of a request; gives its session.
fn entry(
    shared: &Shared,
    asked: &Asked,
    message: &Value,
    method: &str,
    out: &mut Out,
) -> Result<Option<String>, Refused> {
    if message["jsonrpc"] != "2.0" {
        shared.complain(format!("not JSON-RPC: {message}"));
    }
    if let Out::Post { .. } = out {
        let accept = asked.headers.get("accept").unwrap_or_default();
        if !(accept.contains("application/json") && accept.contains("text/event-stream")) {
            shared.complain(format!("Accept is {accept:?}"));
        }
        if !asked
            .headers
            .get("content-type")
            .is_some_and(|kind| kind.starts_with("application/json"))
        {
            shared.complain("no Content-Type");
        }
    }
    match shared.era_of(&asked.headers) {
        Era::Modern => modern_entry(shared, asked, message, method).map(|()| None),
        Era::OldSse => Ok(Some(asked.target.rsplit('=').next().unwrap_or_default().to_owned())),
        Era::Legacy | Era::Dual if method == "initialize" => {
            let id = shared.new_session();
            if let Out::Post { headers, .. } = out {
                *headers = format!("Mcp-Session-Id: {id}\r\n");
            }
            Ok(Some(id))
        }
        Era::Legacy | Era::Dual => legacy_entry(shared, asked, method).map(Some),
    }
}

fn legacy_entry(shared: &Shared, asked: &Asked, method: &str) -> Result<String, Refused> {
    if asked.headers.get("mcp-session-id").is_none() {
        // A client that looks for the newer era first says this without a session.
        if method != "server/discover" {
            shared.complain(format!("{method} without a session"));
        }
        return Err((400, -32000, "Bad Request: Server not initialized"));
    }
    let id = shared.session_of(&asked.headers).ok_or((404, -32001, "Session not found"))?;
    let state = shared.state();
    let session = &state.sessions[&id];
    let (ready, version) = (session.initialized, session.version.clone());
    drop(state);
    if !ready && method != "notifications/initialized" {
        shared.complain(format!("{method} before notifications/initialized"));
    }
    if asked.headers.get("mcp-protocol-version") != Some(&version) {
        shared.complain(format!("{method} without MCP-Protocol-Version {version}"));
    }
    Ok(id)
}

fn modern_entry(
    shared: &Shared,
    asked: &Asked,
    message: &Value,
    method: &str,
) -> Result<(), Refused> {
    if method == "initialize" {
        return Err((400, -32022, "Unsupported protocol version"));
    }
    if method.is_empty() {
        shared.complain(format!("a response to a modern server: {message}"));
    }
    if asked.headers.get("mcp-session-id").is_some() {
        shared.complain("a session with a modern server");
    }
    let params = &message["params"];
    let name = match method {
        "tools/call" | "prompts/get" => params["name"].as_str(),
        "resources/read" => params["uri"].as_str(),
        _ => None,
    };
    let expected = [
        ("mcp-protocol-version", Some("2026-07-28")),
        ("mcp-method", Some(method)),
        ("mcp-name", name),
    ];
    for (header, value) in expected {
        let found = asked.headers.get(header).map(decoded);
        if found.as_deref() != value || asked.headers.count(header) > 1 {
            shared.complain(format!("{header} is {found:?} where the body says {value:?}"));
            return Err((400, -32020, "Header mismatch"));
        }
    }
    if message.get("id").is_none() {
        return Ok(());
    }
    let meta = &params["_meta"];
    if meta[format!("{META}/protocolVersion")] != "2026-07-28"
        || !meta[format!("{META}/clientCapabilities")].is_object()
    {
        shared.complain(format!("_meta is {meta}"));
        return Err((400, -32602, "Missing _meta"));
    }
    Ok(())
}

/// What a header says: text outside of ASCII comes in base64.
pub(super) fn decoded(value: &str) -> String {
    const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let inner = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
    let Some(inner) = inner else { return value.to_owned() };
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in inner.chars().filter_map(|c| ALPHABET.find(c)) {
        bits = (bits << 6) | u32::try_from(digit).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from((bits >> count) & 0xff).unwrap());
        }
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// A notification, or the answer to a question.
fn heard(shared: &Shared, session: Option<&str>, message: &Value) {
    let mut state = shared.state();
    match message["method"].as_str() {
        Some("notifications/initialized") => {
            if let Some(session) = session.and_then(|id| state.sessions.get_mut(id)) {
                session.initialized = true;
            }
        }
        Some("notifications/cancelled") => {
            state.cancelled.push(message["params"]["requestId"].clone());
        }
        None => {
            let id = message["id"].as_str().unwrap_or_default().to_owned();
            state.answers.insert(id, message.clone());
        }
        Some(_) => {}
    }
    drop(state);
    shared.changed.notify_all();
}

/// A request that may be answered.
struct Request<'a> {
    shared: &'a Shared,
    asked: &'a Asked,
    session: Option<String>,
    id: &'a Value,
    params: &'a Value,
}

impl Request<'_> {
    fn is_modern(&self) -> bool {
        self.shared.era_of(&self.asked.headers) == Era::Modern
    }

    /// What the newer era has in each result.
    fn finished(&self, method: &str, mut value: Value) -> Value {
        if !self.is_modern() {
            return value;
        }
        if value.get("resultType").is_none() {
            value["resultType"] = json!("complete");
        }
        if method.ends_with("/list") || method == "resources/read" || method == "server/discover" {
            value["ttlMs"] = json!(1000);
            value["cacheScope"] = json!("public");
        }
        value["_meta"][format!("{META}/serverInfo")] =
            json!({"name": self.shared.name, "version": "1"});
        value
    }

    fn capabilities(&self) -> Value {
        if let Some(capabilities) = &self.shared.state().capabilities {
            return capabilities.clone();
        }
        let mut all = json!({"tools": {"listChanged": true}, "prompts": {"listChanged": true}, "logging": {},
            "completions": {}, "resources": {"listChanged": true, "subscribe": true}});
        if self.shared.has(Habit::UnannouncedLogs) {
            all.as_object_mut().unwrap().remove("logging");
        }
        if self.shared.has(Habit::LegacySubscriptions) && self.is_modern() {
            all["resources"]["subscribe"] = json!(false);
        }
        all
    }

    fn reply(&self, method: &str, out: &mut Out) -> Reply {
        let name = &self.shared.name;
        match self.shared.state().replies.get(method) {
            Some(Ok(raw)) => return Reply::Raw(raw.clone()),
            Some(Err(raw)) => return Reply::RawError(raw.clone()),
            None => {}
        }
        Reply::Value(match method {
            "initialize" => self.initialize(),
            "server/discover" if self.is_modern() => {
                let is_listed =
                    self.shared.era == Era::Dual && !self.shared.has(Habit::HiddenLegacy);
                let old = is_listed.then_some("2025-11-25");
                let versions: Vec<&str> = ["2026-07-28"].into_iter().chain(old).collect();
                json!({"supportedVersions": versions, "capabilities": self.capabilities(),
                    "instructions": format!("This is {name}.")})
            }
            "ping" if !self.is_modern() => json!({}),
            "logging/setLevel" if !self.is_modern() => {
                self.in_session(|session| {
                    session.level = self.params["level"].as_str().map(str::to_owned);
                });
                json!({})
            }
            "resources/subscribe" | "resources/unsubscribe" if !self.is_modern() => {
                let uri = self.params["uri"].as_str().unwrap_or_default().to_owned();
                self.in_session(|session| match method {
                    "resources/subscribe" => drop(session.subscriptions.insert(uri)),
                    _ => drop(session.subscriptions.remove(&uri)),
                });
                json!({})
            }
            "tools/list" => {
                let list = self.finished(method, self.tools()).to_string();
                let mut raw = self.shared.state().raw_tools.join(",");
                if !raw.is_empty() {
                    raw.push(',');
                }
                return Reply::Raw(list.replacen("\"tools\":[", &format!("\"tools\":[{raw}"), 1));
            }
            "tools/call" => return self.call(out),
            "prompts/list" => {
                json!({"prompts": [{"name": "greet", "description": format!("Greets from {name}"),
                "arguments": [{"name": "who", "required": true}]}]})
            }
            "prompts/get" if self.params["name"] == "greet" => {
                let text = format!(
                    "{name} greets {}",
                    self.params["arguments"]["who"].as_str().unwrap_or("?")
                );
                json!({"messages": [{"role": "user", "content": {"type": "text", "text": text}}]})
            }
            "prompts/get" => return Reply::Error(-32602, "Unknown prompt"),
            "resources/list" => {
                let resource = |n: usize| json!({"uri": format!("{name}://r/{n}"), "name": format!("{name} {n}")});
                json!({"resources": (0..3).map(resource).collect::<Vec<_>>()})
            }
            "resources/templates/list" => {
                json!({"resourceTemplates": [{"uriTemplate": format!("{name}://t/{{id}}"), "name": format!("{name} t")}]})
            }
            "resources/read" => return self.read(),
            "completion/complete" => {
                let value = self.params["argument"]["value"].as_str().unwrap_or_default();
                json!({"completion": {"values": [format!("{name}-{value}")], "total": 1, "hasMore": false}})
            }
            "vendor/fail" => {
                return Reply::RawError(
                    member(&self.asked.raw, &["params", "error"]).unwrap_or_default(),
                );
            }
            "vendor/echo" => {
                let params =
                    member(&self.asked.raw, &["params"]).unwrap_or_else(|| "{}".to_owned());
                return Reply::Raw(params);
            }
            _ => return Reply::Error(-32601, "Method not found"),
        })
    }

    fn in_session(&self, change: impl FnOnce(&mut super::Session)) {
        let mut state = self.shared.state();
        if let Some(session) = self.session.as_ref().and_then(|id| state.sessions.get_mut(id)) {
            change(session);
        }
    }

    fn initialize(&self) -> Value {
        let version = match self.shared.era {
            Era::OldSse => "2024-11-05".to_owned(),
            _ => "2025-11-25".to_owned(),
        };
        let told = version.clone();
        self.in_session(|session| {
            session.version = told;
            session.capabilities = self.params["capabilities"].clone();
        });
        json!({"protocolVersion": version, "capabilities": self.capabilities(),
            "serverInfo": {"name": self.shared.name, "version": "1"},
            "instructions": format!("This is {}.", self.shared.name), "xVendor": {"kept": 1}})
    }

    fn tools(&self) -> Value {
        let state = self.shared.state();
        let size = state.page.unwrap_or(usize::MAX);
        let from: usize =
            self.params["cursor"].as_str().and_then(|at| at.parse().ok()).unwrap_or(0);
        let page: Vec<Value> = state.tools.iter().skip(from).take(size).cloned().collect();
        if state.growing {
            let tool = super::tools::named(&format!("grown_{from}"), true);
            return json!({"tools": [tool], "nextCursor": (from + 1).to_string()});
        }
        let mut result = json!({"tools": page, "xVendor": "kept"});
        let next = from.saturating_add(size);
        if next < state.tools.len() {
            result["nextCursor"] = json!(next.to_string());
        } else if state.endless {
            result["nextCursor"] = json!("0");
        }
        result
    }

    fn read(&self) -> Reply {
        let uri = self.params["uri"].as_str().unwrap_or_default();
        if !uri.starts_with(&format!("{}://", self.shared.name)) || uri.contains("missing") {
            let code = if self.is_modern() { -32602 } else { -32002 };
            let error =
                json!({"code": code, "message": "Resource not found", "data": {"uri": uri}});
            return Reply::RawError(error.to_string());
        }
        let text = format!("{} read {uri}", self.shared.name);
        Reply::Value(json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}))
    }

    fn ran(&self, tool: &str, key: &str) {
        let mut state = self.shared.state();
        *state.executions.entry((tool.to_owned(), key.to_owned())).or_default() += 1;
        drop(state);
        self.shared.changed.notify_all();
    }

    fn call(&self, out: &mut Out) -> Reply {
        let arguments = &self.params["arguments"];
        let text = |key: &str| arguments[key].as_str().unwrap_or_default().to_owned();
        let tool = self.params["name"].as_str().unwrap_or_default();
        let known = self.shared.state().tools.iter().any(|known| known["name"] == tool);
        if !known {
            return Reply::Error(-32602, "Unknown tool");
        }
        let key = if arguments["key"].is_string() { text("key") } else { text("text") };
        self.ran(tool, &key);
        said(match tool {
            "echo" => text("text"),
            "big" => {
                "x".repeat(usize::try_from(arguments["size"].as_u64().unwrap_or(1)).unwrap_or(1))
            }
            "see" => self.asked.raw.clone(),
            "whoami" => {
                let headers: serde_json::Map<String, Value> = self
                    .asked
                    .headers
                    .0
                    .iter()
                    .map(|(name, value)| (name.clone(), json!(value)))
                    .collect();
                json!({"server": self.shared.name, "headers": headers, "meta": self.params["_meta"],
                    "session": self.session})
                .to_string()
            }
            "answer" => {
                let raw = member(&self.asked.raw, &["params", "arguments", "result"]);
                return Reply::Raw(raw.unwrap_or_default());
            }
            "reject" => {
                return Reply::Error(
                    arguments["code"].as_i64().unwrap_or(-32000),
                    "rejected, as asked",
                );
            }
            "link" => {
                let uri = format!("{}://linked/{key}", self.shared.name);
                return Reply::Value(
                    json!({"content": [{"type": "resource_link", "uri": uri, "name": "a link"}]}),
                );
            }
            "slow" => return self.slow(out, &key),
            "progress" => {
                for step in 1..=arguments["steps"].as_u64().unwrap_or(3) {
                    self.progress(out, step);
                }
                "done".to_owned()
            }
            "log" => {
                self.log(out);
                "logged".to_owned()
            }
            "elicit" => {
                let schema = json!({"type": "object", "properties": {"color": {"type": "string"}}});
                let params =
                    json!({"mode": "form", "message": "Which color?", "requestedSchema": schema});
                return self.ask(out, "elicitation/create", params);
            }
            "sample" => {
                let content = json!({"type": "text", "text": "Say something"});
                let params =
                    json!({"messages": [{"role": "user", "content": content}], "maxTokens": 10});
                return self.ask(out, "sampling/createMessage", params);
            }
            "roots" => return self.ask(out, "roots/list", json!({})),
            "vendor_ask" => return self.ask(out, "vendor/ask", json!({"q": [1]})),
            "vendor_tell" => {
                out.say(&json!({"jsonrpc": "2.0", "method": "notifications/vendor/said", "params": {"x": 1}}));
                "told".to_owned()
            }
            _ => format!("{}:{tool}:{key}", self.shared.name),
        })
    }

    fn progress(&self, out: &mut Out, step: u64) {
        let token = &self.params["_meta"]["progressToken"];
        if !token.is_null() {
            out.say(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params":
                {"progressToken": token, "progress": step, "total": 100, "message": format!("step {step}")}}));
        }
    }

    fn log(&self, out: &mut Out) {
        let wanted = match self.session {
            None => self.params["_meta"].get(format!("{META}/logLevel")).is_some(),
            Some(_) => true,
        };
        if wanted {
            let level = self.params["arguments"]["level"].as_str().unwrap_or("info");
            out.say(&json!({"jsonrpc": "2.0", "method": "notifications/message", "params":
                {"level": level, "logger": self.shared.name, "data": {"said": "log"}}}));
        }
    }

    /// Waits until it is released, or given up.
    fn slow(&self, out: &mut Out, key: &str) -> Reply {
        self.progress(out, 1);
        self.shared.state().waiting.push(key.to_owned());
        self.shared.changed.notify_all();
        let life = self.shared.state().life;
        let released = self.shared.wait_for(|state| {
            let gone = state.life != life || state.cancelled.contains(self.id) || out.is_gone();
            state.released.contains(key).then_some(true).or_else(|| gone.then_some(false))
        });
        if released == Some(true) {
            return said(format!("{}:slow:{key}", self.shared.name));
        }
        self.shared.state().hung_up.push(key.to_owned());
        Reply::Nothing
    }

    /// Asks the client something, in the way of the era, and tells what it said.
    fn ask(&self, out: &mut Out, method: &str, params: Value) -> Reply {
        let able = method.split('/').next().unwrap_or_default();
        let session = self.session.as_ref().and_then(|id| {
            Some(self.shared.state().sessions.get(id)?.capabilities[able].is_object())
        });
        let meta = &self.params["_meta"][format!("{META}/clientCapabilities")];
        let is_able = able == "vendor" || session.unwrap_or(meta[able].is_object());
        if self.is_modern() && self.shared.has(Habit::HiddenLegacy) {
            return said("cannot ask in 2026-07-28".to_owned());
        }
        if !is_able && self.params["arguments"]["rude"] != true {
            return if self.is_modern() {
                Reply::Error(-32021, "Missing required client capability")
            } else {
                Reply::Value(
                    json!({"content": [{"type": "text", "text": "error: nobody can be asked"}], "isError": true}),
                )
            };
        }
        if self.is_modern() {
            return match self.params["inputResponses"].get("question") {
                Some(answer) if self.params["requestState"] == "state \"of\" the \u{e4}sker" => {
                    said(answer.to_string())
                }
                Some(_) => Reply::Error(-32602, "The requestState is not what was given"),
                None => Reply::Value(
                    json!({"resultType": "input_required", "requestState": "state \"of\" the \u{e4}sker",
                    "inputRequests": {"question": {"method": method, "params": params}}}),
                ),
            };
        }
        let id = {
            let mut state = self.shared.state();
            state.next += 1;
            format!("{}-asks-{}", self.shared.name, state.next)
        };
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let aside = self.params["arguments"]["aside"] == true;
        let stream = self.session.as_ref().filter(|_| aside).and_then(|session| {
            self.shared.state().sessions.get(session)?.streams.first().cloned()
        });
        let heard = match stream {
            Some(stream) => stream.send(message.to_string()).is_ok(),
            None => out.say(&message),
        };
        let answer = self.shared.wait_for(|state| state.answers.remove(&id)).filter(|_| heard);
        match answer {
            Some(answer) if answer.get("error").is_some() => Reply::Value(
                json!({"content": [{"type": "text", "text": answer["error"].to_string()}], "isError": true}),
            ),
            Some(answer) => said(answer["result"].to_string()),
            None => Reply::Error(-32603, "Nobody answered"),
        }
    }
}

fn said(text: String) -> Reply {
    Reply::Value(json!({"content": [{"type": "text", "text": text}]}))
}
