//! The server as a process: started, kept, ended, brought back; nothing is ever left behind.

use std::{io::Write as _, process::Command};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::harness::{Session, assert_gone, fixture, gateway::until, is_alive, text, toolgate};

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

fn pid_of(session: &mut Session, tool: &str) -> u32 {
    text(&session.call(tool, json!({}))).parse().unwrap()
}

/// The keeper and everything else that toolgate itself runs as.
fn keepers(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    let is_ours = |pid: &u32| {
        std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == toolgate())
    };
    text.split_whitespace().map(|pid| pid.parse().unwrap()).filter(is_ours).collect()
}

#[test]
fn nobody_survives_any_end_of_toolgate() {
    // The server ignores the end of its input and, where it can, a request to end.
    for (how, options) in [
        ("eof", &["--ignore-eof"][..]),
        ("term", &["--ignore-eof"]),
        ("int", &["--ignore-eof"]),
        ("kill", &["--ignore-eof", "--ignore-term"]),
        ("kill all", &["--ignore-eof", "--ignore-term"]),
    ] {
        let mut session = Session::fixture(&[], options);
        session.initialize();
        let server = pid_of(&mut session, "pid");
        let grandchild = pid_of(&mut session, "spawn");
        let ourselves = session.child.id();
        let keepers = keepers(ourselves);
        assert_eq!(keepers.len(), 1, "{how}");
        match how {
            "eof" => session.close_stdin(),
            "term" => signal(ourselves, Signal::TERM),
            "int" => signal(ourselves, Signal::INT),
            "kill" => signal(ourselves, Signal::KILL),
            // As `pkill -9 toolgate` does: toolgate and its keeper at once.
            _ => [&[ourselves][..], &keepers]
                .concat()
                .into_iter()
                .for_each(|pid| signal(pid, Signal::KILL)),
        }
        session.wait();
        assert_gone(server);
        if how == "kill all" {
            // Nobody is left who could know of it; it ends with the test.
            signal(grandchild, Signal::KILL);
        }
        assert_gone(grandchild);
        keepers.into_iter().for_each(assert_gone);
    }
}

#[test]
fn a_client_that_stops_reading_ends_it_too() {
    let mut child = Command::new(toolgate())
        .args(["wrap", "--audit", "off", "--"])
        .arg(fixture())
        .arg("--ignore-eof")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    let _ = stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n");
    until("toolgate ends", || child.try_wait().unwrap().is_some());
}

#[test]
fn a_crash_answers_what_is_in_flight_and_says_whether_it_may_have_run() {
    let mut session = Session::fixture(&[], &[]);
    session.initialize();
    let hanging = session.post_call("hang", json!({}));
    let other = session.post("vendor/hang", json!({}));
    session.answer(other);
    session.wait_for(|m| m["params"]["data"]["hanging"] == json!(hanging));
    let crashing = session.post_call("crash", json!({}));
    for id in [hanging, crashing] {
        let answer = session.answer(id);
        assert_eq!(answer["result"]["_meta"]["code"], "SERVER_CRASHED");
        assert_eq!(
            text(&answer),
            "The server `main` ended (exit code 9) while the call was under way: it may have run\n\
             Check what the call did before you repeat it."
        );
    }
    assert_eq!(session.wait().code(), Some(9));
    let records = session.audit_so_far();
    assert_eq!(records.len(), 2);
    assert!(records.iter().all(|r| r["outcome"] == "upstream_failed" && r["ran"] == "maybe"));
}

#[test]
fn restart_brings_it_back_where_the_client_believes_it_to_be() {
    let mut session = Session::fixture(&["--restart", "--safety", "destructive"], &[]);
    session.initialize();
    let before = pid_of(&mut session, "pid");
    for _ in 0..2 {
        let answer = session.call("crash", json!({}));
        assert_eq!(answer["result"]["_meta"]["code"], "SERVER_CRASHED");
        // The new server was initialized by toolgate; the client only hears that tools may differ.
        session.wait_for(|m| m["method"] == "notifications/tools/list_changed");
        let after = pid_of(&mut session, "pid");
        assert_ne!(before, after);
    }
    assert!(!is_alive(before));
    let (status, _) = session.finish();
    assert!(status.success());
}

