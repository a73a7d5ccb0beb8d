//! `toolgate tmux` never ends the pane that it runs in.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{
    text,
    tmux::{Tmux, structured},
};

/// What a call answers to a server with this environment.
fn call(
    tmux: &Tmux,
    tmux_variable: Option<&str>,
    pane: Option<&str>,
    tool: &str,
    arguments: Value,
) -> Value {
    let prepare = |command: &mut Command| {
        tmux_variable.map(|value| command.env("TMUX", value));
        pane.map(|value| command.env("TMUX_PANE", value));
    };
    tmux.serve_in(&["--safety", "destructive"], prepare).call(tool, arguments)
}

fn refused(answer: &Value) -> bool {
    answer.pointer("/result/_meta/error_type") == Some(&json!("SelfKillRefused"))
}

#[test]
fn the_table_of_environments() {
    let tmux = Tmux::start();
    tmux.run(&["new-session", "-d", "-s", "two", "bash --norc"]);
    let (path, name) = (tmux.format("#{socket_path}"), &tmux.name);
    let here = format!("{path},1,0");
    let same_name = format!("/elsewhere/{name},1,0");
    // The environment, and whether each of kill_session one, kill_session two and kill_server is refused.
    let table: [(Option<&str>, Option<&str>, [bool; 3]); 5] = [
        (Some(&here), Some("%0"), [true, false, true]),
        (None, Some("%0"), [true, false, true]),
        (Some(&same_name), Some("%0"), [true, false, true]),
        // The session is known without the pane.
        (Some(&here), None, [true, false, true]),
        // A pane that is not there, in a session that is.
        (Some(&here), Some("%77"), [true, false, true]),
    ];
    for (variable, pane, expected) in table {
        let one = call(&tmux, variable, pane, "kill_session", json!({"session_name": "one"}));
        assert_eq!(refused(&one), expected[0], "{variable:?} {pane:?}: {one}");
        let server = call(&tmux, variable, pane, "kill_server", json!({}));
        assert_eq!(refused(&server), expected[2], "{variable:?} {pane:?}: {server}");
        let two = call(&tmux, variable, pane, "kill_session", json!({"session_name": "two"}));
        assert_eq!(refused(&two), expected[1], "{variable:?} {pane:?}: {two}");
        tmux.run(&["new-session", "-d", "-s", "two", "bash --norc"]);
    }
    let message = call(&tmux, Some(&here), None, "kill_server", json!({}));
    assert_eq!(
        text(&message),
        "Refusing to kill the tmux server while this MCP server is running inside it. Use a manual tmux \
         command if intended."
    );
}

#[test]
fn other_servers_may_be_killed() {
    let tmux = Tmux::start();
    let elsewhere = Some("/elsewhere/other,1,0");
    let one = call(&tmux, elsewhere, Some("%0"), "kill_session", json!({"session_name": "one"}));
    assert_eq!(structured(&one)["result"], "Session killed: one");
    tmux.boot();
    let server = call(&tmux, None, None, "kill_server", json!({}));
    assert_eq!(structured(&server)["result"], "Server killed successfully");
}

#[test]
fn a_scrubbed_environment_hides_nothing() {
    let tmux = Tmux::start();
    tmux.run(&["new-session", "-d", "-s", "two", "bash --norc"]);
    let folder = tempfile::tempdir().unwrap();
    let (asked, answered) = (folder.path().join("asked"), folder.path().join("answered"));
    let lines = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": "kill_session", "arguments": {"session_name": "one"}}}),
        json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call",
            "params": {"name": "kill_server", "arguments": {}}}),
    ];
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    std::fs::write(&asked, lines.join("\n") + "\n").unwrap();
    // In a pane of session `one`, without TMUX. The input stays open until both answers are there.
    let script = format!(
        "(cat {asked}; until grep -q '\"id\":2' {answered} && grep -q '\"id\":3' {answered}; do :; done) | env -i PATH=\"$PATH\" {toolgate} tmux \
         --audit off --safety destructive --socket-name {name} > {answered}",
        asked = asked.display(),
        answered = answered.display(),
        toolgate = crate::harness::toolgate().display(),
        name = tmux.name,
    );
    tmux.run(&[
        "new-window",
        "-d",
        "-t",
        "one:",
        &format!("bash -c '{}'", script.replace('\'', "'\\''")),
    ]);
    let mut said = String::new();
    tmux.until("answered", |_| {
        said = std::fs::read_to_string(&answered).unwrap_or_default();
        said.ends_with('\n') && said.contains("\"id\":2") && said.contains("\"id\":3")
    });
    let answers: Vec<Value> =
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for id in [2, 3] {
        let answer = answers.iter().find(|answer| answer["id"] == id).unwrap();
        assert!(refused(answer), "{answer}");
    }
}

