//! What is not the gateway's passes as it was written.

use serde_json::{Value, json};

use crate::{
    harness::matrix::{Client, Setup},
    matrix::scenario::Group,
};

/// Spellings that a parser would change, and members that no specification has.
const SPELLINGS: &str =
    r#"{"a":1.0e2,"b":100000000000000000000001,"c":-0.0,"d":"\u0041\/","Vendor":{"x":[1.50,{}]}}"#;

/// Calls `respond` with a raw result or error, and returns the exact text of the response.
fn respond(client: &mut Client, member: &str, text: &str) -> String {
    let arguments = json!({member: text});
    let text = client.text_of(
        json!("exact"),
        "tools/call",
        json!({"name": "respond", "arguments": arguments}),
    );
    client.exchange_text(&text, "\"exact\"")
}

pub fn bytes() -> Group {
    Group::new(Setup::new("").spy(&["--rich"]))
        .spied("arguments pass as they are spelt", json!(true), |client| {
            let text = client.text_of(
                json!("spelt"),
                "tools/call",
                json!({"name": "safe", "arguments": {"HERE": 1}}),
            );
            client.exchange(&text.replace("{\"HERE\":1}", SPELLINGS));
            json!(client.lines().iter().any(|line| line.contains(SPELLINGS)))
        })
        .spied("unknown members of parameters and of _meta pass", json!([true, true]), |client| {
            let params = json!({"name": "safe", "arguments": {}, "vendorParam": {"x": 1},
                "_meta": {"vendor.example/key": [1, 2]}});
            client.request("tools/call", params);
            let lines = client.lines();
            let has = |part: &str| lines.iter().any(|line| line.contains(part));
            json!([has("\"vendorParam\":{\"x\":1}"), has("\"vendor.example/key\":[1,2]")])
        })
        .spied("results pass as they are spelt", json!(true), |client| {
            let result = format!(
                "{{\"content\":[{{\"type\":\"vendor\",\"v\":{SPELLINGS}}}],\"structuredContent\":{SPELLINGS},\"resultType\":\"complete\",\"extra\":{SPELLINGS}}}"
            );
            let text = respond(client, "result", &result);
            assert!(text.matches(SPELLINGS).count() == 3, "{text}");
            json!(true)
        })
        .spied("errors of tools keep unknown members and spelling", json!(true), |client| {
            let error = format!(
                "{{\"code\":-32050,\"message\":\"no\",\"data\":{SPELLINGS},\"extra\":{SPELLINGS}}}"
            );
            let text = respond(client, "error", &error);
            assert!(text.matches(SPELLINGS).count() == 2, "{text}");
            json!(true)
        })
        .spied("results that say isError pass", json!([true, "no luck", {"y": 2}]), |client| {
            let result = r#"{"content":[{"type":"text","text":"no luck"}],"isError":true,"resultType":"complete","_meta":{"v/x":{"y":2}}}"#;
            let answer: Value = serde_json::from_str(&respond(client, "result", result)).unwrap();
            let result = &answer["result"];
            json!([result["isError"], result["content"][0]["text"], result["_meta"]["v/x"]])
        })
        .spied("a result has the members that the server gave it", json!(["content"]), |client| {
            let answer = client.call("safe", json!({}));
            let result = answer["result"].as_object().cloned().unwrap_or_default();
            let meta = result.get("_meta").and_then(Value::as_object).cloned().unwrap_or_default();
            let meta = meta.keys().filter(|key| !key.starts_with("toolgate/")).cloned();
            let keys = result.keys().filter(|key| *key != "_meta").cloned().chain(meta);
            json!(keys.collect::<Vec<_>>())
        })
        .spied("a response to nothing goes nowhere", json!([false, true]), |client| {
            client.raw(r#"{"jsonrpc":"2.0","id":"stray-mark","result":{}}"#);
            let reached = client.lines().iter().any(|line| line.contains("stray-mark"));
            json!([reached, client.runs()])
        })
        .spied("control data does not reach the server", json!([]), |client| {
            let parent = client.call("safe", json!({}))["result"]["_meta"]["toolgate/call_uuid"].clone();
            let control = json!({"allowedTools": ["safe"], "parent_call_uuid": parent, "toolgate/confirm": "marker"});
            client.call_with("safe", json!({}), control);
            client.call_with("safe", json!({}), json!({"toolgate/dry_run": true}));
            client.call_with("safe", json!({}), json!({"policyId": "unknown"}));
            let keys = ["allowedTools", "parent_call_uuid", "toolgate/confirm", "toolgate/dry_run", "policyId"];
            let lines = client.lines();
            let found = keys.iter().filter(|key| lines.iter().any(|line| line.contains(**key)));
            json!(found.collect::<Vec<_>>())
        })
}
