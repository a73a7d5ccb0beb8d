//! One client against the others: what a principal can make the gateway keep or do is bounded, and its own only.

use serde_json::{Value, json};

use crate::{
    harness::matrix::{Setup, refused},
    harness::{
        clients::{LEGACY, Legacy, Modern},
        gateway::{Gateway, stdio},
        governed::code,
        http, text,
        upstream::Upstream,
    },
};

const ALICE: &str = "the-token-of-alice";
const MALLORY: &str = "the-token-of-mallory";

/// A gateway that knows two principals.
fn gateway(config: &str) -> Gateway {
    let gateway = Gateway::start(&format!(
        "{config}\n[serve.tokens]\nalice = \"{ALICE}\"\nmallory = \"{MALLORY}\"\n"
    ));
    let client = Modern::new(gateway.address, "/mcp").with_token(ALICE);
    crate::harness::gateway::until("tools are listed", || !client.tools().is_empty());
    gateway
}

fn legacy(gateway: &Gateway, token: &str) -> Legacy {
    Legacy::new(gateway.address, "/mcp").with_token(token)
}

fn modern(gateway: &Gateway, token: &str) -> Modern {
    Modern::new(gateway.address, "/mcp").with_token(token)
}

/// The answer to `initialize`: its status, whether it says when to come back, and its body.
fn hello(gateway: &Gateway, token: &str) -> (u16, bool, String) {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": LEGACY,
        "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}});
    let mut answer = legacy(gateway, token).exchange("POST", &[], &body.to_string());
    (answer.status, answer.header("retry-after").is_some(), answer.text())
}

fn words(answer: &Value) -> String {
    answer.to_string()
}

/// [review 7] `_meta.allowedTools` of 3 MB was kept for 10,000 calls, and 20,000 globs blocked a worker for seconds.
#[test]
fn control_data_beyond_its_bounds_is_refused_and_names_the_bound() {
    Setup::new("").each(|client| {
        let many: Vec<String> = (0..20_000).map(|n| format!("*s*a*f*{n}*")).collect();
        let long = "x".repeat(257);
        for (meta, bound) in [
            (json!({"allowedTools": many}), "264000 bytes"),
            (json!({"allowedTools": vec!["safe"; 1001]}), "1000 entries"),
            (json!({"allowedTools": ["safe", long]}), "256 bytes"),
            (json!({"policyId": long}), "`policyId`"),
            (json!({"parent_call_uuid": long}), "`parent_call_uuid`"),
            (json!({"toolgate/confirm": "x".repeat(5000)}), "4096 bytes"),
        ] {
            let called = client.call_with("safe", json!({}), meta.clone());
            assert!(refused(&called) && words(&called).contains(bound), "{bound}: {called}");
            let listed = client.request("tools/list", json!({"_meta": meta}));
            assert!(refused(&listed) && words(&listed).contains(bound), "{bound}: {listed}");
        }
        let most: Vec<String> =
            (0..999).map(|n| format!("{n:0250}")).chain(["safe".into()]).collect();
        let called = client.call_with("safe", json!({"n": 1}), json!({"allowedTools": most}));
        assert!(!refused(&called), "{called}");
        assert_eq!(client.ran().len(), 1, "{:?}", client.ran());
    });
}

/// [review 7] Refused calls with large control data were kept in memory for good.
#[test]
fn refused_control_data_is_not_kept() {
    let server = Upstream::legacy("alpha");
    let gateway = gateway(&server.table(""));
    let client = modern(&gateway, MALLORY);
    let large = vec!["x".repeat(200); 15_000];
    let call = || {
        let params = json!({"name": "echo", "arguments": {}, "_meta": {"allowedTools": large}});
        assert_eq!(code(&client.request("tools/call", params)), "CONTROL_TOO_LARGE");
    };
    (0..3).for_each(|_| call());
    let before = gateway.resident_bytes();
    (0..20).for_each(|_| call());
    let grown = gateway.resident_bytes().saturating_sub(before);
    assert!(grown < 40_000_000, "{grown} bytes more after 20 calls of 3 MB");
}

