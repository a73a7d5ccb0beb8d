//! The tools of the servers behind the gateway, as they are listed.

use serde_json::{Value, json};

/// `echo` gives `text`; `slow` waits for `release`; `write` counts; `elicit`, `sample` and `roots` ask the client; `progress`
/// and `log` tell something first; `big` is as big as asked; `whoami` tells what it saw; `see` gives the
/// message as it came; `answer` answers with the bytes of its argument `result`; `link` gives a link to a resource.
pub(super) fn base() -> Vec<Value> {
    let reading = ["echo", "slow", "progress", "log", "big", "whoami", "see", "answer", "link"];
    let writing = ["write", "elicit", "sample", "roots", "reject"];
    let tools = reading.iter().map(|name| named(name, true));
    tools.chain(writing.iter().map(|name| named(name, false))).collect()
}

pub(super) fn named(name: &str, reads: bool) -> Value {
    json!({"name": name, "description": format!("The tool {name}"), "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": reads, "destructiveHint": false}, "xVendor": {"kept": true}})
}

pub(super) fn numbered(server: &str, n: usize) -> Value {
    named(&format!("{server}_{n}"), true)
}
