//! Old and new clients in front of old and new servers: everything that one side can say reaches the other, in its own
//! words.

use serde_json::{Value, json};

use crate::harness::{
    TEST_TIMEOUT,
    clients::{LOG_LEVEL_KEY, Legacy, Modern, either::Either},
    gateway::{Gateway, stdio, until, until_or},
    governed::code,
    text,
    upstream::{Era, Upstream},
};

/// A server of some kind, behind a gateway of its own.
struct Cell {
    kind: &'static str,
    gateway: Gateway,
    /// None where it is a child process.
    server: Option<Upstream>,
}

impl Cell {
    fn over_http(kind: &'static str, era: Era) -> Self {
        let server = Upstream::start("srv", era);
        let gateway = Gateway::start(&server.table(""));
        gateway.settled(14);
        Self { kind, gateway, server: Some(server) }
    }

    fn over_pipes(kind: &'static str, options: &[&str]) -> Self {
        let gateway = Gateway::start(&stdio("srv", options, ""));
        gateway.settled(21);
        Self { kind, gateway, server: None }
    }

    fn is_modern(&self) -> bool {
        self.kind.starts_with("modern")
    }

    /// Clients of both eras that can be asked, and answer so.
    fn able(&self, answer: &Value) -> [Either; 2] {
        let able = json!({"elicitation": {"form": {}}, "sampling": {}, "roots": {}});
        let answer = answer.clone();
        let legacy =
            Legacy::new(self.gateway.address, "/mcp").able(able.clone(), move |_| answer.clone());
        [
            Either::Legacy(legacy.connected()),
            Either::Modern(Modern::new(self.gateway.address, "/mcp").able(able)),
        ]
    }

    fn at(&self, client: &Either) -> String {
        format!("{} before a {} server", client.era(), self.kind)
    }

    /// At the end: the gateway was a client without fault.
    fn end(self) {
        if let Some(server) = &self.server {
            assert_eq!(server.complaints(), Vec::<String>::new(), "{}", self.kind);
        }
    }
}

/// Every kind of server.
fn cells() -> Vec<Cell> {
    vec![
        Cell::over_http("legacy HTTP", Era::Legacy),
        Cell::over_http("modern HTTP", Era::Modern),
        Cell::over_http("dual HTTP", Era::Dual),
        Cell::over_http("old SSE", Era::OldSse),
        Cell::over_pipes("legacy pipes", &["--full", "srv", "--legacy-only"]),
        Cell::over_pipes("modern pipes", &["--full", "srv", "--modern-only"]),
        Cell::over_pipes("dual pipes", &["--full", "srv"]),
    ]
}

#[test]
fn tools_prompts_resources_and_completions_cross_every_border() {
    for cell in cells() {
        for client in cell.gateway.both() {
            let at = cell.at(&client);
            let answer = client.call("echo", json!({"text": "h\u{e9}"}));
            assert_eq!(text(&answer), "h\u{e9}", "{at}");
            let kind = if client.is_modern() { json!("complete") } else { Value::Null };
            assert_eq!(answer["result"]["resultType"], kind, "{at}: {}", answer.raw);
            let prompts = client.list("prompts/list", "prompts");
            assert_eq!(prompts[0]["name"], "greet", "{at}");
            let params = json!({"name": "greet", "arguments": {"who": "you"}});
            let prompt = client.request("prompts/get", params);
            assert_eq!(
                prompt["result"]["messages"][0]["content"]["text"], "srv greets you",
                "{at}"
            );
            let resources = client.list("resources/list", "resources");
            assert_eq!(resources[0]["uri"], "srv://r/0", "{at}");
            let templates = client.list("resources/templates/list", "resourceTemplates");
            assert_eq!(templates[0]["uriTemplate"], "srv://t/{id}", "{at}");
            for uri in ["srv://r/0", "srv://t/x"] {
                let read = client.request("resources/read", json!({"uri": uri}));
                assert_eq!(read["result"]["contents"][0]["uri"], uri, "{at}: {}", read.raw);
            }
            let params = json!({"ref": {"type": "ref/prompt", "name": "greet"},
                "argument": {"name": "who", "value": "a"}});
            let complete = client.request("completion/complete", params);
            assert_eq!(
                complete["result"]["completion"]["values"][0], "srv-a",
                "{at}: {}",
                complete.raw
            );
            for (method, key) in [
                ("tools/list", "tools"),
                ("prompts/list", "prompts"),
                ("resources/list", "resources"),
            ] {
                let list = client.request(method, json!({}));
                let result = list["result"].as_object().unwrap();
                for member in ["resultType", "ttlMs", "cacheScope"] {
                    assert_eq!(
                        result.contains_key(member),
                        client.is_modern(),
                        "{at}: {}",
                        list.raw
                    );
                }
                assert!(result[key].is_array());
            }
        }
        cell.end();
    }
}

