//! Text of clients, servers and files on the operator's terminal and in the log.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::{
    harness::matrix::{Setup, Via, tmux},
    harness::toolgate,
};

/// Sets the clipboard, clears the screen, starts a line of its own, and turns the rest around.
const EVIL: &str = "x\u{1b}]52;c;ZXZpbA==\u{7}\u{1b}[2J\u{9b}2J\r\ntoolgate: error: FORGED\u{202e}\u{2066}\u{200b}\u{feff}\u{2028}";

/// Whether a line could steer a terminal or hide what it says.
fn is_harmful(line: &str) -> bool {
    line.starts_with("toolgate: error: FORGED")
        || line.chars().any(|c| {
            c.is_control()
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
        })
}

fn assert_harmless<'a>(what: &str, lines: impl IntoIterator<Item = &'a str>) {
    for line in lines {
        assert!(!is_harmful(line), "{what}: {line:?}");
    }
}

/// [review 11] A client called a tool by a name with escape sequences, which reached the operator's terminal and log raw, with a forged line.
#[test]
fn a_client_cannot_write_to_the_operators_terminal() {
    Setup::new("").each(|client| {
        client.call(EVIL, json!({}));
        client.request(&format!("x/{EVIL}"), json!({}));
        client.notify(&format!("notifications/{EVIL}"), json!({}));
        client.call(&"y".repeat(100_000), json!({}));
        client.fence();
        let lines = client.stderr();
        assert_harmless(&format!("{:?}", client.via), lines.iter().map(String::as_str));
        let longest = lines.iter().map(String::len).max().unwrap_or_default();
        assert!(longest < 10_000, "{:?}: a line of {longest} bytes", client.via);
    });
}

/// [review 11] A client that is denied again and again filled the log.
#[test]
fn denials_of_one_kind_are_logged_at_a_rate() {
    Setup::new("[namespaces.default]\nsafety = 'readonly'\n").each(|client| {
        for _ in 0..200 {
            client.call("wipe", json!({}));
        }
        client.fence();
        let told = client.stderr().iter().filter(|line| line.contains("wipe")).count();
        assert!((1..=60).contains(&told), "{:?}: {told} lines", client.via);
    });
}

/// [review 11] Stray lines on a server's stdout reached the operator's terminal raw.
#[test]
fn a_server_cannot_write_to_the_operators_terminal() {
    Setup::new("").each(|client| {
        client.call(
            "emit",
            json!({"raw": [format!("{EVIL}\n"), format!("{{\"x\":\"{}\"\n", "\u{9b}31m")]}),
        );
        client.fence();
        assert_harmless(&format!("{:?}", client.via), client.stderr().iter().map(String::as_str));
    });
}

fn run(arguments: &[&str], folder: &std::path::Path) -> Output {
    let mut command = Command::new(toolgate());
    command.args(arguments).current_dir(folder).env_remove("TOOLGATE_CONFIG");
    command.env("XDG_STATE_HOME", folder.join("state")).env("TOOLGATE_LOG", "info");
    command.output().unwrap()
}

fn harmless(what: &str, output: &Output) {
    for stream in [&output.stdout, &output.stderr] {
        let text = String::from_utf8_lossy(stream);
        assert_harmless(what, text.lines());
    }
}

