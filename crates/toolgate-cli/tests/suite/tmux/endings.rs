//! tmux stops, is killed, and its panes end, in the middle of every kind of call; and there may be a great many of them.

use std::{
    collections::BTreeSet,
    fs,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::harness::{
    Session, TEST_TIMEOUT, text,
    tmux::{Tmux, structured},
};

/// One request of each kind: by the connection, by a process of its own, waiting, in parts, and no tool at all.
fn kinds() -> Vec<(&'static str, Value)> {
    let call = |tool: &str, arguments: Value| {
        ("tools/call", json!({"name": tool, "arguments": arguments}))
    };
    vec![
        call("list_sessions", json!({})),
        call("list_panes", json!({})),
        call("capture_pane", json!({"pane_id": "%0"})),
        call("snapshot_pane", json!({"pane_id": "%0"})),
        call("capture_since", json!({"pane_id": "%0"})),
        call("search_panes", json!({"pattern": "x"})),
        call("show_environment", json!({})),
        call("show_option", json!({"option": "mouse"})),
        call("send_keys", json!({"pane_id": "%0", "keys": "true"})),
        call("send_keys_batch", json!({"operations": [{"pane_id": "%0", "keys": "true"}]})),
        call("rename_window", json!({"window_id": "@0", "new_name": "w"})),
        call("create_window", json!({"session_name": "one"})),
        call("paste_text", json!({"pane_id": "%0", "text": "true"})),
        call("load_buffer", json!({"content": "x".repeat(100_000)})),
        call("signal_channel", json!({"channel": "c"})),
        call("call_readonly_tools_batch", json!({"operations": [{"tool": "list_panes"}]})),
        call("run_command", json!({"pane_id": "%0", "command": "sleep 30", "timeout": 1})),
        call("wait_for_text", json!({"pane_id": "%0", "patterns": ["never"], "timeout": 1})),
        call("wait_for_channel", json!({"channel": "never", "timeout": 1})),
        ("resources/read", json!({"uri": "tmux://panes/%250/content"})),
        ("resources/subscribe", json!({"uri": "tmux://panes/%250/content"})),
    ]
}

/// The processes that came from this one and have not ended.
fn children(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let pids = lists.flat_map(|list| {
        list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
    });
    pids.filter(|pid| crate::harness::is_alive(*pid)).collect()
}

/// Waits until a server has no more than its one client.
fn settles(session: &Session, what: &str) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while children(session.child.id()).len() > 1 {
        assert!(Instant::now() < deadline, "{what} leaves {:?}", children(session.child.id()));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A server for each kind, connected; each has its request sent while tmux stands still.
fn in_the_middle(
    tmux: &Tmux,
    options: &[&str],
    end: impl FnOnce(),
) -> Vec<(String, Session, Value)> {
    let mut sessions: Vec<_> = kinds()
        .into_iter()
        .map(|(method, params)| {
            let mut session = tmux.serve(options);
            structured(&session.call("list_sessions", json!({})));
            (method, params, session)
        })
        .collect();
    let hanging = tmux.hang();
    let ids: Vec<i64> = sessions
        .iter_mut()
        .map(|(method, params, session)| session.post(method, params.clone()))
        .collect();
    // What was sent before a ping has begun when that is answered.
    for (_, _, session) in &mut sessions {
        session.request("ping", json!({}));
    }
    end();
    let answers: Vec<Value> =
        sessions.iter_mut().zip(ids).map(|((_, _, session), id)| session.answer(id)).collect();
    drop(hanging);
    let named = sessions.into_iter().zip(answers);
    named
        .map(|((method, params, session), answer)| {
            (params["name"].as_str().unwrap_or(method).to_owned(), session, answer)
        })
        .collect()
}

#[test]
fn tmux_that_stops_in_the_middle_is_told_of_and_used_again() {
    let tmux = Tmux::start();
    for (kind, mut session, answer) in in_the_middle(&tmux, &["--deadline", "500ms"], || {}) {
        let code = answer["result"]["_meta"]["code"].as_str();
        let waits_out = answer["result"]["structuredContent"]["outcome"] == "timeout";
        let parts = &answer["result"]["structuredContent"];
        let in_parts = parts["failed"] == 1 && parts["results"][0]["success"] == false;
        let is_told = code == Some("TIMED_OUT")
            || waits_out
            || in_parts
            || answer["error"]["code"].is_number();
        // A signal goes by a process of its own, and a wait ends by its own time.
        let channel =
            kind == "wait_for_channel" && text(&answer).contains("not signalled within 1.0s");
        assert!(is_told || channel, "{kind}: {answer}");
        let again = session.call("list_sessions", json!({}));
        assert_eq!(structured(&again)["result"][0]["session_name"], "one", "{kind}");
        if kind != "wait_for_channel" {
            settles(&session, &kind);
        }
        let pid = session.child.id();
        session.finish();
        assert_eq!(children(pid), Vec::<u32>::new(), "{kind}");
    }
    tmux.until("alone", |tmux| tmux.clients() == 0);
    let buffers = tmux.run(&["list-buffers", "-F", "#{buffer_name}"]);
    assert_eq!(buffers, "", "nothing of ours stays");
}

#[test]
fn tmux_that_is_killed_in_the_middle_is_told_of_and_found_again() {
    let tmux = Tmux::start();
    let pid = Pid::from_raw(tmux.pid()).unwrap();
    let kill = || kill_process(pid, Signal::KILL).unwrap();
    let answers = in_the_middle(&tmux, &[], kill);
    tmux.boot();
    tmux.run(&["rename-session", "again"]);
    for (kind, mut session, answer) in answers {
        let is_list = ["list_sessions", "list_panes", "search_panes"].contains(&kind.as_str());
        let is_error = answer["result"]["isError"] == true || answer.get("error").is_some();
        let in_parts = answer["result"]["structuredContent"]["results"][0].is_object();
        assert!(is_error || is_list || in_parts, "{kind}: {answer}");
        if is_error && answer.get("error").is_none() {
            // Whoever is told so can go on: it says what happened, not how a program here failed.
            assert_eq!(answer["result"]["_meta"]["expected"], true, "{kind}: {answer}");
            let message = text(&answer);
            assert!(message.contains("tmux") || message.contains("not found"), "{kind}: {answer}");
        }
        let again = session.call("list_sessions", json!({}));
        assert_eq!(structured(&again)["result"][0]["session_name"], "again", "{kind}: {again}");
        settles(&session, &kind);
        let pid = session.child.id();
        session.finish();
        assert_eq!(children(pid), Vec::<u32>::new(), "{kind}");
    }
}

#[test]
fn panes_end_and_begin_again_under_every_tool() {
    let tmux = Tmux::start();
    tmux.run(&["set-option", "-g", "remain-on-exit", "on"]);
    let pane =
        tmux.run(&["new-window", "-d", "-P", "-F", "#{pane_id}", "seq 5; echo last words; read x"]);
    let shown = |text: &str| tmux.run(&["capture-pane", "-p", "-t", &pane]).contains(text);
    tmux.until("reading", |_| shown("last words"));
    let mut session = tmux.serve(&["--safety", "destructive"]);
    let here = |more: Value| {
        let mut arguments = json!({"pane_id": pane});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let first = session.call("capture_since", here(json!({})));
    let cursor = json!({"cursor": structured(&first)["cursor"]});
    let pid = structured(&session.call("get_pane_info", here(json!({}))))["pane_pid"].clone();
    structured(&session.call("send_keys", here(json!({"keys": ""}))));
    let is_dead = || tmux.run(&["display-message", "-p", "-t", &pane, "#{pane_dead}"]) == "1";
    tmux.until("dead", |_| is_dead());
    // What is left can be read.
    let left = session.call("capture_pane", here(json!({})));
    assert!(text(&left).contains("last words"), "{left}");
    let shot = session.call("snapshot_pane", here(json!({})));
    assert_eq!(structured(&shot)["pane_dead"], true);
    let found = session.call("search_panes", json!({"pattern": "last words"}));
    assert_eq!(structured(&found)["matches"][0]["pane_id"], json!(pane));
    // What needs a program says that there is none.
    for (tool, arguments) in [
        ("capture_since", cursor.clone()),
        ("wait_for_text", here(json!({"patterns": ["x"], "timeout": 1}))),
        ("run_command", here(json!({"command": "true"}))),
    ] {
        let refused = session.call(tool, arguments);
        assert_eq!(refused["result"]["isError"], true, "{tool}: {refused}");
        let message = text(&refused);
        assert!(message.contains("died") || message.contains("has ended"), "{tool}: {message}");
    }
    let born = session.call("respawn_pane", here(json!({"kill": false, "shell": "bash --norc"})));
    assert_eq!(structured(&born)["pane_id"], json!(pane));
    assert_ne!(structured(&born)["pane_pid"], pid);
    let other = session.call("capture_since", cursor);
    assert!(text(&other).contains("was respawned"), "{other}");
    let ran = session.call("run_command", here(json!({"command": "echo alive"})));
    assert_eq!(structured(&ran)["output"], json!(["alive"]));
    // A pane that goes while others are asked about takes none of them with it.
    let id =
        session.post_call("wait_for_text", here(json!({"patterns": ["never"], "timeout": 20})));
    let many: Vec<i64> = (0..20).map(|_| session.post_call("list_panes", json!({}))).collect();
    structured(&session.call("kill_pane", here(json!({}))));
    for id in many {
        structured(&session.answer(id));
    }
    assert_eq!(session.answer(id)["result"]["isError"], true);
    let gone = session.call("capture_pane", here(json!({})));
    assert_eq!(gone["result"]["_meta"]["error_type"], "PaneNotFound");
}

#[test]
fn twenty_calls_on_two_servers_are_answered_each_by_its_own() {
    let (tmux, other) = (Tmux::start(), Tmux::start());
    other.run(&["rename-session", "other"]);
    let mut sessions = [tmux.serve(&[]), tmux.serve(&[])];
    for round in 0..3 {
        for session in &mut sessions {
            let waiting = json!({"patterns": ["never"], "timeout": 20});
            let slow = session.post_call("wait_for_text", waiting);
            let ids: Vec<(i64, &str)> = (0..20)
                .map(|at| {
                    let (socket, name) =
                        if at % 2 == 0 { (&tmux.name, "one") } else { (&other.name, "other") };
                    (session.post_call("list_sessions", json!({"socket_name": socket})), name)
                })
                .collect();
            for (id, name) in ids {
                let answer = session.answer(id);
                assert_eq!(structured(&answer)["result"][0]["session_name"], name, "{round}");
            }
            // The one that waits holds nobody up, is not answered once it is cancelled, and leaves nothing.
            session.notify("notifications/cancelled", json!({"requestId": slow}));
            structured(&session.call("list_sessions", json!({})));
            assert_eq!(session.answered(slow), None);
        }
    }
    // One client for each server and each of us.
    tmux.until("few", |_| (tmux.clients(), other.clients()) == (2, 2));
    for session in &mut sessions {
        let pid = session.child.id();
        session.finish();
        assert_eq!(children(pid), Vec::<u32>::new());
    }
    tmux.until("alone", |_| tmux.clients() + other.clients() == 0);
}

#[test]
fn a_thousand_panes_are_listed_searched_and_told_apart() {
    let tmux = Tmux::down();
    tmux.run(&["new-session", "-d", "-s", "one", "-x", "200", "-y", "200", "cat"]);
    for window in 1..=20 {
        let target = format!("one:{window}");
        let mut words =
            vec!["new-window", "-d", "-t", &target, "-n", "a name that is long enough", "cat"];
        for _ in 0..49 {
            // A pane without a program.
            words.extend([";", "split-window", "-d", "-t", &target, ""]);
            words.extend([";", "select-layout", "-t", &target, "tiled"]);
        }
        tmux.run(&words);
    }
    let mut session = tmux.serve(&[]);
    let count = |listed: &Value| {
        let rows = structured(listed)["result"].as_array().unwrap();
        let ids: BTreeSet<&str> = rows.iter().map(|row| row["pane_id"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), rows.len());
        rows.len()
    };
    assert_eq!(count(&session.call("list_panes", json!({}))), 1001);
    // So long a title that all of it has no room twice: rows are counted whole, and the text says what it left off.
    let title = "t".repeat(200);
    for window in 1..=20 {
        let panes = tmux.run(&["list-panes", "-t", &format!("one:{window}"), "-F", "#{pane_id}"]);
        let mut words = Vec::new();
        for pane in panes.lines() {
            words.extend(["select-pane", "-t", pane, "-T", &title, ";"]);
        }
        words.pop();
        tmux.run(&words);
    }
    let listed = session.call("list_panes", json!({}));
    assert_eq!(count(&listed), 1001);
    let (header, kept) = text(&listed).split_once('\n').unwrap();
    assert!(header.starts_with("[... truncated ") && header.contains(" rows; "), "{header}");
    let kept: Vec<Value> = serde_json::from_str(kept).unwrap();
    assert_eq!(kept.last(), structured(&listed)["result"].as_array().unwrap().last());
    assert_eq!(
        count(&session.call("list_panes", json!({"session_name": "one", "window_index": "7"}))),
        50
    );
    let active = session.call("list_panes", json!({"filters": {"pane_active": "1"}}));
    assert_eq!(count(&active), 21);
    tmux.run(&["send-keys", "-t", "one:20.0", "needle", "Enter"]);
    tmux.until("typed", |_| {
        let found = session.call("search_panes", json!({"pattern": "needle"}));
        structured(&found)["total_panes_matched"] == 1
    });
    assert_eq!(
        structured(&session.call("list_windows", json!({})))["result"].as_array().unwrap().len(),
        21
    );
}

#[test]
fn a_server_without_sessions_is_alive_and_empty() {
    let tmux = Tmux::down();
    tmux.run(&["start-server", ";", "set-option", "-s", "exit-empty", "off"]);
    let mut session = tmux.serve(&["--safety", "destructive"]);
    for tool in ["list_sessions", "list_windows", "list_panes", "list_clients"] {
        let listed = session.call(tool, json!({}));
        assert_eq!(structured(&listed), &json!({"result": []}), "{tool}");
    }
    let found = session.call("search_panes", json!({"pattern": "x"}));
    assert_eq!(structured(&found)["total_panes_matched"], 0);
    assert_eq!(structured(&session.call("get_server_info", json!({})))["is_alive"], true);
    for (tool, arguments, error) in [
        ("get_pane_info", json!({"pane_id": "%0"}), "SessionNotFound"),
        ("get_window_info", json!({"window_id": "@0"}), "WindowNotFound"),
        ("capture_pane", json!({}), "SessionNotFound"),
    ] {
        let missing = session.call(tool, arguments);
        assert_eq!(missing["result"]["_meta"]["error_type"], error, "{missing}");
    }
    // What needs no session is done by a process: no control client can be attached.
    let loaded = session.call("load_buffer", json!({"content": "x"}));
    let name = json!({"buffer_name": structured(&loaded)["buffer_name"]});
    assert_eq!(structured(&session.call("show_buffer", name))["content"], "x");
    structured(&session.call("set_environment", json!({"name": "LANG", "value": "b"})));
    structured(&session.call("signal_channel", json!({"channel": "c"})));
    structured(&session.call("wait_for_channel", json!({"channel": "c"})));
    structured(&session.call("create_session", json!({"session_name": "new"})));
    let listed = session.call("list_sessions", json!({}));
    assert_eq!(structured(&listed)["result"][0]["session_name"], "new");
    structured(&session.call("kill_server", json!({})));
}
