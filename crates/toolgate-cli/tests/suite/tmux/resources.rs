//! Resources of `toolgate tmux` over MCP, against real tmux: read, refused, subscribed to, tailed.

use serde_json::{Value, json};

use crate::harness::{Session, governed::modern, tmux::Tmux};

fn read(session: &mut Session, uri: &str) -> Value {
    session.request("resources/read", json!({ "uri": uri }))
}

/// Kind and text of a resource.
fn contents(answer: &Value) -> (&str, &str) {
    let contents = &answer["result"]["contents"][0];
    let part = |name: &str| contents[name].as_str().unwrap_or_else(|| panic!("{name} in {answer}"));
    (part("mimeType"), part("text"))
}

fn parsed(answer: &Value) -> Value {
    let (kind, text) = contents(answer);
    assert_eq!(kind, "application/json");
    let value: Value = serde_json::from_str(text).unwrap();
    assert_eq!(text, serde_json::to_string_pretty(&value).unwrap(), "indented by two");
    value
}

// Tests with subscriptions end with `finish`: tmux 3.3a may keep clients that are killed while it tells them something.

fn is_news_of(uri: &str) -> impl Fn(&Value) -> bool {
    move |message| {
        message["method"] == "notifications/resources/updated" && message["params"]["uri"] == uri
    }
}

/// Waits for the screen, so that it does not change by itself afterwards.
fn type_line(tmux: &Tmux, keys: &str, shown: &str) {
    tmux.run(&["send-keys", "-t", "%0", keys, "Enter"]);
    tmux.until(shown, |tmux| {
        tmux.run(&["capture-pane", "-p", "-t", "%0"]).lines().any(|line| line == shown)
    });
}

#[test]
fn all_templates_read_and_say_what_they_are() {
    let tmux = Tmux::start();
    tmux.run(&["rename-session", "-t", "one", "a b/ü"]);
    tmux.run(&["split-window", "-d", "bash --norc"]);
    let mut session = tmux.serve(&[]);
    let templates = session.request("resources/templates/list", json!({}));
    let templates = templates["result"]["resourceTemplates"].as_array().unwrap().clone();
    let names: Vec<_> = templates.iter().filter_map(|template| template["name"].as_str()).collect();
    let wanted = [
        "get_sessions",
        "get_session",
        "get_session_windows",
        "get_window",
        "get_pane",
        "get_pane_content",
        "get_pane_tail",
    ];
    assert_eq!(names, wanted);
    let name = "a%20b%2F%C3%BC";
    let sessions = parsed(&read(&mut session, "tmux://sessions"));
    assert_eq!(sessions[0]["session_name"], "a b/ü");
    assert_eq!(sessions[0].as_object().unwrap().len(), 6);
    let one = parsed(&read(&mut session, &format!("tmux://sessions/{name}")));
    assert_eq!((&one["session_id"], &one["windows"][0]["window_id"]), (&json!("$0"), &json!("@0")));
    let windows = parsed(&read(&mut session, &format!("tmux://sessions/{name}/windows")));
    assert_eq!(windows[0]["pane_count"], 2);
    let window = parsed(&read(&mut session, &format!("tmux://sessions/{name}/windows/0")));
    assert_eq!(window["panes"].as_array().unwrap().len(), 2);
    let pane = parsed(&read(&mut session, "tmux://panes/%251"));
    assert_eq!(pane["pane_id"], "%1");
    assert_eq!(pane.as_object().unwrap().len(), 21);
    type_line(&tmux, "echo [shown]", "[shown]");
    let by_name = format!("tmux://panes/%250/content?socket_name={}", tmux.name);
    for uri in ["tmux://panes/%250/content", "tmux://panes/%0/content", &by_name] {
        let content = read(&mut session, uri);
        let (kind, text) = contents(&content);
        assert!(kind == "text/plain" && text.contains("[shown]"), "{content}");
        assert_eq!(content["result"]["contents"][0]["uri"], uri);
    }
    let listed = session.request("resources/list", json!({}));
    let listed: Vec<_> = listed["result"]["resources"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|resource| resource["uri"].as_str())
        .collect();
    let session_uri = format!("tmux://sessions/{name}");
    assert_eq!(listed, [&*session_uri, "tmux://panes/%250/content", "tmux://panes/%251/content"]);
    for uri in listed.iter().map(ToString::to_string).collect::<Vec<_>>() {
        assert!(read(&mut session, &uri)["error"].is_null());
    }
}

