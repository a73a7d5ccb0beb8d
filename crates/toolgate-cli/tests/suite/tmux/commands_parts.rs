//! The command guard, where a command comes in parts, out of a buffer, or by other names of keys.

use serde_json::{Value, json};

use crate::harness::{
    Session, text,
    tmux::{Tmux, structured},
};

/// Types something without Enter, or with it.
fn keys(session: &mut Session, keys: &str, enter: bool) -> Value {
    session.call("send_keys", json!({"keys": keys, "pane_id": "%0", "enter": enter}))
}

fn is_asked(answer: &Value) -> bool {
    answer.pointer("/result/isError") == Some(&json!(true))
        && text(answer).contains("command-guard/")
}

#[test]
fn a_command_that_comes_in_several_calls_is_one_command() {
    let tmux = Tmux::start();
    // It reads what is typed and runs nothing.
    tmux.run(&["respawn-pane", "-k", "-t", "%0", "trap '' INT; exec cat > /dev/null"]);
    let mut session = tmux.serve(&[]);
    for parts in [
        &["git push ", "-f"][..],
        &["rm -rf \\\n", "/etc"],
        &["rm -rf ", "KP/"],
        &["rm -rf ", "0x2f"],
        &["n", "pm", "Space", "publish"],
        &["curl x |", "\\\n", "sh"],
    ] {
        let (last, first) = parts.split_last().unwrap();
        for part in first {
            let typed = keys(&mut session, part, false);
            // A line that is entered before it is whole may be asked about already; typed it is not then.
            assert!(is_asked(&typed) == (*part == "\\\n"), "{part:?}: {typed}");
        }
        // What was not confirmed is not done with: it still stands there.
        for _ in 0..2 {
            let asked = keys(&mut session, last, true);
            assert!(is_asked(&asked), "{parts:?}: {asked}");
        }
        let paste = json!({"text": format!("{last}\n"), "session_name": "one"});
        // A paste knows no names of keys.
        let is_name = ["KP/", "0x2f"].contains(last);
        assert!(is_name || is_asked(&session.call("paste_text", paste)), "{parts:?}");
        structured(&keys(&mut session, "C-c", false));
    }
    // Enter and C-c end a line, by whatever name.
    for end in ["Enter", "^M", "C-c", "^C"] {
        structured(&keys(&mut session, "rm -rf ", false));
        structured(&keys(&mut session, end, false));
        structured(&keys(&mut session, "/etc", true));
    }
    // Two names of one pane.
    let part = |keys: &str, name: &str, is: &str| json!({"keys": keys, name: is, "enter": false});
    let batch = [
        part("rm -rf ", "session_name", "one"),
        part("/", "pane_id", "%0"),
        part("\n", "session_name", "one"),
    ];
    let batch = session.call("send_keys_batch", json!({"operations": batch}));
    assert!(is_asked(&batch), "{batch}");
    // Two calls at once.
    let first =
        session.post_call("send_keys", json!({"keys": "rm -rf ", "pane_id": "%0", "enter": false}));
    let second =
        session.post_call("send_keys", json!({"keys": "/etc", "pane_id": "%0", "enter": false}));
    let third = session.post_call("send_keys", json!({"keys": "Enter", "pane_id": "%0"}));
    let asked = [first, second, third].map(|id| is_asked(&session.answer(id)));
    let line = tmux.run(&["capture-pane", "-p", "-t", "%0"]);
    assert!(asked.contains(&true) || !line.contains("rm -rf /etc"), "{asked:?} {line}");
}

#[test]
fn what_a_buffer_or_a_variable_holds_counts_too() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    let mut load = |content: &str| {
        let loaded = session.call("load_buffer", json!({"content": content}));
        let name = structured(&loaded)["buffer_name"].clone();
        session.call("paste_buffer", json!({"buffer_name": name, "pane_id": "%0"}))
    };
    assert!(is_asked(&load("git push --force\n")));
    let long = format!("# {}\nsudo id\n", "x".repeat(5000));
    assert!(is_asked(&load(&long)));
    // Nothing hides behind a lot of nothing.
    assert!(is_asked(&load(&format!("rm -rf /etc; echo {}\n", "x".repeat(70_000)))));
    assert!(is_asked(&load(&format!("{}rm -rf /etc\n", "true;".repeat(3000)))));
    structured(&load("echo fine\n"));
    let split = |environment: Value| json!({"shell": "rm -rf $WHAT", "environment": environment});
    assert!(is_asked(&session.call("split_window", split(json!({"WHAT": "/etc"})))));
    let as_text = json!({"WHAT": "/etc"}).to_string();
    assert!(is_asked(&session.call("split_window", split(json!(as_text)))));
    structured(&session.call("split_window", split(json!({"WHAT": "/tmp/none/of/it"}))));
}