#[test]
fn a_resource_that_is_not_there_has_the_code_of_the_clients_era() {
    for cell in cells().into_iter().filter(|cell| cell.server.is_some()) {
        for client in cell.gateway.both() {
            let (status, answer) =
                client.try_request("resources/read", json!({"uri": "srv://r/missing"}));
            let answer = answer.unwrap();
            let expected = if client.is_modern() { -32602 } else { -32002 };
            assert_eq!(
                (status, &answer["error"]["code"]),
                (200, &json!(expected)),
                "{}: {}",
                cell.at(&client),
                answer.raw
            );
        }
        cell.end();
    }
}

#[test]
fn progress_arrives_before_the_answer_under_the_clients_token() {
    for cell in cells() {
        for client in cell.gateway.both() {
            let at = cell.at(&client);
            for token in [json!("tok"), json!(12_345)] {
                let answer = client.call_with(
                    "progress",
                    json!({"steps": 3}),
                    json!({"progressToken": token}),
                );
                assert_eq!(text(&answer), "done", "{at}");
                let seen = client.seen();
                let steps: Vec<&Value> = seen.iter().map(|m| &m["params"]["progress"]).collect();
                assert_eq!(steps, [&json!(1), &json!(2), &json!(3)], "{at}: {seen:?}");
                assert!(
                    seen.iter().all(|m| m["params"]["progressToken"] == token),
                    "{at}: {seen:?}"
                );
            }
            // Nobody who did not ask for it gets any.
            client.call("progress", json!({"steps": 3}));
            assert_eq!(client.seen().len(), 0, "{at}");
        }
        cell.end();
    }
}

#[test]
fn two_clients_with_the_same_token_and_id_get_their_own_progress() {
    for cell in cells().into_iter().filter(|cell| cell.server.is_some()) {
        let server = cell.server.as_ref().unwrap();
        for clients in [cell.gateway.both(), cell.gateway.both()] {
            let mut calls: Vec<_> = clients
                .iter()
                .zip(["a", "b"])
                .map(|(client, key)| {
                    let params = json!({"name": "slow", "arguments": {"key": format!("{key}{}", cell.kind)},
                        "_meta": {"progressToken": "same"}});
                    client.open("tools/call", params)
                })
                .collect();
            for (call, key) in calls.iter_mut().zip(["a", "b"]) {
                let key = format!("{key}{}", cell.kind);
                server.wait_for_call(&key);
                call.method("notifications/progress");
                server.release(&key);
                assert_eq!(text(&call.answer()), format!("srv:slow:{key}"));
                assert!(call.seen.is_empty(), "{}: {:?}", cell.kind, call.seen);
            }
        }
    }
}

