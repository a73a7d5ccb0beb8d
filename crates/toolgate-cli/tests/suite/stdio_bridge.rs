//! `toolgate stdio --to URL` between a client on its pipes and a gateway that the test plays itself: each HTTP
//! request comes to the test, which looks at it and answers it.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
    sync::{
        Arc, Condvar, Mutex,
        mpsc::{Receiver, channel},
    },
};

use serde_json::{Value, json};

use crate::harness::{Session, TEST_TIMEOUT, toolgate};

/// Set once, and waited for.
#[derive(Default)]
struct Flag(Mutex<bool>, Condvar);

impl Flag {
    fn set(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn wait(&self, what: &str) {
        let unset = |set: &mut bool| !*set;
        let (set, _) =
            self.1.wait_timeout_while(self.0.lock().unwrap(), TEST_TIMEOUT, unset).unwrap();
        assert!(*set, "waited in vain: {what}");
    }
}

/// One HTTP request that waits for its answer.
struct Asked {
    method: String,
    path: String,
    headers: HashMap<String, String>,
    body: Value,
    stream: TcpStream,
    /// The client has closed the connection.
    left: Arc<Flag>,
}

impl Asked {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    fn rpc(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    fn write(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    fn respond(mut self, status: &str, headers: &str, body: &str) {
        let length = body.len();
        self.write(&format!(
            "HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}"
        ));
    }

    fn accept(self) {
        self.respond("202 Accepted", "", "");
    }

    fn json(self, body: &Value) {
        self.respond("200 OK", "content-type: application/json\r\n", &body.to_string());
    }

    fn result(self, result: Value) {
        let id = self.body["id"].clone();
        self.json(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
    }

    /// Answers with a stream of events.
    fn stream(mut self) -> Self {
        self.write(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        );
        self
    }

    fn event(&mut self, event: &str) {
        let event = format!("{event}\n\n");
        self.write(&format!("{:x}\r\n{event}\r\n", event.len()));
    }

    fn say(&mut self, message: &Value) {
        self.event(&format!("data: {message}"));
    }

    fn end(mut self) {
        self.write("0\r\n\r\n");
    }

    fn wait_until_left(&self) {
        self.left.wait("the client should have closed the connection");
    }
}

/// The gateway that the test plays.
struct Gateway {
    address: SocketAddr,
    asked: Receiver<Asked>,
}

impl Gateway {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (send, asked) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let send = send.clone();
                std::thread::spawn(move || {
                    let left = Arc::new(Flag::default());
                    let mut reader = BufReader::new(stream.try_clone().unwrap());
                    while let Some(asked) = read(&mut reader, &stream, &left) {
                        if send.send(asked).is_err() {
                            return;
                        }
                    }
                    left.set();
                });
            }
        });
        Self { address, asked }
    }

    /// The next request.
    fn next(&self) -> Asked {
        self.asked.recv_timeout(TEST_TIMEOUT).unwrap_or_else(|error| panic!("no request: {error}"))
    }

    /// The next request, which must be this one.
    fn expect(&self, method: &str, rpc: &str) -> Asked {
        let asked = self.next();
        assert_eq!((asked.method.as_str(), asked.rpc()), (method, rpc), "{}", asked.body);
        asked
    }

    fn client(&self, options: &[&str]) -> Session {
        let url = format!("http://{}/mcp/work", self.address);
        client(&url, options)
    }

    /// A client with a session `s1`, whose stream is open.
    fn session(&self) -> (Session, Asked) {
        self.session_of("2025-06-18")
    }

    /// The same of another version.
    fn session_of(&self, version: &str) -> (Session, Asked) {
        let mut client = self.client(&[]);
        initialize(&mut client);
        initialized_as(self.expect("POST", "initialize"), "s1", version);
        assert_eq!(client.answer(0)["result"]["protocolVersion"], version);
        client.notify("notifications/initialized", json!({}));
        self.expect("POST", "notifications/initialized").accept();
        let stream = self.expect("GET", "");
        assert_eq!(stream.header("mcp-session-id"), Some("s1"));
        (client, stream.stream())
    }
}

fn client(url: &str, options: &[&str]) -> Session {
    let mut command = Command::new(toolgate());
    command.args(["stdio", "--to", url]).args(options).env("THE_TOKEN", "s3cret");
    Session::spawn(command, tempfile::tempdir().unwrap())
}

