//! What the interaction tests of the official Python SDK found different from a direct connection: streams, subscriptions,
//! log levels and capabilities of servers that speak both eras, and results that the gateway writes itself.

use serde_json::{Value, json};

use crate::harness::{
    clients::Legacy,
    gateway::Gateway,
    upstream::{Era, Upstream},
};

const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// One server behind a gateway that has learnt its tools.
fn gateway(server: &Upstream, more: &str) -> Gateway {
    let gateway = Gateway::start(&server.table(more));
    gateway.settled(14);
    gateway
}

#[test]
fn a_call_reaches_a_server_that_can_notify_already() {
    for era in [Era::Legacy, Era::Dual] {
        for sharing in ["", "sharing = \"session\""] {
            for able in [json!({}), json!({"elicitation": {"form": {}}})] {
                let server = Upstream::start("srv", era).with_late_stream();
                let gateway = gateway(&server, sharing);
                let client = Legacy::new(gateway.address, "/mcp").able(able, |_| json!({}));
                client.connected().call("echo", json!({"text": "x"}));
                assert_eq!(server.complaints(), Vec::<String>::new(), "{era:?} {sharing}");
            }
        }
    }
}

#[test]
fn a_subscription_reaches_a_server_that_can_notify_already() {
    for era in [Era::Legacy, Era::Dual] {
        for sharing in ["", "sharing = \"session\""] {
            let server = Upstream::start("srv", era).with_late_stream().with_legacy_subscriptions();
            let gateway = gateway(&server, sharing);
            let subscribed =
                gateway.legacy().request("resources/subscribe", json!({"uri": "srv://r/0"}));
            assert_eq!(subscribed["result"], json!({}), "{era:?} {sharing}");
            assert_eq!(server.complaints(), Vec::<String>::new(), "{era:?} {sharing}");
        }
    }
}

#[test]
fn a_legacy_client_subscribes_in_its_own_era_and_learns_that_it_can() {
    let server = Upstream::start("srv", Era::Dual).with_legacy_subscriptions();
    let gateway = gateway(&server, "");
    let client = gateway.legacy();
    assert_eq!(client.hello["capabilities"]["resources"]["subscribe"], true, "{}", client.hello);
    let mut stream = client.listen();
    let subscribed = client.request("resources/subscribe", json!({"uri": "srv://r/0"}));
    assert_eq!(subscribed["result"], json!({}));
    server.until("the subscription", |server| server.subscriptions().contains("srv://r/0"));
    server.touch("srv://r/0");
    let told = stream.method("notifications/resources/updated");
    assert_eq!(told["params"]["uri"], "srv://r/0");
    client.request("resources/unsubscribe", json!({"uri": "srv://r/0"}));
    server.until("the end of the subscription", |server| server.subscriptions().is_empty());
    // What it said to `initialize` is remembered, also for the next start.
    let greeted = server.count("initialize");
    gateway.legacy();
    let gateway = gateway.into_place().start();
    gateway.settled(14);
    let again = gateway.legacy();
    assert_eq!(again.hello["capabilities"]["resources"]["subscribe"], true, "{}", again.hello);
    assert_eq!(server.count("initialize"), greeted);
    assert_eq!(server.complaints(), Vec::<String>::new());
}

#[test]
fn the_refusal_of_a_subscription_reaches_the_client() {
    let refusal = r#"{"code":-32601,"message":"Method not found","data":"resources/subscribe"}"#;
    for era in [Era::Legacy, Era::Dual] {
        let server = Upstream::start("srv", era);
        server.reply("resources/subscribe", Err(refusal));
        let gateway = gateway(&server, "");
        let answer = gateway.legacy().request("resources/subscribe", json!({"uri": "srv://r/0"}));
        let expected: Value = serde_json::from_str(refusal).unwrap();
        assert_eq!(answer["error"], expected, "{era:?}: {}", answer.raw);
    }
    // One of 2026-07-28 refuses `subscriptions/listen`.
    let server = Upstream::modern("srv").with_legacy_subscriptions();
    let gateway = gateway(&server, "");
    let answer = gateway.legacy().request("resources/subscribe", json!({"uri": "srv://r/0"}));
    assert_eq!(answer["error"]["code"], -32601, "{}", answer.raw);
    let (_, listening) = gateway.modern().listen(json!({"resourceSubscriptions": ["srv://r/0"]}));
    assert_eq!(listening["params"]["notifications"], json!({}), "{}", listening.raw);
}