/// [review 9] The slow calls of one tenant used up `limits.in_flight` of everybody.
#[test]
fn calls_in_flight_of_one_principal_leave_room_for_others() {
    let server = Upstream::legacy("alpha");
    let gateway = gateway(&format!("[limits]\nin_flight = 8\n{}", server.table("")));
    for is_modern in [false, true] {
        let old = legacy(&gateway, MALLORY).connected();
        let new = modern(&gateway, MALLORY);
        let mut slow: Vec<_> = (0..2)
            .map(|n| {
                let key = json!({"key": format!("{is_modern}{n}")});
                if is_modern { new.open_call("slow", key) } else { old.open_call("slow", key) }
            })
            .collect();
        (0..2).for_each(|n| server.wait_for_call(&format!("{is_modern}{n}")));
        // One principal in both eras is one.
        for answer in [old.call("echo", json!({})), new.call("echo", json!({}))] {
            assert_eq!(code(&answer), "OVERLOADED", "{}", answer.raw);
            assert!(
                answer.raw.contains("may have 2") && answer.raw.contains("limits.in_flight"),
                "{}",
                answer.raw
            );
        }
        let (status, answer) = new.try_request("resources/read", json!({"uri": "alpha://r/1"}));
        assert_eq!(status, 429, "{}", answer.raw);
        assert!(answer.raw.contains("serve.per_principal"), "{}", answer.raw);
        let alice = legacy(&gateway, ALICE).connected();
        assert_eq!(text(&alice.call("echo", json!({"text": "mine"}))), "mine");
        assert_eq!(text(&modern(&gateway, ALICE).call("echo", json!({"text": "too"}))), "too");
        (0..2).for_each(|n| server.release(&format!("{is_modern}{n}")));
        for call in &mut slow {
            assert!(text(&call.answer()).starts_with("alpha:slow"));
        }
        old.delete();
        alice.delete();
    }
    assert_eq!(text(&modern(&gateway, MALLORY).call("echo", json!({"text": "again"}))), "again");
}

