//! A client of 2024-11-05, with an endpoint for each direction.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::{super::http, Message, Pending};

/// A client of 2024-11-05: one stream for everything that comes, posts for everything that goes.
pub struct OldSse {
    address: SocketAddr,
    pub endpoint: String,
    pub stream: Pending,
    next_id: i64,
}

impl OldSse {
    pub fn connect(address: SocketAddr, path: &str) -> Self {
        Self::connect_able(address, path, &json!({}))
    }

    /// The same as a client that can do something.
    pub fn connect_able(address: SocketAddr, path: &str, capabilities: &Value) -> Self {
        let bytes = http::request(address, "GET", path, &[("Accept", "text/event-stream")], b"");
        let mut stream = Pending::start(address, &bytes, json!("SSE"));
        assert_eq!(stream.status(), 200);
        let endpoint = stream.wait_for(|message| message.event.as_deref() == Some("endpoint"));
        let mut client = Self { address, endpoint: endpoint.raw, stream, next_id: 1 };
        let params = json!({"protocolVersion": "2024-11-05", "capabilities": capabilities,
            "clientInfo": {"name": "harness", "version": "1"}});
        let hello = client.request("initialize", params);
        assert_eq!(hello["result"]["protocolVersion"], "2024-11-05", "{}", hello.raw);
        let body = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(client.post(&body.to_string()), 202);
        client
    }

    pub fn post(&self, body: &str) -> u16 {
        self.exchange(body).status
    }

    /// Posts any body; the response itself, which has no message unless it refuses.
    pub fn exchange(&self, body: &str) -> http::Answer {
        let headers = [("Content-Type", "application/json")];
        http::exchange(self.address, "POST", &self.endpoint, &headers, body.as_bytes())
    }

    /// Sends a request and returns its id.
    pub fn start(&mut self, method: &str, params: Value) -> Value {
        let id = json!(self.next_id);
        self.next_id += 1;
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        assert_eq!(self.post(&body.to_string()), 202);
        id
    }

    pub fn request(&mut self, method: &str, params: Value) -> Message {
        let id = self.start(method, params);
        self.stream.wait_for(|message| message.is_answer() && message["id"] == id)
    }

    pub fn call(&mut self, tool: &str, arguments: Value) -> Message {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }
}
