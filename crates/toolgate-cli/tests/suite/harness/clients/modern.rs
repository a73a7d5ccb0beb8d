//! A client of the version without a handshake.

use std::{io, net::SocketAddr};

use serde_json::{Value, json};

use super::{
    super::http::Answer, CAPABILITIES_KEY, Line, MODERN, Message, Pending, SUBSCRIPTION_KEY,
    VERSION_KEY, input_rounds, names, pages,
};

/// A client of 2026-07-28: no session, everything is said with each request.
pub struct Modern {
    line: Line,
    pub capabilities: Value,
    /// More members of `_meta`.
    pub meta: Value,
}

impl Modern {
    pub fn new(address: SocketAddr, path: &str) -> Self {
        Self { line: Line::new(address, path), capabilities: json!({}), meta: json!({}) }
    }

    pub fn with_token(mut self, token: &str) -> Self {
        self.line.headers.push(("Authorization".to_owned(), format!("Bearer {token}")));
        self
    }

    pub fn able(mut self, capabilities: Value) -> Self {
        self.capabilities = capabilities;
        self
    }

    pub fn with_meta(mut self, meta: Value) -> Self {
        self.meta = meta;
        self
    }

    /// The body of a request, with its id.
    pub fn body(&self, method: &str, mut params: Value) -> (i64, String) {
        let id = self.line.id();
        let given = params["_meta"].take();
        let mut meta = json!({VERSION_KEY: MODERN, CAPABILITIES_KEY: self.capabilities,
            "io.modelcontextprotocol/clientInfo": {"name": "harness", "version": "9"}});
        for more in [&self.meta, &given] {
            meta.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        }
        params["_meta"] = meta;
        (id, json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string())
    }

    /// The headers that belong to a body; those given come over them, an empty one is left off.
    pub fn bytes(&self, body: &str, more: &[(&str, &str)]) -> Vec<u8> {
        let message: Value = serde_json::from_str(body).unwrap_or(Value::Null);
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let name = match method.as_str() {
            "tools/call" | "prompts/get" => message["params"]["name"].as_str(),
            "resources/read" => message["params"]["uri"].as_str(),
            method if method.starts_with("tasks/") => message["params"]["taskId"].as_str(),
            _ => None,
        };
        let mut headers = vec![("MCP-Protocol-Version", MODERN), ("Mcp-Method", &method)];
        headers.extend(name.map(|name| ("Mcp-Name", name)));
        headers.retain(|(name, _)| !more.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)));
        headers.extend(more);
        self.line.bytes("POST", &headers, body)
    }

    /// Posts any body, with headers over its own.
    pub fn post(&self, body: &str, headers: &[(&str, &str)]) -> io::Result<Answer> {
        self.line.exchange(&self.bytes(body, headers))
    }

    pub fn raw(&self, body: &str, headers: &[(&str, &str)]) -> (u16, Option<Message>) {
        let answer = self.post(body, headers).unwrap();
        self.line.finish(answer, |message| self.line.seen.lock().unwrap().push(message))
    }

    pub fn try_request(&self, method: &str, params: Value) -> (u16, Message) {
        let (id, body) = self.body(method, params);
        let (status, answer) = self.raw(&body, &[]);
        let answer = answer.unwrap_or_else(|| panic!("{method}: status {status} and no answer"));
        assert_eq!(answer["id"], json!(id), "the answer to another request: {}", answer.raw);
        (status, answer)
    }

    pub fn request(&self, method: &str, params: Value) -> Message {
        let (status, answer) = self.try_request(method, params);
        assert_eq!(status, 200, "{method}: {}", answer.raw);
        answer
    }

    pub fn call(&self, tool: &str, arguments: Value) -> Message {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool, and answers whatever it asks for, round by round.
    pub fn call_answering(
        &self,
        tool: &str,
        arguments: Value,
        answering: impl Fn(&Value) -> Value,
    ) -> (usize, Message) {
        let params = json!({"name": tool, "arguments": arguments});
        input_rounds(params, answering, |params| self.request("tools/call", params))
    }

    pub fn open(&self, method: &str, params: Value) -> Pending {
        let (id, body) = self.body(method, params);
        Pending::start(self.line.address, &self.bytes(&body, &[]), json!(id))
    }

    pub fn open_call(&self, tool: &str, arguments: Value) -> Pending {
        self.open("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// `subscriptions/listen`; waits for the acknowledgement, which is given too.
    pub fn listen(&self, notifications: Value) -> (Pending, Message) {
        let mut stream = self.open("subscriptions/listen", json!({"notifications": notifications}));
        assert_eq!(stream.status(), 200);
        let first = stream.wait_for(|_| true);
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{}", first.raw);
        assert_eq!(first["params"]["_meta"][SUBSCRIPTION_KEY], stream.id, "{}", first.raw);
        (stream, first)
    }

    pub fn seen(&self) -> Vec<Message> {
        self.line.seen.lock().unwrap().drain(..).collect()
    }

    pub fn list(&self, method: &str, key: &str) -> Vec<Value> {
        pages(key, |cursor| self.request(method, cursor))
    }

    pub fn tools(&self) -> Vec<String> {
        names(&self.list("tools/list", "tools"))
    }
}
