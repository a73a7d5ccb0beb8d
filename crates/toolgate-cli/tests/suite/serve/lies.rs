//! Servers that lie: about what they have, about who asked, about where an answer ends. Nobody but themselves may suffer.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{
    clients::either::Either,
    gateway::{Gateway, stdio, until_or},
    governed::code,
    text,
    upstream::{Era, Fault, Upstream},
};

/// The breaker is not what is looked at here.
const BREAKER_OFF: &str = "[breaker]\nfailures = 1000000\nshare = 1.0\nof = 64\n";

#[test]
fn a_tool_that_is_no_tool_costs_its_server_nothing_else() {
    let broken = [
        r#"{"name":5,"inputSchema":{"type":"object"}}"#,
        "{}",
        "null",
        "[1]",
        r#"{"name":"","inputSchema":{"type":"object"}}"#,
        r#"{"description":"nameless"}"#,
    ];
    for era in [Era::Legacy, Era::Modern] {
        let server = Upstream::start("alpha", era);
        for tool in broken {
            server.add_raw_tool(tool);
        }
        server.add_raw_tool(
            r#"{"name":"twin","description":"first","inputSchema":{"type":"object"}}"#,
        );
        server.add_raw_tool(
            r#"{"name":"twin","description":"second","inputSchema":{"type":"object"}}"#,
        );
        let gateway = Gateway::start(&server.table(""));
        for client in gateway.both() {
            until_or(|| client.tools().len() >= 15, || format!("{era:?}: {:?}", client.tools()));
            let tools = client.tools();
            assert_eq!(tools.iter().filter(|tool| *tool == "twin").count(), 1, "{tools:?}");
            assert!(tools.iter().all(|tool| !tool.is_empty()), "{tools:?}");
            assert_eq!(text(&client.call("echo", json!({"text": "x"}))), "x");
        }
    }
}