#[test]
fn what_is_not_there_says_so_and_what_next() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    for (uri, said) in [
        ("tmux://sessions/nope", "Session not found: nope\nCall list_sessions"),
        ("tmux://sessions/one/windows/9", "Window not found: 9\nCall list_windows"),
        ("tmux://panes/%25999", "Pane not found: %999\nCall list_panes"),
        ("tmux://panes/%25999/content", "Pane not found: %999\nCall list_panes"),
        ("tmux://panes/%25999/tail", "Pane not found: %999\nCall list_panes"),
        ("tmux://panes/one:0.0", "Pane not found: one:0.0"),
        ("tmux://nope", "Resource not found: Unknown resource: 'tmux://nope'"),
        ("tmux://sessions/..", "Resource not found"),
        ("tmux://sessions/a%00", "Resource not found"),
        ("file:///etc/passwd", "Resource not found"),
    ] {
        let answer = read(&mut session, uri);
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(said), "{uri}: {message}");
        assert!(answer["error"]["data"]["suggestion"].as_str().is_some_and(|next| next.len() > 10));
    }
    let socket = read(&mut session, "tmux://sessions?socket_name=..%2Fx");
    assert!(socket["error"]["code"].is_i64(), "{socket}");
    let asked = json!({"uri": "tmux://sessions/nope", "_meta": modern(json!({}))});
    let mut new = tmux.serve_silently(&[]);
    let answer = new.request("resources/read", asked);
    assert_eq!(answer["error"]["code"], -32602, "as 2026-07-28 has it: {answer}");
    let down = Tmux::down();
    let mut session = down.serve(&[]);
    assert_eq!(parsed(&read(&mut session, "tmux://sessions")), json!([]));
    assert_eq!(session.request("resources/list", json!({}))["result"]["resources"], json!([]));
    for uri in ["tmux://sessions/one", "tmux://panes/%250", "tmux://panes/%250/content"] {
        let answer = read(&mut session, uri);
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
    }
}

#[test]
fn a_resource_is_judged_and_recorded_as_the_tool_that_tells_the_same() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&["--safety", "readonly", "--limit", "1000"]);
    tmux.run(&["send-keys", "-t", "%0", "seq 1 1000 | paste -sd ' '", "Enter"]);
    tmux.until("1000", |tmux| tmux.run(&["capture-pane", "-p"]).contains(" 1000"));
    let content = read(&mut session, "tmux://panes/%250/content");
    let (_, text) = contents(&content);
    assert!(text.starts_with("[... truncated ") && text.contains(" 1000"), "{text}");
    assert!(text.len() < 1000);
    read(&mut session, "tmux://sessions/nope");
    let records = session.records();
    let told: Vec<_> = records.iter().map(|r| (&r["tool"], &r["args"], &r["outcome"])).collect();
    assert_eq!(told[0], (&json!("capture_pane"), &json!({"pane_id": "%0"}), &json!("ok")));
    assert_eq!(told[1].0, "get_session_info");
    assert_eq!(records[1]["error_type"], "SessionNotFound");
    assert_eq!(records[0]["tier"], "readonly");
}

#[test]
fn subscribers_hear_of_changes_until_they_unsubscribe() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    let uris = ["tmux://sessions", "tmux://sessions/one", "tmux://panes/%250/content"];
    for uri in uris {
        let done = session.request("resources/subscribe", json!({ "uri": uri }));
        assert_eq!(done["result"], json!({}), "{done}");
    }
    type_line(&tmux, "echo [a]", "[a]");
    // The last change is always told, whatever was told before it.
    loop {
        session.wait_for(is_news_of("tmux://panes/%250/content"));
        let content = read(&mut session, "tmux://panes/%250/content");
        if contents(&content).1.lines().any(|line| line == "[a]") {
            break;
        }
    }
    tmux.run(&["new-session", "-d", "-s", "two", "bash --norc"]);
    session.wait_for(is_news_of("tmux://sessions"));
    tmux.run(&["new-window", "-d", "-t", "one", "-n", "w", "bash --norc"]);
    session.wait_for(is_news_of("tmux://sessions/one"));
    let missing = session.request("resources/subscribe", json!({"uri": "tmux://panes/%2577"}));
    assert_eq!(missing["error"]["code"], -32002);
    session.request("resources/unsubscribe", json!({"uri": "tmux://panes/%250/content"}));
    session.seen.clear();
    type_line(&tmux, "echo [b]", "[b]");
    tmux.run(&["rename-session", "-t", "two", "three"]);
    // By now there would be news of the screen, which came first.
    session.wait_for(is_news_of("tmux://sessions"));
    assert!(!session.seen.iter().any(is_news_of("tmux://panes/%250/content")));
    // The end of what is watched is news, and so is its return.
    session.seen.clear();
    tmux.run(&["rename-session", "-t", "one", "gone"]);
    session.wait_for(is_news_of("tmux://sessions/one"));
    assert_eq!(read(&mut session, "tmux://sessions/one")["error"]["code"], -32002);
    tmux.run(&[
        "rename-window",
        "-t",
        "gone:0",
        "other",
        ";",
        "rename-session",
        "-t",
        "gone",
        "one",
    ]);
    session.wait_for(is_news_of("tmux://sessions/one"));
    let (status, _) = session.finish();
    assert!(status.success(), "subscriptions do not keep the server");
    tmux.until("no clients", |tmux| tmux.clients() == 0);
}