fn initialize(client: &mut Session) {
    client.send_line(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#,
    );
}

/// Answers `initialize` with a session.
fn initialized(asked: Asked, session: &str) {
    initialized_as(asked, session, "2025-06-18");
}

fn initialized_as(asked: Asked, session: &str, version: &str) {
    assert_eq!(asked.header("mcp-session-id"), None);
    let answer = json!({"jsonrpc": "2.0", "id": asked.body["id"], "result":
        {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "g", "version": "1"}}});
    let headers = format!("content-type: application/json\r\nmcp-session-id: {session}\r\n");
    asked.respond("200 OK", &headers, &answer.to_string());
}

fn read(reader: &mut BufReader<TcpStream>, stream: &TcpStream, left: &Arc<Flag>) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_owned(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let stream = stream.try_clone().unwrap();
    Some(Asked { method, path, headers, body, stream, left: Arc::clone(left) })
}

#[test]
fn a_session_from_its_first_message_to_its_end() {
    let gateway = Gateway::start();
    let mut client = gateway.client(&["--token-env", "THE_TOKEN"]);
    initialize(&mut client);
    // Written before there is an answer: it waits for it.
    client.notify("notifications/initialized", json!({}));
    let list = client.post("tools/list", json!({}));
    let asked = gateway.expect("POST", "initialize");
    assert_eq!(asked.path, "/mcp/work");
    assert_eq!(asked.header("authorization"), Some("Bearer s3cret"));
    assert_eq!(asked.header("accept"), Some("application/json, text/event-stream"));
    assert_eq!(asked.header("mcp-protocol-version"), None);
    initialized(asked, "s1");
    client.answer(0);
    let asked = gateway.expect("POST", "notifications/initialized");
    assert_eq!(asked.header("mcp-protocol-version"), Some("2025-06-18"));
    assert_eq!(asked.header("mcp-session-id"), Some("s1"));
    asked.accept();
    let (first, second) = (gateway.next(), gateway.next());
    let (stream, asked) = if first.method == "GET" { (first, second) } else { (second, first) };
    assert_eq!(stream.header("accept"), Some("text/event-stream"));
    assert_eq!(asked.header("mcp-method"), None, "an older client has no such header");
    let mut stream = stream.stream();
    let long = json!({"jsonrpc": "2.0", "id": list, "result": {"tools": []}});
    let pretty = serde_json::to_string_pretty(&long).unwrap();
    asked.respond("200 OK", "content-type: application/json; charset=utf-8\r\n", &pretty);
    assert_eq!(client.answer(list)["result"]["tools"], json!([]), "in one line");
    stream.say(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
    client.wait_for(|message| message["method"] == "notifications/tools/list_changed");
    // The end: what is in flight is waited for, then the session is ended.
    let call = client.post("tools/call", json!({"name": "slow"}));
    let mut asked = gateway.expect("POST", "tools/call").stream();
    client.close_stdin();
    for progress in 0..5 {
        asked.say(&json!({"jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": 1, "progress": progress}}));
        client.wait_for(|message| message["params"]["progress"] == progress);
    }
    asked.say(&json!({"jsonrpc": "2.0", "id": call, "result": {"content": []}}));
    asked.end();
    client.answer(call);
    let asked = gateway.expect("DELETE", "");
    assert_eq!(asked.header("mcp-session-id"), Some("s1"));
    assert_eq!(asked.header("authorization"), Some("Bearer s3cret"));
    asked.respond("200 OK", "", "");
    assert_eq!(client.wait().code(), Some(0));
    stream.wait_until_left();
}

#[test]
fn requests_run_beside_each_other_and_answers_come_as_they_are_given() {
    let gateway = Gateway::start();
    let (mut client, _stream) = gateway.session();
    let ids: Vec<i64> = (0..20)
        .map(|n| client.post("tools/call", json!({"name": "n", "arguments": {"n": n}})))
        .collect();
    let mut asked: Vec<Asked> = ids.iter().map(|_| gateway.next()).collect();
    let last = asked.pop().unwrap();
    let last_id = last.body["id"].as_i64().unwrap();
    last.result(json!({"content": []}));
    client.answer(last_id);
    for one in asked {
        one.result(json!({"content": []}));
    }
    for id in ids.into_iter().filter(|id| *id != last_id) {
        client.answer(id);
    }
}

