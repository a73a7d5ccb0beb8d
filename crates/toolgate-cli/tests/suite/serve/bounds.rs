//! What the gateway takes from clients that mean no good, or read slowly: bounded, and at nobody else's cost.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::harness::{
    TEST_TIMEOUT,
    clients::{LEGACY, Legacy},
    gateway::{Gateway, stdio, until, until_or},
    governed::code,
    http::{self, Connection},
    text,
    upstream::{Era, Upstream},
};

fn hello() -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": LEGACY,
        "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}})
    .to_string()
}

/// Sends bytes on a connection of its own and gives the status, if there is an answer.
fn status_of(gateway: &Gateway, bytes: &[u8]) -> Option<u16> {
    let mut connection = Connection::open(gateway.address);
    // It may be refused before all of it was sent.
    let _ = connection.send(bytes);
    connection.answer().ok().map(|answer| answer.status)
}

/// It still serves others.
fn assert_well(gateway: &Gateway) {
    assert_eq!(text(&gateway.legacy().call("echo", json!({"text": "well"}))), "well");
}

#[test]
fn garbage_on_the_wire_is_refused() {
    let gateway = Gateway::start(&stdio("alpha", &[], ""));
    gateway.settled(14);
    let body = hello();
    let length = body.len();
    let accept =
        "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n";
    let host = format!("Host: {}\r\n", gateway.address);
    let cases = [
        "\r\n\r\n\r\n".to_owned(),
        "GET\r\n\r\n".to_owned(),
        "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\u{1}\u{fc}".to_owned(),
        format!("POST /mcp HTTP/9.9\r\n{host}{accept}Content-Length: {length}\r\n\r\n{body}"),
        format!("POST /mcp HTTP/1.1\r\n{host}{accept}Content-Length: -1\r\n\r\n{body}"),
        format!(
            "POST /mcp HTTP/1.1\r\n{host}{accept}Content-Length: {length}\r\nContent-Length: 5\r\n\r\n{body}"
        ),
        format!(
            "POST /mcp HTTP/1.1\r\n{host}{accept}Transfer-Encoding: chunked\r\n\r\nzz\r\n{body}\r\n0\r\n\r\n"
        ),
        format!(
            "POST /mcp HTTP/1.1\r\n{host}{accept}Transfer-Encoding: gzip, identity\r\n\r\n{body}"
        ),
        format!("POST /mcp HTTP/1.1\r\n{host}{host}{accept}Content-Length: {length}\r\n\r\n{body}"),
        format!("POST /mcp HTTP/1.1\r\n{accept}Content-Length: {length}\r\n\r\n{body}"),
        format!(
            "POST /mcp HTTP/1.1\r\n{host}Bad Header: x\r\n{accept}Content-Length: {length}\r\n\r\n{body}"
        ),
        format!(
            "POST /mcp HTTP/1.1\r\n{host}{accept}X: \u{0}\r\nContent-Length: {length}\r\n\r\n{body}"
        ),
    ];
    for case in &cases {
        let mut connection = Connection::open(gateway.address);
        connection.send(case.as_bytes()).unwrap();
        let _ = connection.socket().shutdown(std::net::Shutdown::Write);
        if let Ok(answer) = connection.answer() {
            assert!((400..600).contains(&answer.status), "{}: {case:?}", answer.status);
        }
    }
    assert_well(&gateway);
}