#[test]
fn questions_of_servers_reach_clients_and_their_answers_come_back() {
    let blue = json!({"action": "accept", "content": {"color": "blue"}, "xVendor": [1]});
    for cell in cells() {
        for client in cell.able(&blue) {
            for tool in ["elicit", "sample"] {
                let at = format!("{tool}: {}", cell.at(&client));
                let answer = match &client {
                    Either::Legacy(client) => client.call(tool, json!({})),
                    Either::Modern(client) => {
                        let (rounds, answer) = client.call_answering(tool, json!({}), |asked| {
                            let method = if tool == "elicit" {
                                "elicitation/create"
                            } else {
                                "sampling/createMessage"
                            };
                            assert_eq!(asked["method"], method, "{at}: {asked}");
                            assert!(asked["params"].is_object(), "{at}: {asked}");
                            blue.clone()
                        });
                        assert_eq!(rounds, 1, "{at}");
                        answer
                    }
                };
                assert_eq!(code(&answer), "", "{at}: {}", answer.raw);
                assert!(text(&answer).contains("blue"), "{at}: {}", answer.raw);
                assert!(text(&answer).contains("xVendor"), "{at}: {}", answer.raw);
            }
        }
        cell.end();
    }
}

#[test]
fn a_client_that_cannot_be_asked_gets_an_error_and_no_question() {
    for cell in cells() {
        for client in cell.gateway.both() {
            // Servers that are rude ask all the same: they are told that nobody can be asked, and tell that.
            for rude in [false, true] {
                let at = format!("{}, rude: {rude}", cell.at(&client));
                let mut call = client.open_call("elicit", json!({"rude": rude}));
                let answer = call.answer();
                let failed = answer.get("error").is_some() || answer["result"]["isError"] == true;
                let told = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
                assert!(failed || told.contains("error"), "{at}: {}", answer.raw);
                assert_ne!(
                    answer["result"]["resultType"], "input_required",
                    "{at}: {}",
                    answer.raw
                );
                assert!(call.seen.iter().all(|m| !m.is_request()), "{at}: {:?}", call.seen);
            }
        }
    }
}

#[test]
fn a_question_that_is_never_answered_holds_nobody_else_up() {
    for cell in cells() {
        let able = json!({"elicitation": {"form": {}}});
        let modern = Modern::new(cell.gateway.address, "/mcp").able(able);
        let asked = modern.call("elicit", json!({}));
        assert_eq!(asked["result"]["resultType"], "input_required", "{}: {}", cell.kind, asked.raw);
        for client in cell.gateway.both() {
            assert_eq!(
                text(&client.call("echo", json!({"text": "on"}))),
                "on",
                "{}",
                cell.at(&client)
            );
        }
        // Somebody else cannot answer it, nor can it be answered for another call.
        let forged = json!({"name": "elicit", "arguments": {"other": 1}, "inputResponses": {"question": {"action": "accept"}},
            "requestState": "made up"});
        let (_, answer) = modern.try_request("tools/call", forged);
        assert!(!answer.raw.contains("accept"), "{}: {}", cell.kind, answer.raw);
    }
}

#[test]
fn cancelling_reaches_the_server_in_its_own_way() {
    for cell in cells().into_iter().filter(|cell| cell.server.is_some()) {
        let server = cell.server.as_ref().unwrap();
        for client in cell.gateway.both() {
            let (at, key) = (cell.at(&client), client.era());
            let mut call = client.open_call("slow", json!({"key": key}));
            server.wait_for_call(key);
            match &client {
                Either::Legacy(client) => {
                    let params = json!({"requestId": call.id, "reason": "enough"});
                    assert_eq!(client.notify("notifications/cancelled", params), 202);
                }
                // Its stream is all that it has.
                Either::Modern(_) => call.hang_up(),
            }
            server.wait_for_end(key);
            if let Either::Legacy(_) = client {
                let _ = call.end();
                assert!(call.seen.iter().all(|m| !m.is_answer()), "{at}: {:?}", call.seen);
            }
            assert_eq!(text(&client.call("echo", json!({"text": "next"}))), "next", "{at}");
            if !cell.is_modern() && !cell.kind.starts_with("dual") {
                let ids: Vec<Value> = server
                    .seen()
                    .iter()
                    .filter(|seen| seen.name == "slow")
                    .map(|seen| seen.message["id"].clone())
                    .collect();
                assert!(
                    ids.contains(server.cancelled().last().unwrap()),
                    "{at}: the server's own id"
                );
            }
        }
        cell.end();
    }
    for options in [["--full", "srv", "--legacy-only"], ["--full", "srv", "--modern-only"]] {
        let cell = Cell::over_pipes("pipes", &options);
        let client = cell.gateway.modern();
        let hanging = client.open_call("hang", json!({}));
        cell.gateway.wait_for_stderr("hanging");
        hanging.hang_up();
        until("the server is told", || text(&client.call("cancelled", json!({}))) != "[]");
    }
}

