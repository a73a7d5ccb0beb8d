//! `capture_since` over MCP, against real tmux: exactly what is new, and true about what is lost.

use serde_json::{Value, json};

use crate::harness::{
    Session, text,
    tmux::{Tmux, structured},
};

/// Types a line, and comes back when the shell is done with it.
fn types(tmux: &Tmux, pane: &str, keys: &str) {
    tmux.run(&["send-keys", "-t", pane, "-l", &format!("{keys}; tmux wait-for -S done")]);
    tmux.run(&["send-keys", "-t", pane, "Enter"]);
    tmux.run(&["wait-for", "done"]);
    quiet(tmux, pane);
}

fn quiet(tmux: &Tmux, pane: &str) {
    tmux.until("quiet", |tmux| {
        let screen = tmux.run(&["capture-pane", "-p", "-t", pane]);
        screen.lines().last().is_some_and(|line| line.ends_with('$'))
    });
}

/// A pane with a plain prompt, and a history of this size.
fn pane(tmux: &Tmux, history: &str) -> String {
    tmux.run(&["set-option", "-g", "history-limit", history]);
    let pane = tmux.run(&["new-window", "-P", "-F", "#{pane_id}", "bash --norc"]);
    types(tmux, &pane, "PS1='$ '; clear");
    pane
}

struct Reader {
    session: Session,
    pane: String,
    cursor: Value,
}

impl Reader {
    fn new(tmux: &Tmux, pane: &str) -> Self {
        let mut session = tmux.serve(&[]);
        let first = session.call("capture_since", json!({"pane_id": pane}));
        let cursor = structured(&first)["cursor"].clone();
        Self { session, pane: pane.to_owned(), cursor }
    }

    fn read(&mut self) -> Value {
        let arguments = json!({"cursor": self.cursor, "pane_id": self.pane, "max_lines": null});
        let answer = self.session.call("capture_since", arguments);
        let answer = structured(&answer).clone();
        self.cursor = answer["cursor"].clone();
        answer
    }

    /// The lines that are new, none of which was missed.
    fn exactly(&mut self) -> Vec<String> {
        let answer = self.read();
        assert_eq!(answer["lines_missed"], false, "{answer}");
        serde_json::from_value(answer["lines"].clone()).unwrap()
    }
}

fn numbers(from: u32, to: u32) -> Vec<String> {
    (from..=to).map(|n| n.to_string()).collect()
}

/// The lines between the one that was typed and the prompt.
fn printed(lines: &[String]) -> &[String] {
    assert!(lines.first().unwrap().starts_with("$ "), "{lines:?}");
    assert_eq!(lines.last().unwrap(), "$");
    &lines[1..lines.len() - 1]
}

#[test]
fn exactly_what_is_new_comes_once() {
    let tmux = Tmux::start();
    let pane = pane(&tmux, "5000");
    let mut reader = Reader::new(&tmux, &pane);
    assert_eq!(reader.exactly(), [""; 0], "nothing is new");
    types(&tmux, &pane, "echo one; echo; echo one");
    assert_eq!(printed(&reader.exactly()), ["one", "", "one"], "equal lines and empty ones");
    assert_eq!(reader.exactly(), [""; 0]);
    // Far more than a screen, and more than one look reaches.
    types(&tmux, &pane, "seq 1 1500");
    assert_eq!(printed(&reader.exactly()), numbers(1, 1500));
    let long = "y".repeat(500);
    types(&tmux, &pane, &format!("echo {long}"));
    assert_eq!(printed(&reader.exactly()), [long], "a line that wraps is one line");
    // A line that is written over, and one further up.
    types(&tmux, &pane, "printf '\\033[H\\033[2J'; seq 1 5; printf '\\033[3A\\r[3]\\033[3B\\r'");
    let written = reader.exactly();
    assert!(printed(&written).iter().any(|line| line == "[3]"), "{written:?}");
    types(&tmux, &pane, "printf '\\0337\\033[2;1H[1]\\033[K\\0338'");
    let over = reader.exactly();
    assert!(over.contains(&"[1]".to_owned()) && !over.contains(&"[3]".to_owned()), "{over:?}");
}

