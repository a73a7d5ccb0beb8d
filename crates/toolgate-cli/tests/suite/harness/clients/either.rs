//! A client of either era, for tests that hold for both.

use serde_json::{Value, json};

use super::{Legacy, Message, Modern, Pending};

pub enum Either {
    Legacy(Legacy),
    Modern(Modern),
}

impl Either {
    pub fn is_modern(&self) -> bool {
        matches!(self, Self::Modern(_))
    }

    /// For messages of failed tests.
    pub fn era(&self) -> &'static str {
        if self.is_modern() { "modern client" } else { "legacy client" }
    }

    pub fn request(&self, method: &str, params: Value) -> Message {
        match self {
            Self::Legacy(client) => client.request(method, params),
            Self::Modern(client) => client.request(method, params),
        }
    }

    pub fn call(&self, tool: &str, arguments: Value) -> Message {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// A call with `_meta`.
    pub fn call_with(&self, tool: &str, arguments: Value, meta: Value) -> Message {
        self.request("tools/call", json!({"name": tool, "arguments": arguments, "_meta": meta}))
    }

    /// The status and the answer, whatever they are.
    pub fn try_request(&self, method: &str, params: Value) -> (u16, Option<Message>) {
        match self {
            Self::Legacy(client) => client.try_request(method, params),
            Self::Modern(client) => {
                let (status, answer) = client.try_request(method, params);
                (status, Some(answer))
            }
        }
    }

    /// Posts a request of any bytes, with the headers that fit it.
    pub fn raw(&self, body: &str) -> (u16, Option<Message>) {
        match self {
            Self::Legacy(client) => client.raw(body),
            Self::Modern(client) => client.raw(body, &[]),
        }
    }

    pub fn open(&self, method: &str, params: Value) -> Pending {
        match self {
            Self::Legacy(client) => client.open(method, params),
            Self::Modern(client) => client.open(method, params),
        }
    }

    pub fn open_call(&self, tool: &str, arguments: Value) -> Pending {
        self.open("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    pub fn list(&self, method: &str, key: &str) -> Vec<Value> {
        match self {
            Self::Legacy(client) => client.list(method, key),
            Self::Modern(client) => client.list(method, key),
        }
    }

    pub fn tools(&self) -> Vec<String> {
        match self {
            Self::Legacy(client) => client.tools(),
            Self::Modern(client) => client.tools(),
        }
    }

    /// A stream of what changes: the session's own, or one that asks for it.
    pub fn listen(&self, resources: &[&str]) -> Pending {
        match self {
            Self::Legacy(client) => {
                let stream = client.listen();
                for uri in resources {
                    client.request("resources/subscribe", json!({"uri": uri}));
                }
                stream
            }
            Self::Modern(client) => {
                let all = json!({"toolsListChanged": true, "promptsListChanged": true,
                    "resourcesListChanged": true, "resourceSubscriptions": resources});
                client.listen(all).0
            }
        }
    }

    pub fn seen(&self) -> Vec<Message> {
        match self {
            Self::Legacy(client) => client.seen(),
            Self::Modern(client) => client.seen(),
        }
    }
}
