//! Everything besides tools: prompts, resources, completion, logs, and what no specification has.

use serde_json::{Value, json};

use crate::{
    harness::{
        clients::{CAPABILITIES_KEY, LOG_LEVEL_KEY},
        matrix::{Client, Setup},
    },
    matrix::scenario::{Group, brief},
};

fn result(client: &mut Client, method: &str, params: Value) -> Value {
    let answer = client.request(method, params);
    if answer["result"].is_null() { answer } else { answer["result"].clone() }
}

/// Whether this notification comes while the server runs a call that sends it.
fn arrives(client: &mut Client, notification: Value, meta: Value) -> Value {
    client.listen();
    client.call_with("tell", notification.clone(), meta);
    let method = notification["method"].clone();
    let mut params = client.wait_for(|message| message["method"] == method)["params"].clone();
    if let Some(params) = params.as_object_mut() {
        params.remove("_meta");
    }
    params
}

pub fn offers() -> Group {
    let group = Group::new(Setup::new("").spy(&["--rich"]))
        .spied("prompts are listed as the server lists them", json!([{"name": "p", "vendor": {"x": 1}, "arguments": [{"name": "who"}]}]), |client| {
            json!(client.list("prompts/list", "prompts"))
        })
        .spied("a prompt is got", json!("spy got \"p\""), |client| {
            let got = result(client, "prompts/get", json!({"name": "p", "arguments": {"who": "x"}}));
            got["messages"][0]["content"]["text"].clone()
        })
        .spied("an unlisted prompt is the server's to judge", json!("spy got \"nope\""), |client| {
            let got = result(client, "prompts/get", json!({"name": "nope"}));
            got["messages"][0]["content"]["text"].clone()
        })
        .spied("resources and templates are listed as the server lists them", json!([[{"uri": "spy://r", "name": "r", "vendor": 1}], ["spy://t/{id}"]]), |client| {
            let templates = client.list("resources/templates/list", "resourceTemplates");
            let templates: Vec<&Value> = templates.iter().map(|one| &one["uriTemplate"]).collect();
            json!([client.list("resources/list", "resources"), templates])
        })
        .spied("a listed resource and one of a template are read", json!(["read \"spy://r\"", "read \"spy://t/7\""]), |client| {
            let read = ["spy://r", "spy://t/7"].map(|uri| result(client, "resources/read", json!({"uri": uri}))["contents"][0]["text"].clone());
            json!(read)
        })
        .spied("a resource that a tool linked to is read although it is not listed", json!("read \"spy://linked/1\""), |client| {
            let link = json!({"content": [{"type": "resource_link", "uri": "spy://linked/1", "name": "l"}], "resultType": "complete"});
            client.call("respond", json!({"result": link.to_string()}));
            let read = result(client, "resources/read", json!({"uri": "spy://linked/1"}));
            if read["contents"].is_array() { read["contents"][0]["text"].clone() } else { read }
        })
        .spied("a subscribed resource's update arrives", json!("spy://r"), |client| {
            client.subscribe("spy://r");
            client.call("tell", json!({"method": "notifications/resources/updated", "params": {"uri": "spy://r"}}));
            client.notification("notifications/resources/updated")["params"]["uri"].clone()
        });
    unannounced(group)
}

