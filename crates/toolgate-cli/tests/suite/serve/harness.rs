//! The harness of the gateway's own tests: its clients and its servers understand each other without a gateway.

use serde_json::{Value, json};

use crate::harness::{
    clients::{Legacy, Modern, old_sse::OldSse},
    text,
    upstream::{Era, Fault, Upstream},
};

const ABLE: &str = r#"{"elicitation":{},"sampling":{}}"#;

fn blue(_: &Value) -> Value {
    json!({"action": "accept", "content": {"color": "blue"}})
}

#[test]
fn the_legacy_client_and_the_legacy_server() {
    let server = Upstream::legacy("alpha");
    let able = serde_json::from_str(ABLE).unwrap();
    let client = Legacy::new(server.address(), "/mcp").able(able, blue).connected();
    assert_eq!(client.hello["serverInfo"]["name"], "alpha");
    assert!(client.tools().contains(&"echo".to_owned()));
    assert_eq!(text(&client.call("echo", json!({"text": "hello"}))), "hello");
    assert!(text(&client.call("elicit", json!({}))).contains("blue"));
    let params =
        json!({"name": "progress", "arguments": {"steps": 5}, "_meta": {"progressToken": 7}});
    client.seen();
    client.request("tools/call", params);
    assert_eq!(client.seen().len(), 5);
    let mut stream = client.listen();
    server.until("a stream", |server| server.streams() == 1);
    server.announce("tools");
    stream.method("notifications/tools/list_changed");
    let mut slow = client.open_call("slow", json!({"key": "a"}));
    server.wait_for_call("a");
    server.release("a");
    assert_eq!(text(&slow.answer()), "alpha:slow:a");
    client.call("write", json!({"key": "k"}));
    assert_eq!(server.executions("write", "k"), 1);
    server.forget_sessions();
    assert_eq!(client.try_request("tools/list", json!({})).0, 404);
    assert_eq!(server.complaints(), Vec::<String>::new());
}

#[test]
fn the_modern_client_and_the_modern_server() {
    let server = Upstream::modern("beta");
    let client = Modern::new(server.address(), "/mcp").able(serde_json::from_str(ABLE).unwrap());
    assert_eq!(client.request("server/discover", json!({}))["result"]["resultType"], "complete");
    assert_eq!(text(&client.call("echo", json!({"text": "hello"}))), "hello");
    let (rounds, answer) = client.call_answering("elicit", json!({}), blue);
    assert_eq!(rounds, 1);
    assert!(text(&answer).contains("blue"));
    let (mut stream, _) = client.listen(json!({"toolsListChanged": true}));
    server.announce("tools");
    stream.method("notifications/tools/list_changed");
    assert_eq!(client.try_request("no/such", json!({})).0, 404);
    let slow = client.open_call("slow", json!({"key": "a"}));
    server.wait_for_call("a");
    slow.hang_up();
    server.wait_for_end("a");
    assert_eq!(server.complaints(), Vec::<String>::new());
}

#[test]
fn the_old_client_and_the_old_server() {
    let server = Upstream::start("gamma", Era::OldSse);
    let mut client = OldSse::connect(server.address(), "/sse");
    assert_eq!(text(&client.call("echo", json!({"text": "hello"}))), "hello");
    assert_eq!(server.complaints(), Vec::<String>::new());
}

#[test]
fn faults_happen_as_often_as_asked_and_a_restart_keeps_the_port() {
    let server = Upstream::legacy("alpha");
    let client = Legacy::new(server.address(), "/mcp").connected();
    for (fault, ran) in [(Fault::CloseBefore, 0), (Fault::CloseAfter, 1), (Fault::CloseMid, 2)] {
        server.fail("tools/call:write", fault, 1);
        let mut call = client.open_call("write", json!({"key": "k"}));
        assert!(call.outcome().is_err(), "{fault:?}");
        assert_eq!(server.executions("write", "k"), ran, "{fault:?}");
    }
    server.fail("tools/call", Fault::Status(503), 1);
    assert_eq!(client.try_request("tools/call", json!({"name": "echo"})).0, 503);
    server.fail("tools/call", Fault::Drip, 1);
    assert_eq!(text(&client.call("echo", json!({"text": "drip"}))), "drip");
    let mut hanging = {
        server.fail("tools/call", Fault::Hang, 1);
        client.open_call("echo", json!({}))
    };
    server.until("the call", |server| server.calls("echo") == 3);
    server.restart();
    assert!(hanging.outcome().is_err());
    assert_eq!(client.try_request("tools/list", json!({})).0, 404);
    let again = Legacy::new(server.address(), "/mcp").connected();
    server.page(4);
    assert_eq!(again.tools().len(), 14);
    assert!(server.count("tools/list") >= 4);
}