#[test]
fn a_readonly_call_is_retried_over_a_restart_and_audited_once() {
    let mut session =
        Session::fixture(&["--restart", "--safety", "destructive", "--retry", "8"], &[]);
    session.initialize();
    let reading = session.post_call("hang", json!({}));
    session.wait_for(|m| m["params"]["data"]["hanging"] == json!(reading));
    session.call("crash", json!({}));
    // The second attempt hangs under an id of our own; cancelling it by the client's id still works.
    session.wait_for(|m| m["params"]["data"]["hanging"].is_string());
    session.notify("notifications/cancelled", json!({"requestId": reading}));
    let told: serde_json::Value =
        serde_json::from_str(text(&session.call("cancelled", json!({})))).unwrap();
    assert!(told.as_array().unwrap().iter().any(serde_json::Value::is_string), "{told}");
    let records = session.records();
    assert_eq!(records.iter().filter(|r| r["tool"] == "hang").count(), 1);
    assert_eq!(records.iter().filter(|r| r["tool"] == "crash").count(), 1);
}

#[test]
fn a_server_that_hangs_while_it_is_started_again_does_not_delay_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let (mark, fixture) = (folder.path().join("started"), fixture());
    // The first process works, the next ones answer nothing.
    let script = format!(
        "if [ -e {0} ]; then touch {0}.again; exec {1} --hang-initialize --ignore-eof; fi; touch {0}; exec {1}",
        mark.display(),
        fixture.display()
    );
    let options = ["--restart", "--safety", "destructive", "--start-timeout", "10m"];
    let mut session = Session::wrap(&options, &["sh", "-c", &script]);
    session.initialize();
    session.wait_for_stderr("fixture is up");
    session.call("crash", json!({}));
    let again = mark.with_extension("again");
    until("it is started again", || again.exists());
    session.close_stdin();
    session.wait();
    assert!(!session.all_stderr().iter().any(|line| line.contains("did not end in time")));
}

#[test]
fn a_server_that_hangs_in_initialize_is_reported_and_ended() {
    let mut session =
        Session::fixture(&["--start-timeout", "150ms"], &["--hang-initialize", "--ignore-eof"]);
    let answer = session.request("initialize", json!({"protocolVersion": "2025-11-25"}));
    assert_eq!(answer["error"]["data"]["code"], "SERVER_START_TIMEOUT");
    assert_eq!(
        answer["error"]["message"],
        "The server `main` did not answer initialize within 150ms"
    );
    assert_eq!(session.wait().code(), Some(1));
}

#[test]
fn a_command_that_cannot_be_started_says_why() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    for (command, code, why) in [
        ("no-such-program-anywhere", 127, "no such program on PATH"),
        ("/no/such/file", 127, "no such program on PATH"),
        (path, 126, "not executable"),
    ] {
        let mut session = Session::wrap(&[], &[command]);
        let answer = session.request("initialize", json!({}));
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(why) && message.contains(command), "{message}");
        session.wait_for_stderr(why);
        session.close_stdin();
        assert_eq!(session.wait().code(), Some(code));
    }
}

#[test]
fn a_server_that_dies_at_start_says_so_and_its_stderr_is_forwarded() {
    let mut session = Session::fixture(&[], &["--die-at-start"]);
    let answer = session.request("initialize", json!({}));
    assert_eq!(answer["error"]["data"]["code"], "SERVER_CRASHED");
    session.wait_for_stderr("[main] no reason to live");
    assert_eq!(session.wait().code(), Some(3));
}

#[test]
fn the_environment_is_passed_set_or_limited() {
    let secret = |command: &mut Command| {
        command.env("MY_SECRET", "s3cret").env("MY_OTHER", "o");
    };
    let command = fixture().display().to_string();
    let see = |options: &[&str], name: &str| {
        let mut session = Session::wrap_in(options, &[&command], secret);
        session.initialize();
        text(&session.call("env", json!({"name": name}))).to_owned()
    };
    assert_eq!(see(&[], "MY_SECRET"), "s3cret");
    assert_eq!(see(&["--only-env"], "MY_SECRET"), "");
    assert_ne!(see(&["--only-env"], "PATH"), "");
    assert_eq!(see(&["--only-env", "MY_OTHER"], "MY_OTHER"), "o");
    assert_eq!(see(&["--only-env", "MY_OTHER"], "MY_SECRET"), "");
    assert_eq!(see(&["--env", "MY_SECRET=new"], "MY_SECRET"), "new");
}

#[test]
fn ten_thousand_calls_in_flight_by_fifty_at_a_time_lose_nothing() {
    let mut session = Session::fixture(&[], &[]);
    session.initialize();
    for round in 0..200 {
        let ids: Vec<i64> = (0..50)
            .map(|n| session.post_call("echo", json!({"text": format!("{round}-{n}")})))
            .collect();
        for (n, id) in ids.into_iter().enumerate() {
            assert_eq!(text(&session.answer(id)), format!("{round}-{n}"));
        }
    }
    assert_eq!(session.records().len(), 10_000);
}