/// [review 9] One tenant opened all sessions; others got 503 for half an hour.
#[test]
fn sessions_of_one_principal_leave_room_for_others() {
    let gateway = gateway(&format!("{}[serve]\nsessions = 8\n", stdio("alpha", &[], "")));
    let theirs: Vec<Legacy> = (0..2).map(|_| legacy(&gateway, MALLORY).connected()).collect();
    let (status, says_when, body) = hello(&gateway, MALLORY);
    assert_eq!((status, says_when), (429, true), "{body}");
    assert!(body.contains("may have 2") && body.contains("serve.sessions"), "{body}");
    // A request that listens is one of them.
    let mut listening = modern(&gateway, MALLORY)
        .open("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    assert_eq!(listening.status(), 429);
    assert_eq!(
        text(&legacy(&gateway, ALICE).connected().call("echo", json!({"text": "in"}))),
        "in"
    );
    assert_eq!(modern(&gateway, ALICE).listen(json!({"toolsListChanged": true})).0.status(), 200);
    theirs[0].delete();
    assert_eq!(hello(&gateway, MALLORY).0, 200, "a place that is given back");
}

/// [review 9] Streams of the transport of 2024-11-05 were bounded for all principals together.
#[test]
fn sse_streams_of_one_principal_leave_room_for_others() {
    let gateway = gateway(&format!("{}[serve]\nsessions = 4\n", stdio("alpha", &[], "")));
    let open = |token: &str| {
        let bearer = format!("Bearer {token}");
        let headers = [("Accept", "text/event-stream"), ("Authorization", bearer.as_str())];
        let mut connection = http::Connection::open(gateway.address);
        connection.send(&http::request(gateway.address, "GET", "/sse", &headers, b"")).unwrap();
        connection.answer().unwrap()
    };
    let first = open(MALLORY);
    assert_eq!(first.status, 200);
    let mut second = open(MALLORY);
    let body = second.text();
    assert_eq!(second.status, 429, "{body}");
    assert_eq!(open(ALICE).status, 200);
}

/// [issue 12.4] A full gateway refused requests without naming the limit that was reached.
#[test]
fn a_full_gateway_says_so() {
    let config = "[serve]\nsessions = 2\nper_principal = 1.0\n";
    let gateway = gateway(&format!("{}{config}", stdio("alpha", &[], "")));
    let _all: Vec<Legacy> = (0..2).map(|_| legacy(&gateway, MALLORY).connected()).collect();
    let (status, says_when, body) = hello(&gateway, ALICE);
    assert_eq!((status, says_when), (503, true), "{body}");
    assert!(body.contains("serve.sessions"), "{body}");
}

/// [review 9] Subscriptions had no bound in number or length: 60 of them took 320 MB.
#[test]
fn subscriptions_are_bounded_in_number_and_length_and_end_with_the_session() {
    let server = Upstream::legacy("alpha");
    let gateway = gateway(&server.table(""));
    let client = legacy(&gateway, MALLORY).connected();
    let subscribe = |client: &Legacy, uri: String| {
        client.try_request("resources/subscribe", json!({"uri": uri})).1.unwrap().raw
    };
    let long = subscribe(&client, format!("alpha://t/{}", "x".repeat(9000)));
    assert!(long.contains("-32602") && long.contains("8192 bytes"), "{long}");
    for n in 0..1000 {
        let answer = subscribe(&client, format!("alpha://t/{n}"));
        assert!(answer.contains("\"result\""), "{n}: {answer}");
    }
    assert!(
        subscribe(&client, "alpha://t/7".to_owned()).contains("\"result\""),
        "one that is known"
    );
    let more = subscribe(&client, "alpha://t/more".to_owned());
    assert!(more.contains("one session may have 1000"), "{more}");
    let addresses: Vec<String> = (0..1001).map(|n| format!("alpha://t/{n}")).collect();
    let (status, answer) = modern(&gateway, MALLORY).try_request(
        "subscriptions/listen",
        json!({"notifications": {"resourceSubscriptions": addresses}}),
    );
    assert!(answer.raw.contains("more than 1000"), "{status} {}", answer.raw);
    server.until("the server has them", |server| server.subscriptions().len() >= 1000);
    client.delete();
    server.until("they end with the session", |server| server.subscriptions().is_empty());
}

/// [review 9] Nothing bounded the subscriptions of one principal over all its sessions.
#[test]
fn subscriptions_of_one_principal_leave_room_for_others() {
    let server = Upstream::legacy("alpha");
    let gateway = gateway(&format!("{}[serve]\nsubscriptions = 8\n", server.table("")));
    let sessions: Vec<Legacy> = (0..3).map(|_| legacy(&gateway, MALLORY).connected()).collect();
    let subscribe = |client: &Legacy, n: usize| {
        client.try_request("resources/subscribe", json!({"uri": format!("alpha://t/{n}")}))
    };
    assert_eq!(subscribe(&sessions[0], 0).0, 200);
    assert_eq!(subscribe(&sessions[1], 1).0, 200);
    let (status, answer) = subscribe(&sessions[2], 2);
    let raw = answer.unwrap().raw;
    assert_eq!(status, 429, "{raw}");
    assert!(raw.contains("may have 2") && raw.contains("serve.subscriptions"), "{raw}");
    assert_eq!(subscribe(&legacy(&gateway, ALICE).connected(), 3).0, 200);
}

/// [review 9] Each session of one tenant started a process of `sharing = "session"`, up to 10,000.
#[test]
fn processes_of_one_principal_leave_room_for_others() {
    let more = "sharing = \"session\"\nprocesses = 4\n";
    let gateway = gateway(&stdio("alpha", &[], more));
    let sessions: Vec<Legacy> = (0..3).map(|_| legacy(&gateway, MALLORY).connected()).collect();
    assert_eq!(text(&sessions[0].call("echo", json!({"text": "one"}))), "one");
    for session in &sessions[1..] {
        let answer = session.call("echo", json!({"text": "more"}));
        assert_eq!(code(&answer), "OVERLOADED", "{}", answer.raw);
        assert!(answer.raw.contains("servers.alpha.processes"), "{}", answer.raw);
    }
    let alice = legacy(&gateway, ALICE).connected();
    assert_eq!(text(&alice.call("echo", json!({"text": "mine"}))), "mine");
    sessions[0].delete();
    crate::harness::gateway::until("its place is free", || {
        text(&sessions[1].call("echo", json!({"text": "now"}))) == "now"
    });
}

/// [issue 12.4] Calls that one principal left waiting for its answers kept others from being asked.
#[test]
fn suspended_calls_of_one_principal_leave_room_for_others() {
    let server = Upstream::legacy("alpha");
    let gateway = gateway(&server.table(""));
    let able = json!({"elicitation": {"form": {}}});
    let client = modern(&gateway, MALLORY).able(able.clone());
    let asked = |client: &Modern, n: usize| client.call("elicit", json!({"n": n}));
    for n in 0..250 {
        assert_eq!(asked(&client, n)["result"]["resultType"], "input_required", "{n}");
    }
    let refused = asked(&client, 250);
    assert_eq!(code(&refused), "OVERLOADED", "{}", refused.raw);
    assert!(refused.raw.contains("may have 250"), "{}", refused.raw);
    let alice = modern(&gateway, ALICE).able(able);
    assert_eq!(asked(&alice, 0)["result"]["resultType"], "input_required");
}

/// [issue 12.4] The `clientInfo` and capabilities of a client were kept with its session without a limit.
#[test]
fn what_a_client_says_about_itself_is_bounded() {
    let gateway = gateway(&stdio("alpha", &[], ""));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": LEGACY,
        "capabilities": {"experimental": {"x": "y".repeat(100_000)}}, "clientInfo": {"name": "x", "version": "1"}}});
    let mut answer = legacy(&gateway, MALLORY).exchange("POST", &[], &body.to_string());
    let text = answer.text();
    assert!(answer.status == 400 && text.contains("65536 bytes"), "{} {text}", answer.status);
}