#[test]
fn a_header_that_cannot_be_one_hides_its_tool_alone() {
    let server = Upstream::modern("alpha");
    let annotated = |name: &str| json!({"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": name}}});
    server.redefine("echo", "inputSchema", annotated("bad header: x\r\nInjected"));
    server.redefine("big", "inputSchema", json!({"type": "object", "properties": {
        "a": {"type": "string", "x-mcp-header": "Same"}, "b": {"type": "string", "x-mcp-header": "same"}}}));
    server.redefine(
        "log",
        "inputSchema",
        json!({"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "N"}}}),
    );
    server.redefine("see", "inputSchema", annotated("Good-One"));
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(11);
    for client in gateway.both() {
        let tools = client.tools();
        assert!(tools.contains(&"see".to_owned()), "{tools:?}");
        for hidden in ["echo", "big", "log"] {
            assert!(!tools.contains(&hidden.to_owned()), "{hidden} in {tools:?}");
            let answer = client.call(hidden, json!({"a": "x"}));
            assert!(!code(&answer).is_empty(), "{}", answer.raw);
        }
    }
    assert_eq!(server.calls("echo"), 0);
}

#[test]
fn a_list_that_grows_without_end_is_bounded() {
    for era in [Era::Legacy, Era::Modern] {
        let (alpha, beta) =
            (Upstream::numbered("alpha", era, 2), Upstream::numbered("beta", era, 2));
        alpha.growing(true);
        let gateway = Gateway::start(&format!("{}{}", alpha.table(""), beta.table("")));
        let client = gateway.modern();
        // The other one is there at once, whatever this one does.
        until_or(
            || client.tools().iter().filter(|tool| tool.starts_with("beta")).count() == 3,
            || format!("{:?}", client.tools().len()),
        );
        assert_eq!(text(&client.call("beta_0", json!({"key": "k"}))), "beta:beta_0:k");
        until_or(|| !is_asked(&alpha), || format!("{} pages", alpha.count("tools/list")));
        assert!(gateway.resident_bytes() < 300_000_000, "{}", gateway.resident_bytes());
    }
}

/// Whether it is asked for a further page within a second.
fn is_asked(server: &Upstream) -> bool {
    let (before, started) = (server.count("tools/list"), Instant::now());
    while started.elapsed() < Duration::from_secs(1) {
        if server.count("tools/list") > before + 2 {
            return true;
        }
        std::thread::park_timeout(Duration::from_millis(2));
    }
    false
}

#[test]
fn answers_beyond_the_bound_are_refused_without_being_kept() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Upstream::start("alpha", era);
        let gateway = Gateway::start(&format!(
            "[limits]\nmessage_bytes = 2_000_000\nresponse_bytes = \"off\"\n{BREAKER_OFF}{}",
            server.table("")
        ));
        gateway.settled(14);
        for client in gateway.both() {
            let at = format!("{} before {era:?}", client.era());
            assert_eq!(
                text(&client.call("big", json!({"size": 1_000_000}))).len(),
                1_000_000,
                "{at}"
            );
            let before = gateway.resident_bytes();
            let answer = client.call("big", json!({"size": 120_000_000}));
            assert!(
                ["SERVER_PROTOCOL", "RESPONSE_TOO_LARGE"].contains(&code(&answer)),
                "{at}: {:.300}",
                answer.raw
            );
            for events in [false, true] {
                server.fail("tools/call", Fault::Endless { events }, 1);
                let answer = client.call("echo", json!({"text": "x"}));
                let codes = ["SERVER_PROTOCOL", "RESPONSE_TOO_LARGE"];
                assert!(
                    codes.contains(&code(&answer)),
                    "{at}, events: {events}: {:.300}",
                    answer.raw
                );
            }
            let grown = gateway.resident_bytes().saturating_sub(before);
            // Buffers and what the allocator keeps of them come to 16 to 39 MB, however often; an answer that is kept to 120.
            assert!(grown < 60_000_000, "{at}: {grown} bytes more");
            assert_eq!(text(&client.call("echo", json!({"text": "well"}))), "well", "{at}");
        }
    }
    // And over pipes.
    let gateway = Gateway::start(&format!(
        "[limits]\nmessage_bytes = 2_000_000\nresponse_bytes = \"off\"\n{BREAKER_OFF}{}",
        stdio("alpha", &[], "")
    ));
    gateway.settled(14);
    for client in gateway.both() {
        let answer = client.call("big", json!({"lines": 3_000_000}));
        assert!(!code(&answer).is_empty(), "{:.300}", answer.raw);
        until_or(
            || code(&client.call("echo", json!({"text": "well"}))).is_empty(),
            || client.call("echo", json!({"text": "well"})).raw,
        );
    }
}

#[test]
fn results_that_are_none_are_told_to_be_none() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Upstream::start("alpha", era);
        let gateway = Gateway::start(&format!("{BREAKER_OFF}{}", server.table("")));
        gateway.settled(14);
        for client in gateway.both() {
            for result in ["null", "5", "\"text\"", "[]", "true"] {
                let arguments =
                    serde_json::from_str::<Value>(&format!(r#"{{"result":{result}}}"#)).unwrap();
                let answer = client.call("answer", arguments);
                assert_eq!(
                    code(&answer),
                    "SERVER_PROTOCOL",
                    "{} {era:?} {result}: {}",
                    client.era(),
                    answer.raw
                );
            }
        }
    }
}

#[test]
fn every_legal_way_to_write_an_answer_is_read_and_no_other() {
    let legal = [
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}",
        "HTTP/1.1 200 \r\ncontent-type:application/json;charset=utf-8\r\nCONTENT-LENGTH:{length}\r\n\r\n{body}",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{body}",
        "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{body}",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: Chunked\r\n\r\n{hex};ext=1\r\n{body}\r\n0\r\nTrailer: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n000{hex}\r\n{body}\r\n000\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}",
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {body}\n\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n: hi\r\n\r\nid: 1\r\nevent: message\r\ndata:{body}\r\n\r\n",
    ];
    let illegal = [
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nContent-Length: 3\r\n\r\n{body}",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: -5\r\n\r\n{body}",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99999999999999999999999\r\n\r\n{body}",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{body}",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n{body}\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n{body}",
        "HTTP/2 200\r\n\r\n{body}",
        "ICY 200 OK\r\n\r\n{body}",
        "HTTP/1.1 OK\r\n\r\n{body}",
        "{body}",
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1{length}\r\n\r\n{body}",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n",
    ];
    let server = Upstream::legacy("alpha");
    let gateway =
        Gateway::start(&format!("[limits]\ntimeout = \"5s\"\n{BREAKER_OFF}{}", server.table("")));
    gateway.settled(14);
    for client in gateway.both() {
        for (raws, is_legal) in [(&legal[..], true), (&illegal, false)] {
            for (n, raw) in raws.iter().enumerate() {
                one_way(&server, &client, raw, is_legal, n);
            }
        }
    }
}