fn unannounced(group: Group) -> Group {
    group
        .spied("completion, which the server supports without announcing it", json!(["ab!"]), |client| {
            let answer = client.request("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "who", "value": "ab"}}));
            let values = &answer["result"]["completion"]["values"];
            if values.is_array() { values.clone() } else { brief(&answer) }
        })
        .spied("a vendor's request to the server", json!({"echo": "hello"}), |client| {
            let answer = client.request("vendor/echo", json!({"said": "hello"}));
            let echo = &answer["result"]["echo"];
            if echo.is_string() { json!({"echo": echo}) } else { brief(&answer) }
        })
        .spied("a vendor's notification to the client", json!({"a": 1}), |client| {
            arrives(client, json!({"method": "notifications/vendor/told", "params": {"a": 1}}), json!({}))
        })
        .spied("a vendor's notification to the server", json!(true), |client| {
            client.notify("notifications/vendor/said", json!({"mark": "vendor-mark"}));
            json!(client.lines().iter().any(|line| line.contains("vendor-mark")))
        })
        .spied("a log message of the server", json!({"level": "error", "logger": "spy", "data": {"x": [1]}}), |client| {
            if !client.via.is_modern() {
                let answer = client.request("logging/setLevel", json!({"level": "debug"}));
                assert_eq!(answer["result"], json!({}), "{answer}");
            }
            let log = json!({"level": "error", "logger": "spy", "data": {"x": [1]}});
            arrives(client, json!({"method": "notifications/message", "params": log}), json!({LOG_LEVEL_KEY: "debug"}))
        })
        .spied("a level that does not exist", json!(-32602), |client| {
            client.request("logging/setLevel", json!({"level": "loud"}))["error"]["code"].clone()
        })
}

pub fn silent_offers() -> Group {
    Group::new(Setup::new("").spy(&["--legacy-only"]))
        .spied("a log message of a server that announces no logging", json!("spoken"), |client| {
            if !client.via.is_modern() {
                client.listen();
            }
            let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": "spoken"}});
            client.call_with("emit", json!({"raw": [format!("{log}\n")]}), json!({LOG_LEVEL_KEY: "debug"}));
            client.notification("notifications/message")["params"]["data"].clone()
        })
}

/// Requests of a legacy server, which the client answers.
pub fn requests_of_servers() -> Group {
    fn asked(client: &mut Client, method: &str, params: Value) -> Value {
        let answer = client.call("ask", json!({"method": method, "params": params}));
        let text = answer["result"]["content"][0]["text"].as_str().map(str::to_owned);
        let response: Value =
            text.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap_or_default());
        match (response.get("result"), response.get("error")) {
            (Some(result), _) => result.clone(),
            (_, Some(error)) => json!({"server got": error["code"]}),
            _ => brief(&answer),
        }
    }
    let capabilities = json!({"sampling": {}, "roots": {"listChanged": true}});
    Group::new(Setup::new("").spy(&["--rich", "--legacy-only"]).able(capabilities, |asked| {
        json!({"answer to": asked["method"], "model": "m", "role": "assistant",
            "content": {"type": "text", "text": "t"}, "roots": []})
    }))
    .spied("a server samples from the client's model", json!("m"), |client| {
        let sampled =
            asked(client, "sampling/createMessage", json!({"messages": [], "maxTokens": 9}));
        if sampled["model"].is_string() { sampled["model"].clone() } else { sampled }
    })
    .spied("a server asks for the client's roots", json!([]), |client| {
        let roots = asked(client, "roots/list", json!({}));
        if roots["roots"].is_array() { roots["roots"].clone() } else { roots }
    })
    .spied("a vendor's request to the client", json!("vendor/ask"), |client| {
        let answer = asked(client, "vendor/ask", json!({"x": 1}));
        if answer["answer to"].is_string() { answer["answer to"].clone() } else { answer }
    })
}

/// A server with tasks, of either protocol version.
pub fn tasks() -> Group {
    let done = json!(["t-safe", "completed", "leaked"]);
    Group::new(Setup::new("").spy(&["--leak", "leaked"])).spied("a call as a task", done, |client| {
        let task = if client.via.is_modern() {
            let able = json!({CAPABILITIES_KEY: {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
            client.call_with("safe", json!({"task": true}), able.clone())["result"].clone()
        } else {
            let params = json!({"name": "safe", "arguments": {}, "task": {"ttl": 60000}});
            client.request("tools/call", params)["result"]["task"].clone()
        };
        let id = &task["taskId"];
        let got = client.request("tasks/get", json!({"taskId": id}));
        let result = if client.via.is_modern() {
            got["result"]["result"].clone()
        } else {
            client.request("tasks/result", json!({"taskId": id}))["result"].clone()
        };
        json!([id, got["result"]["status"], result["content"][0]["text"]])
    })
}

/// Secrets are masked.
pub fn sanitized() -> Group {
    let setup = Setup::new("[sanitize]\ndefaults = true\n").spy(&["--rich"]);
    let masked = json!(["password=***", "read \"spy://t/password=***\"", "password=***"]);
    Group::new(setup).spied("secrets are masked in results, resources and logs", masked, |client| {
        let secret = "password=hunter2";
        let result = json!({"content": [{"type": "text", "text": secret}], "resultType": "complete"});
        let answer = client.call("respond", json!({"result": result.to_string()}));
        let read = client.request("resources/read", json!({"uri": format!("spy://t/{secret}")}));
        let log = json!({"method": "notifications/message", "params": {"level": "error", "data": secret}});
        let log = arrives(client, log, json!({LOG_LEVEL_KEY: "debug"}));
        json!([answer["result"]["content"][0]["text"], read["result"]["contents"][0]["text"], log["data"]])
    })
}
