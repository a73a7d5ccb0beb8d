//! `toolgate doctor`: what is wrong, and what to do about it.

use std::{net::TcpListener, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};

use super::{Machine, stderr, stdout};
use crate::harness::gateway::stdio;

/// The exit status and the findings.
fn findings(machine: &Machine, arguments: &[&str]) -> (Option<i32>, Vec<Value>) {
    let output = machine.run(&[&["doctor", "--json"], arguments].concat());
    let report: Value = serde_json::from_str(&stdout(&output))
        .unwrap_or_else(|error| panic!("{error}: {}{}", stdout(&output), stderr(&output)));
    assert_eq!(report["ok"], output.status.code() == Some(0), "{report}");
    (output.status.code(), report["findings"].as_array().unwrap().clone())
}

/// The finding that contains a text.
fn finding<'a>(found: &'a [Value], part: &str) -> &'a Value {
    let has = |one: &&Value| one["what"].as_str().unwrap().contains(part);
    found.iter().find(has).unwrap_or_else(|| panic!("no {part:?} in {found:#?}"))
}

#[test]
fn a_machine_without_a_config_has_no_error() {
    let machine = Machine::new();
    machine.write("project/toolgate.toml", "[serve]\nlisten = \"127.0.0.1:0\"\n");
    let (status, found) = findings(&machine, &[]);
    assert_eq!(status, Some(0), "{found:#?}");
    for section in ["machine", "state folder", "config", "gateways", "call log"] {
        assert!(found.iter().any(|one| one["section"] == section), "{section}: {found:#?}");
    }
    for one in found.iter().filter(|one| one["level"] != "ok") {
        assert!(one["fix"].as_str().is_some_and(|fix| !fix.is_empty()), "no next step: {one}");
    }
    std::fs::remove_file(machine.path("project/toolgate.toml")).unwrap();
    let (_, found) = findings(&machine, &[]);
    assert_eq!(finding(&found, "no config in this folder")["level"], "warning");
    assert_eq!(machine.names("home"), Vec::<String>::new(), "it changes nothing");
}

#[test]
fn each_problem_is_told_with_a_next_step() {
    let machine = Machine::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let servers = "[servers.gone]\ncommand = \"no-such-program\"\n\n[servers.words]\ncommand = \"no-such-program -y foo\"\n";
    let config = format!("{servers}\n{}[serve]\nlisten = \"{address}\"\n", stdio("well", &[], ""));
    machine.write("project/toolgate.toml", &config);
    let (status, found) = findings(&machine, &["--offline"]);
    assert_eq!(status, Some(1), "{found:#?}");
    for (part, fix) in [
        ("`gone` starts `no-such-program`", "install it"),
        ("`words` starts `no-such-program -y foo`", "into `args`"),
        (&format!("{address} is in use by another program"), "--listen"),
    ] {
        let one = finding(&found, part);
        assert_eq!(one["level"], "error", "{one}");
        assert!(one["fix"].as_str().unwrap().contains(fix), "{one}");
    }
    machine.write("project/toolgate.toml", "store = \"postgres://x\"\n");
    let (status, found) = findings(&machine, &[]);
    assert_eq!(status, Some(1));
    assert!(finding(&found, "Postgres is coming")["what"].as_str().unwrap().contains("line 1"));
    machine.write("project/toolgate.toml", "[servers.a]\ncommad = \"x\"\n");
    let (status, found) = findings(&machine, &[]);
    assert_eq!(status, Some(1));
    assert!(
        finding(&found, "did you mean `command`?")["what"].as_str().unwrap().contains("line 2")
    );
}

#[test]
fn servers_are_started_and_asked() {
    let machine = Machine::new();
    let config = format!(
        "{}\n[servers.ends]\ncommand = \"false\"\n[serve]\nlisten = \"127.0.0.1:0\"\n",
        stdio("well", &[], "")
    );
    machine.write("project/other.toml", &config);
    let (status, found) = findings(&machine, &["other.toml"]);
    assert_eq!(status, Some(1));
    assert_eq!(finding(&found, "the server `well` lists 14 tools")["level"], "ok");
    assert_eq!(finding(&found, "the server `ends` is not ready")["level"], "error");
}

#[test]
fn a_person_reads_sections_and_a_total() {
    let machine = Machine::new();
    let output = machine.command(&["doctor"]).env("COLUMNS", "80").output().unwrap();
    let told = stdout(&output);
    assert!(told.starts_with("machine\n  ok       toolgate "), "{told}");
    assert!(told.contains("→ ") && told.trim_end().ends_with(['s', 'g']), "{told}");
    assert!(!told.contains('\u{1b}'), "{told}");
}

#[test]
fn the_files_of_clients_are_looked_at() {
    let machine = Machine::new();
    machine.write("bin/only-in-a-shell", "#!/bin/sh\n");
    let program = machine.path("bin/only-in-a-shell");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let wrapped = json!({"command": "/gone/toolgate", "args": ["wrap", "--", "x"]});
    let cursor = json!({"mcpServers": {
        "shell": {"command": "only-in-a-shell"},
        "wrapped": wrapped,
        "typo": {"comand": "x"},
        "off": {"command": "no-such-program", "disabled": true},
    }});
    machine.write("home/.cursor/mcp.json", &cursor.to_string());
    machine.write(
        "home/.claude.json",
        &json!({"mcpServers": {"shell": {"command": "only-in-a-shell"}}}).to_string(),
    );
    machine.write("home/.gemini/settings.json", "{ \"mcpServers\": ");
    let path = format!("{}:{}", machine.path("bin").display(), std::env::var("PATH").unwrap());
    let output = machine.command(&["doctor", "--json"]).env("PATH", path).output().unwrap();
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let found = report["findings"].as_array().unwrap();
    assert_eq!(finding(found, "Cursor: 4 servers, 1 behind toolgate")["level"], "ok");
    let desktop = finding(
        found,
        "Cursor, server `shell` starts `only-in-a-shell`, which programs of the desktop",
    );
    assert_eq!(desktop["level"], "warning");
    assert!(desktop["fix"].as_str().unwrap().contains(&program.display().to_string()), "{desktop}");
    assert_eq!(finding(found, "`/gone/toolgate`, which is not there")["level"], "error");
    assert_eq!(finding(found, "server `typo`")["level"], "error");
    assert_eq!(finding(found, "Gemini")["level"], "error");
    let clients: Vec<&str> = found
        .iter()
        .filter(|one| one["section"] == "clients")
        .map(|one| one["what"].as_str().unwrap())
        .collect();
    assert!(!clients.iter().any(|what| what.contains("no-such-program")), "{clients:#?}");
    assert!(
        !clients.iter().any(|what| what.starts_with("Claude Code, server")),
        "a shell starts Claude Code: {clients:#?}"
    );
}