/// What would end, empty or move pane %0 in window @0, as calls; %1 is a pane of another session.
fn threats() -> Vec<(&'static str, Value, &'static str)> {
    let pane = json!({"pane_id": "%0"});
    vec![
        ("kill_pane", pane.clone(), "Refusing to kill the pane running this MCP server."),
        ("respawn_pane", pane.clone(), "Refusing to respawn the pane running this MCP server."),
        ("clear_pane", pane.clone(), "Refusing to clear the pane running this MCP server."),
        ("clear_pane", json!({"session_name": "one"}), "Refusing to clear the pane running"),
        ("break_pane", pane, "Refusing to move the pane running this MCP server."),
        (
            "join_pane",
            json!({"source_pane_id": "%0", "target_pane_id": "%1"}),
            "Refusing to move the pane running",
        ),
        (
            "swap_pane",
            json!({"source_pane_id": "%0", "target_pane_id": "%1"}),
            "Refusing to move the pane running",
        ),
        (
            "swap_pane",
            json!({"source_pane_id": "%1", "target_pane_id": "%0"}),
            "Refusing to move the pane running",
        ),
        (
            "kill_window",
            json!({"window_id": "@0"}),
            "Refusing to kill the window containing this MCP server's pane.",
        ),
        (
            "move_window",
            json!({"window_id": "@0", "destination_session": "two"}),
            "Refusing to move the window containing",
        ),
        (
            "unlink_window",
            json!({"window_id": "@0", "session_name": "one"}),
            "Refusing to unlink the window containing",
        ),
        (
            "unlink_window",
            json!({"window_id": "@0", "session_name": "two"}),
            "Refusing to unlink the window containing",
        ),
    ]
}

/// A server with sessions `one` and `two`, of which `two` shows the window of `one` too.
fn linked() -> Tmux {
    let tmux = Tmux::start();
    tmux.run(&["new-session", "-d", "-s", "two", "cat"]);
    tmux.run(&["link-window", "-d", "-s", "one:0", "-t", "two:7"]);
    tmux
}

#[test]
fn no_tool_ends_empties_or_moves_its_own_pane() {
    let tmux = linked();
    let (path, name) = (tmux.format("#{socket_path}"), &tmux.name);
    let here = format!("{path},1,0");
    let same_name = format!("/elsewhere/{name},1,0");
    let state = "#{pane_pid} #{window_id} #{session_id} #{window_linked}";
    let before = tmux.run(&["display-message", "-p", "-t", "%0", state]);
    let table: [(Option<&str>, Option<&str>); 5] = [
        (Some(&here), Some("%0")),
        (None, Some("%0")),
        (Some(&same_name), Some("%0")),
        (Some(&here), None),
        (Some(&here), Some("%77")),
    ];
    for (variable, pane) in table {
        let mut session = tmux.serve_in(&["--safety", "destructive"], |command| {
            variable.map(|value| command.env("TMUX", value));
            pane.map(|value| command.env("TMUX_PANE", value));
        });
        for (tool, arguments, message) in threats() {
            let answer = session.call(tool, arguments.clone());
            assert!(refused(&answer), "{variable:?} {pane:?} {tool} {arguments}: {answer}");
            assert!(text(&answer).starts_with(message), "{answer}");
        }
        // What is not there is said to be so first.
        let missing = session.call("respawn_pane", json!({"pane_id": "%99"}));
        assert_eq!(missing["result"]["_meta"]["error_type"], "PaneNotFound");
        // What belongs to others, and what ends nothing.
        for (tool, arguments) in [
            ("respawn_pane", json!({"pane_id": "%1"})),
            ("clear_pane", json!({"pane_id": "%1"})),
            (
                "move_window",
                json!({"window_id": "@0", "session_name": "one", "destination_index": "9"}),
            ),
            (
                "move_window",
                json!({"window_id": "@0", "session_name": "one", "destination_index": "0"}),
            ),
            (
                "link_window",
                json!({"window_id": "@0", "destination_session": "two", "destination_index": "3"}),
            ),
            ("resize_pane", json!({"pane_id": "%0", "zoom": false})),
        ] {
            structured(&session.call(tool, arguments));
        }
        tmux.run(&["unlink-window", "-t", "two:3"]);
        assert_eq!(tmux.run(&["display-message", "-p", "-t", "%0", state]), before);
    }
    let mut session = tmux.serve_in(&[], |command| {
        command.env("TMUX", &here).env("TMUX_PANE", "%0");
    });
    for (pane, own) in [("%0", true), ("%1", false)] {
        for tool in ["get_pane_info", "snapshot_pane"] {
            assert_eq!(structured(&session.call(tool, json!({"pane_id": pane})))["is_caller"], own);
        }
    }
}

#[test]
fn panes_of_other_servers_may_be_ended_and_moved() {
    for (tool, arguments, _) in threats() {
        let tmux = linked();
        let mut session = tmux.serve_in(&["--safety", "destructive"], |command| {
            command.env("TMUX", "/elsewhere/other,1,0").env("TMUX_PANE", "%0");
        });
        structured(&session.call(tool, arguments));
    }
}
