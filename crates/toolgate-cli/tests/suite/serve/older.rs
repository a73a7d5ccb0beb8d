//! The transport of 2024-11-05, HTTP with server-sent events, in front of the gateway and behind it.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener},
};

use serde_json::{Value, json};

use crate::harness::{
    assert_gone,
    clients::{Message, Pending, old_sse::OldSse},
    gateway::{Gateway, stdio, until, until_or},
    governed::code,
    http, text,
    upstream::{Era, Upstream},
};

/// A client of 2024-11-05 with headers and abilities of its own.
struct Old {
    address: SocketAddr,
    headers: Vec<(&'static str, String)>,
    endpoint: String,
    stream: Pending,
    next_id: i64,
}

impl Old {
    fn connect(address: SocketAddr, path: &str, token: Option<&str>, capabilities: Value) -> Self {
        let mut headers = vec![("Accept", "text/event-stream".to_owned())];
        headers.extend(token.map(|token| ("Authorization", format!("Bearer {token}"))));
        let given: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let mut stream = Pending::start(
            address,
            &http::request(address, "GET", path, &given, b""),
            json!("SSE"),
        );
        let (status, answered) = stream.head();
        assert_eq!((status, answered.get("content-type")), (200, Some("text/event-stream")));
        let first = stream.wait_for(|_| true);
        assert_eq!(first.event.as_deref(), Some("endpoint"), "the first event: {}", first.raw);
        let mut client = Self { address, headers, endpoint: first.raw, stream, next_id: 1 };
        let params = json!({"protocolVersion": "2024-11-05", "capabilities": capabilities,
            "clientInfo": {"name": "harness", "version": "1"}});
        let hello = client.request("initialize", params);
        assert_eq!(hello["result"]["protocolVersion"], "2024-11-05", "{}", hello.raw);
        assert_eq!(hello.event.as_deref(), Some("message"));
        client.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn plain(gateway: &Gateway) -> Self {
        Self::connect(gateway.address, "/sse", None, json!({}))
    }

    /// Posts to an address with this client's headers; gives the status.
    fn post_to(&self, endpoint: &str, body: &str) -> u16 {
        let mut headers = vec![("Content-Type", "application/json")];
        headers.extend(self.headers.iter().map(|(name, value)| (*name, value.as_str())));
        http::exchange(self.address, "POST", endpoint, &headers, body.as_bytes()).status
    }

    fn say(&self, message: Value) {
        assert_eq!(self.post_to(&self.endpoint, &message.to_string()), 202, "{message}");
    }

    /// Sends a request, and gives its id.
    fn ask(&mut self, method: &str, params: Value) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        self.say(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    fn answer(&mut self, id: i64) -> Message {
        self.stream.wait_for(|message| message.is_answer() && message["id"] == json!(id))
    }

    fn request(&mut self, method: &str, params: Value) -> Message {
        let id = self.ask(method, params);
        self.answer(id)
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Message {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    fn tools(&mut self) -> usize {
        self.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().len()
    }
}

#[test]
fn a_client_of_2024_has_everything_on_its_one_stream() {
    for era in [Era::Legacy, Era::Modern, Era::OldSse] {
        let server = Upstream::start("alpha", era);
        let gateway = Gateway::start(&server.table(""));
        gateway.settled(14);
        let mut client =
            Old::connect(gateway.address, "/sse", None, json!({"elicitation": {}, "sampling": {}}));
        assert!(client.endpoint.starts_with("/messages/default?session="), "{}", client.endpoint);
        assert_eq!(client.request("ping", json!({}))["result"], json!({}));
        assert_eq!(text(&client.call("echo", json!({"text": "old"}))), "old");
        assert_eq!(code(&client.call("nope", json!({}))), "UNKNOWN_TOOL");
        let read = client.request("resources/read", json!({"uri": "alpha://r/1"}));
        assert_eq!(read["result"]["contents"][0]["text"], "alpha read alpha://r/1");
        let missing = client.request("resources/read", json!({"uri": "alpha://missing"}));
        assert_eq!(missing["error"]["code"], -32002, "{era:?}: {}", missing.raw);
        let params =
            json!({"name": "progress", "arguments": {"steps": 2}, "_meta": {"progressToken": 7}});
        client.request("tools/call", params);
        let steps =
            client.stream.seen.iter().filter(|m| m["method"] == "notifications/progress").count();
        assert_eq!(steps, 2, "before the answer, {era:?}");
        // Elicitation was not known in 2024, whatever a client says.
        let unasked = client.call("elicit", json!({}));
        let is_refused = unasked["error"]["code"] == -32021 || unasked["result"]["isError"] == true;
        assert!(is_refused, "{}", unasked.raw);
        // A question comes on the same stream, its answer goes where all goes.
        let call = client.ask("tools/call", json!({"name": "sample", "arguments": {}}));
        let question = client.stream.method("sampling/createMessage");
        assert!(question.raw.contains("Say something"), "{}", question.raw);
        let answer =
            json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "blue"}});
        client.say(json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}));
        assert!(text(&client.answer(call)).contains("blue"), "{era:?}");
        let slow = client.ask("tools/call", json!({"name": "slow", "arguments": {"key": "c"}}));
        server.wait_for_call("c");
        client.say(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": slow}}));
        server.wait_for_end("c");
        server.until("the gateway listens", |server| server.streams() > 0);
        server.add_tool("fresh");
        server.announce("tools");
        client.stream.method("notifications/tools/list_changed");
        until_or(|| client.tools() == 15, || "the new tool".to_owned());
        assert!(
            !client.stream.seen.iter().any(|m| m.is_answer() && m["id"] == json!(slow)),
            "{era:?}"
        );
        assert_eq!(server.complaints(), Vec::<String>::new());
    }
}

#[test]
fn a_session_of_2024_is_its_principals_and_its_namespaces_alone() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&format!(
        "{}[serve]\ntokens.anna = {{ token = \"token-of-anna-0001\", namespaces = [\"*\"] }}\ntokens.ben = {{ token = \"token-of-ben-000022\", namespaces = [\"*\"] }}\n[namespaces.default]\n[namespaces.dev]\nsafety = \"readonly\"\n\
         [limits]\nmessage_bytes = 1_000_000\n",
        server.table("")
    ));
    let connect =
        |path: &str, token: &str| Old::connect(gateway.address, path, Some(token), json!({}));
    let mut anna = connect("/sse/dev", "token-of-anna-0001");
    let mut ben = connect("/sse", "token-of-ben-000022");
    assert!(anna.endpoint.starts_with("/messages/dev?session="), "{}", anna.endpoint);
    until("its tools", || ben.tools() == 14);
    assert_eq!(code(&anna.call("write", json!({"key": "a"}))), "TIER_DENIED");
    assert_eq!(code(&ben.call("write", json!({"key": "b"}))), "");
    let ping = json!({"jsonrpc": "2.0", "id": 99, "method": "ping"}).to_string();
    let theirs = anna.endpoint.clone();
    let elsewhere = theirs.replace("/messages/dev", "/messages/default");
    assert_eq!(ben.post_to(&theirs, &ping), 404, "another principal's");
    assert_eq!(anna.post_to(&elsewhere, &ping), 404, "another namespace's");
    assert_eq!(anna.post_to("/messages/dev", &ping), 404);
    assert_eq!(anna.post_to("/messages/dev?session=", &ping), 404);
    let bare = [("Content-Type", "application/json")];
    assert_eq!(
        http::exchange(gateway.address, "POST", &theirs, &bare, ping.as_bytes()).status,
        401
    );
    assert_eq!(
        http::exchange(gateway.address, "GET", "/sse", &[("Accept", "text/event-stream")], b"")
            .status,
        401
    );
    // What is no message is told on the stream, and ends nothing.
    anna.say(json!({"jsonrpc": "1.0", "id": 5, "method": "ping"}));
    assert_eq!(anna.stream.wait_for(|m| m["id"] == 5)["error"]["code"], -32600);
    assert_eq!(anna.request("ping", json!({}))["result"], json!({}));
    assert_eq!(anna.post_to(&theirs, &"x".repeat(1_000_001)), 413);
    let audit = || {
        gateway
            .audit()
            .iter()
            .map(|r| (r["principal"].clone(), r["namespace"].clone()))
            .collect::<Vec<_>>()
    };
    until_or(|| audit().len() == 2, || format!("{:?}", audit()));
    assert!(audit().contains(&(json!("key:anna"), json!("dev"))), "{:?}", audit());
}

