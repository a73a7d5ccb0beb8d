//! `wait_for_text` over MCP, against real tmux: woken by news, exact about what is new, and gone without a trace.

#![expect(clippy::unwrap_used, reason = "also in the functions that the tests share")]

mod harness;

use harness::{
    Session, text,
    tmux::{Tmux, structured},
};
use serde_json::{Value, json};

/// Types into the pane from outside, as a person would.
fn types(tmux: &Tmux, pane: &str, keys: &str) {
    tmux.run(&["send-keys", "-t", pane, "-l", keys]);
    tmux.run(&["send-keys", "-t", pane, "Enter"]);
}

fn wait(session: &mut Session, arguments: Value) -> Value {
    structured(&session.call("wait_for_text", arguments)).clone()
}

/// Waits until a wait has begun: until then the watching client is not there.
fn watching(tmux: &Tmux, clients: usize) {
    tmux.until("watched", |tmux| tmux.clients() >= clients);
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
    let id = session.post_call("wait_for_text", json!({"patterns": ["zzz", "^old-text$"], "regex": true}));
    types(&tmux, "%0", "echo old-te''xt");
    let again = session.answer(id);
    let again = structured(&again);
    assert_eq!((&again["outcome"], &again["matched_index"]), (&json!("matched"), &json!(1)));
    assert_eq!(again["matched_lines"], json!(["old-text"]));
    assert_eq!(again["matched_at_entry"], false, "it was found");
    quiet(&tmux, "%0");
    // A failure beats a success that comes with it.
    let both = json!({"patterns": ["fine"], "stop": ["never", "FAILED"], "match_case": true});
    let id = session.post_call("wait_for_text", both);
    types(&tmux, "%0", "printf 'fi''ne FAI''LED\\n'");
    let both = session.answer(id);
    assert_eq!(structured(&both)["outcome"], "stopped");
    assert_eq!((&structured(&both)["found"], &structured(&both)["matched_index"]), (&json!(false), &json!(1)));
    quiet(&tmux, "%0");
    let id = session.post_call("wait_for_text", json!({"session_name": "one", "timeout": 1e9}));
    types(&tmux, "%0", "true");
    let any = session.answer(id);
    assert_eq!((&structured(&any)["outcome"], &structured(&any)["found"]), (&json!("any_output"), &json!(true)));
    // Too long is not wrong: the server has its own limit, and says so.
    assert_eq!(structured(&any)["effective_timeout"], 30.0);
}

#[test]
fn arguments_are_refused_in_the_original_s_words() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    for (arguments, words) in [
        (json!({"timeout": 0}), "timeout must be positive (received 0)"),
        (json!({"patterns": []}), "patterns must be a non-empty list, or null to wait for any new output"),
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
    let never = |pane: &str| json!({"patterns": ["never"], "pane_id": pane, "timeout": 15});
    let mut ended_by = |before: &str, after: &[&str], words: &str| {
        tmux.run(&["set-option", "-g", "remain-on-exit", before]);
        let pane = tmux.run(&["new-window", "-d", "-P", "-F", "#{pane_id}", "bash --norc"]);
        types(&tmux, &pane, "seq 1 100; PS1='$ '");
        quiet(&tmux, &pane);
        let id = session.post_call("wait_for_text", never(&pane));
        watching(&tmux, 2);
        // The wait has looked once: what is typed is seen.
        let after: Vec<&str> = after.iter().map(|word| if *word == "PANE" { &*pane } else { *word }).collect();
        let second = session.post_call("wait_for_text", json!({"pane_id": pane, "timeout": 15}));
        types(&tmux, &pane, "true");
        session.answer(second);
        tmux.run(&after);
        let ended = session.answer(id);
        assert_eq!(ended["result"]["isError"], true, "{ended}");
        let words = words.replace("PANE", &pane);
        assert!(text(&ended).starts_with(&words), "{words}: {ended}");
    };
    ended_by("off", &["kill-pane", "-t", "PANE"], "pane PANE died; cursor/baseline anchor");
    ended_by("on", &["send-keys", "-t", "PANE", "exit", "Enter"], "pane PANE died; cursor/baseline");
    ended_by("off", &["respawn-pane", "-k", "-t", "PANE", "cat"], "pane PANE was respawned (pid ");
    ended_by("off", &["clear-history", "-t", "PANE"], "pane PANE history shrank below entry baseline");
    ended_by("off", &["kill-server"], "no tmux server is running on this socket");
}

#[test]
fn the_alternate_screen_is_not_matched_and_what_comes_after_it_is() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    types(&tmux, "%0", "clear; echo hidden-text; PS1='$ '");
    quiet(&tmux, "%0");
    let full_screen = "tput smcup; printf 'wan''ted\\n'; read; tput rmcup; echo ba''ck";
    let id = session.post_call("wait_for_text", json!({"patterns": ["^wanted"], "regex": true, "timeout": 1}));
    watching(&tmux, 2);
    types(&tmux, "%0", full_screen);
    let suspended = session.answer(id);
    let suspended = structured(&suspended);
    assert_eq!((&suspended["outcome"], &suspended["found"]), (&json!("alternate_screen"), &json!(false)));
    assert_eq!((&suspended["alternate_screen"], &suspended["saw_new_output"]), (&json!(true), &json!(true)));
    // From inside it: what was hidden comes back and is not new.
    let id = session.post_call("wait_for_text", json!({"patterns": ["hidden-text", "^back"], "regex": true}));
    tmux.run(&["send-keys", "Enter"]);
    let back = session.answer(id);
    let back = structured(&back);
    assert_eq!((&back["outcome"], &back["matched_lines"]), (&json!("matched"), &json!(["back"])));
    assert_eq!(back["alternate_screen"], true);
}
