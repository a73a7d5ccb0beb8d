//! A client of the versions with a handshake and sessions.

use std::{io, net::SocketAddr, sync::Arc};

use serde_json::{Value, json};

use super::{super::http::Answer, LEGACY, Line, Message, Pending, names, pages};

/// How a client answers what it is asked: the request, and the result for it.
type Answering = Arc<dyn Fn(&Value) -> Value + Send + Sync>;

/// A client of 2025-11-25 and before: initialize, a session, requests from the server.
pub struct Legacy {
    line: Line,
    pub version: String,
    pub session: Option<String>,
    pub capabilities: Value,
    /// What `initialize` was answered with.
    pub hello: Value,
    answering: Option<Answering>,
}

impl Legacy {
    /// A client that has not said anything yet.
    pub fn new(address: SocketAddr, path: &str) -> Self {
        Self {
            line: Line::new(address, path),
            version: LEGACY.to_owned(),
            session: None,
            capabilities: json!({}),
            hello: Value::Null,
            answering: None,
        }
    }

    pub fn with_token(self, token: &str) -> Self {
        self.with_header("Authorization", &format!("Bearer {token}"))
    }

    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.line.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn of_version(mut self, version: &str) -> Self {
        version.clone_into(&mut self.version);
        self
    }

    /// What it can do, and how it answers when it is asked.
    pub fn able(
        mut self,
        capabilities: Value,
        answering: impl Fn(&Value) -> Value + Send + Sync + 'static,
    ) -> Self {
        self.capabilities = capabilities;
        self.answering = Some(Arc::new(answering));
        self
    }

    /// Says hello.
    pub fn connected(mut self) -> Self {
        let params = json!({"protocolVersion": self.version, "capabilities": self.capabilities,
            "clientInfo": {"name": "harness", "version": "7"}});
        let body = json!({"jsonrpc": "2.0", "id": self.line.id(), "method": "initialize", "params": params});
        let answer = self.line.exchange(&self.bytes("POST", &[], &body.to_string())).unwrap();
        self.session = answer.header("mcp-session-id").map(str::to_owned);
        let (status, hello) = self.line.finish(answer, |_| {});
        let hello = hello.unwrap_or_else(|| panic!("no answer to initialize, status {status}"));
        assert!(hello["result"].is_object(), "initialize: {status} {}", hello.raw);
        assert!(self.session.is_some(), "no Mcp-Session-Id");
        self.hello = hello["result"].clone();
        assert_eq!(self.notify("notifications/initialized", json!({})), 202);
        self
    }

    fn bytes(&self, method: &str, more: &[(&str, &str)], body: &str) -> Vec<u8> {
        let mut headers = Vec::new();
        if let Some(session) = &self.session {
            headers.push(("Mcp-Session-Id", session.as_str()));
            headers.push(("MCP-Protocol-Version", self.version.as_str()));
        }
        headers.retain(|(name, _)| !more.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)));
        headers.extend(more);
        self.line.bytes(method, &headers, body)
    }

    /// Posts any body.
    pub fn post(&self, body: &str) -> io::Result<Answer> {
        self.line.exchange(&self.bytes("POST", &[], body))
    }

    /// One exchange of any method, with headers over the client's own; an empty one is left off.
    pub fn exchange(&self, method: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        self.line.exchange(&self.bytes(method, headers, body)).unwrap()
    }

    /// Sends a notification; gives the status.
    pub fn notify(&self, method: &str, params: Value) -> u16 {
        let body = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.line.finish(self.post(&body.to_string()).unwrap(), |_| {}).0
    }

    /// Answers a request of the server; gives the status.
    pub fn respond(&self, id: &Value, result: Value) -> u16 {
        let body = json!({"jsonrpc": "2.0", "id": id, "result": result});
        self.line.finish(self.post(&body.to_string()).unwrap(), |_| {}).0
    }

    /// Sends a request, answers what it is asked meanwhile, and gives the answer.
    pub fn request(&self, method: &str, params: Value) -> Message {
        let (status, answer) = self.try_request(method, params);
        let answer = answer.unwrap_or_else(|| panic!("{method}: status {status} and no answer"));
        assert_eq!(status, 200, "{method}: {}", answer.raw);
        answer
    }

    pub fn try_request(&self, method: &str, params: Value) -> (u16, Option<Message>) {
        let id = self.line.id();
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let (status, answer) = self.raw(&body.to_string());
        if let Some(answer) = &answer
            && status == 200
        {
            assert_eq!(answer["id"], json!(id), "the answer to another request: {}", answer.raw);
        }
        (status, answer)
    }

    /// Posts any body and gives what comes back.
    pub fn raw(&self, body: &str) -> (u16, Option<Message>) {
        let answer = self.post(body).unwrap();
        self.line.finish(answer, |message| self.hear(message))
    }

    fn hear(&self, message: Message) {
        if message.is_request()
            && let Some(answering) = &self.answering
        {
            let status = self.respond(&message["id"], answering(&message));
            assert_eq!(status, 202, "an answer to {} was not taken", message.raw);
        }
        self.line.seen.lock().unwrap().push(message);
    }

    pub fn call(&self, tool: &str, arguments: Value) -> Message {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Sends a request whose answer is waited for later.
    pub fn open(&self, method: &str, params: Value) -> Pending {
        let id = json!(self.line.id());
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        Pending::start(self.line.address, &self.bytes("POST", &[], &body.to_string()), id)
    }

    pub fn open_call(&self, tool: &str, arguments: Value) -> Pending {
        self.open("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Opens the session's own stream, and waits until it is open.
    pub fn listen(&self) -> Pending {
        let mut stream =
            Pending::start(self.line.address, &self.bytes("GET", &[], ""), json!("GET"));
        assert_eq!(stream.status(), 200);
        stream
    }

    /// Ends the session; gives the status.
    pub fn delete(&self) -> u16 {
        self.line.finish(self.exchange("DELETE", &[], ""), |_| {}).0
    }

    /// What came before answers so far.
    pub fn seen(&self) -> Vec<Message> {
        self.line.seen.lock().unwrap().drain(..).collect()
    }

    /// All pages of a list.
    pub fn list(&self, method: &str, key: &str) -> Vec<Value> {
        pages(key, |cursor| self.request(method, cursor))
    }

    pub fn tools(&self) -> Vec<String> {
        names(&self.list("tools/list", "tools"))
    }
}
