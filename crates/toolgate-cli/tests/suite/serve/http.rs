//! The gateway's door: statuses and headers of both eras, who may use a session, and namespaces.

use std::{collections::HashSet, process::Stdio};

use serde_json::{Value, json};

use crate::harness::{
    clients::{LEGACY, Legacy, MODERN, Modern, VERSION_KEY, old_sse::OldSse},
    gateway::{Gateway, Place, stdio, until},
    governed::code,
    http::{self, Answer},
    text,
    upstream::Upstream,
};

const BOTH: &str = "application/json, text/event-stream";

fn initialize(version: &str) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": version,
        "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}})
    .to_string()
}

fn post(gateway: &Gateway, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut all = vec![("Accept", BOTH), ("Content-Type", "application/json")];
    all.retain(|(name, _)| !headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)));
    all.extend(headers.iter().filter(|(_, value)| !value.is_empty()));
    gateway.exchange("POST", path, &all, body)
}

#[test]
fn the_door_answers_with_the_statuses_that_are_agreed_on() {
    let server = Upstream::legacy("alpha");
    let gateway =
        Gateway::start(&format!("[limits]\nmessage_bytes = 20_000\n{}", server.table("")));
    let health = &mut gateway.exchange("GET", "/health", &[], "");
    assert_eq!((health.status, health.text().trim()), (200, "ok"));
    let hello = initialize(LEGACY);
    let status = |path: &str, headers: &[(&str, &str)], body: &str| {
        post(&gateway, path, headers, body).status
    };
    assert_eq!(status("/mcp", &[], &hello), 200);
    assert_eq!(status("/mcp/default", &[], &hello), 200);
    for path in ["/", "/mcpx", "/mcp/nobody", "/mcp/default/more", "/..%2fmcp", "/messages"] {
        assert_eq!(status(path, &[], &hello), 404, "{path}");
    }
    assert_eq!(gateway.exchange("GET", "/sse/nobody", &[("Accept", BOTH)], "").status, 404);
    for kind in ["text/plain", "", "application/json-seq", "multipart/form-data"] {
        assert_eq!(status("/mcp", &[("Content-Type", kind)], &hello), 415, "{kind:?}");
    }
    assert_eq!(status("/mcp", &[("Content-Type", "application/json; charset=utf-8")], &hello), 200);
    for accept in ["text/html", "application/xml, image/png"] {
        assert_eq!(status("/mcp", &[("Accept", accept)], &hello), 406, "{accept}");
    }
    for accept in
        ["*/*", "application/*, text/*", "application/json;q=0.9, text/event-stream", BOTH]
    {
        assert_eq!(status("/mcp", &[("Accept", accept)], &hello), 200, "{accept}");
    }
    for verb in ["PUT", "PATCH", "HEAD"] {
        assert_eq!(gateway.exchange(verb, "/mcp", &[("Accept", BOTH)], "").status, 405, "{verb}");
    }
    for (body, code) in
        [("{\"jsonrpc\":", -32700), ("", -32700), ("[]", -32600), ("17", -32600), ("{}", -32600)]
    {
        let mut answer = post(&gateway, "/mcp", &[], body);
        assert_eq!(answer.status, 400, "{body:?}");
        assert_eq!(answer.json()["error"]["code"], code, "{body:?}");
    }
}

#[test]
fn a_body_that_is_too_long_is_refused_whether_it_says_so_or_not() {
    let server = Upstream::legacy("alpha");
    let gateway =
        Gateway::start(&format!("[limits]\nmessage_bytes = 20_000\n{}", server.table("")));
    let long =
        json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "y".repeat(30_000)}})
            .to_string();
    assert_eq!(post(&gateway, "/mcp", &[], &long).status, 413);
    let chunked = format!("{:x}\r\n{long}\r\n0\r\n\r\n", long.len());
    assert_eq!(post(&gateway, "/mcp", &[("Transfer-Encoding", "chunked")], &chunked).status, 413);
    // What it only claims to send is refused at once, and nobody reserves memory for it.
    let claimed = [("Content-Length", "99999999999")];
    assert_eq!(post(&gateway, "/mcp", &claimed, "{").status, 413);
    assert_eq!(post(&gateway, "/mcp", &[], &initialize(LEGACY)).status, 200);
}

