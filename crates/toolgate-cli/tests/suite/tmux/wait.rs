//! `wait_for_text` over MCP, against real tmux: woken by news, exact about what is new, and gone without a trace.

use serde_json::{Value, json};

use crate::harness::{
    Session, text,
    tmux::{Tmux, structured},
};

/// Types into the pane from outside, as a person would.
fn types(tmux: &Tmux, pane: &str, keys: &str) {
    tmux.run(&["send-keys", "-t", pane, "-l", keys]);
    tmux.run(&["send-keys", "-t", pane, "Enter"]);
}

fn wait(session: &mut Session, arguments: Value) -> Value {
    structured(&session.call("wait_for_text", arguments)).clone()
}

/// Types a line again and again until a wait is answered: from outside, nobody sees when it has begun.
fn answer_to(tmux: &Tmux, session: &mut Session, id: i64, keys: &str) -> Value {
    let mut answer = None;
    tmux.until("answered", |tmux| {
        types(tmux, "%0", keys);
        quiet(tmux, "%0");
        answer = session.answered(id);
        answer.is_some()
    });
    let answer = answer.unwrap();
    structured(&answer).clone()
}

/// Begins a wait, and comes back when it has begun: its first progress is told of then.
fn begin(session: &mut Session, token: &str, arguments: Value) -> i64 {
    let call =
        json!({"name": "wait_for_text", "arguments": arguments, "_meta": {"progressToken": token}});
    session.post("tools/call", call)
}

fn begun(session: &mut Session, token: &str) -> Value {
    let progress = session.wait_for(|message| {
        message["method"] == "notifications/progress" && message["params"]["progressToken"] == token
    });
    progress["params"].clone()
}

fn quiet(tmux: &Tmux, pane: &str) {
    tmux.until("quiet", |tmux| {
        let screen = tmux.run(&["capture-pane", "-p", "-t", pane]);
        screen.lines().last().is_some_and(|line| line.ends_with('$'))
    });
}

#[test]
fn each_end_of_a_wait_says_what_it_saw() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    types(&tmux, "%0", "clear; echo old-text; PS1='$ '");
    quiet(&tmux, "%0");
    // What is there is not new, and said to be there.
    let old = json!({"patterns": ["OLD-text"], "pane_id": "%0", "timeout": 0.3});
    let old = wait(&mut session, old);
    assert_eq!(old["outcome"], "timeout");
    assert_eq!((&old["found"], &old["matched_at_entry"]), (&json!(false), &json!(true)));
    assert_eq!((&old["saw_new_output"], &old["alternate_screen"]), (&json!(false), &json!(false)));
    assert_eq!(old["effective_timeout"], 0.3);
    assert!(old["tail"].as_array().unwrap().contains(&json!("old-text")), "{old}");
    // The same text on a new line is new.
    let id = session
        .post_call("wait_for_text", json!({"patterns": ["zzz", "^old-text$"], "regex": true}));
    let again = answer_to(&tmux, &mut session, id, "echo old-te''xt");
    assert_eq!((&again["outcome"], &again["matched_index"]), (&json!("matched"), &json!(1)));
    assert_eq!(again["matched_lines"][0], "old-text");
    assert_eq!(again["matched_at_entry"], false, "it was found");
    quiet(&tmux, "%0");
    // A failure beats a success that comes with it.
    let both = json!({"patterns": ["fine"], "stop": ["never", "FAILED"], "match_case": true});
    let id = session.post_call("wait_for_text", both);
    let both = answer_to(&tmux, &mut session, id, "printf 'fi''ne FAI''LED\\n'");
    assert_eq!((&both["outcome"], &both["found"]), (&json!("stopped"), &json!(false)));
    assert_eq!(both["matched_index"], 1);
    quiet(&tmux, "%0");
    let id = session.post_call("wait_for_text", json!({"session_name": "one", "timeout": 1e9}));
    let any = answer_to(&tmux, &mut session, id, "true");
    assert_eq!((&any["outcome"], &any["found"]), (&json!("any_output"), &json!(true)));
    // Too long is not wrong: the server has its own limit, and says so.
    assert_eq!(any["effective_timeout"], 30.0);
}

#[test]
fn arguments_are_refused_in_the_original_s_words() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    for (arguments, words) in [
        (json!({"timeout": 0}), "timeout must be positive (received 0)"),
        (
            json!({"patterns": []}),
            "patterns must be a non-empty list, or null to wait for any new output",
        ),
        (json!({"patterns": [""]}), "patterns pattern must be a non-empty string"),
        (json!({"patterns": ["a"], "stop": [""]}), "stop pattern must be a non-empty string"),
        (json!({"patterns": ["(?=a)"], "regex": true}), "Invalid regex pattern: look-around"),
        (json!({"patterns": ["("], "regex": true}), "Invalid regex pattern: unclosed group"),
        (json!({"patterns": ["a"], "pane_id": "%99"}), "Pane not found: %99"),
    ] {
        let answer = session.call("wait_for_text", arguments.clone());
        assert_eq!(answer["result"]["isError"], true, "{arguments}");
        assert!(text(&answer).starts_with(words), "{arguments}: {answer}");
    }
    let interval = session.call("wait_for_text", json!({"interval": 0.001}));
    assert_eq!(interval["result"]["_meta"]["code"], "INVALID_ARGUMENTS");
}

