//! The tools of `toolgate tmux` over MCP, against real tmux.

use serde_json::{Value, json};

use crate::harness::{
    text,
    tmux::{Tmux, structured},
};

fn screen_has(tmux: &Tmux, line: &str) {
    tmux.until(line, |tmux| tmux.run(&["capture-pane", "-p"]).lines().any(|shown| shown == line));
}

#[test]
fn every_tool_says_what_it_is_and_takes_no_more_than_it_knows() {
    let tmux = Tmux::down();
    let mut session = tmux.serve(&["--safety", "destructive"]);
    let answer = session.request("tools/list", json!({}));
    let tools = answer["result"]["tools"].as_array().unwrap();
    assert!(tools.len() >= 13, "{answer}");
    assert!(answer.to_string().len() < 60_000, "models read all of it");
    for tool in tools {
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{tool}");
        assert!(
            tool["description"].as_str().is_some_and(|text| text.starts_with("Use ")),
            "{tool}"
        );
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(tool["annotations"][hint].is_boolean(), "{hint} of {tool}");
        }
    }
    let unexpected = session.call("list_sessions", json!({"socket": "x"}));
    assert_eq!(unexpected["result"]["_meta"]["code"], "INVALID_ARGUMENTS");
}

#[test]
fn tiers_hide_and_refuse() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&["--safety", "readonly"]);
    let answer = session.request("tools/list", json!({}));
    let names: Vec<&str> = answer["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|t| t["name"].as_str())
        .collect();
    assert!(names.contains(&"capture_pane") && !names.contains(&"send_keys"), "{names:?}");
    let denied = session.call("send_keys", json!({"keys": "x", "pane_id": "%0"}));
    assert_eq!(denied["result"]["_meta"]["code"], "TIER_DENIED");
    let output = std::process::Command::new(crate::harness::toolgate())
        .args(["tmux", "--audit", "off"])
        .env("LIBTMUX_SAFETY", "bogus")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("unknown safety tier `bogus`"));
}

#[test]
fn without_a_server_lists_are_empty_and_a_session_starts_one() {
    let tmux = Tmux::down();
    let mut session = tmux.serve(&["--safety", "destructive"]);
    assert_eq!(structured(&session.call("list_sessions", json!({}))), &json!({"result": []}));
    assert_eq!(structured(&session.call("list_windows", json!({}))), &json!({"result": []}));
    assert_eq!(structured(&session.call("get_server_info", json!({})))["is_alive"], false);
    let missing = session.call("get_session_info", json!({"session_name": "nope"}));
    assert_eq!(missing["result"]["_meta"]["error_type"], "SessionNotFound");
    let made = json!({"session_name": "new", "window_name": "#(touch x) w", "x": 90, "y": 30,
        "start_directory": "/", "environment": "{\"A\": \"b;\"}"});
    let made = session.call("create_session", made);
    assert_eq!(structured(&made)["session_name"], "new");
    assert_eq!(structured(&made)["active_pane_id"], "%0");
    assert_eq!(
        tmux.format("#{window_width}x#{window_height} #{window_name}"),
        "90x30 #(touch x) w"
    );
    assert_eq!(tmux.run(&["show-environment", "-t", "new", "A"]), "A=b;");
    let again = session.call("create_session", json!({"session_name": "new"}));
    assert_eq!(text(&again), "Session named new exists");
    let bad = session.call("create_session", json!({"session_name": "a:b"}));
    assert_eq!(text(&bad), "Bad session name: contains colons (session name: a:b)");
    let nowhere = session.call("create_session", json!({"start_directory": "/no/such"}));
    assert_eq!(text(&nowhere), "start_directory is not an existing directory: '/no/such'");
    let killed = session.call("kill_server", json!({}));
    assert_eq!(structured(&killed)["result"], "Server killed successfully");
    assert_eq!(structured(&session.call("get_server_info", json!({})))["is_alive"], false);
}

#[test]
fn windows_are_made_listed_selected_and_sessions_renamed_and_killed() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&["--safety", "destructive"]);
    let made =
        session.call("create_window", json!({"session_name": "one", "window_name": "second"}));
    assert_eq!(structured(&made)["window_id"], "@1");
    assert_eq!(structured(&made)["window_active"], "0");
    let before = json!({"session_name": "one", "direction": "before", "attach": true});
    let before = session.call("create_window", before);
    assert_eq!(structured(&before)["window_index"], "0");
    let selected = session.call("select_window", json!({"window_id": "@1"}));
    assert_eq!(structured(&selected)["window_active"], "1");
    let selected = session.call("select_window", json!({"direction": "previous"}));
    assert_eq!(structured(&selected)["window_id"], "@0");
    let none = session.call("select_window", json!({}));
    assert_eq!(text(&none), "Provide window_id, window_index, or direction.");
    let filter = json!({"filters": "{\"window_name__startswith\": \"sec\"}"});
    let listed = session.call("list_windows", filter);
    assert_eq!(structured(&listed)["result"].as_array().unwrap().len(), 1, "{listed}");
    let renamed = session.call("rename_session", json!({"new_name": "-x #{pid}"}));
    assert_eq!(structured(&renamed)["session_name"], "-x #{pid}");
    let untargeted = session.call("kill_session", json!({}));
    assert!(text(&untargeted).starts_with("Refusing to kill without an explicit target."));
    let killed = session.call("kill_session", json!({"session_name": "-x #{pid}"}));
    assert_eq!(structured(&killed)["result"], "Session killed: -x #{pid}");
}