#[test]
fn each_legacy_version_is_spoken_and_others_are_offered_the_newest() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&server.table(""));
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let client = Legacy::new(gateway.address, "/mcp").of_version(version).connected();
        assert_eq!(client.hello["protocolVersion"], version);
        assert_eq!(client.request("ping", json!({}))["result"], json!({}));
    }
    for version in ["2099-01-01", "1", "2026-07-28"] {
        let mut answer = post(&gateway, "/mcp", &[], &initialize(version));
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json()["result"]["protocolVersion"], LEGACY, "{version}");
    }
}

#[test]
fn a_session_is_needed_known_and_ended_as_agreed() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(14);
    let client = gateway.legacy();
    let session = client.session.clone().unwrap();
    assert!(session.len() >= 22 && session.bytes().all(|b| (0x21..0x7f).contains(&b)), "{session}");
    let list = r#"{"jsonrpc":"2.0","id":5,"method":"tools/list"}"#;
    let status = |verb: &str, headers: &[(&str, &str)], body: &str| {
        client.exchange(verb, headers, body).status
    };
    assert_eq!(status("POST", &[], list), 200);
    assert_eq!(status("POST", &[("Mcp-Session-Id", "")], list), 400);
    for other in [
        "nobody",
        &session[1..],
        &session.to_uppercase().replace(|c: char| c.is_ascii_digit(), "0"),
    ] {
        for verb in ["POST", "GET", "DELETE"] {
            let body = if verb == "POST" { list } else { "" };
            assert_eq!(status(verb, &[("Mcp-Session-Id", other)], body), 404, "{verb} {other}");
        }
    }
    assert_eq!(status("POST", &[("MCP-Protocol-Version", "1999-01-01")], list), 400);
    // Versions before 2025-06-18 do not know the header.
    assert_eq!(status("POST", &[("MCP-Protocol-Version", "")], list), 200);
    let mut accepted =
        client.exchange("POST", &[], r#"{"jsonrpc":"2.0","method":"notifications/vendor"}"#);
    assert_eq!((accepted.status, accepted.text().as_str()), (202, ""));
    let mut accepted =
        client.exchange("POST", &[], r#"{"jsonrpc":"2.0","id":"nobody-asked","result":{}}"#);
    assert_eq!((accepted.status, accepted.text().as_str()), (202, ""));
    let mut stream = client.listen();
    let (_, headers) = stream.head();
    assert!(headers.get("content-type").unwrap().starts_with("text/event-stream"));
    assert!(headers.get("cache-control").is_some_and(|how| how.contains("no-")), "{headers:?}");
    assert!((200..300).contains(&client.delete()));
    let _ = stream.end();
    for (verb, body) in [("POST", list), ("GET", ""), ("DELETE", "")] {
        assert_eq!(status(verb, &[], body), 404, "{verb} after the end");
    }
    assert_eq!(text(&gateway.legacy().call("echo", json!({"text": "another"}))), "another");
    let ids: HashSet<_> = (0..50).map(|_| gateway.legacy().session.unwrap()).collect();
    assert_eq!(ids.len(), 50);
}

#[test]
fn an_answer_is_json_unless_something_has_to_be_said_before_it() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(14);
    let client = gateway.legacy();
    let call = |tool: &str, meta: Value| {
        let params = json!({"name": tool, "arguments": {"text": "t"}, "_meta": meta});
        json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params}).to_string()
    };
    let plain = client.exchange("POST", &[], &call("echo", json!({})));
    assert!(plain.header("content-type").unwrap().starts_with("application/json"));
    let told = client.exchange("POST", &[], &call("progress", json!({"progressToken": 1})));
    assert!(told.is_events(), "{:?}", told.headers);
}

