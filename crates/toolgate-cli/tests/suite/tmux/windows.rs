//! Window tools of `toolgate tmux`, and those that move panes and windows, over MCP, against real tmux.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{
    Session, text,
    tmux::{Tmux, structured},
};

fn code(answer: &Value) -> &str {
    let code = answer.pointer("/result/_meta/code").and_then(Value::as_str);
    code.unwrap_or_default()
}

fn error_type(answer: &Value) -> &str {
    let error_type = answer.pointer("/result/_meta/error_type").and_then(Value::as_str);
    error_type.unwrap_or_default()
}

/// A field of all that a list tool tells, in its order.
fn ids(session: &mut Session, tool: &str, field: &str, arguments: Value) -> Vec<String> {
    let answer = session.call(tool, arguments);
    let listed = structured(&answer).get("result").and_then(Value::as_array);
    let value = |item: &Value| item.get(field).and_then(Value::as_str).map(str::to_owned);
    listed.into_iter().flatten().filter_map(value).collect()
}

#[test]
fn panes_are_listed_by_window_session_and_server() {
    let tmux = Tmux::start();
    tmux.run(&["split-window", "-d", "-t", "%0", "cat"]);
    tmux.run(&["new-window", "-d", "-t", "one:5", "cat"]);
    tmux.run(&["new-session", "-d", "-s", "two", "cat"]);
    tmux.run(&["link-window", "-s", "one:0", "-t", "two:7"]);
    let mut session = tmux.serve(&[]);
    let mut panes = |arguments| ids(&mut session, "list_panes", "pane_id", arguments);
    assert_eq!(panes(json!({})), ["%0", "%1", "%2", "%3"], "a linked window once");
    assert_eq!(panes(json!({"window_id": "@0", "session_name": "two"})), ["%0", "%1"]);
    assert_eq!(panes(json!({"session_name": "two"})), ["%3", "%0", "%1"]);
    assert_eq!(panes(json!({"session_name": "one", "window_index": "5"})), ["%2"]);
    assert_eq!(
        panes(json!({"filters": {"pane_current_command": "cat", "window_id": "@2"}})),
        ["%3"]
    );
    assert_eq!(panes(json!({"filters": {"is_caller": ""}})).len(), 4);
    let listed = session.call("list_panes", json!({"window_id": "@0"}));
    let info = session.call("get_pane_info", json!({"pane_id": "%0"}));
    assert_eq!(structured(&listed)["result"][0], *structured(&info));
    assert_eq!(structured(&info).as_object().unwrap().len(), 21, "{info}");
    assert_eq!(structured(&info)["pane_width"], "120");
    assert_eq!(structured(&info)["pane_left"], 0);
    assert_eq!(structured(&info)["pane_at_top"], true);
    assert_eq!(structured(&info)["is_caller"], Value::Null);
    for (arguments, kind) in [
        (json!({"window_id": "@99"}), "WindowNotFound"),
        (json!({"window_id": "one:0"}), "WindowNotFound"),
        (json!({"session_name": "on"}), "SessionNotFound"),
        (json!({"window_index": "77"}), "WindowNotFound"),
    ] {
        let missing = session.call("list_panes", arguments.clone());
        assert_eq!(error_type(&missing), kind, "{arguments}");
    }
    for unknown in [json!({"filters": {"nope": "1"}}), json!({"fields": ["nope"]})] {
        let unknown = session.call("list_panes", unknown);
        assert_eq!(code(&unknown), "INVALID_ARGUMENTS");
        assert!(text(&unknown).contains("pane_title"), "{unknown}");
    }
    // Only the chosen fields, also where a filter needs another one.
    let chosen = json!({"window_id": "@2", "fields": ["pane_width", "is_caller"],
        "filters": {"pane_current_command": "cat"}});
    let listed = session.call("list_panes", chosen);
    let expected = json!([{"pane_id": "%3", "pane_width": "80", "is_caller": null}]);
    assert_eq!(structured(&listed)["result"], expected);
    assert_eq!(serde_json::from_str::<Value>(text(&listed)).unwrap(), expected);
    let down = Tmux::down();
    let nothing = session.call("list_panes", json!({"socket_name": down.name}));
    assert_eq!(structured(&nothing), &json!({"result": []}));
}