#[test]
fn keys_are_typed_exactly() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    let mut send = |keys: Value| {
        let sent = session.call("send_keys", keys);
        assert_eq!(structured(&sent)["result"], "Keys sent to pane %0");
    };
    // What is typed, and the line that shows that it arrived whole.
    for (keys, shown) in [
        ("echo [a];", "[a]"),
        ("echo '[b];'", "[b];"),
        ("printf '[%s]\\n' \"c\\\\;\" '#{pid}' '~'", "[#{pid}]"),
        ("echo \"[é $((1+1)) ü]\"", "[é 2 ü]"),
    ] {
        send(json!({"keys": keys, "pane_id": "%0"}));
        screen_has(&tmux, shown);
    }
    send(json!({"keys": "cat", "pane_id": "%0"}));
    tmux.until("cat", |tmux| tmux.format("#{pane_current_command}") == "cat");
    for keys in ["-l", "--", "-x;", "Up", ";"] {
        send(json!({"keys": keys, "pane_id": "%0", "literal": true}));
        tmux.until(keys, |tmux| {
            tmux.run(&["capture-pane", "-p"]).lines().filter(|line| *line == keys).count() == 2
        });
    }
    send(json!({"keys": "C-c", "pane_id": "%0", "enter": false}));
    tmux.until("a shell again", |tmux| tmux.format("#{pane_current_command}") == "bash");
}

#[test]
fn captures_keep_the_tail_and_name_what_is_missing() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    session.call("send_keys", json!({"keys": "seq 1 100; echo %end 1 2 1", "session_name": "one"}));
    screen_has(&tmux, "%end 1 2 1");
    let all = json!({"pane_id": "%0", "start": -200, "max_lines": null});
    let all = session.call("capture_pane", all);
    let lines: Vec<&str> = structured(&all)["result"].as_str().unwrap().lines().collect();
    assert!((1..=100).all(|n| lines.contains(&n.to_string().as_str())), "{lines:?}");
    let tail = session.call("capture_pane", json!({"pane_id": "%0", "max_lines": 2}));
    assert!(text(&tail).starts_with("[... truncated "), "{tail}");
    assert_eq!(text(&tail).lines().nth(1), Some("%end 1 2 1"));
    let missing = session.call("capture_pane", json!({"pane_id": "%999"}));
    assert_eq!(text(&missing), "Pane not found: %999\nCall list_panes to discover valid pane ids.");
    assert_eq!(missing["result"]["_meta"]["error_type"], "PaneNotFound");
    let syntax = session.call("capture_pane", json!({"pane_id": "one:0.0"}));
    assert_eq!(syntax["result"]["_meta"]["error_type"], "PaneNotFound", "no target syntax");
    let none = session.call("capture_pane", json!({"pane_id": "%0", "max_lines": 0}));
    assert_eq!(none["result"]["_meta"]["code"], "INVALID_ARGUMENTS");
}

#[test]
fn what_is_linked_into_two_sessions_is_one_and_can_be_reached() {
    let tmux = Tmux::start();
    tmux.run(&["new-session", "-d", "-s", "two", "bash --norc"]);
    tmux.run(&["link-window", "-s", "one:0", "-t", "two:7"]);
    let mut session = tmux.serve(&[]);
    let listed = session.call("list_windows", json!({}));
    assert_eq!(structured(&listed)["result"].as_array().unwrap().len(), 2);
    structured(&session.call("capture_pane", json!({"pane_id": "%0"})));
    structured(&session.call("capture_pane", json!({"window_id": "@0"})));
    structured(&session.call("select_window", json!({"window_id": "@0"})));
}

#[test]
fn a_name_in_a_call_wins_over_a_path_in_the_environment() {
    let (tmux, other) = (Tmux::start(), Tmux::start());
    other.run(&["rename-session", "other"]);
    let path = tmux.format("#{socket_path}");
    let mut session = tmux.serve_in(&[], |command| {
        command.env("LIBTMUX_SOCKET_PATH", path);
    });
    let here = session.call("list_sessions", json!({}));
    assert_eq!(structured(&here)["result"][0]["session_name"], "one");
    let there = session.call("list_sessions", json!({"socket_name": other.name}));
    assert_eq!(structured(&there)["result"][0]["session_name"], "other");
    let outside = session.call("list_sessions", json!({"socket_name": "../x"}));
    assert_eq!(outside["result"]["_meta"]["error_type"], "InvalidSocketName");
    let servers = session.call("list_servers", json!({}));
    let servers = structured(&servers)["result"].as_array().unwrap();
    for name in [&tmux.name, &other.name] {
        assert!(servers.iter().any(|server| server["socket_name"] == **name), "{servers:?}");
    }
}

#[test]
fn filters_refuse_what_they_do_not_know() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    let mut filter = |filters: Value| session.call("list_sessions", json!({"filters": filters}));
    assert!(
        text(&filter(json!({"nope": "1"}))).starts_with("Invalid filter field 'nope' in 'nope'.")
    );
    let operator = filter(json!({"session_id__bogus": "1"}));
    assert!(text(&operator).starts_with("Invalid filter operator 'bogus' in 'session_id__bogus'."));
    assert!(text(&filter(json!("{"))).starts_with("Invalid filters JSON:"));
    for (filters, count) in [
        (json!({"session_name__iregex": "^O.E$"}), 1),
        (json!({"session_name": "on"}), 0),
        (json!({"session_name__nin": "one"}), 0),
        (json!({"window_count": "1"}), 1),
        (json!(""), 1),
    ] {
        let answer = filter(filters.clone());
        assert_eq!(structured(&answer)["result"].as_array().unwrap().len(), count, "{filters}");
    }
}
