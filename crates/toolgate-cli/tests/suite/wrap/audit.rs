//! The audit from outside: written by default, private, redacted, and never in the way.

use std::os::unix::fs::PermissionsExt as _;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::harness::{
    Session, fixture,
    gateway::{Place, stdio, until},
    outcomes, text,
};

#[test]
fn without_options_it_is_written_to_a_private_file_in_the_state_folder() {
    let state = tempfile::tempdir().unwrap();
    let command = fixture().display().to_string();
    // `--audit` is not given: the harness would add it, so the option that it looks for is another.
    let mut session = Session::wrap_in(&["--config", "/dev/null"], &[&command], |wrap| {
        wrap.env("XDG_STATE_HOME", state.path());
    });
    session.initialize();
    session.call("echo", json!({"text": "hello"}));
    session.finish();
    let file = state.path().join("toolgate/audit.jsonl");
    let record = outcomes(&std::fs::read_to_string(&file).unwrap()).remove(0);
    assert_eq!(record["tool"], "echo");
    assert_eq!(record["args"]["text"], json!({"len": 5, "sha256_prefix": "2cf24dba5fb0"}));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

/// `[audit] keep_days = 90` once switched the audit off: only a config without the table had the default file.
#[test]
fn a_table_that_names_no_file_keeps_the_default_one() {
    let tables = ["[audit]\nkeep_days = 90\n", "[namespaces.default.audit]\nintents = \"off\"\n"];
    for table in tables {
        let place = Place::new("");
        place.write("toolgate.toml", table);
        let config = place.path("toolgate.toml").display().to_string();
        let command = fixture().display().to_string();
        let mut session = Session::wrap_in(&["--config", &config], &[&command], |wrap| {
            wrap.env("XDG_STATE_HOME", place.path("state"));
        });
        session.initialize();
        session.call("echo", json!({"text": "wrapped"}));
        session.finish();

        place.write("toolgate.toml", &format!("{}{table}", stdio("main", &[], "")));
        let mut gateway = place.start();
        gateway.legacy().call("echo", json!({"text": "served"}));
        gateway.terminate();
        let text = std::fs::read_to_string(gateway.state().join("toolgate/audit.jsonl")).unwrap();
        let tools: Vec<_> = outcomes(&text).iter().map(|record| record["tool"].clone()).collect();
        assert_eq!(tools, ["echo", "echo"], "{table}");
    }
}

#[test]
fn a_record_tells_who_what_when_and_how_it_ended() {
    let mut session = Session::fixture(&["--safety", "mutating"], &[]);
    session.initialize();
    session.call("echo", json!({"text": "x", "path": "/tmp/data"}));
    session.call("crash", json!({}));
    session.call("reject", json!({"code": -32000}));
    let records = session.records();
    let [ok, denied, failed] = records.as_slice() else { panic!("{records:?}") };
    assert_eq!(
        (&ok["outcome"], &ok["ran"], &ok["server"], &ok["tier"]),
        (&json!("ok"), &json!("yes"), &json!("main"), &json!("readonly"))
    );
    assert_eq!(
        (&ok["client"], &ok["request_id"], &ok["namespace"]),
        (&json!("harness 7"), &json!(2), &json!("default"))
    );
    assert_eq!(ok["args"]["path"], "/tmp/data");
    assert!(ok["duration_ms"].as_f64().unwrap() > 0.0 && ok["ts"].as_str().unwrap().ends_with('Z'));
    assert_eq!(
        (&denied["outcome"], &denied["ran"], &denied["code"]),
        (&json!("denied"), &json!("no"), &json!("TIER_DENIED"))
    );
    assert_eq!(denied["rule"], "destructive > mutating");
    assert_eq!(
        (&failed["outcome"], &failed["error_type"]),
        (&json!("upstream_failed"), &json!("McpError"))
    );
    let ids: std::collections::HashSet<_> =
        records.iter().map(|r| r["call_id"].to_string()).collect();
    assert_eq!(ids.len(), 3);
}

#[test]
fn no_secret_reaches_the_audit_or_the_log_at_any_level() {
    let secret = "sk-live-0123456789abcdef";
    let command = fixture().display().to_string();
    let mut session = Session::wrap_in(&[], &[&command], |wrap| {
        wrap.env("TOOLGATE_LOG", "debug");
    });
    session.initialize();
    for arguments in [
        json!({"text": secret, "PASSWORD": secret, "apiKeyToken": secret}),
        json!({"apiToken": secret, "note": format!("the same again: {secret}")}),
        json!({"operations": [{"tool": "send_keys", "arguments": {"keys": secret}}]}),
        json!({"environment": {"DATABASE_URL": secret}, "value": [secret], "deep": {"er": {"secret_thing": {"a": secret}}}}),
    ] {
        session.call("echo", arguments.clone());
        session.call("reject", arguments);
    }
    session.finish();
    let audit = std::fs::read_to_string(&session.audit).unwrap();
    assert_eq!(outcomes(&audit).len(), 8);
    assert!(!audit.contains("sk-live"), "{audit}");
    assert!(audit.contains("DATABASE_URL"));
    let log = session.stderr_so_far().join("\n");
    assert!(!log.contains("sk-live"), "{log}");
}

#[test]
fn stderr_is_a_sink_too_and_stdout_stays_protocol() {
    let mut session = Session::fixture(&["--audit", "stderr"], &[]);
    session.initialize();
    session.call("echo", json!({"text": "x"}));
    let line = session.wait_for_stderr("\"event\":\"call\"");
    let record: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(record["tool"], "echo");
}

#[test]
fn a_full_disk_never_changes_a_result_and_is_told() {
    let mut session = Session::fixture(&["--audit", "/dev/full"], &[]);
    session.initialize();
    for n in 0..5 {
        assert_eq!(text(&session.call("echo", json!({"text": n.to_string()}))), n.to_string());
    }
    session.wait_for_stderr("cannot write audit records");
    session.finish();
    session.wait_for_stderr("audit records were lost");
}

#[test]
fn a_file_that_cannot_be_opened_refuses_to_start() {
    let mut session = Session::fixture(&["--audit", "/proc/nope/audit.jsonl"], &[]);
    assert_eq!(session.wait().code(), Some(2));
    let said = session.wait_for_stderr("cannot open the audit file");
    assert!(said.contains("/proc/nope/audit.jsonl") && said.contains("--audit"), "{said}");
}

#[test]
fn a_hangup_opens_the_file_anew() {
    let mut session = Session::fixture(&[], &[]);
    session.initialize();
    session.call("echo", json!({"text": "1"}));
    let moved = session.folder().join("audit.old");
    let deadline = std::time::Instant::now() + crate::harness::TEST_TIMEOUT;
    until("the call is recorded", || !session.audit_so_far().is_empty());
    std::fs::rename(&session.audit, &moved).unwrap();
    kill_process(Pid::from_child(&session.child), Signal::HUP).unwrap();
    // The signal is handled before anything that comes after it on the pipe is answered, or soon after:
    // records go to either file, and none is lost.
    let mut calls = 1;
    while !session.audit.exists() {
        assert!(std::time::Instant::now() < deadline, "the file was not opened anew");
        session.call("echo", json!({"text": "again"}));
        calls += 1;
    }
    session.finish();
    let old = outcomes(&std::fs::read_to_string(&moved).unwrap()).len();
    assert_eq!(old + session.audit_so_far().len(), calls);
}

#[test]
fn keyed_digests_differ_from_run_to_run() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("t.toml");
    std::fs::write(
        &config,
        "[redact]\ndigest = \"hmac\"\nkeys = [\"pin\"]\n[audit]\nfile = \"a.jsonl\"\n",
    )
    .unwrap();
    let digest = || {
        let mut session = Session::fixture(&["--config", config.to_str().unwrap()], &[]);
        session.initialize();
        session.call("echo", json!({"pin": "1234"}));
        session.finish();
        let text = std::fs::read_to_string(folder.path().join("a.jsonl")).unwrap();
        outcomes(&text).last().unwrap()["args"]["pin"].clone()
    };
    let (first, second) = (digest(), digest());
    assert_eq!(first["len"], 4);
    assert!(first["hmac_sha256_prefix"].is_string() && first.get("sha256_prefix").is_none());
    assert_ne!(first, second);
}
