//! Messages as such: what cannot be read, ids, methods, parameters, batches and sizes.

use serde_json::{Value, json};

use crate::{
    harness::matrix::{Client, Setup, refused},
    matrix::scenario::{Group, brief},
};

/// What responds to a text: the error's code and all of its data, and the id.
fn error(client: &mut Client, text: &str) -> Value {
    let answer = client.exchange(text);
    match answer.get("error") {
        Some(error) => json!([answer["id"], error["code"], error["data"]]),
        None => answer,
    }
}

fn request(client: &mut Client, method: &str, params: Value) -> Value {
    brief(&client.request(method, params))
}

fn invalid() -> Value {
    json!({"code": "INVALID_REQUEST", "error_type": "InvalidRequest", "expected": true,
        "suggestion": "send each envelope key once, spelt exactly, with the type that JSON-RPC 2.0 gives it",
        "ran": false})
}

pub fn broken_messages() -> Group {
    let unreadable = json!({"code": "PARSE_ERROR", "error_type": "ParseError", "expected": true,
        "suggestion": "send one JSON-RPC message per line, as UTF-8 JSON", "ran": false});
    Group::new(Setup::new("").spy(&["--rich"]))
        .everywhere("text that is no JSON", json!([null, -32700, unreadable]), |client| {
            error(client, "{\"jsonrpc\":\"2.0\",")
        })
        .everywhere("JSON that is no message", json!([null, -32600, invalid()]), |client| {
            error(client, "{\"hello\":1}")
        })
        .everywhere("a member twice", json!(["twice", -32600, invalid()]), |client| {
            let text = client.text_of(json!("twice"), "ping", json!({}));
            error(client, &text.replacen('{', "{\"method\":\"tools/list\",", 1))
        })
        .everywhere("another JSON-RPC", json!(["one", -32600, invalid()]), |client| {
            let text = client.text_of(json!("one"), "ping", json!({}));
            error(client, &text.replace("\"2.0\"", "\"1.0\""))
        })
        .everywhere("a call without a name", json!(-32600), |client| {
            request(client, "tools/call", json!({"arguments": {}}))["error"].clone()
        })
        .everywhere("a call with a number as its name", json!(-32600), |client| {
            request(client, "tools/call", json!({"name": 7, "arguments": {}}))["error"].clone()
        })
        .everywhere("the gateway answers after all that", json!(false), |client| {
            let tool = client.safe();
            json!(refused(&client.call(tool, json!({}))))
        })
}

pub fn messages() -> Group {
    let ids = json!(["a \u{e9} b", 9_007_199_254_740_993_i64]);
    Group::new(Setup::new("").spy(&["--rich"]))
        .everywhere("ping", json!({}), |client| {
            let answer = client.request("ping", json!({}));
            let mut result = answer["result"].clone();
            match result.as_object_mut() {
                Some(result) => drop(result.remove("resultType")),
                None => return brief(&answer),
            }
            result
        })
        .everywhere("ids of both kinds come back", ids, |client| {
            let params = json!({"name": client.safe(), "arguments": {}});
            let ids = [json!("a \u{e9} b"), json!(9_007_199_254_740_993_i64)].map(|id| {
                let text = client.text_of(id, "tools/call", params.clone());
                client.exchange(&text)["id"].clone()
            });
            json!(ids)
        })
        .everywhere("an unknown method", json!({"error": -32601, "data": null}), |client| {
            request(client, "no/such", json!({}))
        })
        .everywhere("an unknown tool", json!({"refused": "UNKNOWN_TOOL"}), |client| {
            brief(&client.call("nope", json!({})))
        })
        .spied("arguments that are no object", json!("safe ran with [1]"), |client| {
            request(client, "tools/call", json!({"name": "safe", "arguments": [1]}))
        })
        .everywhere("a made-up cursor", json!(-32602), |client| {
            request(client, "tools/list", json!({"cursor": "made up"}))["error"].clone()
        })
        .spied("a call without an id does not run", json!([]), |client| {
            let params = json!({"name": "wipe", "arguments": {}});
            let text = client.text_of(json!(1), "tools/call", params);
            client.raw(&text.replace("\"id\":1,", ""));
            let ran = client.ran().into_iter().filter(|ran| ran.starts_with("wipe"));
            json!(ran.collect::<Vec<_>>())
        })
        .spied("a call with an id that is in use does not run", json!([null, 1]), |client| {
            let id = client.start_call("hang", json!({"mark": "first"}));
            client.until("it runs", |client| client.log("ran hang").len() == 1);
            let params = json!({"name": "hang", "arguments": {}});
            let text = client.text_of(id.clone(), "tools/call", params);
            let answer = client.raw(&text).map(|(_, body)| body).filter(|body| !body.is_null());
            client.fence();
            let ran = client.log("ran hang").len();
            client.cancel(&id);
            let seen = client.seen().into_iter().find(|message| message["id"] == id);
            json!([answer.or(seen).map(|answer| brief(&answer)), ran])
        })
}