#[test]
fn a_length_and_chunks_at_once_smuggle_nothing() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(14);
    let session = gateway.legacy().session.unwrap();
    let inner = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "write", "arguments": {"key": "k"}}})
        .to_string();
    let smuggled = http::request(
        gateway.address,
        "POST",
        "/mcp",
        &[("Mcp-Session-Id", &session), ("Content-Type", "application/json"), ("Accept", "*/*")],
        inner.as_bytes(),
    );
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: */*\r\nContent-Length: {}\r\n\
         Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        gateway.address,
        smuggled.len() + 5
    );
    let bytes = [head.as_bytes(), &smuggled].concat();
    let status = status_of(&gateway, &bytes);
    assert!(status.is_none_or(|status| (400..500).contains(&status)), "{status:?}");
    assert_well(&gateway);
    assert_eq!(server.executions("write", "k"), 0);
}

#[test]
fn headers_are_bounded() {
    let gateway = Gateway::start(&stdio("alpha", &[], ""));
    gateway.settled(14);
    let body = hello();
    let ask = |headers: &[(&str, &str)]| {
        let mut all = vec![("Accept", "*/*"), ("Content-Type", "application/json")];
        all.extend(headers);
        status_of(&gateway, &http::request(gateway.address, "POST", "/mcp", &all, body.as_bytes()))
    };
    assert_eq!(ask(&[]), Some(200));
    let long = "x".repeat(2_000_000);
    let status = ask(&[("X-Long", &long)]);
    assert!(status.is_none_or(|status| status == 431 || status == 400), "{status:?}");
    let names: Vec<String> = (0..5000).map(|n| format!("X-{n}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
    let status = ask(&many);
    assert!(status.is_none_or(|status| status == 431 || status == 400), "{status:?}");
    let path = format!("/{}", "y".repeat(2_000_000));
    let status = status_of(&gateway, &http::request(gateway.address, "GET", &path, &[], b""));
    assert!(status.is_none_or(|status| [414, 431, 400, 404].contains(&status)), "{status:?}");
    assert_well(&gateway);
}

#[test]
fn sessions_are_bounded_and_a_place_that_becomes_free_is_given_away() {
    let gateway = Gateway::start(&format!("[serve]\nsessions = 3\n{}", stdio("alpha", &[], "")));
    gateway.settled(14);
    let sessions: Vec<Legacy> = (0..3).map(|_| gateway.legacy()).collect();
    let more = Legacy::new(gateway.address, "/mcp");
    let refused = more.exchange("POST", &[], &hello()).status;
    assert!([429, 503].contains(&refused), "{refused}");
    for session in &sessions {
        assert_eq!(text(&session.call("echo", json!({"text": "mine"}))), "mine");
    }
    // Requests without a session are not counted among them.
    assert_eq!(text(&gateway.modern().call("echo", json!({"text": "too"}))), "too");
    sessions[0].delete();
    until("there is a place", || {
        Legacy::new(gateway.address, "/mcp").exchange("POST", &[], &hello()).status == 200
    });
}

#[test]
fn a_session_that_nobody_uses_ends_and_so_does_what_it_had() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&format!(
        "[serve]\nsession_idle = \"1s\"\n{}{}",
        server.table("sharing = \"session\""),
        stdio("pipes", &[], "sharing = \"session\"")
    ));
    let client = gateway.legacy();
    until("its own server", || client.tools().len() == 28);
    assert_eq!(text(&client.call("alpha__echo", json!({"text": "x"}))), "x");
    assert_eq!(text(&client.call("pipes__echo", json!({"text": "x"}))), "x");
    let (sessions, processes) = (server.sessions(), gateway.fixtures().len());
    assert!(sessions >= 1 && processes >= 1, "{sessions} {processes}");
    until_or(
        || server.sessions() < sessions && gateway.fixtures().len() < processes,
        || {
            format!(
                "{} of {sessions} sessions, {} of {processes} processes",
                server.sessions(),
                gateway.fixtures().len()
            )
        },
    );
    assert_eq!(client.try_request("tools/list", json!({})).0, 404);
    // One that listens is in use.
    let client = gateway.legacy();
    let mut stream = client.listen();
    let started = Instant::now();
    until("longer than it may be idle", || started.elapsed() > Duration::from_millis(2500));
    assert!(stream.so_far().is_empty());
    assert_eq!(client.try_request("ping", json!({})).0, 200);
}