#[test]
fn what_is_lost_is_said_to_be_lost_and_nothing_else_is() {
    let tmux = Tmux::start();
    let pane = pane(&tmux, "300");
    let mut reader = Reader::new(&tmux, &pane);
    // The history fills up, and tmux drops thirty rows each time that it is full.
    for step in 0..12_u32 {
        let (from, to) = (1000 + step * 50, 1049 + step * 50);
        types(&tmux, &pane, &format!("seq {from} {to}"));
        assert_eq!(printed(&reader.exactly()), numbers(from, to), "step {step}");
        assert_eq!(reader.exactly(), [""; 0], "step {step}");
    }
    types(&tmux, &pane, "seq 1 100000");
    let flood = reader.read();
    assert_eq!(flood["lines_missed"], true);
    assert_eq!(flood["lines"].as_array().unwrap().last(), Some(&json!("$")), "the screen");
    assert_eq!(reader.exactly(), [""; 0], "it goes on from there");
    // The screen stays when the history is cleared: what is new can still be told.
    tmux.run(&["clear-history", "-t", &pane]);
    types(&tmux, &pane, "echo after");
    assert_eq!(printed(&reader.exactly()), ["after"]);
    types(&tmux, &pane, "seq 1 100");
    reader.read();
    tmux.run(&["send-keys", "-t", &pane, "-R", ";", "clear-history", "-t", &pane]);
    types(&tmux, &pane, "echo cleared");
    let cleared = reader.read();
    assert_eq!(cleared["lines_missed"], true, "{cleared}");
    assert!(cleared["lines"].as_array().unwrap().contains(&json!("cleared")));
}

#[test]
fn neither_a_new_size_nor_a_full_screen_program_loses_the_place() {
    let tmux = Tmux::start();
    let pane = pane(&tmux, "2000");
    let mut reader = Reader::new(&tmux, &pane);
    let long = "z".repeat(150);
    types(&tmux, &pane, &format!("seq 1 100; echo {long}; seq 101 130"));
    reader.exactly();
    for (number, size) in
        [("-x", "60"), ("-x", "200"), ("-y", "15"), ("-y", "45")].iter().enumerate()
    {
        tmux.run(&["resize-window", "-t", &pane, size.0, size.1]);
        types(&tmux, &pane, &format!("echo size {number}"));
        let lines = reader.exactly();
        assert!(lines.contains(&format!("size {number}")), "{lines:?}");
        assert!(!lines.contains(&"130".to_owned()), "{size:?}: {lines:?}");
    }
    tmux.run(&[
        "send-keys",
        "-t",
        &pane,
        "-l",
        "tput smcup; clear; seq 1 3; read; printf '\\033[2;1Hx'; read; tput rmcup",
    ]);
    tmux.run(&["send-keys", "-t", &pane, "Enter"]);
    tmux.until("full screen", |tmux| tmux.run(&["capture-pane", "-p", "-t", &pane]) == "1\n2\n3");
    assert_eq!(reader.exactly(), ["1", "2", "3"], "the whole screen");
    assert_eq!(reader.exactly(), [""; 0]);
    tmux.run(&["send-keys", "-t", &pane, "Enter"]);
    tmux.until("changed", |tmux| tmux.run(&["capture-pane", "-p", "-t", &pane]).contains('x'));
    assert_eq!(reader.exactly(), ["x"], "what changed on it");
    tmux.run(&["send-keys", "-t", &pane, "Enter"]);
    quiet(&tmux, &pane);
    types(&tmux, &pane, "echo back");
    let back = reader.exactly();
    assert!(back.contains(&"back".to_owned()) && !back.contains(&"130".to_owned()), "{back:?}");
}