#[test]
fn a_pane_that_ends_or_starts_anew_or_is_cleared_ends_the_wait() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    let cases: [(&str, &[&str], &str); 5] = [
        ("off", &["kill-pane", "-t", "PANE"], "pane PANE died; cursor/baseline anchor"),
        ("on", &["send-keys", "-t", "PANE", "exit", "Enter"], "pane PANE died; cursor/baseline"),
        ("off", &["respawn-pane", "-k", "-t", "PANE", "cat"], "pane PANE was respawned (pid "),
        ("off", &["clear-history", "-t", "PANE"], "pane PANE history shrank below entry baseline"),
        ("off", &["kill-server"], "no tmux server is running on this socket"),
    ];
    let mut panes = Vec::new();
    for (remain, ..) in &cases {
        let pane = tmux.run(&["new-window", "-d", "-P", "-F", "#{pane_id}", "bash --norc"]);
        tmux.run(&["set-option", "-p", "-t", &pane, "remain-on-exit", remain]);
        types(&tmux, &pane, "seq 1 100; PS1='$ '");
        quiet(&tmux, &pane);
        let never = json!({"patterns": ["never"], "pane_id": pane, "timeout": 25});
        let id = begin(&mut session, &pane, never);
        panes.push((pane, id));
    }
    for (pane, _) in &panes {
        let progress = begun(&mut session, pane);
        assert_eq!(progress["total"], 25.0);
        let message = progress["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("Waiting on pane {pane}: ")), "{message}");
    }
    for ((_, action, words), (pane, id)) in cases.iter().zip(&panes) {
        let action: Vec<String> = action.iter().map(|word| word.replace("PANE", pane)).collect();
        tmux.run(&action.iter().map(String::as_str).collect::<Vec<_>>());
        let ended = session.answer(*id);
        assert_eq!(ended["result"]["isError"], true, "{ended}");
        assert!(text(&ended).starts_with(&words.replace("PANE", pane)), "{words}: {ended}");
    }
}

#[test]
fn the_alternate_screen_is_not_matched_and_what_comes_after_it_is() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    types(&tmux, "%0", "clear; echo hidden-text; PS1='$ '");
    quiet(&tmux, "%0");
    let full_screen = "tput smcup; printf 'wan''ted\\n'; read; tput rmcup; echo ba''ck";
    let id =
        begin(&mut session, "a", json!({"patterns": ["^wanted"], "regex": true, "timeout": 3}));
    begun(&mut session, "a");
    types(&tmux, "%0", full_screen);
    let suspended = session.answer(id);
    let suspended = structured(&suspended);
    assert_eq!(
        (&suspended["outcome"], &suspended["found"]),
        (&json!("alternate_screen"), &json!(false))
    );
    assert_eq!(
        (&suspended["alternate_screen"], &suspended["saw_new_output"]),
        (&json!(true), &json!(true))
    );
    // From inside it: what was hidden comes back and is not new.
    let id = begin(&mut session, "b", json!({"patterns": ["hidden-text", "^back"], "regex": true}));
    begun(&mut session, "b");
    tmux.run(&["send-keys", "Enter"]);
    let back = session.answer(id);
    let back = structured(&back);
    assert_eq!((&back["outcome"], &back["matched_lines"]), (&json!("matched"), &json!(["back"])));
    assert_eq!(back["alternate_screen"], true);
}

#[test]
fn the_echo_of_what_was_typed_before_is_not_new() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    // A shell that reads the keys, and echoes them, when the wait has long begun.
    let slow =
        "stty -echo; printf '$ '; tmux wait-for go; read -r x; echo \"$x\"; echo not; exec cat";
    tmux.run(&["respawn-pane", "-k", "-t", "%0", slow]);
    quiet(&tmux, "%0");
    let keys = json!({"keys": "test 1 = sought || echo not", "pane_id": "%0"});
    structured(&session.call("send_keys", keys));
    let sought =
        json!({"patterns": ["sought", "^not$"], "regex": true, "timeout": 25, "pane_id": "%0"});
    let id = begin(&mut session, "echo", sought);
    begun(&mut session, "echo");
    tmux.run(&["wait-for", "-S", "go"]);
    let found = session.answer(id);
    assert_eq!(structured(&found)["matched_lines"], json!(["not"]), "{found}");
}