#[test]
fn the_end_of_the_stream_is_the_end_of_the_session() {
    let server = Upstream::legacy("alpha");
    let mut gateway = Gateway::start(&format!(
        "{}{}",
        server.table(""),
        stdio("own", &["--full", "own"], "sharing = \"session\"")
    ));
    gateway.settled(35);
    let mut client = Old::plain(&gateway);
    let own: u32 = text(&client.call("pid", json!({}))).parse().unwrap();
    client.ask("tools/call", json!({"name": "slow", "arguments": {"key": "left"}}));
    server.wait_for_call("left");
    client.stream.hang_up();
    server.wait_for_end("left");
    assert_gone(own);
    let endpoint = client.endpoint.clone();
    until("nobody is there", || client.post_to(&endpoint, "{}") == 404);
    // The end of the gateway is the end of the stream.
    let mut client = Old::plain(&gateway);
    client.request("ping", json!({}));
    assert_eq!(gateway.terminate().code(), Some(0));
    drop(client.stream.end());
}

#[test]
fn the_older_addresses_take_what_they_are_for() {
    let gateway = Gateway::start("");
    let status = |method: &str, path: &str, headers: &[(&str, &str)]| {
        gateway.exchange(method, path, headers, "").status
    };
    assert_eq!(status("GET", "/sse", &[("Accept", "application/json")]), 406);
    assert_eq!(status("POST", "/sse", &[("Content-Type", "application/json")]), 405);
    assert_eq!(status("DELETE", "/sse", &[]), 405);
    assert_eq!(status("GET", "/messages/default?session=x", &[]), 405);
    assert_eq!(
        status("POST", "/messages/default?session=x", &[("Content-Type", "text/plain")]),
        415
    );
    assert_eq!(
        status("POST", "/messages/default?session=x", &[("Content-Type", "application/json")]),
        404
    );
    assert_eq!(status("GET", "/sse/nope", &[("Accept", "text/event-stream")]), 404);
}

