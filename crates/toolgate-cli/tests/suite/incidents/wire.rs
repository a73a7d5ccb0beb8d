//! Messages that mean something else to the next reader: line breaks, missing ids, doubled members, batches, bodies.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
};

use serde_json::{Value, json};

use crate::{
    harness::matrix::{ALL, Client, Setup, Via, refused, tmux},
    harness::{clients::MODERN, gateway::Gateway},
};

/// Only `safe`, `emit`, `ask` and `env` may run.
const READONLY: &str = "[namespaces.default]\nsafety = \"readonly\"\n";

/// A message as text, with what its version wants. `"@"` in it can be replaced by any text.
fn message(client: &Client, id: Option<&str>, method: &str, mut params: Value) -> String {
    if client.via.is_modern() {
        params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {}});
    }
    let mut message = json!({"jsonrpc": "2.0", "method": method, "params": params});
    if let Some(id) = id {
        message["id"] = json!(id);
    }
    message.to_string()
}

/// Sends a text and waits for the response with this id.
fn send(client: &mut Client, id: &str, text: &str) -> Value {
    match client.raw(text) {
        Some((_, answer)) if client.via != Via::Sse => answer,
        _ => client.wait_for(|message| message.get("method").is_none() && message["id"] == id),
    }
}

/// What a reader would see that ends lines wherever some reader does.
fn assert_one_message_a_line(lines: &[String]) {
    for line in lines {
        let message: Value = serde_json::from_str(line)
            .unwrap_or_else(|error| panic!("a line that is no message ({error}): {line}"));
        assert!(message.is_object() && !line.contains('\r'), "{line:?}");
    }
}

/// [review 1] Raw line breaks between JSON tokens cut one message into several, and the one in the middle ran unseen by every layer.
#[test]
fn line_breaks_between_tokens_smuggle_nothing() {
    let setup = Setup::new(READONLY).spy(&["--universal-newlines"]);
    setup.each(|client| {
        // Over a pipe a newline ends the client's own message.
        let breaks: &[&str] = if client.via.is_pipe() { &["\r"] } else { &["\r", "\n", "\r\n"] };
        for (at, newline) in breaks.iter().enumerate() {
            let wipe = message(client, Some("smuggled"), "tools/call", json!({"name": "wipe"}));
            let smuggled = format!("{newline}{wipe}{newline}");
            for method in ["tools/call", "notifications/vendor"] {
                let id = format!("{method} {at}");
                let is_call = method == "tools/call";
                let params = json!({"name": "safe", "arguments": {"x": "@"}});
                let text = message(client, is_call.then_some(id.as_str()), method, params);
                let text = text.replace("\"@\"", &smuggled);
                if is_call {
                    let answer = send(client, &id, &text);
                    assert!(answer.to_string().contains("safe ran"), "{answer}");
                } else {
                    client.raw(&text);
                }
            }
        }
        let ran = client.ran();
        assert!(ran.iter().all(|ran| ran.starts_with("safe ")), "{ran:?}");
        assert_one_message_a_line(&client.lines());
    });
}