#[test]
fn connections_are_bounded_and_those_that_say_nothing_do_not_keep_others_out() {
    let gateway =
        Gateway::start(&format!("[serve]\nconnections = 30\n{}", stdio("alpha", &[], "")));
    gateway.settled(14);
    let client = gateway.legacy();
    // Half a head each, and then nothing.
    let mut idle: Vec<TcpStream> = Vec::new();
    for _ in 0..28 {
        let mut socket = TcpStream::connect(gateway.address).unwrap();
        socket.write_all(b"POST /mcp HTTP/1.1\r\nHost: ").unwrap();
        idle.push(socket);
    }
    assert_eq!(text(&client.call("echo", json!({"text": "still"}))), "still");
    // Beyond the bound: refused, or left to wait, but never more than so many served.
    for _ in 0..20 {
        idle.extend(TcpStream::connect_timeout(&gateway.address, Duration::from_secs(1)));
    }
    assert!(gateway.open_files() < 120, "{}", gateway.open_files());
    drop(idle);
    until("there is room again", || {
        let headers = [("Connection", "close")];
        let bytes = http::request(gateway.address, "GET", "/health", &headers, b"");
        status_of(&gateway, &bytes) == Some(200)
    });
    assert_well(&gateway);
}

#[test]
fn calls_in_flight_are_bounded_and_told_so() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&format!("[limits]\nin_flight = 5\n{}", server.table("")));
    gateway.settled(14);
    let client = gateway.legacy();
    let mut slow: Vec<_> =
        (0..5).map(|n| client.open_call("slow", json!({"key": n.to_string()}))).collect();
    (0..5).for_each(|n| server.wait_for_call(&n.to_string()));
    let answer = gateway.modern().call("echo", json!({"text": "x"}));
    assert_eq!(code(&answer), "OVERLOADED", "{}", answer.raw);
    (0..5).for_each(|n| server.release(&n.to_string()));
    for (n, call) in slow.iter_mut().enumerate() {
        assert_eq!(text(&call.answer()), format!("alpha:slow:{n}"));
    }
    assert_eq!(text(&client.call("echo", json!({"text": "x"}))), "x");
}

/// A connection whose answer nobody reads.
fn unread(gateway: &Gateway, client: &Legacy, method: &str, body: &str) -> TcpStream {
    let session = client.session.as_deref().unwrap();
    let headers = [
        ("Accept", "application/json, text/event-stream"),
        ("Content-Type", "application/json"),
        ("Mcp-Session-Id", session),
        ("MCP-Protocol-Version", LEGACY),
    ];
    let mut socket = TcpStream::connect(gateway.address).unwrap();
    socket
        .write_all(&http::request(gateway.address, method, "/mcp", &headers, body.as_bytes()))
        .unwrap();
    // The head is there: the stream is open.
    socket.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    socket.read_exact(&mut [0; 12]).unwrap();
    socket
}

#[test]
fn a_client_that_does_not_read_its_stream_costs_no_memory() {
    for era in [Era::Legacy, Era::OldSse] {
        let server = Upstream::start("alpha", era);
        let gateway = Gateway::start(&server.table(""));
        gateway.settled(14);
        server.until("the gateway listens", |server| server.streams() > 0);
        let client = gateway.legacy();
        let asleep = unread(&gateway, &client, "GET", "");
        let awake = gateway.legacy();
        let mut stream = awake.listen();
        let before = gateway.resident_bytes();
        let fill = "f".repeat(10_000);
        // 100 MB for somebody who does not read.
        for n in 0..10_000 {
            server.say(
                "notifications/message",
                json!({"level": "info", "data": [n, fill]}),
                |_| true,
            );
            if n % 500 == 0 {
                stream.so_far();
                stream.seen.clear();
                assert_eq!(text(&awake.call("echo", json!({"text": "well"}))), "well");
            }
        }
        let grown = gateway.resident_bytes().saturating_sub(before);
        assert!(grown < 60_000_000, "{era:?}: {grown} bytes more");
        drop(asleep);
    }
}

#[test]
fn a_client_that_does_not_read_its_answer_slows_its_own_call_only() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(14);
    let client = gateway.legacy();
    let params =
        json!({"name": "progress", "arguments": {"steps": 300_000}, "_meta": {"progressToken": 1}});
    let body =
        json!({"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": params}).to_string();
    let before = gateway.resident_bytes();
    let asleep: Vec<TcpStream> =
        (0..4).map(|_| unread(&gateway, &gateway.legacy(), "POST", &body)).collect();
    for n in 0..500 {
        assert_eq!(text(&client.call("echo", json!({"text": n.to_string()}))), n.to_string());
    }
    let grown = gateway.resident_bytes().saturating_sub(before);
    // What the four do not read comes to more than 100 MB; buffers and the allocator's reserve to some 30.
    assert!(grown < 60_000_000, "{grown} bytes more");
    drop(asleep);
    assert_well(&gateway);
}