#[test]
fn a_modern_request_says_the_same_in_headers_and_body() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(14);
    let client = gateway.modern();
    let (_, body) = client.body("tools/call", json!({"name": "echo", "arguments": {"text": "t"}}));
    let refused = |headers: &[(&str, &str)], status: u16, code: i64| {
        let (found, answer) = client.raw(&body, headers);
        let answer = answer.unwrap_or_else(|| panic!("{headers:?}: {found} without a body"));
        assert_eq!(
            (found, &answer["error"]["code"]),
            (status, &json!(code)),
            "{headers:?}: {}",
            answer.raw
        );
        answer
    };
    assert_eq!(client.raw(&body, &[]).0, 200);
    refused(&[("Mcp-Method", "tools/list")], 400, -32020);
    refused(&[("Mcp-Method", "")], 400, -32020);
    refused(&[("Mcp-Name", "write")], 400, -32020);
    refused(&[("Mcp-Name", "")], 400, -32020);
    refused(&[("Mcp-Name", "ECHO")], 400, -32020);
    refused(&[("Mcp-Name", "echo"), ("mcp-name", "write")], 400, -32020);
    refused(&[("MCP-Protocol-Version", LEGACY)], 400, -32020);
    assert_eq!(client.raw(&body, &[("Mcp-Name", "=?base64?ZWNobw==?=")]).0, 200);
    refused(&[("Mcp-Name", "=?base64?d3JpdGU=?=")], 400, -32020);
    assert_eq!(server.calls("write"), 0);
    // A version that nobody has heard of.
    let unknown = body.replace(MODERN, "2031-01-01");
    let (status, answer) = client.raw(&unknown, &[("MCP-Protocol-Version", "2031-01-01")]);
    let answer = answer.unwrap();
    assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32022)), "{}", answer.raw);
    assert!(answer["error"]["data"]["supported"].as_array().unwrap().contains(&json!(MODERN)));
    // What must be said is missing.
    for key in [VERSION_KEY, "io.modelcontextprotocol/clientCapabilities"] {
        let mut without: Value = serde_json::from_str(&body).unwrap();
        without["params"]["_meta"].as_object_mut().unwrap().remove(key);
        let (status, answer) = client.raw(&without.to_string(), &[]);
        let answer = answer.unwrap();
        assert_eq!(
            (status, &answer["error"]["code"]),
            (400, &json!(-32602)),
            "{key}: {}",
            answer.raw
        );
    }
    let (status, answer) = client.try_request("no/such", json!({}));
    assert_eq!((status, &answer["error"]["code"]), (404, &json!(-32601)), "{}", answer.raw);
    let unknown = client.call("nobody", json!({}));
    assert_eq!(code(&unknown), "UNKNOWN_TOOL", "{}", unknown.raw);
    for verb in ["GET", "DELETE"] {
        let headers = [("Accept", BOTH), ("MCP-Protocol-Version", MODERN)];
        assert_eq!(gateway.exchange(verb, "/mcp", &headers, "").status, 405, "{verb}");
    }
    let notice =
        json!({"jsonrpc": "2.0", "method": "notifications/vendor", "params": {}}).to_string();
    assert_eq!(client.raw(&notice, &[]).0, 202);
}

#[test]
fn headers_of_arguments_are_checked_and_made_anew() {
    let server = Upstream::modern("alpha");
    server.redefine(
        "whoami",
        "inputSchema",
        json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"}, "n": {"type": "integer"}}}),
    );
    let gateway =
        Gateway::start(&format!("{}[namespaces.default]\nprefix = \"always\"\n", server.table("")));
    gateway.settled(14);
    let client = gateway.modern();
    let params = json!({"name": "alpha__whoami", "arguments": {"region": "us west", "n": 1}});
    let (_, body) = client.body("tools/call", params);
    let (status, answer) = client.raw(&body, &[("Mcp-Param-Region", "us west")]);
    assert_eq!(status, 200);
    let told: Value = serde_json::from_str(text(&answer.unwrap())).unwrap();
    assert_eq!(told["headers"]["mcp-param-region"], "us west", "{told}");
    assert_eq!(told["headers"]["mcp-name"], "whoami", "the server's own name: {told}");
    for headers in [&[("Mcp-Param-Region", "eu")][..], &[]] {
        let (status, answer) = client.raw(&body, headers);
        let answer = answer.unwrap();
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32020)), "{}", answer.raw);
    }
    // A client of the older era sends none; the server gets it all the same.
    let answer = gateway.legacy().call("alpha__whoami", json!({"region": "us west"}));
    let told: Value = serde_json::from_str(text(&answer)).unwrap();
    assert_eq!(told["headers"]["mcp-param-region"], "us west", "{told}");
    assert_eq!(server.complaints(), Vec::<String>::new());
}

