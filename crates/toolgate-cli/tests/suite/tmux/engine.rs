//! The connection of `toolgate tmux` to tmux: kept, lost, found again, and never in the way.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::harness::{
    assert_gone, is_alive, text,
    tmux::{Tmux, structured},
};

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

fn client(tmux: &Tmux) -> u32 {
    let pids = tmux.run(&["list-clients", "-F", "#{client_pid}"]);
    assert_eq!(pids.lines().count(), 1, "{pids}");
    pids.parse().unwrap()
}

#[test]
fn one_client_serves_all_calls_and_is_seen_nowhere() {
    let tmux = Tmux::start();
    let layout = tmux.format("#{window_layout} #{window_name}");
    let environment = tmux.run(&["show-environment", "-t", "one"]);
    let mut session = tmux.serve_in(&[], |command| {
        // Whoever attaches brings this along, unless they ask not to.
        command.env("DISPLAY", "toolgate:1");
    });
    let ids: Vec<i64> = (0..20).map(|_| session.post_call("list_sessions", json!({}))).collect();
    for id in ids {
        let answer = session.answer(id);
        assert_eq!(structured(&answer)["result"][0]["session_attached"], "0");
    }
    let first = client(&tmux);
    structured(&session.call("capture_pane", json!({"pane_id": "%0"})));
    assert_eq!(client(&tmux), first);
    assert_eq!(tmux.format("#{window_layout} #{window_name}"), layout);
    assert_eq!(tmux.run(&["list-sessions", "-F", "#{session_name}"]), "one");
    assert_eq!(tmux.run(&["show-environment", "-t", "one"]), environment);
}

#[test]
fn the_client_ends_with_us_however_we_end() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    session.call("list_sessions", json!({}));
    let pid = client(&tmux);
    assert!(is_alive(pid));
    assert!(session.finish().0.success());
    assert_gone(pid);
    let mut session = tmux.serve(&[]);
    session.call("list_sessions", json!({}));
    let pid = client(&tmux);
    session.child.kill().unwrap();
    assert_gone(pid);
    tmux.until("clean", |tmux| tmux.clients() == 0);
}

#[test]
fn a_server_that_was_killed_and_started_again_is_another_one() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    structured(&session.call("send_keys", json!({"keys": "true", "pane_id": "%0"})));
    tmux.run(&["kill-server"]);
    let down = session.call("list_sessions", json!({}));
    assert_eq!(structured(&down), &json!({"result": []}));
    let down = session.call("send_keys", json!({"keys": "true", "pane_id": "%0"}));
    assert_eq!(down["result"]["_meta"]["error_type"], "TmuxServerNotRunning", "{down}");
    tmux.boot();
    tmux.run(&["rename-session", "again"]);
    let up = session.call("list_sessions", json!({}));
    assert_eq!(structured(&up)["result"][0]["session_name"], "again");
}

#[test]
fn a_server_that_hangs_is_told_of_and_used_again_when_it_goes_on() {
    let tmux = Tmux::start();
    let pid = tmux.pid();
    let mut session = tmux.serve(&["--deadline", "300ms"]);
    structured(&session.call("list_sessions", json!({})));
    signal(pid, Signal::STOP);
    let hanging = session.call("list_sessions", json!({}));
    let again = session.call("send_keys", json!({"keys": "echo too-late", "pane_id": "%0"}));
    signal(pid, Signal::CONT);
    assert_eq!(
        text(&hanging).lines().next(),
        Some("tmux list-sessions did not return within 0.3s; the tmux server is unresponsive")
    );
    assert_eq!(hanging["result"]["_meta"]["code"], "TIMED_OUT");
    assert_eq!(again["result"]["_meta"]["code"], "TIMED_OUT", "{again}");
    assert!(text(&again).ends_with("tmux was not asked."), "{again}");
    structured(&session.call("send_keys", json!({"keys": "echo in-time", "pane_id": "%0"})));
    let screen = |tmux: &Tmux| tmux.run(&["capture-pane", "-p"]);
    tmux.until("typed", |tmux| screen(tmux).lines().any(|line| line == "in-time"));
    assert!(!screen(&tmux).contains("too-late"), "it was said to have failed");
    assert_eq!(tmux.pid(), pid, "tmux lives");
}

#[test]
fn a_session_that_ends_takes_no_other_call_with_it() {
    let tmux = Tmux::start();
    tmux.run(&["new-session", "-d", "-s", "two", "bash --norc"]);
    let mut session = tmux.serve(&["--safety", "destructive"]);
    session.call("list_sessions", json!({}));
    for name in ["two", "one"] {
        let killed = session.call("kill_session", json!({"session_name": name}));
        assert_eq!(structured(&killed)["result"], format!("Session killed: {name}"));
    }
    assert_eq!(structured(&session.call("list_sessions", json!({}))), &json!({"result": []}));
}

#[test]
fn aliases_of_the_user_do_not_mix_up_answers() {
    let tmux = Tmux::start();
    let alias = "list-sessions=display-message -p one ; list-sessions";
    tmux.run(&["set-option", "-s", "command-alias[100]", alias]);
    let mut session = tmux.serve(&[]);
    let listed = session.call("list_sessions", json!({}));
    assert_eq!(listed["result"]["isError"], true, "what cannot be told apart is refused: {listed}");
    let windows = session.call("list_windows", json!({}));
    assert_eq!(structured(&windows)["result"][0]["window_id"], "@0");
}

#[test]
fn a_server_that_hangs_from_the_start_is_waited_for_by_one_client() {
    let tmux = Tmux::start();
    let pid = tmux.pid();
    let mut session = tmux.serve(&["--deadline", "300ms"]);
    signal(pid, Signal::STOP);
    let ids: Vec<i64> = (0..20).map(|_| session.post_call("list_sessions", json!({}))).collect();
    let answers: Vec<_> = ids.into_iter().map(|id| session.answer(id)).collect();
    signal(pid, Signal::CONT);
    for answer in answers {
        assert_eq!(answer["result"]["_meta"]["code"], "TIMED_OUT", "{answer}");
    }
    structured(&session.call("list_sessions", json!({})));
    client(&tmux);
    assert_eq!(tmux.pid(), pid, "tmux lives");
}