#[test]
fn windows_are_split_named_laid_out_and_resized() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    let folder = tempfile::Builder::new().prefix("#{pid} d").tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    // Where the new pane is, by its direction.
    for (direction, edge) in [
        ("above", "pane_at_top"),
        ("below", "pane_at_bottom"),
        ("left", "pane_at_left"),
        ("right", "pane_at_right"),
    ] {
        let split = json!({"pane_id": "%0", "direction": direction, "size": "20%", "shell": "cat"});
        let pane = session.call("split_window", split);
        assert_eq!(structured(&pane)[edge], true, "{direction}: {pane}");
        assert_eq!(structured(&pane)["pane_active"], "0");
        let pane = structured(&pane)["pane_id"].as_str().unwrap().to_owned();
        tmux.run(&["kill-pane", "-t", &pane]);
    }
    let split = json!({"window_index": "0", "size": 7, "start_directory": path, "environment": {"A": "#{pid};"},
        "shell": "printf '%s' \"$A\"; cat"});
    let pane = session.call("split_window", split);
    assert_eq!(structured(&pane)["pane_height"], "7");
    let id = structured(&pane)["pane_id"].as_str().unwrap().to_owned();
    tmux.until("its variable", |tmux| tmux.run(&["capture-pane", "-p", "-t", &id]) == "#{pid};");
    let started = tmux.run(&["display-message", "-p", "-t", &id, "#{pane_current_path}"]);
    assert_eq!(started, path.to_str().unwrap());
    for (size, refused) in [
        (json!(0), true),
        (json!("0%"), true),
        (json!("-1"), true),
        (json!("101%"), true),
        (json!("12"), false),
    ] {
        let answer =
            session.call("split_window", json!({"pane_id": "%0", "size": size, "shell": "cat"}));
        assert_eq!(code(&answer) == "INVALID_ARGUMENTS", refused, "{size}: {answer}");
    }
    tmux.run(&["new-window", "-d", "-t", "one:8", "cat"]);
    tmux.run(&["resize-window", "-t", "one:8", "-x", "2", "-y", "2"]);
    let tiny = session.call("split_window", json!({"window_index": "8"}));
    assert!(text(&tiny).contains("Split a larger pane"), "{tiny}");
    let missing = session.call("split_window", json!({"pane_id": "%99"}));
    assert_eq!(error_type(&missing), "PaneNotFound");
    let nowhere = session.call("split_window", json!({"start_directory": "/no/such"}));
    assert_eq!(text(&nowhere), "start_directory is not an existing directory: '/no/such'");

    let named =
        session.call("rename_window", json!({"window_id": "@0", "new_name": "-n #(touch x) ; é"}));
    assert_eq!(structured(&named)["window_name"], "-n #(touch x) ; é");
    assert_eq!(
        structured(&named),
        structured(&session.call("get_window_info", json!({"window_index": "0"})))
    );
    let laid =
        session.call("select_layout", json!({"window_id": "@0", "layout": "even-horizontal"}));
    let layout = structured(&laid)["window_layout"].clone();
    let other =
        session.call("select_layout", json!({"window_id": "@0", "layout": "even-vertical"}));
    assert_ne!(structured(&other)["window_layout"], layout);
    let again = session.call("select_layout", json!({"window_id": "@0", "layout": layout}));
    assert_eq!(structured(&again)["window_layout"], layout, "a layout can be put back");
    // tmux 3.3a crashes on these.
    for bad in ["nope", "even", "0000,x", "b25d,0x0,0,0,0", "$(id)", "-E", "", "2758,120x40,0,0{"] {
        let bad = session.call("select_layout", json!({"window_id": "@0", "layout": bad}));
        assert!(text(&bad).starts_with("invalid layout: "), "{bad}");
        assert_eq!(code(&bad), "INVALID_ARGUMENTS");
    }
    let few =
        session.call("select_layout", json!({"window_id": "@0", "layout": "aafd,120x40,0,0,0"}));
    assert_eq!(few["result"]["isError"], true, "{few}");
    let sized =
        session.call("resize_window", json!({"window_id": "@0", "width": 90, "height": 33}));
    assert_eq!(structured(&sized)["window_width"], "90");
    assert_eq!(structured(&sized)["window_height"], "33");
    let nothing = session.call("resize_window", json!({"window_id": "@0"}));
    assert_eq!(text(&nothing), "Provide height or width.");
    let zero = session.call("resize_window", json!({"window_id": "@0", "width": 0}));
    assert_eq!(code(&zero), "INVALID_ARGUMENTS");
}