/// [review 11] `check`, `why`, `chain` and refusals of the config printed names of servers and tools raw.
#[test]
fn commands_print_names_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let program = crate::harness::example("spy").display().to_string();
    let evil = serde_json::to_string(EVIL).unwrap();
    let config = folder.path().join("toolgate.toml");
    let text = format!(
        "[servers.main]\ncommand = {program:?}\nargs = [\"--tool\", {evil}]\n\
         [namespaces.default]\nsafety = 'readonly'\n[namespaces.default.tools.\"main/none\"]\ntier = 'readonly'\n"
    );
    std::fs::write(&config, text).unwrap();
    let config = config.display().to_string();
    let check = run(&["check", "--config", &config, "--server", "main"], folder.path());
    harmless("check", &check);
    let told = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(told.contains("FORGED") && told.contains("has no tier"), "{told}");
    let why = run(&["why", EVIL, "--config", &config, "--server", "main"], folder.path());
    harmless("why", &why);
    assert!(String::from_utf8_lossy(&why.stdout).contains("FORGED"));
    harmless("chain", &run(&["chain", "--config", &config], folder.path()));
    harmless("check of a missing file", &run(&["check", "--config", EVIL], folder.path()));
    let bad = folder.path().join("bad.toml");
    std::fs::write(&bad, format!("[servers.main]\n\"{}\" = 1\n", "a\u{202e}\u{200b}b")).unwrap();
    harmless(
        "a bad config",
        &run(&["check", "--config", &bad.display().to_string()], folder.path()),
    );
    let script = "printf '\\033]52;c;x\\007\\302\\233\\r\\342\\200\\256 SAID\\n' >&2";
    let noisy = run(&["wrap", "--", "sh", "-c", script], folder.path());
    harmless("a server's stderr", &noisy);
    assert!(String::from_utf8_lossy(&noisy.stderr).contains("SAID"), "{noisy:?}");
    harmless("audit", &run(&["audit", "verify", EVIL], folder.path()));
    harmless("replay", &run(&["replay", EVIL], folder.path()));
}

/// [issue 12.5] JSON output kept C1 controls and bidirectional overrides, which serde does not escape.
#[test]
fn json_output_escapes_what_serde_leaves() {
    Setup::new("store = 'sqlite:log.db'\n").through(&[Via::Wrap], |client| {
        client.call(EVIL, json!({"a": EVIL}));
        client.fence();
        let folder = client.path("");
        let mut found = String::new();
        crate::harness::gateway::until_or(
            || {
                let log = run(&["log", "--format", "jsonl", "--store", "sqlite:log.db"], &folder);
                found = format!(
                    "{}{}",
                    String::from_utf8_lossy(&log.stdout),
                    String::from_utf8_lossy(&log.stderr)
                );
                found.contains("FORGED")
            },
            || "the log has the call".to_owned(),
        );
        assert_harmless("jsonl", found.lines());
        let line = found.lines().find(|line| line.contains("FORGED")).unwrap();
        let record: Value = serde_json::from_str(line).unwrap();
        assert!(
            record["tool"].as_str().unwrap().contains('\u{202e}'),
            "it means the same: {record}"
        );
    });
}

/// [review 15] `toolgate why` panicked for calls of the terminal that delete, because it opened a connection.
#[test]
fn why_never_panics_and_has_no_effect() {
    let (_tmux, mut session) = tmux(&[]);
    let listed = session.request("tools/list", json!({}));
    let tools: Vec<String> = listed["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect();
    assert!(tools.len() > 20);
    let arguments =
        json!({"pane_id": "%0", "window_id": "@0", "session_id": "$0", "session_name": "one",
        "keys": "rm -rf x", "command": "rm -rf x", "text": "rm -rf x\n", "shell": "rm -rf x",
        "buffer_name": "toolgate-x", "socket_name": "nobody-has-this"})
        .to_string();
    for preset in ["", "libtmux", "metamcp", "mcp-core"] {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("toolgate.toml");
        let chain = if preset.is_empty() { String::new() } else { format!("chain = '{preset}'\n") };
        let text = format!("[tmux]\n[namespaces.default]\n{chain}");
        std::fs::write(&config, &text).unwrap();
        let config = config.display().to_string();
        for tool in &tools {
            let why = run(&["why", tool, "--args", &arguments, "--config", &config], folder.path());
            let (out, err) =
                (String::from_utf8_lossy(&why.stdout), String::from_utf8_lossy(&why.stderr));
            assert!(matches!(why.status.code(), Some(0 | 1)), "{preset} {tool}: {out} {err}");
            assert!(!err.contains("panicked"), "{preset} {tool}: {err}");
            assert!(out.contains("the call would"), "{preset} {tool}: {out} {err}");
        }
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{preset}: why left something behind: {left:?}");
    }
}