#[test]
fn subscriptions_are_few() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    let uri = |n: usize| format!("tmux://sessions?socket_name={}&{n}", tmux.name);
    assert_eq!(read(&mut session, &uri(0))["error"]["code"], -32002, "no other arguments");
    // The same under many names: each is one.
    let name = |n: usize| {
        let encoded: String = tmux
            .name
            .bytes()
            .enumerate()
            .map(|(at, byte)| {
                if n >> (at % 8) & 1 == 1 && at < 8 {
                    format!("%{byte:02x}")
                } else {
                    char::from(byte).to_string()
                }
            })
            .collect();
        format!("tmux://sessions?socket_name={encoded}")
    };
    for n in 0..64 {
        let done = session.request("resources/subscribe", json!({ "uri": name(n) }));
        assert_eq!(done["result"], json!({}), "{done}");
    }
    let again = session.request("resources/subscribe", json!({ "uri": name(0) }));
    assert_eq!(again["result"], json!({}), "twice is once");
    let full = session.request("resources/subscribe", json!({ "uri": name(64) }));
    assert_eq!(full["error"]["message"], "64 resources are subscribed to already");
    session.request("resources/unsubscribe", json!({ "uri": name(3) }));
    let room = session.request("resources/subscribe", json!({ "uri": name(64) }));
    assert_eq!(room["result"], json!({}), "{room}");
    session.finish();
}

#[test]
fn a_tail_tells_what_is_new_once() {
    let tmux = Tmux::start();
    let tail = "tmux://panes/%250/tail";
    let mut session = tmux.serve(&[]);
    type_line(&tmux, "echo [first]", "[first]");
    assert!(contents(&read(&mut session, tail)).1.contains("[first]"), "at first it is the screen");
    session.request("resources/subscribe", json!({ "uri": tail }));
    tmux.run(&["send-keys", "-t", "%0", "seq 1 300; echo [done]", "Enter"]);
    let mut lines: Vec<String> = Vec::new();
    while !lines.iter().any(|line| line == "[done]") {
        session.wait_for(is_news_of(tail));
        let new = read(&mut session, tail);
        let (kind, text) = contents(&new);
        assert_eq!(kind, "text/plain");
        lines.extend(text.lines().map(str::to_owned));
    }
    assert!(!lines.iter().any(|line| line == "[first]"), "{lines:?}");
    let numbers: Vec<u32> = lines.iter().filter_map(|line| line.parse().ok()).collect();
    assert!((1..=300).all(|n| numbers.contains(&n)), "none is missed: {numbers:?}");
    // A screen that looks the same after something was written: that is news here.
    let ys = |tmux: &Tmux| {
        let all = tmux.run(&["capture-pane", "-p", "-t", "%0", "-S", "-"]);
        all.lines().filter(|line| *line == "y").count()
    };
    tmux.run(&["send-keys", "-t", "%0", "cat", "Enter"]);
    tmux.until("cat", |tmux| tmux.format("#{pane_current_command}") == "cat");
    for _ in 0..50 {
        tmux.run(&["send-keys", "-t", "%0", "y", "Enter"]);
    }
    tmux.until("100 lines", |tmux| ys(tmux) >= 100);
    session.request("resources/unsubscribe", json!({ "uri": tail }));
    read(&mut session, tail);
    session.request("resources/subscribe", json!({ "uri": tail }));
    session.seen.clear();
    tmux.run(&["send-keys", "-t", "%0", "y", "Enter"]);
    tmux.until("102 lines", |tmux| ys(tmux) >= 102);
    session.wait_for(is_news_of(tail));
    let new = read(&mut session, tail);
    assert!(contents(&new).1.starts_with('y'), "{new}");
    tmux.run(&["send-keys", "-t", "%0", "C-c", ""]);
    tmux.until("bash", |tmux| tmux.format("#{pane_current_command}") == "bash");
    tmux.run(&["send-keys", "-R", "-t", "%0", ";", "clear-history", "-t", "%0"]);
    let cleared = read(&mut session, tail);
    assert!(contents(&cleared).1.starts_with("[... lines were missed"), "{cleared}");
    session.finish();
}

#[test]
fn clients_of_2026_listen() {
    let tmux = Tmux::start();
    let mut session = tmux.serve_silently(&[]);
    let uri = "tmux://panes/%250/tail";
    let wanted = json!({"notifications": {"resourceSubscriptions": [uri, "tmux://nope"]},
        "_meta": modern(json!({}))});
    let id = session.post("subscriptions/listen", wanted);
    let accepted = session.wait_for(|m| m["method"] == "notifications/subscriptions/acknowledged");
    assert_eq!(accepted["params"]["notifications"]["resourceSubscriptions"], json!([uri]));
    type_line(&tmux, "echo [new]", "[new]");
    loop {
        let news = session.wait_for(is_news_of(uri));
        let of = &news["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert_eq!(of, &json!(id), "{news}");
        let asked = json!({"uri": uri, "_meta": modern(json!({}))});
        let new = session.request("resources/read", asked);
        if contents(&new).1.lines().any(|line| line == "[new]") {
            break;
        }
    }
    assert!(tmux.clients() >= 2, "one of them watches");
    session.notify("notifications/cancelled", json!({ "requestId": id }));
    tmux.until("no longer", |tmux| tmux.clients() <= 1);
    session.finish();
}