/// [review 1] Any client that sent indented JSON broke every stdio server.
#[test]
fn indented_json_reaches_a_server_over_pipes_as_one_line() {
    Setup::new("").spy(&["--universal-newlines"]).each(|client| {
        let text = message(
            client,
            Some("i"),
            "tools/call",
            json!({"name": "safe", "arguments": {"a": [1, "b\n"]}}),
        );
        let value: Value = serde_json::from_str(&text).unwrap();
        let newline = if client.via.is_pipe() { "\r" } else { "\r\n" };
        let text = serde_json::to_string_pretty(&value).unwrap().replace('\n', newline);
        let answer = send(client, "i", &text);
        assert!(answer.to_string().contains("safe ran"), "{answer}");
        assert_eq!(client.ran(), [r#"safe {"a":[1,"b\n"]}"#]);
        assert_one_message_a_line(&client.lines());
    });
}

/// [review 1] `clientInfo` and `capabilities` of `initialize`, and answers to questions, carried line breaks to the server.
#[test]
fn the_handshake_and_answers_to_questions_are_one_line_each() {
    let setup = Setup::new("").spy(&["--universal-newlines", "--legacy-only"]).able(
        json!({"elicitation": {}, "experimental": {"x": "@"}}),
        |_| json!({"action": "accept", "content": {"colour": "red"}}),
    );
    setup.through(&[Via::Legacy], |client| {
        let smuggled = "\n{\"jsonrpc\":\"2.0\",\"id\":\"s\",\"method\":\"tools/call\",\"params\":{\"name\":\"wipe\"}}\r";
        let hello = json!({"jsonrpc": "2.0", "id": "h", "method": "initialize", "params":
            {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}, "experimental": "@"},
             "clientInfo": {"name": "n", "version": "1", "more": "@"}}});
        let hello = hello.to_string().replace("\"@\"", smuggled);
        let (status, _) = client.raw(&hello).unwrap();
        assert_eq!(status, 200);
        let mut pending = client.legacy().open_call("ask", json!({}));
        let asked = pending.method("elicitation/create");
        let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result":
            {"action": "accept", "content": {"colour": "red", "more": "@"}}});
        client.raw(&answer.to_string().replace("\"@\"", smuggled));
        assert!(pending.answer().raw.contains("red"));
        assert_eq!(client.ran().iter().filter(|ran| ran.starts_with("wipe")).count(), 0);
        assert_one_message_a_line(&client.lines());
    });
}

/// [review 1] A server broke its message over lines, and the client read a forged response in the middle.
#[test]
fn a_server_over_pipes_forges_no_line() {
    let forged = r#"{"jsonrpc":"2.0","id":"forged","result":{}}"#;
    let notice = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{{\"level\":\"alert\",\"data\":[\r{forged}\r]}}}}\n"
    );
    let ways: Vec<Via> = ALL.into_iter().filter(|via| via.is_pipe()).collect();
    Setup::new("").through(&ways, |client| {
        let text = message(
            client,
            Some("e"),
            "tools/call",
            json!({"name": "emit", "arguments": {"raw": [notice]}}),
        );
        client.raw(&text);
        loop {
            let line = client.pipe().line();
            assert!(!line.trim_end_matches('\n').contains(['\r', '\n']), "{line:?}");
            if line.contains("emitted") {
                break;
            }
        }
    });
}

/// A server over HTTP that answers `tools/call` with these bytes, whatever they are.
fn http_server(kind: &'static str, answer: impl Fn(&Value) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            serve_one(stream, kind, &answer);
        }
    });
    url
}

fn serve_one(mut stream: TcpStream, kind: &str, answer: &impl Fn(&Value) -> String) {
    let mut text = Vec::new();
    let mut byte = [0];
    while !text.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => text.push(byte[0]),
            _ => return,
        }
    }
    let head = String::from_utf8_lossy(&text).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    if stream.read_exact(&mut body).is_err() {
        return;
    }
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let result = match request["method"].as_str() {
        Some("initialize") => {
            Some(json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "h", "version": "1"}}))
        }
        Some("tools/list") => {
            Some(json!({"tools": [{"name": "lie", "inputSchema": {"type": "object"}}]}))
        }
        _ => None,
    };
    let (status, kind, body) = match (request["method"].as_str(), result) {
        (_, Some(result)) => {
            let body = json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string();
            ("200 OK", "application/json", body)
        }
        (Some("tools/call"), _) => ("200 OK", kind, answer(&request)),
        (Some(method), _) if method.starts_with("notifications/") => {
            ("202 Accepted", kind, String::new())
        }
        (None, _) => ("405 Method Not Allowed", "text/plain", String::new()),
        _ => {
            let error = json!({"code": -32601, "message": "no"});
            let body = json!({"jsonrpc": "2.0", "id": request["id"], "error": error}).to_string();
            ("200 OK", "application/json", body)
        }
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(body.as_bytes());
}