pub fn batches() -> Group {
    let invalid = json!({"error": -32600, "data": "INVALID_REQUEST"});
    let both = json!(["array", [1, 2], [false, true]]);
    Group::new(Setup::new("").version("2025-03-26"))
        .everywhere("a batch", both, |client| {
            let call = json!({"name": client.safe(), "arguments": {}});
            let answer = client.batch(&[
                json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}),
                json!({"jsonrpc": "2.0", "method": "notifications/vendor"}),
                json!({"jsonrpc": "2.0", "id": 2, "method": "no/such", "params": {}}),
            ]);
            let Some(all) = answer.as_array() else { return brief(&answer) };
            let mut all = all.clone();
            all.sort_by_key(|answer| answer["id"].as_u64());
            let ids: Vec<&Value> = all.iter().map(|answer| &answer["id"]).collect();
            json!(["array", ids, all.iter().map(refused).collect::<Vec<_>>()])
        })
        .everywhere("an empty batch", invalid, |client| brief(&client.batch(&[])))
        .everywhere(
            "a batch with a number in it",
            json!([[null, -32600], ["ok", null]]),
            |client| {
                let good = json!({"jsonrpc": "2.0", "id": "ok", "method": "tools/list"});
                let answer = client.batch(&[json!(7), good]);
                client.tools();
                let more: Vec<Value> = client.seen();
                assert!(more.is_empty(), "another response: {answer} {more:?}");
                let Some(all) = answer.as_array() else { return brief(&answer) };
                let brief = |one: &Value| json!([one["id"], one["error"]["code"]]);
                let mut all: Vec<Value> = all.iter().map(brief).collect();
                all.sort_by_key(|one| one[0].is_string());
                json!(all)
            },
        )
        .everywhere("a batch of notifications only", json!([]), |client| {
            let batch = json!([{"jsonrpc": "2.0", "method": "notifications/vendor"}]);
            let answer = client.raw(&batch.to_string());
            client.tools();
            let mut seen = client.seen();
            seen.extend(answer.filter(|(status, _)| *status != 202).map(|(_, body)| body));
            json!(seen.iter().map(brief).collect::<Vec<_>>())
        })
}

/// The first namespace by name has another limit.
const SIZES: &str = "
[namespaces.a.limits]
message_bytes = 2000
[namespaces.default.limits]
message_bytes = 5000
";

pub fn sizes() -> Group {
    fn padded(client: &mut Client, id: &str, bytes: usize) -> Value {
        let padding = json!({"vendor.example/padding": "x".repeat(bytes)});
        let params = json!({"name": client.safe(), "arguments": {}, "_meta": padding});
        let text = client.text_of(json!(id), "tools/call", params);
        let answer = client.exchange(&text);
        match answer.get("error") {
            Some(error) => json!([error["code"], error["data"]["code"]]),
            None => json!(refused(&answer)),
        }
    }
    let large = json!([-32600, "MESSAGE_TOO_LARGE"]);
    Group::new(Setup::new(SIZES))
        .everywhere("a message within its namespace's limit", json!(false), |client| {
            padded(client, "short", 3000)
        })
        .everywhere("a message beyond its namespace's limit", large, |client| {
            padded(client, "long", 6000)
        })
        .everywhere("a message after one that was too long", json!(false), |client| {
            padded(client, "after", 10)
        })
}