#[test]
fn windows_are_moved_linked_unlinked_and_killed() {
    let tmux = Tmux::start();
    tmux.run(&["new-window", "-d", "-t", "one:3", "cat"]);
    tmux.run(&["new-session", "-d", "-s", "two", "cat"]);
    let mut session = tmux.serve(&["--safety", "destructive"]);
    let moved = session.call("move_window", json!({"window_id": "@1", "destination_index": "8"}));
    assert_eq!(structured(&moved)["window_index"], "8");
    let taken = session.call("move_window", json!({"window_id": "@1", "destination_index": "0"}));
    assert!(text(&taken).contains("Call list_windows for the indexes that are taken"), "{taken}");
    for index in ["-1", "+1", "{end}", "1.0", "$0:1"] {
        let bad =
            session.call("move_window", json!({"window_id": "@1", "destination_index": index}));
        assert_eq!(code(&bad), "INVALID_ARGUMENTS", "{index}");
    }
    let nowhere = json!({"window_id": "@1", "destination_session": "tw"});
    assert_eq!(error_type(&session.call("move_window", nowhere)), "SessionNotFound");
    let moved =
        session.call("move_window", json!({"window_id": "@1", "destination_session": "two"}));
    assert_eq!(structured(&moved)["session_name"], "two");

    let linked = session.call(
        "link_window",
        json!({"window_id": "@1", "destination_session": "one", "destination_index": "4"}),
    );
    assert_eq!(structured(&linked)["session_name"], "one");
    assert_eq!(structured(&linked)["window_index"], "4");
    assert_eq!(structured(&linked)["window_active"], "0");
    assert_eq!(
        ids(&mut session, "list_windows", "window_id", json!({})).len(),
        3,
        "linked, and once"
    );
    // By the session in which it is meant.
    for (name, index) in [("one", "4"), ("two", "1")] {
        let info =
            session.call("get_window_info", json!({"window_id": "@1", "session_name": name}));
        assert_eq!(structured(&info)["window_index"], index);
    }
    let whose = session.call("unlink_window", json!({"window_id": "@1"}));
    assert_eq!(code(&whose), "INVALID_ARGUMENTS");
    let unlinked = session.call("unlink_window", json!({"window_id": "@1", "session_name": "two"}));
    assert_eq!(structured(&unlinked)["result"], "Window @1 unlinked from session two");
    let last = session.call("unlink_window", json!({"window_id": "@1", "session_name": "one"}));
    assert!(text(&last).contains("Use kill_window"), "{last}");
    let gone = session.call("unlink_window", json!({"window_id": "@1", "session_name": "two"}));
    assert_eq!(error_type(&gone), "WindowNotFound", "{gone}");

    // A session ends with its last window, and our own client may be attached to it: what happened is told.
    for (name, id) in [("three", "@3"), ("four", "@4")] {
        tmux.run(&["new-session", "-d", "-s", name, "cat"]);
        let moved =
            session.call("move_window", json!({"window_id": id, "destination_session": "one"}));
        assert_eq!(structured(&moved)["session_name"], "one", "{name}");
    }
    let all =
        session.call("move_window", json!({"session_name": "two", "destination_session": "one"}));
    assert_eq!(structured(&all)["session_name"], "one");
    assert_eq!(ids(&mut session, "list_sessions", "session_name", json!({})), ["one"]);

    tmux.run(&["new-session", "-d", "-s", "five", "cat"]);
    tmux.run(&["link-window", "-s", "one:0", "-t", "five:9"]);
    let killed = session.call("kill_window", json!({"window_id": "@0"}));
    assert_eq!(structured(&killed)["result"], "Window killed: @0");
    assert!(!tmux.run(&["list-windows", "-a", "-F", "#{window_id}"]).lines().any(|id| id == "@0"));
    for id in ["@0", "@77"] {
        let missing = session.call("kill_window", json!({"window_id": id}));
        assert_eq!(error_type(&missing), "WindowNotFound");
    }
    assert_eq!(code(&session.call("kill_window", json!({}))), "INVALID_ARGUMENTS", "no default");
    for id in ids(&mut session, "list_windows", "window_id", json!({})) {
        let killed = session.call("kill_window", json!({"window_id": id}));
        assert_eq!(structured(&killed)["result"], format!("Window killed: {id}"));
    }
    assert_eq!(structured(&session.call("get_server_info", json!({})))["is_alive"], false);
}

