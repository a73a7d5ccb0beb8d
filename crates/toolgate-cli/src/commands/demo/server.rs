//! The built-in servers of `toolgate demo`: MCP over stdio (2025-11-25), with fixed data.

use std::io::{self, BufRead as _, Write as _};

use serde_json::{Value, json};
use toolgate_wire::mcp::{LEGACY, code, method};

/// A server that `toolgate demo` starts: this program with a hidden option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum DemoServer {
    Files,
    Tickets,
}

impl DemoServer {
    pub(super) const ALL: [Self; 2] = [Self::Files, Self::Tickets];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Tickets => "tickets",
        }
    }

    /// Serves one client on stdin and stdout until stdin ends.
    pub(super) fn run(self) -> io::Result<()> {
        let mut output = io::stdout().lock();
        for line in io::stdin().lock().lines() {
            let message: Value = serde_json::from_str(&line?).unwrap_or_default();
            let method = message.get("method").and_then(Value::as_str);
            let (Some(id), Some(method)) = (message.get("id"), method) else { continue };
            let (kind, content) = match self.respond(method, message.get("params")) {
                Ok(result) => ("result", result),
                Err((code, message)) => ("error", json!({"code": code, "message": message})),
            };
            writeln!(output, "{}", json!({"jsonrpc": "2.0", "id": id, kind: content}))?;
            output.flush()?;
        }
        Ok(())
    }

    /// The result of a request, or the code and the message of an error.
    fn respond(self, method: &str, params: Option<&Value>) -> Result<Value, (i64, &'static str)> {
        match method {
            method::INITIALIZE => Ok(json!({
                "protocolVersion": LEGACY,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": format!("demo-{}", self.name()), "version": env!("CARGO_PKG_VERSION")},
            })),
            method::PING => Ok(json!({})),
            method::TOOLS_LIST => Ok(json!({"tools": self.tools()})),
            method::TOOLS_CALL => {
                let text = params.and_then(call).ok_or((code::INVALID_PARAMS, "unknown tool"))?;
                Ok(json!({"content": [{"type": "text", "text": text}]}))
            }
            _ => Err((code::METHOD_NOT_FOUND, "unknown method")),
        }
    }

    /// The definitions of the tools.
    pub(super) fn tools(self) -> Vec<Value> {
        let tool = |name: &str, about: &str, argument: &str, kind: &str, annotations: Value| {
            json!({
                "name": name,
                "description": about,
                "inputSchema": {
                    "type": "object",
                    "properties": {argument: {"type": kind}},
                    "required": [argument],
                },
                "annotations": annotations,
            })
        };
        let (readonly, mutating, destructive) = (
            json!({"readOnlyHint": true}),
            json!({"readOnlyHint": false, "destructiveHint": false}),
            json!({"readOnlyHint": false, "destructiveHint": true}),
        );
        match self {
            Self::Files => vec![tool("read_file", "Reads a file", "path", "string", readonly)],
            Self::Tickets => vec![
                tool("search", "Finds tickets", "text", "string", readonly),
                tool("close", "Closes a ticket", "number", "integer", mutating),
                tool("purge", "Deletes all tickets of a year", "year", "integer", destructive),
            ],
        }
    }
}

/// The text of a tool's result. The tools of both servers have different names.
fn call(params: &Value) -> Option<String> {
    let argument = |name: &str| params.get("arguments")?.get(name);
    Some(match params.get("name")?.as_str()? {
        "read_file" => match argument("path")?.as_str()? {
            "README.md" => "Support team: answer within a day.".to_owned(),
            // A token of the right form that is valid nowhere.
            "deploy.env" => ["GITHUB_TOKEN=ghp", "0123456789abcdefghijklmnopqrstuvwxyz"].join("_"),
            "payroll.csv" => "name,salary\nGrace,95000".to_owned(),
            _ => "no such file".to_owned(),
        },
        "search" => "17: printer on fire\n21: VPN is slow".to_owned(),
        "close" => format!("ticket {} is closed", argument("number")?),
        "purge" => format!("all tickets of {} are deleted", argument("year")?),
        _ => return None,
    })
}