#[test]
fn a_stream_brings_messages_and_questions_before_the_answer() {
    let gateway = Gateway::start();
    let (mut client, _stream) = gateway.session();
    let call = client.post("tools/call", json!({"name": "ask"}));
    let mut asked = gateway.expect("POST", "tools/call").stream();
    asked.event(": keep-alive");
    asked.say(&json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": 1, "progress": 1}}));
    asked.say(&json!({"jsonrpc": "2.0", "id": "q", "method": "roots/list"}));
    asked.event("data: no JSON");
    client.wait_for(|message| message["method"] == "notifications/progress");
    client.wait_for(|message| message["method"] == "roots/list");
    client.send_line(r#"{"jsonrpc":"2.0","id":"q","result":{"roots":[]}}"#);
    let answered = gateway.expect("POST", "");
    assert_eq!(answered.body["result"], json!({"roots": []}));
    assert_eq!(answered.header("mcp-session-id"), Some("s1"));
    answered.accept();
    asked.event(&format!("data: {{\"jsonrpc\":\"2.0\",\ndata: \"id\":{call},\"result\":{{}}}}"));
    assert_eq!(client.line(), format!(r#"{{"jsonrpc":"2.0", "id":{call},"result":{{}}}}"#));
    asked.end();
}

#[test]
fn a_stream_that_breaks_off_is_resumed_after_its_last_event() {
    let gateway = Gateway::start();
    let (mut client, mut stream) = gateway.session();
    // The session's own stream.
    stream.event("id: 7\nretry: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/a\"}");
    client.wait_for(|message| message["method"] == "notifications/a");
    stream.end();
    let asked = gateway.expect("GET", "");
    assert_eq!(asked.header("last-event-id"), Some("7"));
    let _stream = asked.stream();
    // That of a call.
    let call = client.post("tools/call", json!({"name": "long"}));
    let mut asked = gateway.expect("POST", "tools/call").stream();
    asked.event("id: c1\nretry: 1\ndata:");
    asked.end();
    let asked = gateway.expect("GET", "");
    assert_eq!(asked.header("last-event-id"), Some("c1"));
    assert_eq!(asked.header("mcp-session-id"), Some("s1"));
    let mut asked = asked.stream();
    asked.say(&json!({"jsonrpc": "2.0", "id": call, "result": {"content": []}}));
    client.answer(call);
    // One that cannot be resumed may have run.
    let call = client.post("tools/call", json!({"name": "lost"}));
    gateway.expect("POST", "tools/call").stream().end();
    let error = client.answer(call)["error"].clone();
    assert_eq!(error["data"]["code"], "SERVER_CRASHED", "{error}");
    assert!(error["message"].as_str().unwrap().contains("without the answer"), "{error}");
}

#[test]
fn modern_requests_carry_their_headers_and_need_no_session() {
    let gateway = Gateway::start();
    let mut client = gateway.client(&[]);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let discover = client.post("server/discover", json!({"_meta": meta}));
    let asked = gateway.expect("POST", "server/discover");
    assert_eq!(asked.header("mcp-protocol-version"), Some("2026-07-28"));
    assert_eq!(asked.header("mcp-method"), Some("server/discover"));
    assert_eq!((asked.header("mcp-name"), asked.header("mcp-session-id")), (None, None));
    asked.result(json!({"resultType": "complete"}));
    client.answer(discover);
    let call = client.post("tools/call", json!({"name": "für", "arguments": {}, "_meta": meta}));
    let mut asked = gateway.expect("POST", "tools/call");
    assert_eq!(asked.header("mcp-name"), Some("=?base64?ZsO8cg==?="));
    // Cancelled: its connection is closed, and nobody says another word about it.
    client.notify("notifications/cancelled", json!({"requestId": call}));
    asked.wait_until_left();
    let listen = client.post("subscriptions/listen", json!({"notifications": {}, "_meta": meta}));
    asked = gateway.expect("POST", "subscriptions/listen").stream();
    asked.say(&json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged"}));
    client.wait_for(|message| message["method"] == "notifications/subscriptions/acknowledged");
    client.notify("notifications/cancelled", json!({"requestId": listen}));
    asked.wait_until_left();
    // Arguments that the tool's schema wants in headers too are known once it was listed.
    let list = client.post("tools/list", json!({"_meta": meta}));
    let schema = json!({"type": "object", "properties":
        {"region": {"type": "string", "x-mcp-header": "Region"}, "n": {"type": "integer"}}});
    let tools = json!([{"name": "sql", "inputSchema": schema}]);
    gateway.expect("POST", "tools/list").result(json!({"resultType": "complete", "tools": tools}));
    client.answer(list);
    let arguments = json!({"region": "west", "n": 1});
    let call =
        client.post("tools/call", json!({"name": "sql", "arguments": arguments, "_meta": meta}));
    let asked = gateway.expect("POST", "tools/call");
    assert_eq!(asked.header("mcp-param-region"), Some("west"));
    assert_eq!(asked.header("mcp-param-n"), None);
    asked.result(json!({"resultType": "complete", "content": []}));
    client.answer(call);
    // A refusal comes with a status of its own, and is the answer.
    let unknown = client.post("no/such", json!({"_meta": meta}));
    let asked = gateway.expect("POST", "no/such");
    let error =
        json!({"jsonrpc": "2.0", "id": unknown, "error": {"code": -32601, "message": "no"}});
    asked.respond("404 Not Found", "content-type: application/json\r\n", &error.to_string());
    assert_eq!(client.answer(unknown)["error"]["code"], -32601);
    let (status, rest) = client.finish();
    assert_eq!((status.code(), rest), (Some(0), vec![]));
    assert!(client.seen.is_empty(), "{:?}", client.seen);
    assert!(gateway.asked.try_recv().is_err(), "there is no session to end");
}

#[test]
fn a_cancelled_call_of_a_session_is_told_to_the_gateway() {
    let gateway = Gateway::start();
    let (mut client, _stream) = gateway.session();
    let call = client.post("tools/call", json!({"name": "slow"}));
    let asked = gateway.expect("POST", "tools/call");
    client.notify("notifications/cancelled", json!({"requestId": call, "reason": "x"}));
    let told = gateway.expect("POST", "notifications/cancelled");
    assert_eq!(told.header("mcp-session-id"), Some("s1"));
    told.accept();
    asked.wait_until_left();
    client.post("ping", json!({}));
    gateway.expect("POST", "ping").result(json!({}));
    client.close_stdin();
    gateway.expect("DELETE", "").respond("204 No Content", "", "");
    let (status, rest) = client.finish();
    assert_eq!((status.code(), rest.len()), (Some(0), 1), "only the ping was answered: {rest:?}");
}

#[test]
fn a_session_that_the_gateway_lost_is_made_anew_once() {
    let gateway = Gateway::start();
    let (mut client, stream) = gateway.session();
    let calls = [client.post("tools/call", json!({"name": "a"})), client.post("ping", json!({}))];
    let (first, second) = (gateway.next(), gateway.next());
    first.respond("404 Not Found", "", "");
    second.respond("404 Not Found", "content-type: application/json\r\n", r#"{"error":"session"}"#);
    let again = gateway.expect("POST", "initialize");
    assert_eq!(again.body["params"]["clientInfo"]["name"], "x", "the client's own");
    initialized(again, "s2");
    let asked = gateway.expect("POST", "notifications/initialized");
    assert_eq!(asked.header("mcp-session-id"), Some("s2"));
    asked.accept();
    // Both calls are sent again, and the stream is opened again: all in the new session.
    for _ in 0..3 {
        let asked = gateway.next();
        assert_eq!(asked.header("mcp-session-id"), Some("s2"), "{}", asked.rpc());
        match asked.rpc() {
            "" => drop(asked.stream()),
            _ => asked.result(json!({})),
        }
    }
    for call in calls {
        assert_eq!(client.answer(call)["result"], json!({}));
    }
    stream.wait_until_left();
    assert!(client.seen.is_empty(), "the client hears nothing of it: {:?}", client.seen);
}

#[test]
fn a_gateway_that_is_not_there_is_named_with_what_to_do() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    drop(listener);
    let mut client = client(&format!("{url}?key=s3cret"), &[]);
    initialize(&mut client);
    let error = client.answer(0)["error"].clone();
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&format!("is toolgate serve running at {url}?")), "{message}");
    assert!(!error.to_string().contains("s3cret"), "{error}");
    assert_eq!(error["data"]["code"], "SERVER_UNAVAILABLE");
    client.send_line("{not json");
    assert_eq!(client.wait_for(|message| message["id"].is_null())["error"]["code"], -32700);
    assert_eq!(client.finish().0.code(), Some(0));
}

#[test]
fn refusals_of_the_gateway_say_what_to_do() {
    let gateway = Gateway::start();
    let mut client = gateway.client(&[]);
    let rpc = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no token"}}"#;
    for (status, body, hint) in [
        ("401 Unauthorized", rpc, "--token-env"),
        ("403 Forbidden", "whatever", "serve.hosts"),
        ("404 Not Found", "", "namespace"),
        ("503 Service Unavailable", "{}", "log"),
    ] {
        let call = client.post("ping", json!({}));
        gateway.expect("POST", "ping").respond(status, "", body);
        let message = client.answer(call)["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(status) && message.contains(hint), "{message}");
    }
    // Words of its own, said before it read whose request it was.
    let call = client.post("ping", json!({}));
    let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session","data":{"a":1}}}"#;
    let asked = gateway.expect("POST", "ping");
    asked.respond("400 Bad Request", "content-type: application/json\r\n", body);
    let error = client.answer(call)["error"].clone();
    assert_eq!(error, json!({"code": -32000, "message": "no session", "data": {"a": 1}}));
    // Something else listens there.
    let call = client.post("ping", json!({}));
    gateway.expect("POST", "ping").respond("200 OK", "content-type: text/html\r\n", "<html>");
    let error = client.answer(call)["error"].clone();
    assert_eq!(error["data"]["code"], "SERVER_PROTOCOL", "{error}");
    // It goes away while a call is under way.
    let call = client.post("ping", json!({}));
    let asked = gateway.expect("POST", "ping");
    asked.stream.shutdown(std::net::Shutdown::Both).unwrap();
    assert_eq!(client.answer(call)["error"]["data"]["code"], "SERVER_CRASHED");
}

#[test]
fn a_batch_is_posted_and_answered_as_one() {
    let gateway = Gateway::start();
    let (mut client, _stream) = gateway.session_of("2025-03-26");
    let batch =
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#;
    client.send_line(batch);
    let asked = gateway.next();
    assert_eq!(asked.body.as_array().unwrap().len(), 2);
    let answers = json!([{"jsonrpc": "2.0", "id": 2, "result": {}}, {"jsonrpc": "2.0", "id": 1, "result": {}}]);
    asked.json(&answers);
    assert_eq!(client.wait_for(Value::is_array), answers);
    client.send_line(batch);
    gateway.next().respond("500 Internal Server Error", "", "");
    let errors = client.wait_for(Value::is_array);
    assert_eq!((&errors[0]["id"], &errors[1]["id"]), (&json!(1), &json!(2)), "{errors}");
}

#[test]
fn signals_and_a_client_that_is_gone_end_the_session() {
    let gateway = Gateway::start();
    let (mut client, _stream) = gateway.session();
    let call = client.post("tools/call", json!({"name": "endless"}));
    let asked = gateway.expect("POST", "tools/call");
    let pid = rustix::process::Pid::from_child(&client.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    asked.wait_until_left();
    gateway.expect("DELETE", "").respond("200 OK", "", "");
    assert_eq!(client.wait().code(), Some(128 + 15));
    assert!(client.answered(call).is_none());
}

#[test]
fn what_is_missing_on_the_command_line_is_named() {
    let run = |arguments: &[&str]| {
        let output = Command::new(toolgate()).arg("stdio").args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    let told = run(&["--to", "http://127.0.0.1:1/mcp", "--token-env", "NO_SUCH_VARIABLE"]);
    assert!(told.contains("`NO_SUCH_VARIABLE` is not set"), "{told}");
    let told = run(&["--to", "http://me:s3cret@127.0.0.1:1/mcp"]);
    assert!(told.contains("user name or a password") && !told.contains("s3cret"), "{told}");
    let told = run(&["--token-env", "THE_TOKEN"]);
    assert!(told.contains("--to"), "{told}");
}