#[test]
fn the_only_server_decides_about_log_levels_that_it_does_not_announce() {
    let refusal = r#"{"code":-32601,"message":"No levels here","data":"logging/setLevel"}"#;
    for era in [Era::Legacy, Era::Dual] {
        let server = Upstream::start("srv", era).without_logging();
        let gateway = gateway(&server, "");
        let client = gateway.legacy();
        let answer = client.request("logging/setLevel", json!({"level": "error"}));
        assert_eq!(answer["result"], json!({}), "{era:?}: {}", answer.raw);
        assert_eq!(server.count("logging/setLevel"), 1, "{era:?}");
        server.reply("logging/setLevel", Err(refusal));
        let answer = client.request("logging/setLevel", json!({"level": "error"}));
        let expected: Value = serde_json::from_str(refusal).unwrap();
        assert_eq!(answer["error"], expected, "{era:?}: {}", answer.raw);
    }
}

#[test]
fn a_notification_of_a_legacy_client_reaches_a_server_that_speaks_both_eras() {
    for sharing in ["", "sharing = \"session\""] {
        let server = Upstream::start("srv", Era::Dual);
        let gateway = gateway(&server, sharing);
        let client = gateway.legacy();
        client.notify("notifications/roots/list_changed", json!({}));
        client.call("echo", json!({"text": "x"}));
        assert_eq!(server.count("notifications/roots/list_changed"), 1, "{sharing}");
        assert_eq!(server.complaints(), Vec::<String>::new(), "{sharing}");
    }
}

#[test]
fn what_a_server_of_one_owner_announces_reaches_the_listeners_of_that_owner() {
    let server = Upstream::start("srv", Era::Dual);
    let gateway = gateway(&server, "sharing = \"session\"");
    let modern = gateway.modern();
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["srv://r/0"]});
    let (mut listening, _) = modern.listen(filter);
    server.until("a stream of its own", |server| server.subscriptions().contains("srv://r/0"));
    server.announce("tools");
    listening.method("notifications/tools/list_changed");
    // A session's own server needs no subscription to tell the session of a resource.
    let legacy = gateway.legacy();
    let mut stream = legacy.listen();
    legacy.call("echo", json!({"text": "x"}));
    server.say("notifications/resources/updated", json!({"uri": "srv://r/9"}), |_| false);
    let told = stream.method("notifications/resources/updated");
    assert_eq!(told["params"]["uri"], "srv://r/9");
    assert_eq!(server.complaints(), Vec::<String>::new());
}

#[test]
fn a_result_that_the_gateway_writes_for_a_client_of_2026_07_28_says_so() {
    let server = Upstream::modern("srv");
    let gateway = gateway(&server, "");
    let answer = gateway.modern().call("no_such_tool", json!({}));
    assert_eq!(answer["result"]["_meta"][SERVER_INFO]["name"], "toolgate", "{}", answer.raw);
    assert_eq!(answer["result"]["_meta"]["code"], "UNKNOWN_TOOL", "{}", answer.raw);
    // A server's own result keeps the server's name, and legacy clients get none.
    let answer = gateway.modern().call("echo", json!({"text": "x"}));
    assert_eq!(answer["result"]["_meta"][SERVER_INFO]["name"], "srv", "{}", answer.raw);
    let answer = gateway.legacy().call("no_such_tool", json!({}));
    assert_eq!(answer["result"]["_meta"][SERVER_INFO], Value::Null, "{}", answer.raw);
}