/// [review 14] A client that cannot be asked opened the circuit breaker for everybody.
#[test]
fn a_client_without_a_capability_opens_no_circuit() {
    let server = Upstream::modern("alpha");
    let gateway = gateway(&format!("[breaker]\nfailures = 2\n{}", server.table("")));
    let (old, new) = (legacy(&gateway, MALLORY).connected(), modern(&gateway, MALLORY));
    for tool in ["elicit", "sample", "roots", "elicit"] {
        let params = json!({"name": tool, "arguments": {"rude": true}});
        let (status, answer) = new.try_request("tools/call", params.clone());
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32021)), "{}", answer.raw);
        assert!(answer["error"]["data"]["requiredCapabilities"].is_object(), "{}", answer.raw);
        let answer = old.request("tools/call", params);
        assert!(refused(&answer) && answer.raw.contains("cannot do"), "{}", answer.raw);
    }
    for token in [ALICE, MALLORY] {
        assert_eq!(text(&modern(&gateway, token).call("echo", json!({"text": "well"}))), "well");
    }
}

/// [review 14] The slow calls of one tenant opened the circuit breaker for everybody.
#[test]
fn slow_calls_of_one_principal_open_its_own_circuit_only() {
    let server = Upstream::legacy("alpha");
    let config = "[limits]\ntimeout = \"300ms\"\n[breaker]\nfailures = 2\nwait = \"1m\"\n";
    let gateway = gateway(&format!("{config}{}", server.table("")));
    let (mallory, alice) = (modern(&gateway, MALLORY), modern(&gateway, ALICE));
    for n in 0..2 {
        let answer = mallory.call("slow", json!({"key": format!("m{n}")}));
        assert_eq!(code(&answer), "TIMED_OUT", "{}", answer.raw);
    }
    assert_eq!(code(&mallory.call("echo", json!({}))), "CIRCUIT_OPEN");
    assert_eq!(text(&alice.call("echo", json!({"text": "well"}))), "well");
    // Both are hit: it is the server, and nobody else has to find out.
    for n in 0..2 {
        assert_eq!(code(&alice.call("slow", json!({"key": format!("a{n}")}))), "TIMED_OUT");
    }
    assert_eq!(code(&alice.call("echo", json!({}))), "CIRCUIT_OPEN");
}