#[test]
fn requests_may_follow_each_other_without_waiting_and_are_answered_in_order() {
    let gateway = Gateway::start(&stdio("alpha", &[], ""));
    gateway.settled(14);
    let session = gateway.legacy().session.unwrap();
    let headers = [
        ("Accept", "*/*"),
        ("Content-Type", "application/json"),
        ("Mcp-Session-Id", session.as_str()),
        ("MCP-Protocol-Version", LEGACY),
    ];
    let mut bytes = Vec::new();
    for id in 0..20 {
        let params = json!({"name": "echo", "arguments": {"text": id.to_string()}});
        let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
            .to_string();
        bytes.extend(http::request(gateway.address, "POST", "/mcp", &headers, body.as_bytes()));
    }
    let mut connection = Connection::open(gateway.address);
    connection.send(&bytes).unwrap();
    for id in 0..20 {
        let mut answer = connection.answer().unwrap();
        let message = answer.json();
        assert_eq!((&message["id"], text(&message)), (&json!(id), id.to_string().as_str()));
        connection = answer.into_connection().expect("the connection stays");
    }
}

#[test]
fn calls_that_were_given_up_free_their_places() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&format!("[limits]\nin_flight = 3\n{}", server.table("")));
    gateway.settled(14);
    let [legacy, modern] = gateway.both();
    for round in 0..20 {
        let keys = [format!("l{round}"), format!("m{round}")];
        let calls = [&legacy, &modern]
            .iter()
            .zip(&keys)
            .map(|(client, key)| client.open_call("slow", json!({"key": key})))
            .collect::<Vec<_>>();
        for key in &keys {
            server.wait_for_call(key);
        }
        if let crate::harness::clients::either::Either::Legacy(client) = &legacy {
            client.notify("notifications/cancelled", json!({"requestId": calls[0].id}));
        }
        calls[1].hang_up();
        for key in &keys {
            server.wait_for_end(key);
        }
    }
    let mut slow: Vec<_> = (0..3)
        .map(|n| {
            let key = format!("last {n}");
            let mut call = None;
            until_or(
                || {
                    let opened = call.insert(modern.open_call("slow", json!({"key": key})));
                    // It is refused, or reaches the server.
                    loop {
                        if opened.find(Duration::from_millis(5), |_| true).is_some() {
                            return false;
                        }
                        if server.has_call(&key) {
                            return true;
                        }
                    }
                },
                || "a place".to_owned(),
            );
            server.wait_for_call(&key);
            call.unwrap()
        })
        .collect();
    (0..3).for_each(|n| server.release(&format!("last {n}")));
    for call in &mut slow {
        call.answer();
    }
}

#[test]
fn a_session_is_in_use_as_long_as_a_call_of_it_is() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&format!("[serve]\nsession_idle = \"1s\"\n{}", server.table("")));
    gateway.settled(14);
    let client = gateway.legacy();
    let mut call = client.open_call("slow", json!({"key": "k"}));
    server.wait_for_call("k");
    let started = Instant::now();
    until("longer than it may be idle", || started.elapsed() > Duration::from_millis(2500));
    server.release("k");
    assert_eq!(text(&call.answer()), "alpha:slow:k");
    assert_eq!(text(&client.call("echo", json!({"text": "still"}))), "still");
}

#[test]
fn questions_that_nobody_answers_are_bounded() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(14);
    let client = gateway.modern().able(json!({"elicitation": {"form": {}}}));
    let before = gateway.resident_bytes();
    let mut refused = 0;
    for n in 0..1100 {
        let answer = client.call("elicit", json!({"n": n}));
        if answer["result"]["resultType"] != "input_required" {
            assert_eq!(code(&answer), "OVERLOADED", "{n}: {}", answer.raw);
            refused += 1;
        }
    }
    assert!(refused >= 1, "calls that wait for their clients are not bounded");
    assert_well(&gateway);
    let grown = gateway.resident_bytes().saturating_sub(before);
    assert!(grown < 100_000_000, "{grown} bytes more");
}
