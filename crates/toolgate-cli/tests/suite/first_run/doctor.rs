//! `toolgate doctor`: what is wrong, and what to do about it.

use std::net::TcpListener;

use serde_json::Value;

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
    let config = format!(
        "store = \"postgres://x\"\n{servers}\n{}[serve]\nlisten = \"{address}\"\n",
        stdio("well", &[], "")
    );
    machine.write("project/toolgate.toml", &config);
    let (status, found) = findings(&machine, &["--offline"]);
    assert_eq!(status, Some(1), "{found:#?}");
    for (part, fix) in [
        ("`gone` starts `no-such-program`", "install it"),
        ("`words` starts `no-such-program -y foo`", "into `args`"),
        (&format!("{address} is in use by another program"), "--listen"),
        ("Postgres", "correct `store`"),
    ] {
        let one = finding(&found, part);
        assert_eq!(one["level"], "error", "{one}");
        assert!(one["fix"].as_str().unwrap().contains(fix), "{one}");
    }
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
