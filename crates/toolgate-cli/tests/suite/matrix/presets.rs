//! The presets are accepted by every command, with an audit file.

use serde_json::{Value, json};

use crate::{
    harness::matrix::{Client, Setup, refused},
    matrix::scenario::Group,
};

/// Calls run, and what changes something is recorded.
fn audited(client: &mut Client) -> Value {
    let tool = client.safe();
    let answer = client.call(tool, json!({}));
    let tool = client.wipe();
    client.call(tool, json!({"session_name": "no such", "__confirm": true}));
    let record = client.recorded(|record| record["tool"] == tool);
    json!([refused(&answer), record["event"]])
}

fn with(chain: &str) -> Setup {
    Setup::new(&format!("[namespaces.default]\nchain = '{chain}'\nsafety = 'destructive'\n"))
        .spy(&["--rich"])
}

pub fn libtmux() -> Group {
    Group::new(with("libtmux")).everywhere("the preset libtmux", json!([false, "call"]), audited)
}

pub fn metamcp() -> Group {
    Group::new(with("metamcp")).everywhere("the preset metamcp", json!([false, "call"]), audited)
}

/// mcp-core runs what reads, and asks for both keys of a confirmation before anything else: here the operator's is
/// missing.
pub fn mcp_core() -> Group {
    Group::new(with("mcp-core")).everywhere(
        "the preset mcp-core",
        json!([false, "DRY_RUN_PREVIEW", ["operator"]]),
        |client| {
            let tool = client.safe();
            let read = client.call(tool, json!({}));
            let tool = client.wipe();
            let answer = client.call(tool, json!({"session_name": "no such", "__confirm": true}));
            let meta = &answer["result"]["_meta"];
            json!([refused(&read), meta["code"], meta["preview"]["missing"]])
        },
    )
}