#[test]
fn a_legacy_client_that_loses_its_connection_has_not_cancelled() {
    for cell in cells().into_iter().filter(|cell| cell.server.is_some()) {
        let server = cell.server.as_ref().unwrap();
        let client = cell.gateway.legacy();
        let call = client.open_call("slow", json!({"key": "k"}));
        server.wait_for_call("k");
        call.hang_up();
        assert_eq!(text(&client.call("echo", json!({"text": "next"}))), "next");
        server.release("k");
        until_or(
            || cell.gateway.audit().iter().any(|r| r["tool"] == "slow" && r["outcome"] == "ok"),
            || format!("{}: {:?}", cell.kind, cell.gateway.audit()),
        );
        assert_eq!(server.cancelled(), Vec::<Value>::new());
    }
}

#[test]
fn log_messages_reach_who_wants_them_at_their_level() {
    for cell in cells() {
        let legacy = cell.gateway.legacy();
        let mut stream = legacy.listen();
        let logs = |stream: &mut crate::harness::clients::Pending, level: &str| {
            let mut found: Vec<Value> =
                legacy.seen().iter().map(|m| m["params"]["level"].clone()).collect();
            if found.is_empty() {
                let late = stream.find(TEST_TIMEOUT, |m| m["method"] == "notifications/message");
                found.extend(late.map(|m| m["params"]["level"].clone()));
            }
            assert_eq!(found, [json!(level)], "{}", cell.kind);
        };
        legacy.request("logging/setLevel", json!({"level": "info"}));
        assert_eq!(text(&legacy.call("log", json!({"level": "warning"}))), "logged");
        logs(&mut stream, "warning");
        legacy.request("logging/setLevel", json!({"level": "error"}));
        legacy.call("log", json!({"level": "info"}));
        legacy.call("log", json!({"level": "critical"}));
        logs(&mut stream, "critical");
        // The newer era says it with each request, and never gets any elsewhere.
        let modern = cell.gateway.modern();
        modern.call("log", json!({"level": "critical"}));
        assert_eq!(modern.seen().len(), 0, "{}", cell.kind);
        if cell.server.is_some() {
            let meta = json!({LOG_LEVEL_KEY: "warning"});
            let params =
                |level: &str| json!({"name": "log", "arguments": {"level": level}, "_meta": meta});
            modern.request("tools/call", params("error"));
            let seen = modern.seen();
            assert_eq!(seen.len(), 1, "{}: {seen:?}", cell.kind);
            assert_eq!(seen.first().unwrap()["params"]["level"], "error", "{}", cell.kind);
            modern.request("tools/call", params("debug"));
            assert_eq!(modern.seen().len(), 0, "{}", cell.kind);
        }
        cell.end();
    }
}

/// Has the server say that its tools changed.
fn announce(cell: &Cell, what: &str) {
    match &cell.server {
        Some(server) => {
            server.until("the gateway listens", |server| server.streams() > 0);
            server.announce(what);
        }
        None => drop(cell.gateway.modern().call("changed", json!({}))),
    }
}