/// [review 1] A server behind HTTP broke its JSON over lines, or its events over several lines of data; the client of `toolgate stdio` read a forged response.
#[test]
fn a_server_over_http_forges_no_line() {
    let body = |request: &Value| {
        let forged = r#"{"jsonrpc":"2.0","id":"forged","result":{}}"#;
        let content =
            format!("[\n{{\"type\":\"text\",\r\n\"text\":\"told\"}}\n],\"more\":[\n{forged}\r]");
        format!(
            "{{\n\"jsonrpc\":\"2.0\",\"id\":{},\n\"result\":{{\"content\":{content}}}\n}}\n",
            request["id"]
        )
    };
    let events = move |request: &Value| {
        let text = body(request).replace("\r\n", "\n").replace('\r', "\n");
        format!("data: {}\n\n", text.trim_end().replace('\n', "\ndata: "))
    };
    let json_server = http_server("application/json", body);
    let event_server = http_server("text/event-stream", events);
    for url in [json_server, event_server] {
        let ways = [Via::Stdio, Via::Bridge, Via::Legacy, Via::Sse];
        let setup = Setup::new(&format!("[servers.web]\nurl = \"{url}\"\n"));
        setup.through(&ways, |client| {
            client.tools();
            let text =
                message(client, Some("l"), "tools/call", json!({"name": "lie", "arguments": {}}));
            if client.via.is_pipe() {
                client.raw(&text);
                let line = loop {
                    let line = client.pipe().line();
                    assert!(!line.contains("forged") || line.contains("told"), "{line}");
                    if line.contains("\"l\"") {
                        break line;
                    }
                };
                assert!(
                    line.contains("told") && !line.trim_end().contains(['\r', '\n']),
                    "{line:?}"
                );
            } else {
                let answer = send(client, "l", &text);
                assert!(answer.to_string().contains("told"), "{answer}");
            }
            assert!(!client.seen().iter().any(|seen| seen["id"] == "forged"));
        });
    }
}

/// [review 2] `tools/call` without an id counted as a notification and ran, unseen by every layer.
#[test]
fn a_call_without_an_id_is_refused() {
    Setup::new(READONLY).each(|client| {
        for method in
            ["tools/call", "resources/read", "tasks/cancel", "logging/setLevel", "vendor/do"]
        {
            for id in ["", r#""id":null,"#] {
                let params = json!({"name": "wipe", "marker": "no-id"});
                let text = message(client, None, method, params);
                let text = text.replacen('{', &format!("{{{id}"), 1);
                match client.raw(&text) {
                    Some((status, answer)) if client.via != Via::Sse => {
                        assert_eq!(
                            (status, &answer["error"]["code"]),
                            (400, &json!(-32600)),
                            "{answer}"
                        );
                    }
                    _ => {
                        let answer = client.wait_for(|message| message.get("error").is_some());
                        assert_eq!(
                            (&answer["id"], &answer["error"]["code"]),
                            (&Value::Null, &json!(-32600))
                        );
                    }
                }
            }
        }
        assert_eq!(client.ran(), Vec::<String>::new());
        assert!(!client.lines().iter().any(|line| line.contains("no-id")));
    });
}

/// [review 2] The terminal ran a call without an id, unseen by every layer.
#[test]
fn the_terminal_runs_no_call_without_an_id() {
    let (_tmux, mut session) = tmux(&[]);
    let call = json!({"jsonrpc": "2.0", "method": "tools/call", "params":
        {"name": "create_session", "arguments": {"session_name": "unseen"}}});
    session.send_line(&call.to_string());
    let answer = session.call("list_sessions", json!({}));
    assert!(answer.to_string().contains("one"), "{answer}");
    assert!(!answer.to_string().contains("unseen"), "{answer}");
}