#[test]
fn sessions_of_2024_are_counted_too() {
    let gateway = Gateway::start("[serve]\nsessions = 2\n");
    let first = Old::plain(&gateway);
    let _second = Old::plain(&gateway);
    let accept = [("Accept", "text/event-stream")];
    assert_eq!(gateway.exchange("GET", "/sse", &accept, "").status, 503);
    drop(first);
    until("there is room again", || gateway.exchange("GET", "/sse", &accept, "").status == 200);
}

#[test]
fn servers_of_2024_are_found_out_or_named() {
    for more in ["transport = \"sse\"", "transport = \"auto\"", "", "protocol = \"legacy\""] {
        let server = Upstream::start("old", Era::OldSse);
        let gateway = Gateway::start(&server.table(more));
        gateway.settled(14);
        let row = gateway.wait_for_stderr("  old ");
        assert!(row.contains("ready") && row.contains("2024-11-05"), "{row}");
        for client in gateway.both() {
            assert_eq!(text(&client.call("echo", json!({"text": "there"}))), "there", "{more}");
            let prompt =
                client.request("prompts/get", json!({"name": "greet", "arguments": {"who": "x"}}));
            assert!(prompt.raw.contains("old greets x"), "{}", prompt.raw);
            let progress = json!({"progressToken": "p"});
            client.call_with("progress", json!({"steps": 2}), progress);
            assert_eq!(client.seen().len(), 2, "{more}, {}", client.era());
            let mut stream = client.listen(&["old://r/0"]);
            server.until("it is subscribed to", |server| {
                server.subscriptions().contains("old://r/0")
            });
            server.touch("old://r/0");
            stream.method("notifications/resources/updated");
        }
        let mut oldest = OldSse::connect(gateway.address, "/sse");
        assert_eq!(text(&oldest.call("echo", json!({"text": "both ends"}))), "both ends");
        assert_eq!(server.complaints(), Vec::<String>::new(), "{more}");
    }
    // One that is named wrong is told of.
    let (old, new) = (Upstream::start("old", Era::OldSse), Upstream::modern("new"));
    let gateway = Gateway::start(&format!(
        "{}{}",
        old.table("transport = \"http\""),
        new.table("transport = \"sse\"")
    ));
    for server in ["old", "new"] {
        let row = gateway.wait_for_stderr(&format!("  {server} "));
        assert!(row.contains("failed") && row.contains("40"), "{row}");
    }
}

#[test]
fn a_server_of_2024_that_breaks_off_is_reached_again_and_nothing_is_repeated() {
    let server = Upstream::start("old", Era::OldSse);
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(14);
    for client in gateway.both() {
        let key = client.era();
        let mut pending = client.open_call("slow", json!({"key": key}));
        server.wait_for_call(key);
        server.restart();
        let answer = pending.answer();
        assert_eq!(code(&answer), "SERVER_CRASHED", "{}", answer.raw);
        assert_eq!(server.executions("slow", key), 1);
        until("it is back", || code(&client.call("echo", json!({"text": "x"}))).is_empty());
        server.stop();
        until("it is missed", || {
            code(&client.call("write", json!({"key": key}))) == "SERVER_UNAVAILABLE"
        });
        server.resume();
        until("it is back", || code(&client.call("echo", json!({"text": "x"}))).is_empty());
        assert!(server.executions("write", key) == 0 && server.executions("slow", key) == 1);
    }
}

/// A server that says that its messages go to another address.
fn misleading(endpoint: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.unwrap();
            let mut head = [0; 4096];
            let read = socket.read(&mut head).unwrap();
            let answer = if head[..read].starts_with(b"GET /sse") {
                format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: endpoint\ndata: {endpoint}\n\n"
                )
            } else {
                "HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                    .to_owned()
            };
            socket.write_all(answer.as_bytes()).unwrap();
            if answer.contains("endpoint") {
                // The stream stays open as long as the other side wants.
                let _ = socket.read(&mut head);
            }
        }
    });
    address
}

#[test]
fn messages_with_our_headers_go_to_no_other_address_than_the_servers() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = elsewhere.local_addr().unwrap();
    for endpoint in [
        format!("http://{other}/messages"),
        format!("//{other}/messages"),
        format!("https://{other}/m"),
    ] {
        let address = misleading(endpoint.clone());
        let gateway = Gateway::start(&format!(
            "[servers.odd]\nurl = \"http://{address}/sse\"\ntransport = \"sse\"\nstart_timeout = \"2s\"\nheaders = {{ Authorization = \"Bearer sekret\" }}\n"
        ));
        let row = gateway.wait_for_stderr("  odd ");
        assert!(row.contains("failed"), "{endpoint}: {row}");
        elsewhere.set_nonblocking(true).unwrap();
        assert!(elsewhere.accept().is_err(), "{endpoint}: it was called");
    }
}