/// One call that is answered with these bytes.
fn one_way(server: &Upstream, client: &Either, raw: &'static str, is_legal: bool, n: usize) {
    let key = format!("{is_legal} {n} {}", client.era());
    server.fail("tools/call:write", Fault::Raw { bytes: raw, closes: true }, 1);
    let answer = client.call("write", json!({"key": key}));
    if is_legal {
        assert_eq!(code(&answer), "", "{}: {raw:?}: {}", client.era(), answer.raw);
        assert_eq!(text(&answer), format!("alpha:write:{key}"), "{raw:?}");
    } else {
        let codes = [
            "SERVER_PROTOCOL",
            "SERVER_CRASHED",
            "SERVER_REJECTED",
            "SERVER_UNAVAILABLE",
            "TIMED_OUT",
        ];
        assert!(codes.contains(&code(&answer)), "{}: {raw:?}: {}", client.era(), answer.raw);
    }
    assert_eq!(server.executions("write", &key), 1, "{raw:?}");
    // A connection that ends just as it is used again loses a call, and rightly nobody repeats that one.
    until_or(
        || text(&client.call("echo", json!({"text": key}))) == key,
        || format!("after {raw:?}: {}", client.call("echo", json!({"text": key})).raw),
    );
}

#[test]
fn an_answer_that_comes_before_its_question_answers_nothing() {
    // Behind the right answer stands another one, for whoever asks next.
    const TWO: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}\
        HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}";
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&format!("{BREAKER_OFF}{}", server.table("")));
    gateway.settled(14);
    for client in gateway.both() {
        for n in 0..20 {
            server.fail("tools/call:echo", Fault::Raw { bytes: TWO, closes: false }, 1);
            assert_eq!(text(&client.call("echo", json!({"text": "planted"}))), "planted");
            let key = format!("{n}");
            let answer = client.call("write", json!({"key": key}));
            assert_eq!(text(&answer), format!("alpha:write:{key}"), "{}", answer.raw);
        }
    }
}

#[test]
fn questions_out_of_nowhere_reach_nobody_and_cost_nothing() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(14);
    server.until("the gateway listens", |server| server.streams() > 0);
    let able = json!({"elicitation": {"form": {}}, "sampling": {}});
    let client = crate::harness::clients::Legacy::new(gateway.address, "/mcp")
        .able(able, |_| json!({}))
        .connected();
    let mut stream = client.listen();
    let ask = |id: &str, method: &str| {
        server.say_raw(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"message": "?"}})
                .to_string(),
        );
    };
    ask("ping-1", "ping");
    let answered = |id: &str| {
        server.seen().iter().find(|s| s.method.is_empty() && s.message["id"] == id).cloned()
    };
    until_or(|| answered("ping-1").is_some(), || "an answer to ping".to_owned());
    assert_eq!(answered("ping-1").unwrap().message["result"], json!({}));
    let before = gateway.resident_bytes();
    for n in 0..2000 {
        ask(&format!("q{n}"), "elicitation/create");
    }
    until_or(|| answered("q1999").is_some(), || "an answer to the last question".to_owned());
    assert!(answered("q1999").unwrap().message.get("error").is_some());
    assert_eq!(text(&client.call("echo", json!({"text": "well"}))), "well");
    assert!(stream.so_far().iter().all(|message| !message.is_request()), "{:?}", stream.seen);
    let grown = gateway.resident_bytes().saturating_sub(before);
    assert!(grown < 20_000_000, "{grown} bytes more");
}