/// [review 2] A server sent requests without an id and notifications that only clients send, and the client read them.
#[test]
fn a_server_sends_no_request_without_an_id() {
    let raw = [
        r#"{"jsonrpc":"2.0","method":"sampling/createMessage","params":{"marker":"bad"}}"#,
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"marker":"bad"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":{"marker":"bad"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{"marker":"bad"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/../tools/call","params":{"marker":"bad"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"elicitation/create","params":{"marker":"bad"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"result":{"marker":"bad"}}"#,
    ];
    let raw: Vec<String> = raw.iter().map(|line| format!("{line}\n")).collect();
    Setup::new("").each(|client| {
        let answer = client.call("emit", json!({"raw": raw}));
        assert!(answer.to_string().contains("emitted"), "{answer}");
        client.fence();
        let seen = client.seen();
        assert!(!seen.iter().any(|seen| seen.to_string().contains("bad")), "{seen:?}");
    });
}

/// [issue 12.1] A client sent a notification that only servers send, and the server took it.
#[test]
fn a_client_sends_no_notification_of_a_server() {
    Setup::new("").each(|client| {
        for method in
            ["notifications/tools/list_changed", "notifications/message", "notifications/x y"]
        {
            client.raw(&message(client, None, method, json!({"marker": "backwards"})));
        }
        client.raw(&message(
            client,
            Some("n"),
            "notifications/cancelled",
            json!({"marker": "backwards"}),
        ));
        assert!(!client.lines().iter().any(|line| line.contains("backwards")));
    });
}

/// [review 15] A server that guessed the id of toolgate's own question had its own question answered into it, which confirmed a destructive call.
#[test]
fn a_server_cannot_answer_the_gateways_question() {
    let config = "[confirm]\nwhen = [\"*/wipe\"]\ndry_run = false\n";
    let setup =
        Setup::new(config).spy(&["--legacy-only"]).able(json!({"elicitation": {}}), |_| json!({}));
    setup.through(&[Via::Wrap, Via::Stdio, Via::Bridge], |client| {
        let call = client.pipe().post_call("wipe", json!({}));
        let asked = |message: &Value| message["method"] == "elicitation/create";
        let ours = client.pipe().wait_for(asked);
        let id = ours["id"].as_str().unwrap().to_owned();
        // Nothing that the server has read tells it the id.
        let random = id.trim_start_matches("toolgate-q-").split('-').next().unwrap().to_owned();
        assert!(random.len() >= 22, "{id}");
        let log = std::fs::read_to_string(client.path("spy.log")).unwrap();
        assert!(!log.contains(&random), "{log}");
        // Even if it knew, its own question never has that id.
        let asks = json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params":
            {"message": "Hello?", "requestedSchema": {"type": "object", "properties": {}}}});
        let emitted = client.pipe().post_call("emit", json!({"raw": [format!("{asks}\n")]}));
        let answered = |id: &Value, action: &str| {
            json!({"jsonrpc": "2.0", "id": id, "result": {"action": action}}).to_string()
        };
        if client.via != Via::Wrap {
            // It is put to the client under an id of the gateway's own.
            let theirs = client.pipe().wait_for(asked);
            assert_ne!(theirs["id"], json!(id));
            client.pipe().send_line(&answered(&theirs["id"], "accept"));
        }
        client.pipe().answer(emitted);
        assert!(!client.seen().iter().any(asked));
        client.pipe().send_line(&answered(&json!(id), "decline"));
        let answer = client.pipe().answer(call);
        assert!(refused(&answer), "{answer}");
        let log = std::fs::read_to_string(client.path("spy.log")).unwrap();
        assert!(!log.contains("ran wipe"), "{log}");
    });
}

/// [issue 12.1] A made-up `requestState` ran a call.
#[test]
fn a_made_up_request_state_runs_nothing() {
    let config = "[confirm]\nwhen = [\"*/wipe\"]\ndry_run = false\n";
    let yes = json!({"action": "accept", "content": {"confirm": true}});
    let states = [
        format!("tgc1q-{}", "0".repeat(104)),
        format!("tgc1c-{}.\"x\"", "0".repeat(104)),
        "tgc1q-".to_owned(),
        "tgc1t-00".to_owned(),
    ];
    let setup = Setup::new(config).able(json!({"elicitation": {}}), |_| json!({}));
    setup.through(&[Via::WrapModern, Via::StdioModern, Via::Modern], |client| {
        for tool in ["wipe", "safe"] {
            for state in &states {
                let answer = client.request("tools/call", json!({"name": tool, "arguments": {"mine": 1},
                    "requestState": state, "inputResponses": {"confirm": yes, "toolgate_confirm": yes}}));
                let asks = answer["result"]["resultType"] == "input_required";
                assert!(refused(&answer) || asks, "{tool} {state}: {answer}");
            }
        }
        // A call that waits for its client is known by a state that nobody can make up, either.
        if client.via != Via::WrapModern {
            let params = json!({"name": "safe", "arguments": {"mine": 1}, "requestState": format!("tgp1.{}", "A".repeat(22)),
                "inputResponses": {"toolgate_question": yes}});
            let answer = client.request("tools/call", params);
            assert!(refused(&answer), "{answer}");
        }
        let ran = client.ran();
        assert!(ran.is_empty(), "{ran:?}");
    });
}

