//! `toolgate tmux` never ends the pane that it runs in.

mod harness;

use std::process::Command;

use harness::{
    text,
    tmux::{Tmux, structured},
};
use serde_json::{Value, json};

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
        toolgate = harness::toolgate().display(),
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