#[test]
fn a_pane_that_moves_is_followed_and_a_window_that_changes_its_size_is_the_same() {
    let tmux = Tmux::start();
    tmux.run(&["new-session", "-d", "-s", "two", "-x", "120", "-y", "40", "bash --norc"]);
    tmux.run(&["split-window", "-t", "one", "bash --norc"]);
    let mut session = tmux.serve(&[]);
    let long = "x".repeat(300);
    types(&tmux, "%0", &format!("clear; echo {long} stale-text; seq 1 50; PS1='$ '"));
    quiet(&tmux, "%0");
    let wanted = json!({"patterns": ["stale-text", "^fresh x+ text$"], "regex": true, "timeout": 25, "pane_id": "%0"});
    let id = begin(&mut session, "moves", wanted);
    begun(&mut session, "moves");
    // Wrapped anew, with what was there; then in a session that nobody watched.
    tmux.run(&["resize-window", "-t", "one", "-x", "70", "-y", "50"]);
    tmux.run(&["resize-window", "-t", "one", "-x", "133", "-y", "20"]);
    tmux.run(&["join-pane", "-d", "-s", "%0", "-t", "two:0"]);
    tmux.run(&["kill-session", "-t", "one"]);
    types(&tmux, "%0", &format!("echo fre''sh {long} text"));
    let moved = session.answer(id);
    let moved = structured(&moved);
    assert_eq!(
        (&moved["outcome"], &moved["matched_index"]),
        (&json!("matched"), &json!(1)),
        "{moved}"
    );
    assert_eq!(
        moved["matched_lines"],
        json!([format!("fresh {long} text")]),
        "one line, however it wraps"
    );
}

#[test]
fn twenty_waits_on_two_servers_share_a_client_each_and_leave_nothing() {
    let (tmux, other) = (Tmux::start(), Tmux::start());
    let mut session = tmux.serve(&[]);
    let mut ids = Vec::new();
    for n in 0..20 {
        let socket = if n % 2 == 0 { &tmux.name } else { &other.name };
        let arguments = json!({"patterns": [format!("^end {n}$")], "regex": true, "socket_name": socket, "timeout": 25});
        ids.push(begin(&mut session, &n.to_string(), arguments));
    }
    for n in 0..20 {
        begun(&mut session, &n.to_string());
    }
    assert_eq!((tmux.clients(), other.clients()), (2, 2), "one asks, one hears");
    // Half of them are cancelled, the other half is answered.
    for id in ids.iter().filter(|id| **id % 2 == 0) {
        session.notify("notifications/cancelled", json!({"requestId": id}));
    }
    for server in [&tmux, &other] {
        types(server, "%0", "for n in $(seq 0 19); do echo end $n; done");
    }
    for (n, id) in ids.iter().enumerate().filter(|(_, id)| **id % 2 == 1) {
        let answer = session.answer(*id);
        assert_eq!(structured(&answer)["matched_lines"], json!([format!("end {n}")]));
    }
    let id = begin(&mut session, "last", json!({"patterns": ["never"], "timeout": 25}));
    begun(&mut session, "last");
    session.notify("notifications/cancelled", json!({"requestId": id}));
    for server in [&tmux, &other] {
        server.until("left alone", |server| server.clients() == 1);
    }
    structured(&session.call("list_sessions", json!({})));
    assert!(ids.iter().filter(|id| **id % 2 == 0).all(|id| session.answered(*id).is_none()));
}

#[test]
fn a_flood_that_fills_the_history_hides_neither_its_end_nor_what_follows() {
    let tmux = Tmux::start();
    tmux.run(&["set-option", "-g", "history-limit", "300"]);
    let pane = tmux.run(&["new-window", "-P", "-F", "#{pane_id}", "bash --norc"]);
    let mut session = tmux.serve(&[]);
    types(&tmux, &pane, "seq 1 1000; echo stale-text; PS1='$ '");
    quiet(&tmux, &pane);
    let sought = json!({"patterns": ["^stale-text$", "^50000$"], "regex": true, "timeout": 25, "pane_id": pane});
    let id = begin(&mut session, "flood", sought);
    begun(&mut session, "flood");
    types(&tmux, &pane, "seq 1001 50000");
    let flood = session.answer(id);
    assert_eq!(structured(&flood)["matched_lines"], json!(["50000"]), "{flood}");
    quiet(&tmux, &pane);
    let sought = json!({"patterns": ["^5[0-9]*$"], "regex": true, "timeout": 25, "pane_id": pane});
    let id = begin(&mut session, "after", sought);
    begun(&mut session, "after");
    types(&tmux, &pane, "seq 60000 60090; echo 5");
    let after = session.answer(id);
    assert_eq!(structured(&after)["matched_lines"], json!(["5"]), "{after}");
}

#[test]
fn tmux_survives_a_server_that_ends_while_it_watches_a_flood() {
    let tmux = Tmux::start();
    let pid = tmux.pid();
    tmux.run(&["respawn-pane", "-k", "-t", "%0", "yes"]);
    tmux.run(&["new-window", "-d", "yes"]);
    for round in 0..4 {
        let mut session = tmux.serve(&[]);
        let any = json!({"pane_id": "%0"});
        assert_eq!(wait(&mut session, any)["outcome"], "any_output");
        // Once in the middle of a wait, which is given some seconds to end.
        if round == 0 {
            begin(&mut session, "flood", json!({"patterns": ["never"], "timeout": 25}));
            begun(&mut session, "flood");
        }
        assert!(session.finish().0.success());
        tmux.until("left", |tmux| tmux.clients() == 0);
    }
    assert_eq!(tmux.pid(), pid, "tmux lives");
}