#[test]
fn panes_are_joined_and_broken_out() {
    let tmux = Tmux::start();
    tmux.run(&["new-session", "-d", "-s", "two", "cat"]);
    tmux.run(&["split-window", "-d", "-t", "%0", "cat"]);
    let mut session = tmux.serve(&["--safety", "destructive"]);
    let broken = session.call("break_pane", json!({"pane_id": "%2", "window_name": "#{pid} ##"}));
    assert_eq!(structured(&broken)["window_name"], "#{pid} ##");
    assert_eq!(structured(&broken)["session_name"], "one");
    assert_eq!(structured(&broken)["active_pane_id"], "%2");
    assert_eq!(structured(&broken)["window_active"], "0");
    let over = session.call("break_pane", json!({"pane_id": "%2", "destination_session": "two"}));
    assert_eq!(
        structured(&over)["session_name"],
        "two",
        "alone in its window, it takes that along"
    );
    let join =
        json!({"source_pane_id": "%2", "target_pane_id": "%0", "direction": "right", "size": 30});
    let joined = session.call("join_pane", join);
    assert_eq!(structured(&joined)["pane_id"], "%2");
    assert_eq!(structured(&joined)["window_id"], "@0");
    assert_eq!(structured(&joined)["pane_width"], "30");
    // The last pane of a session, to which our own client may be attached.
    let last = session.call("join_pane", json!({"source_pane_id": "%1", "target_pane_id": "%2"}));
    assert_eq!(structured(&last)["window_id"], "@0");
    assert_eq!(ids(&mut session, "list_sessions", "session_name", json!({})), ["one"]);
    let same = session.call("join_pane", json!({"source_pane_id": "%1", "target_pane_id": "%1"}));
    assert_eq!(same["result"]["isError"], true);
    for (source, target) in [("%99", "%0"), ("%0", "%99")] {
        let missing =
            session.call("join_pane", json!({"source_pane_id": source, "target_pane_id": target}));
        assert_eq!(error_type(&missing), "PaneNotFound", "{missing}");
    }
    assert_eq!(error_type(&session.call("break_pane", json!({"pane_id": "%99"}))), "PaneNotFound");
}

#[test]
fn clients_and_keys_are_told() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&["--safety", "readonly"]);
    assert_eq!(
        structured(&session.call("list_clients", json!({})))["result"],
        json!([]),
        "not ours"
    );
    let mut client = Command::new("tmux")
        .args(["-L", &tmux.name, "-C", "attach-session", "-r", "-t", "one"])
        .env_remove("TMUX")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    tmux.until("attached", |tmux| tmux.clients() == 2);
    let clients = session.call("list_clients", json!({}));
    let clients = structured(&clients)["result"].as_array().unwrap().clone();
    assert_eq!(clients.len(), 1, "{clients:?}");
    assert_eq!(clients[0]["client_pid"], client.id().to_string());
    assert_eq!(clients[0]["client_session"], "one");
    assert_eq!(clients[0]["session_id"], "$0");
    assert_eq!(clients[0]["client_control_mode"], true);
    assert_eq!(clients[0]["client_readonly"], true);
    drop(client.stdin.take());
    client.wait().unwrap();

    tmux.run(&["bind-key", "-r", "-T", "mine", "\\", "display-message", "a  b\\;"]);
    let keys = session.call("list_keys", json!({"table": "mine"}));
    let expected = json!([{"table": "mine", "key": "\\", "command": tmux.run(&["list-keys", "-T", "mine"]).split_once("\\\\ ").unwrap().1.trim_start(), "repeat": true}]);
    assert_eq!(structured(&keys)["result"], expected);
    let all = session.call("list_keys", json!({}));
    let all = structured(&all)["result"].as_array().unwrap().clone();
    assert_eq!(all.len(), tmux.run(&["list-keys"]).lines().count());
    assert!(all.iter().any(|key| key["table"] == "prefix"
        && key["key"] == "%"
        && key["command"] == "split-window -h"));
    let unknown = session.call("list_keys", json!({"table": "nope"}));
    assert!(text(&unknown).contains("Call list_keys without table"), "{unknown}");
    let down = Tmux::down();
    let nobody = session.call("list_keys", json!({"socket_name": down.name}));
    assert_eq!(error_type(&nobody), "TmuxServerNotRunning");
    assert!(!down.output(&["list-sessions"]).status.success(), "to look at keys starts no server");
}

/// tmux lets our own client go with the session that it is attached to.
#[test]
fn what_ends_the_session_of_our_own_client_is_told_all_the_same() {
    for (tool, arguments, field, told) in [
        (
            "move_window",
            json!({"window_id": "@0", "destination_session": "two"}),
            "session_name",
            "two",
        ),
        ("join_pane", json!({"source_pane_id": "%0", "target_pane_id": "%1"}), "window_id", "@1"),
        (
            "break_pane",
            json!({"pane_id": "%0", "destination_session": "two"}),
            "session_name",
            "two",
        ),
        ("kill_window", json!({"window_id": "@0"}), "result", "Window killed: @0"),
        ("kill_pane", json!({"pane_id": "%0"}), "result", "Pane killed: %0"),
    ] {
        let tmux = Tmux::start();
        let mut session = tmux.serve(&["--safety", "destructive"]);
        structured(&session.call("list_sessions", json!({})));
        tmux.run(&["new-session", "-d", "-s", "two", "cat"]);
        assert_eq!(tmux.run(&["list-clients", "-F", "#{client_session}"]), "one");
        assert_eq!(structured(&session.call(tool, arguments))[field], told, "{tool}");
        assert_eq!(ids(&mut session, "list_sessions", "session_name", json!({})), ["two"]);
    }
}