#[test]
fn tokens_are_asked_for_and_a_session_belongs_to_who_began_it() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&format!(
        "{}[serve.tokens]\nanna = \"anna-has-this-token\"\nben = \"ben-has-another-one\"\n",
        server.table("")
    ));
    let hello = initialize(LEGACY);
    for authorization in [
        "",
        "Bearer nobody",
        "Bearer anna-has-this-toke",
        "Bearer anna-has-this-tokenx",
        "Bearer ",
        "Basic anna-has-this-token",
        "anna-has-this-token",
    ] {
        let mut answer = post(&gateway, "/mcp", &[("Authorization", authorization)], &hello);
        assert_eq!(answer.status, 401, "{authorization:?}");
        assert!(
            answer.header("www-authenticate").is_some_and(|how| how.starts_with("Bearer")),
            "{authorization:?}"
        );
        assert!(!answer.text().contains("anna"));
    }
    for (verb, path) in [("GET", "/mcp"), ("DELETE", "/mcp"), ("GET", "/sse")] {
        assert_eq!(
            gateway.exchange(verb, path, &[("Accept", "text/event-stream")], "").status,
            401,
            "{verb} {path}"
        );
    }
    // A token in the address is none.
    assert_eq!(post(&gateway, "/mcp?token=anna-has-this-token", &[], &hello).status, 401);
    let connect = |token: &str| Legacy::new(gateway.address, "/mcp").with_token(token).connected();
    let (anna, ben) = (connect("anna-has-this-token"), connect("ben-has-another-one"));
    let annas = anna.session.clone().unwrap();
    let list = r#"{"jsonrpc":"2.0","id":5,"method":"tools/list"}"#;
    for (verb, body) in [
        ("POST", list),
        ("GET", ""),
        ("DELETE", ""),
        ("POST", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#),
    ] {
        let status = ben.exchange(verb, &[("Mcp-Session-Id", &annas)], body).status;
        assert_eq!(status, 404, "{verb} {body}");
    }
    assert_eq!(text(&anna.call("echo", json!({"text": "mine"}))), "mine");
    let modern = Modern::new(gateway.address, "/mcp").with_token("ben-has-another-one");
    assert_eq!(text(&modern.call("echo", json!({"text": "too"}))), "too");
    until("both are in the audit", || gateway.audit().len() >= 2);
    let who: HashSet<String> = gateway.audit().iter().map(|r| r["principal"].to_string()).collect();
    assert_eq!(
        who,
        ["\"key:anna\"", "\"key:ben\""].map(str::to_owned).into(),
        "{:?}",
        gateway.audit()
    );
    assert!(!gateway.stderr().join("\n").contains("has-"), "no token in the log");
}

#[test]
fn without_tokens_only_this_machine_can_reach_it() {
    let server = stdio("alpha", &[], "");
    let place = Place::new(&server);
    for address in ["0.0.0.0:0", "[::]:0"] {
        let mut command = std::process::Command::new(crate::harness::toolgate());
        command.arg("serve").arg(place.path("toolgate.toml")).args(["--listen", address]);
        command.env("XDG_STATE_HOME", place.path("state")).stdin(Stdio::null());
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{address}: {told}");
        assert!(told.contains("tokens"), "{address}: {told}");
    }
}

#[test]
fn clients_of_2024_are_served_on_two_endpoints() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&format!("{}{}", server.table(""), stdio("pipes", &[], "")));
    for path in ["/sse", "/sse/default"] {
        let mut client = OldSse::connect(gateway.address, path);
        assert!(client.endpoint.starts_with("/messages/default?session="), "{}", client.endpoint);
        until("its tools", || {
            let list = client.request("tools/list", json!({}));
            list["result"]["tools"].as_array().is_some_and(|tools| tools.len() == 28)
        });
        assert!(!text(&client.call("see_line", json!({}))).is_empty());
        let params =
            json!({"name": "pipes__progress", "arguments": {}, "_meta": {"progressToken": "t"}});
        client.request("tools/call", params);
        let steps = client
            .stream
            .so_far()
            .iter()
            .filter(|m| m["method"] == "notifications/progress")
            .count();
        assert_eq!(steps, 3);
        let stranger = client.endpoint.replace("session=", "session=x");
        let headers = [("Content-Type", "application/json")];
        let status =
            |path: &str| http::exchange(gateway.address, "POST", path, &headers, b"{}").status;
        assert_eq!(status(&stranger), 404);
        // The session is no longer than its stream.
        let endpoint = client.endpoint.clone();
        drop(client);
        until("the session ends", || status(&endpoint) == 404);
    }
}