#[test]
fn changes_of_lists_are_heard_by_both_eras() {
    for cell in cells() {
        let kinds: &[&str] =
            if cell.server.is_some() { &["tools", "prompts", "resources"] } else { &["tools"] };
        for client in cell.gateway.both() {
            let mut stream = client.listen(&[]);
            for what in kinds {
                // A server that lists the same again may be said to have changed nothing.
                if let (Some(server), "tools") = (&cell.server, *what) {
                    server.add_tool(&format!("new_for_{}", client.era().replace(' ', "_")));
                }
                announce(&cell, what);
                if cell.server.is_some() {
                    let message = stream.method(&format!("notifications/{what}/list_changed"));
                    if client.is_modern() {
                        let id =
                            &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
                        assert_eq!(id, &stream.id, "{}: {}", cell.at(&client), message.raw);
                    }
                }
            }
        }
        cell.end();
    }
}

#[test]
fn only_what_was_asked_for_comes_on_a_modern_stream() {
    for cell in cells().into_iter().filter(|cell| cell.server.is_some()) {
        let client = cell.gateway.modern();
        let (mut stream, acknowledged) = client.listen(json!({"promptsListChanged": true}));
        assert_eq!(
            acknowledged["params"]["notifications"]["promptsListChanged"], true,
            "{}",
            acknowledged.raw
        );
        assert_ne!(
            acknowledged["params"]["notifications"]["toolsListChanged"], true,
            "{}",
            acknowledged.raw
        );
        let server = cell.server.as_ref().unwrap();
        server.add_tool("another");
        announce(&cell, "tools");
        until("it is listed", || client.tools().contains(&"another".to_owned()));
        announce(&cell, "prompts");
        stream.method("notifications/prompts/list_changed");
        assert!(stream.seen.is_empty(), "{:?}", stream.seen);
        drop(stream);
        cell.end();
    }
}

#[test]
fn subscriptions_to_resources_cross_every_border() {
    for cell in cells() {
        for client in cell.gateway.both() {
            let at = cell.at(&client);
            let mut stream = client.listen(&["srv://r/0", "srv://r/1"]);
            let touch = |uri: &str| match &cell.server {
                Some(server) => {
                    server.until("the subscription", |server| {
                        server.subscriptions().contains("srv://r/0")
                    });
                    server.until("the stream", |server| server.streams() > 0);
                    server.touch(uri);
                }
                None => drop(client.call("touch", json!({"uri": uri}))),
            };
            touch("srv://r/2");
            touch("srv://r/0");
            let updated = stream.method("notifications/resources/updated");
            assert_eq!(updated["params"]["uri"], "srv://r/0", "{at}: {}", updated.raw);
            if let Either::Legacy(client) = &client {
                client.request("resources/unsubscribe", json!({"uri": "srv://r/0"}));
                client.request("resources/unsubscribe", json!({"uri": "srv://r/1"}));
            }
            drop(stream);
            if let Some(server) = &cell.server {
                server.until("nobody subscribes any more", |server| {
                    server.subscriptions().is_empty()
                });
            }
        }
        cell.end();
    }
}

#[test]
fn a_hello_and_a_discovery_tell_what_there_is() {
    for cell in cells() {
        let legacy = cell.gateway.legacy();
        let discovered = cell.gateway.modern().request("server/discover", json!({}));
        for capabilities in [&legacy.hello["capabilities"], &discovered["result"]["capabilities"]] {
            for kind in ["tools", "prompts", "resources", "completions"] {
                assert!(capabilities[kind].is_object(), "{}: {kind} in {capabilities}", cell.kind);
            }
            assert_eq!(capabilities["tools"]["listChanged"], true, "{}", cell.kind);
        }
        assert!(legacy.hello["serverInfo"]["name"].is_string());
        assert!(discovered["result"]["ttlMs"].is_u64(), "{}", discovered.raw);
        assert!(legacy.hello.get("ttlMs").is_none() && legacy.hello.get("resultType").is_none());
        if cell.server.is_some() {
            let told = legacy.hello["instructions"].as_str().unwrap_or_default();
            assert!(told.contains("This is srv."), "{}: {}", cell.kind, legacy.hello);
        }
    }
}