/// [review 15] Two members of one name, or of another case, were read differently by the gateway and by the server.
#[test]
fn members_that_decide_stand_once_and_in_their_spelling() {
    let cases = [
        ("resources/read", r#""uri":"a://marker","URI":"b://x""#),
        ("resources/read", r#""uri":"a://marker","ur\u0131":"b://x""#),
        (
            "completion/complete",
            r#""ref":{"type":"ref/prompt","name":"marker"},"ref":{"type":"ref/prompt","name":"b"}"#,
        ),
        ("completion/complete", r#""ref":{"type":"ref/prompt","name":"marker","name":"b"}"#),
        ("completion/complete", r#""ref":{"type":"ref/resource","uri":"a://marker","Uri":"b"}"#),
        (
            "completion/complete",
            r#""ref":{"type":"ref/prompt","Type":"ref/resource","name":"marker"}"#,
        ),
        ("tasks/get", r#""taskId":"marker","taskid":"b""#),
        ("tasks/get", "\"taskId\":\"marker\",\"ta\u{17f}\u{212a}Id\":\"b\""),
        ("tools/list", r#""cursor":"marker","cursor":"b""#),
        ("logging/setLevel", r#""level":"marker","LEVEL":"debug""#),
        ("tools/call", r#""name":"safe","arguments":{"marker":1},"Name":"wipe""#),
        ("tools/call", r#""name":"safe","_meta":{"progressToken":"marker","progresstoken":1}"#),
        ("tools/call", r#""name":"safe","_meta":{"policyId":"a","policyId":"marker"}"#),
        ("vendor/x", r#""_meta":{"allowedTools":[],"AllowedTools":["marker"]}"#),
        (
            "initialize",
            r#""protocolVersion":"2025-11-25","ProtocolVersion":"marker","capabilities":{},"clientInfo":{"name":"n","version":"1"}"#,
        ),
        (
            "initialize",
            r#""protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"elicitation":"marker"},"clientInfo":{"name":"n","version":"1"}"#,
        ),
    ];
    Setup::new("").each(|client| {
        for (at, (method, members)) in cases.iter().enumerate() {
            let id = format!("twice {at}");
            let text = message(client, Some(&id), method, json!({"@": 1}));
            let answer = send(client, &id, &text.replace("\"@\":1", members));
            assert_eq!(answer["error"]["code"], -32600, "{members}: {answer}");
        }
        let notice = message(client, None, "notifications/cancelled", json!({"@": 1}));
        client.raw(&notice.replace("\"@\":1", r#""requestId":1,"requestid":"marker""#));
        assert!(!client.lines().iter().any(|line| line.contains("marker")));
    });
}

/// [issue 12.1] Transfer-Encoding given twice made a proxy and the gateway disagree about where a request ends.
#[test]
fn a_body_has_one_length() {
    let gateway = Gateway::start("");
    let smuggled = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";
    for headers in [
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked, chunked",
        "transfer-encoding: Chunked\r\nTRANSFER-ENCODING: chunked",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: identity, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked,",
        "Transfer-Encoding: ,chunked",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding:\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Content-Length: 5, 5",
        "Content-Length: 5\r\nContent-Length: 6",
    ] {
        let mut stream = TcpStream::connect(gateway.address).unwrap();
        stream.set_read_timeout(Some(crate::harness::TEST_TIMEOUT)).unwrap();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json\r\n{headers}\r\n\r\n0\r\n\r\n{smuggled}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answers = Vec::new();
        // Ends when the gateway closes the connection; a reset closes it too.
        let _ = stream.read_to_end(&mut answers);
        let answers = String::from_utf8_lossy(&answers);
        assert_eq!(answers.matches("HTTP/1.1 ").count(), 1, "{headers}: {answers}");
        assert!(answers.starts_with("HTTP/1.1 400 "), "{headers}: {answers}");
    }
}

/// [review 5] Batches were taken in sessions of every version.
#[test]
fn a_batch_is_refused_outside_of_its_version() {
    Setup::new("").each(|client| {
        let one =
            message(client, Some("b"), "tools/call", json!({"name": "wipe", "arguments": {}}));
        for text in
            [format!("[{one}]"), format!(" [{one},{one}]"), "[]".to_owned(), "[1,".to_owned()]
        {
            let answer = match client.raw(&text) {
                Some((status, answer)) if client.via != Via::Sse => {
                    assert_eq!(status, 400);
                    answer
                }
                _ => client.wait_for(|message| message.get("error").is_some()),
            };
            assert_eq!(
                (&answer["error"]["code"], &answer["id"]),
                (&json!(-32600), &Value::Null),
                "{answer}"
            );
        }
        assert!(client.ran().is_empty());
    });
}

/// [review 5] One batch of 278 kB took 2.3 GB of memory and blocked a worker for 20 s.
#[test]
fn a_batch_is_bounded_in_number_and_in_bytes() {
    let setup = Setup::new("[limits]\nmessage_bytes = 20_000\nresponse_bytes = \"off\"\n")
        .version("2025-03-26");
    setup.through(&[Via::Wrap, Via::Stdio, Via::Bridge, Via::Legacy], |client| {
        let exchange = |client: &mut Client, text: &str| match client.raw(text) {
            Some((_, answer)) => answer,
            None => client.wait_for(|m| m.is_array() || m.get("error").is_some()),
        };
        let batch = |method: &str, count: usize| {
            let one =
                |id: usize| json!({"jsonrpc": "2.0", "id": format!("b{id}"), "method": method});
            Value::Array((0..count).map(one).collect()).to_string()
        };
        let answers = exchange(client, &batch("ping", 100));
        assert_eq!(answers.as_array().unwrap().len(), 100, "{answers}");
        let answer = exchange(client, &batch("ping", 101));
        assert_eq!(answer["error"]["code"], -32600, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("100"), "{answer}");
        let answers = exchange(client, &batch("tools/list", 80));
        let answers = answers.as_array().unwrap().clone();
        assert_eq!(answers.len(), 80);
        let over: Vec<&Value> =
            answers.iter().filter(|answer| answer.get("error").is_some()).collect();
        assert!(!over.is_empty() && over.len() < 80, "{}", over.len());
        for answer in over {
            let error = &answer["error"];
            assert!(answer["id"].is_string(), "{answer}");
            assert!(error["message"].as_str().unwrap().contains("20000 bytes"), "{error}");
        }
    });
}

// A line that is no JSON was answered with -32700 by one transport and with -32600 by another, and with `data` by some.
#[test]
fn what_cannot_be_read_is_refused_in_the_same_words_over_every_transport() {
    let cases = [
        ("{\"jsonrpc\":", -32700, "PARSE_ERROR"),
        ("no JSON", -32700, "PARSE_ERROR"),
        ("17", -32600, "INVALID_REQUEST"),
        ("{}", -32600, "INVALID_REQUEST"),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600, "INVALID_REQUEST"),
    ];
    let told = std::cell::RefCell::new(Vec::new());
    Setup::new("").each(|client| {
        let mut all = Vec::new();
        for (text, code, name) in cases {
            let mut answer = match client.raw(text) {
                Some((status, answer)) if client.via != Via::Sse => {
                    assert_eq!(status, 400);
                    answer
                }
                _ => client.wait_for(|message| message.get("error").is_some()),
            };
            let error = answer["error"].take();
            assert_eq!(
                (&error["code"], &error["data"]["code"]),
                (&json!(code), &json!(name)),
                "{error}"
            );
            all.push(error);
        }
        told.borrow_mut().push(all);
    });
    let told = told.into_inner();
    assert!(told.iter().all(|one| *one == told[0]), "{told:#?}");
}
