//! What a hostile agent tries. Each of these once went through, or came close.

mod harness;

use std::path::Path;

use harness::tmux::{Tmux, structured};
use serde_json::{Value, json};

fn is_error(answer: &Value) -> bool {
    answer["result"]["isError"] == true || answer.get("error").is_some()
}

/// tmux expands the names of options as formats, and a format may run a program.
#[test]
fn names_of_options_and_hooks_run_nothing() {
    let tmux = Tmux::start();
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("ran");
    let job = format!("#(touch {})", mark.display());
    tmux.run(&["set-option", "-g", "@hidden", &job]);
    let mut session = tmux.serve(&["--safety", "readonly"]);
    for name in [job.clone(), "#{E:@hidden}".to_owned(), format!("status-format[{job}]")] {
        for arguments in [
            json!({"option": name}),
            json!({"option": name, "global_": true}),
            json!({"option": name, "scope": "server"}),
            json!({"option": name, "scope": "pane", "target": "%0"}),
        ] {
            assert!(is_error(&session.call("show_option", arguments)), "{name}");
        }
    }
    let hook = format!("pane-died[{job}]");
    for scope in [json!("server"), json!("window"), Value::Null] {
        session.call("show_hook", json!({"hook_name": hook, "scope": scope, "global_": true}));
    }
    // A name that is made by a format is not the name that was judged.
    let mut session = tmux.serve(&["--safety", "mutating"]);
    for name in ["#{l:default-command}", "#{?1,default-command,}", "default-#{l:command}"] {
        let set = json!({"option": name, "value": "sh", "global_": true});
        assert!(is_error(&session.call("set_option", set)), "{name}");
    }
    assert_eq!(tmux.run(&["show-options", "-gv", "default-command"]), "");
    // Names of a user's own options may hold anything.
    tmux.run(&["set-option", "-g", "@a##b", "1"]);
    let shown = session.call("show_option", json!({"option": "@a#b", "global_": true}));
    assert_eq!(structured(&shown)["value"], 1);
    // tmux starts jobs at once: one that had been started would be known by now, or in a moment.
    tmux.run(&["run-shell", "true"]);
    never(&mark);
}

/// Nothing is there, and nothing comes.
fn never(mark: &Path) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_millis(200);
    while std::time::Instant::now() < deadline {
        assert!(!mark.exists(), "a program ran");
    }
}
