//! MCP clients of both eras over HTTP, written by hand, so that they can also say what no SDK would.

pub mod either;
mod legacy;
mod modern;
pub mod old_sse;
mod pending;

use std::{
    borrow::Borrow,
    io,
    net::SocketAddr,
    sync::{
        Mutex,
        atomic::{AtomicI64, Ordering},
    },
};

use serde_json::{Value, json};

use super::{
    TEST_TIMEOUT,
    http::{self, Answer, Connection, Next},
};

pub use self::{
    legacy::Legacy,
    modern::Modern,
    pending::{Message, Pending},
};

pub const LEGACY: &str = "2025-11-25";
pub const MODERN: &str = "2026-07-28";
pub const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
pub const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
pub const LOG_LEVEL_KEY: &str = "io.modelcontextprotocol/logLevel";
pub const SUBSCRIPTION_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// What both clients are made of: where they speak to, as whom, and connections that are free.
struct Line {
    address: SocketAddr,
    path: String,
    headers: Vec<(String, String)>,
    next_id: AtomicI64,
    spare: Mutex<Vec<Connection>>,
    /// Whatever came before an answer.
    seen: Mutex<Vec<Message>>,
}

impl Line {
    fn new(address: SocketAddr, path: &str) -> Self {
        Self {
            address,
            path: path.to_owned(),
            headers: Vec::new(),
            next_id: AtomicI64::new(1),
            spare: Mutex::default(),
            seen: Mutex::default(),
        }
    }

    fn id(&self) -> i64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// The bytes of a request with this client's headers; those given come last.
    fn bytes(&self, method: &str, more: &[(&str, &str)], body: &str) -> Vec<u8> {
        let ours = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let accept = if method == "GET" {
            "text/event-stream"
        } else {
            "application/json, text/event-stream"
        };
        let mut headers = vec![("Accept", accept)];
        if method == "POST" {
            headers.push(("Content-Type", "application/json"));
        }
        let given = |name: &str| more.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        headers.extend(ours);
        headers.retain(|(name, _)| !given(name));
        // A header that is given empty is left off.
        headers.extend(more.iter().filter(|(_, value)| !value.is_empty()));
        http::request(self.address, method, &self.path, &headers, body.as_bytes())
    }

    fn exchange(&self, bytes: &[u8]) -> io::Result<Answer> {
        let spare = self.spare.lock().unwrap().pop();
        let open = spare.filter(|connection| {
            // A connection that the other side has closed would lose the request.
            let socket = connection.socket();
            socket.set_nonblocking(true).unwrap();
            let open = matches!(socket.peek(&mut [0]), Err(e) if http::is_timeout(&e));
            socket.set_nonblocking(false).unwrap();
            open
        });
        let connection = match open {
            Some(connection) => connection,
            None => Connection::try_open(self.address)?,
        };
        connection.exchange(bytes)
    }

    /// Reads to the end of an answer; what came before the answer itself goes to `before`.
    fn finish(
        &self,
        mut answer: Answer,
        mut before: impl FnMut(Message),
    ) -> (u16, Option<Message>) {
        let status = answer.status;
        let mut found = None;
        if answer.is_events() {
            loop {
                match answer.next(TEST_TIMEOUT) {
                    Next::Event(event) => {
                        let message = Message::of(event);
                        assert!(found.is_none(), "a message after the answer: {}", message.raw);
                        if message.is_answer() {
                            found = Some(message);
                        } else {
                            before(message);
                        }
                    }
                    Next::End => break,
                    Next::Broken(e) => panic!("the stream broke: {e}; answer: {found:?}"),
                    Next::Nothing => panic!("the stream did not end; answer: {found:?}"),
                }
            }
        } else {
            let text = answer.text();
            found = (!text.is_empty()).then(|| Message::read(text, None));
        }
        let mut spare = self.spare.lock().unwrap();
        spare.extend(answer.into_connection());
        (status, found)
    }
}

fn pages(key: &str, ask: impl Fn(Value) -> Message) -> Vec<Value> {
    let mut all = Vec::new();
    let mut params = json!({});
    for _ in 0..1000 {
        let page = ask(params.clone());
        let more =
            page["result"][key].as_array().unwrap_or_else(|| panic!("no {key}: {}", page.raw));
        all.extend(more.iter().cloned());
        match page["result"].get("nextCursor") {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => return all,
        }
    }
    panic!("pages without end");
}

/// Sends a request, and again with the client's input as long as the response asks for input. Returns how often it was asked, and
/// the last response.
pub fn input_rounds<M: Borrow<Value>>(
    mut params: Value,
    answering: impl Fn(&Value) -> Value,
    mut send: impl FnMut(Value) -> M,
) -> (usize, M) {
    for rounds in 0..10 {
        let answer = send(params.clone());
        let result = &answer.borrow()["result"];
        if result["resultType"] != "input_required" {
            return (rounds, answer);
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
    panic!("{} asks without end", params["name"]);
}

fn names(tools: &[Value]) -> Vec<String> {
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}