#[test]
fn limits_keep_the_tail_and_count_what_they_leave_off() {
    let tmux = Tmux::start();
    let pane = pane(&tmux, "5000");
    let mut session = tmux.serve(&[]);
    let first = session.call("capture_since", json!({"pane_id": pane}));
    types(&tmux, &pane, "seq 1000 1999");
    let since = |most: Value| {
        let mut arguments = json!({"cursor": structured(&first)["cursor"]});
        arguments.as_object_mut().unwrap().extend(most.as_object().unwrap().clone());
        arguments
    };
    let all = session.call("capture_since", since(json!({"max_lines": null, "max_bytes": null})));
    let all = structured(&all)["lines"].as_array().unwrap().len();
    assert_eq!(all, 1002);
    let lines = session.call("capture_since", since(json!({})));
    let lines = structured(&lines);
    assert_eq!((&lines["truncated"], &lines["truncated_lines"]), (&json!(true), &json!(all - 500)));
    assert_eq!(lines["lines"][498], "1999");
    let bytes = session.call("capture_since", since(json!({"max_bytes": 11})));
    let bytes = structured(&bytes);
    assert_eq!(bytes["lines"], json!(["1998", "1999", "$"]));
    assert_eq!(bytes["truncated_lines"], json!(all - 3));
    for wrong in [json!({"max_lines": 0}), json!({"max_bytes": -1})] {
        let wrong = session.call("capture_since", wrong);
        assert_eq!(wrong["result"]["_meta"]["code"], "INVALID_ARGUMENTS");
    }
}

#[test]
fn a_cursor_is_good_for_its_pane_its_server_and_its_process_only() {
    let (tmux, other) = (Tmux::start(), Tmux::start());
    tmux.run(&["split-window", "-d", "bash --norc"]);
    tmux.run(&["set-option", "-g", "remain-on-exit", "on"]);
    let mut reader = Reader::new(&tmux, "%0");
    let cursor = reader.cursor.as_str().unwrap().to_owned();
    let mut refused = |arguments: Value, words: &str| {
        let answer = reader.session.call("capture_since", arguments);
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(text(&answer).starts_with(words), "{words}: {answer}");
        assert!(answer["result"]["_meta"]["suggestion"].is_string(), "{answer}");
    };
    let half = cursor.get(..cursor.len() / 2).unwrap();
    let swapped = cursor.replacen('A', "B", 1);
    for bad in ["nonsense", half, &swapped, &format!("{cursor}AAAA"), "capture-since-v1:e30"] {
        refused(json!({"cursor": bad}), "invalid capture_since cursor: ");
    }
    refused(
        json!({"cursor": cursor, "pane_id": "%1"}),
        "cursor pane %0 does not match requested pane %1",
    );
    let elsewhere = json!({"cursor": cursor, "socket_name": other.name});
    refused(elsewhere, "invalid capture_since cursor: it is for another tmux server");
    let again = tmux.serve(&[]).call("capture_since", json!({"cursor": cursor}));
    assert!(text(&again).starts_with("invalid capture_since cursor: "), "{again}");
    tmux.run(&["respawn-pane", "-k", "-t", "%0", "bash --norc"]);
    refused(json!({"cursor": cursor}), "pane %0 was respawned (pid ");
    tmux.run(&["send-keys", "-t", "%0", "exit", "Enter"]);
    tmux.until("dead", |tmux| {
        tmux.run(&["display-message", "-t", "%0", "-p", "#{pane_dead}"]) == "1"
    });
    refused(json!({"cursor": cursor}), "pane %0 died; cursor/baseline anchor is no longer valid");
    refused(json!({"pane_id": "%0"}), "pane %0 died during pane read");
    tmux.run(&["kill-pane", "-t", "%0"]);
    refused(json!({"cursor": cursor}), "pane %0 died; cursor/baseline anchor is no longer valid");
}