#[test]
fn each_namespace_has_its_own_servers_and_sessions() {
    let (alpha, beta) = (Upstream::legacy("alpha"), Upstream::modern("beta"));
    let gateway = Gateway::start(&format!(
        "{}{}[namespaces.default]\nservers = [\"alpha\"]\n[namespaces.dev]\nservers = [\"beta\", \"alpha\"]\n\
         [namespaces.prefixed]\nservers = [\"beta\"]\nprefix = \"always\"\n",
        alpha.table("prefix = \"al\""),
        beta.table("")
    ));
    let tools = |path: &str| Modern::new(gateway.address, path).tools();
    until("all are there", || tools("/mcp/dev").len() == 28);
    assert_eq!(tools("/mcp").len(), 14);
    assert_eq!(tools("/mcp/prefixed")[0], "beta__echo");
    let both = tools("/mcp/dev");
    assert_eq!((both[0].as_str(), both[14].as_str()), ("echo", "al__echo"), "{both:?}");
    let who = |path: &str, tool: &str| {
        let answer = Legacy::new(gateway.address, path).connected().call(tool, json!({}));
        serde_json::from_str::<Value>(text(&answer)).unwrap()["server"].as_str().unwrap().to_owned()
    };
    assert_eq!(who("/mcp", "whoami"), "alpha");
    assert_eq!(who("/mcp/dev", "al__whoami"), "alpha");
    assert_eq!(who("/mcp/dev", "beta__whoami"), "beta");
    let client = gateway.legacy();
    let session = client.session.clone().unwrap();
    let list = r#"{"jsonrpc":"2.0","id":5,"method":"tools/list"}"#;
    let headers = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", LEGACY)];
    assert_eq!(post(&gateway, "/mcp/dev", &headers, list).status, 404);
}

#[test]
fn cursors_are_whole_and_cannot_be_made_up() {
    let server = Upstream::numbered("alpha", crate::harness::upstream::Era::Legacy, 3000);
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(3001);
    for client in gateway.both() {
        for cursor in ["", "x", "0", "1000", "AAAA", "eyJvZmZzZXQiOjB9"] {
            let (status, answer) = client.try_request("tools/list", json!({"cursor": cursor}));
            let answer = answer.unwrap();
            assert_eq!(
                (status, &answer["error"]["code"]),
                (200, &json!(-32602)),
                "{cursor}: {}",
                answer.raw
            );
        }
        let page = client.request("tools/list", json!({}));
        if let Some(cursor) = page["result"]["nextCursor"].as_str() {
            let mut other = cursor.to_owned();
            let last = other.pop().unwrap();
            other.push(if last == 'A' { 'B' } else { 'A' });
            let (_, answer) = client.try_request("tools/list", json!({"cursor": other}));
            assert_eq!(answer.unwrap()["error"]["code"], -32602);
        }
    }
}

#[test]
fn a_batch_of_a_client_of_2025_03_26_is_answered_as_one() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(14);
    let client = Legacy::new(gateway.address, "/mcp").of_version("2025-03-26").connected();
    let call = |id: u32, tool: &str| {
        let params = json!({"name": tool, "arguments": {"text": id.to_string()}});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/vendor"});
    let batch = json!([call(1, "echo"), notice, call(2, "echo"), call(3, "nobody")]);
    let mut answer = client.exchange("POST", &[], &batch.to_string());
    assert_eq!(answer.status, 200);
    assert!(!answer.is_events(), "{:?}", answer.headers);
    let answers = answer.json();
    let of = |id: u32| {
        let found = answers.as_array().unwrap().iter().find(|answer| answer["id"] == id);
        found.unwrap_or_else(|| panic!("no {id} in {answers}")).clone()
    };
    assert_eq!(answers.as_array().unwrap().len(), 3, "{answers}");
    assert_eq!((text(&of(1)), text(&of(2))), ("1", "2"));
    assert_eq!(code(&of(3)), "UNKNOWN_TOOL");
    let only = json!([notice, notice]).to_string();
    assert_eq!(client.exchange("POST", &[], &only).status, 202);
}