/// [issue 12.5] A call that the user had just answered was refused as rate limited.
#[test]
fn a_call_counts_once_however_often_its_client_is_asked() {
    let config = "[limits]\nrate = [{ tools = \"*/*\", limit = \"1/h\" }]\n\
        [confirm]\nwhen = [\"*/elicit\"]\ndry_run = false\n";
    for server in [Upstream::legacy("alpha"), Upstream::modern("alpha")] {
        let gateway = gateway(&format!("{config}{}", server.table("")));
        let answering = |request: &Value| {
            let is_ours =
                request["params"]["requestedSchema"]["properties"].get("confirm").is_some();
            let content = if is_ours { json!({"confirm": true}) } else { json!({"color": "red"}) };
            json!({"action": "accept", "content": content})
        };
        let able = json!({"elicitation": {"form": {}}});
        // By rounds: the gateway's confirmation and the server's own question.
        let new = modern(&gateway, MALLORY).able(able.clone());
        let (rounds, answer) = new.call_answering("elicit", json!({"key": "k"}), answering);
        assert!(rounds >= 2 && answer.raw.contains("red"), "{rounds} {}", answer.raw);
        let answer = new.call("elicit", json!({"key": "k"}));
        assert_eq!(code(&answer), "RATE_LIMITED", "{}", answer.raw);
        for state in ["tgp1.00", "tgc1q-00", "state \"of\" the \u{e4}sker", ""] {
            let params = json!({"name": "elicit", "arguments": {"key": "k"}, "requestState": state,
                "inputResponses": {"question": {"action": "accept"}}});
            let answer = new.request("tools/call", params);
            assert_eq!(code(&answer), "RATE_LIMITED", "{state}: {}", answer.raw);
        }
        // By requests of the gateway while the call waits.
        let old = legacy(&gateway, ALICE).able(able, answering).connected();
        let answer = old.call("elicit", json!({"key": "k"}));
        assert!(answer.raw.contains("red"), "{}", answer.raw);
        assert_eq!(code(&old.call("elicit", json!({"key": "k"}))), "RATE_LIMITED");
    }
}

/// [review 15] A state was bound to `{}` where serde could not read the arguments, so other arguments could take it up.
#[test]
fn a_suspended_call_goes_on_with_its_own_arguments_only() {
    let server = Upstream::legacy("alpha");
    let gateway = gateway(&server.table(""));
    let client = modern(&gateway, MALLORY).able(json!({"elicitation": {"form": {}}}));
    let call = |arguments: &str, more: Value| {
        let mut params = json!({"name": "elicit", "arguments": {"HERE": 1}});
        params.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        let (_, body) = client.body("tools/call", params);
        client.raw(&body.replace("{\"HERE\":1}", arguments), &[]).1.unwrap()
    };
    for (arguments, other) in [
        (r#"{"n":1e400}"#, "{}"),
        (r#"{"n":1e400}"#, r#"{"n":2e400}"#),
        (r#"{"s":"\ud800"}"#, "{}"),
    ] {
        let asked = call(arguments, json!({}));
        if asked["result"]["resultType"] != "input_required" {
            // Refused at the door is as good.
            assert!(refused(&asked), "{}", asked.raw);
            continue;
        }
        let back = json!({"requestState": asked["result"]["requestState"],
            "inputResponses": {"toolgate_question": {"action": "accept", "content": {"color": "red"}}}});
        let answer = call(other, back.clone());
        assert!(refused(&answer), "{arguments} {other}: {}", answer.raw);
        assert!(call(arguments, back).raw.contains("red"), "{arguments}");
    }
}
