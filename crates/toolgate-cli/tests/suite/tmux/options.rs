//! Options, variables and hooks of tmux, and what of them needs the destructive tier.

use serde_json::{Value, json};

use crate::harness::{
    text,
    tmux::{Tmux, structured},
};

fn code(answer: &Value) -> &str {
    answer.pointer("/result/_meta/code").and_then(Value::as_str).unwrap_or_default()
}

fn kind(answer: &Value) -> &str {
    answer.pointer("/result/_meta/error_type").and_then(Value::as_str).unwrap_or_default()
}

#[test]
fn options_are_typed_and_set_where_it_is_said() {
    let tmux = Tmux::start();
    tmux.run(&["set-option", "-g", "@lines", "a\nb[0] c; d"]);
    tmux.run(&["set-option", "-s", "command-alias[40]", "x=display-message \"a b\""]);
    let mut session = tmux.serve(&[]);
    let mut show = |arguments: Value| {
        let shown = session.call("show_option", arguments);
        structured(&shown)["value"].clone()
    };
    for (arguments, value) in [
        (json!({"option": "history-limit", "global_": true}), json!(2000)),
        (json!({"option": "mouse", "global_": true}), json!(false)),
        (json!({"option": "focus-events", "scope": "server"}), json!(false)),
        (json!({"option": "status-keys", "global_": true}), json!("emacs")),
        (json!({"option": "mouse"}), Value::Null),
        (json!({"option": "mouse", "scope": "session", "target": "one"}), Value::Null),
        (json!({"option": "default-command", "global_": true}), json!("")),
        (json!({"option": "@lines", "global_": true}), json!("a\nb[0] c; d")),
        (
            json!({"option": "command-alias[40]", "scope": "server"}),
            json!("x=display-message \"a b\""),
        ),
    ] {
        assert_eq!(show(arguments.clone()), value, "{arguments}");
    }
    let aliases = show(json!({"option": "command-alias", "scope": "server"}));
    assert_eq!(aliases["40"], "x=display-message \"a b\"", "{aliases}");
    assert_eq!(aliases["0"], "split-pane=split-window");

    for (arguments, look) in [
        (json!({"option": "mouse", "value": "on", "scope": "session", "target": "one"}), "mouse"),
        (json!({"option": "@x", "value": "-g; #{pid} é"}), "@x"),
        (
            json!({"option": "window-style", "value": "fg=red", "scope": "window", "target": "@0"}),
            "window-style",
        ),
        (json!({"option": "@p", "value": "1;", "scope": "pane", "target": "%0"}), "@p"),
    ] {
        let set = session.call("set_option", arguments.clone());
        let expected = json!({"option": look, "value": arguments["value"], "status": "set"});
        assert_eq!(structured(&set), &expected);
        let flags: &[&str] = if look == "@p" {
            &["-p"]
        } else if look == "window-style" {
            &["-w"]
        } else {
            &[]
        };
        let shown = tmux.run(&[&["show-options", "-v", "-t", "one"], flags, &[look]].concat());
        assert_eq!(shown, arguments["value"].as_str().unwrap());
    }
    // By id, too.
    let by_id =
        session.call("show_option", json!({"option": "mouse", "scope": "session", "target": "$0"}));
    assert_eq!(structured(&by_id)["value"], true);

    let unknown = session.call("show_option", json!({"option": "nope-nope"}));
    assert!(text(&unknown).starts_with("tmux error: invalid option: nope-nope\n"), "{unknown}");
    assert_eq!(kind(&unknown), "InvalidOption");
    let untyped = session.call("set_option", json!({"option": "history-limit", "value": "x"}));
    assert_eq!(untyped["result"]["isError"], true, "{untyped}");
    let scope = session.call("show_option", json!({"option": "mouse", "target": "one"}));
    assert_eq!(text(&scope).lines().next(), Some("scope is required when target is specified"));
    for (scope, target, missing) in [
        ("session", "nope", "SessionNotFound"),
        ("window", "@9", "WindowNotFound"),
        ("pane", "%9", "PaneNotFound"),
        ("pane", "one:0.0", "PaneNotFound"),
    ] {
        let arguments = json!({"option": "@x", "scope": scope, "target": target});
        assert_eq!(kind(&session.call("show_option", arguments)), missing);
    }
    // One call each: a name that is none is not asked for twice.
    let asked = session.records();
    let asked = asked.iter().filter(|record| record["error_type"] == "InvalidOption");
    assert_eq!(asked.count(), 1);
}

#[test]
fn what_decides_which_programs_run_needs_the_destructive_tier() {
    let tmux = Tmux::start();
    let ran = tempfile::tempdir().unwrap();
    let ran = ran.path().join("ran");
    let job = format!("#(touch {})", ran.display());
    let mut session = tmux.serve(&[]);
    for (option, value) in [
        ("default-command", "x"),
        ("default-comm", "x"),
        ("command-alias[50]", "ls=kill-server"),
        ("after-new-window", "kill-server"),
        ("pane-exited[3]", "kill-server"),
        ("destroy-unattached", "on"),
        ("status-left", &job),
        ("@later", &job),
        ("status-left", "#{E:@later}"),
        ("status-left", "#{s|X|(|;E:pane_title}"),
    ] {
        let arguments = json!({"option": option, "value": value, "global_": true});
        let denied = session.call("set_option", arguments);
        assert_eq!(code(&denied), "TIER_DENIED", "{option}: {denied}");
        assert!(text(&denied).contains("needs the destructive safety tier"), "{denied}");
    }
    for name in ["LD_PRELOAD", "PATH", "BASH_ENV", "PROMPT_COMMAND", "GIT_SSH_COMMAND", "DYLD_X"] {
        let denied = session.call("set_environment", json!({"name": name, "value": "s3cret"}));
        assert_eq!(code(&denied), "TIER_DENIED", "{name}: {denied}");
        assert!(text(&denied).contains(name) && !denied.to_string().contains("s3cret"), "{denied}");
        for environment in [json!({name: "s3cret"}), json!(format!("{{\"{name}\": \"s3cret\"}}"))] {
            for tool in ["create_session", "create_window"] {
                let denied = session.call(tool, json!({"environment": environment}));
                assert_eq!(code(&denied), "TIER_DENIED", "{tool} {name}: {denied}");
            }
        }
    }
    let records = session.records();
    assert!(records.iter().any(|record| record["rule"] == "variable LD_PRELOAD"), "{records:?}");
    assert!(records.iter().all(|record| record["ran"] == "no"), "{records:?}");
    assert!(!ran.exists());

    let mut session = tmux.serve(&["--safety", "destructive"]);
    let set = json!({"option": "@later", "value": job, "global_": true});
    structured(&session.call("set_option", set));
    structured(&session.call("set_environment", json!({"name": "PATH", "value": "/bin:/usr/bin"})));
    structured(&session.call("create_window", json!({"environment": {"PATH": "/bin:/usr/bin"}})));
    assert!(!ran.exists(), "it was set, and nothing ran");
}

#[test]
fn variables_are_told_exactly_and_set_for_a_session_or_for_all() {
    let tmux = Tmux::start();
    tmux.run(&["set-environment", "-t", "one", "A", "x\nB=forged\" $HOME `id` \\ ; z"]);
    tmux.run(&["set-environment", "-t", "one", "-r", "DISPLAY"]);
    let mut session = tmux.serve(&[]);
    let shown = session.call("show_environment", json!({"session_name": "one"}));
    let variables = &structured(&shown)["variables"];
    assert_eq!(variables["A"], "x\nB=forged\" $HOME `id` \\ ; z");
    assert_eq!(variables["-DISPLAY"], true);
    assert!(variables.get("B").is_none(), "{variables}");
    let set = json!({"name": "-C", "value": "-v; é\n#{pid}", "session_id": "$0"});
    let set = session.call("set_environment", set);
    assert_eq!(structured(&set), &json!({"name": "-C", "value": "-v; é\n#{pid}", "status": "set"}));
    let shown = session.call("show_environment", json!({"session_id": "$0"}));
    assert_eq!(structured(&shown)["variables"]["-C"], "-v; é\n#{pid}");
    structured(&session.call("set_environment", json!({"name": "LC_ALL", "value": ""})));
    let all = session.call("show_environment", json!({}));
    assert_eq!(structured(&all)["variables"]["LC_ALL"], "");
    assert!(structured(&all)["variables"].get("A").is_none());
    let named = session.call("set_environment", json!({"name": "A=B", "value": "x"}));
    assert_eq!(code(&named), "INVALID_ARGUMENTS");
    let nowhere = session.call("show_environment", json!({"session_name": "nope"}));
    assert_eq!(kind(&nowhere), "SessionNotFound");
    let audit = format!("{:?}", session.records());
    assert!(!audit.contains("#{pid}"), "values are not written down: {audit}");
}

#[test]
fn hooks_of_both_trees_are_listed_and_none_is_made_up() {
    let tmux = Tmux::start();
    tmux.run(&["set-hook", "-g", "session-renamed[2]", "display-message 'a  b' ; list-keys"]);
    tmux.run(&["set-hook", "-g", "pane-exited", "display-message x"]);
    tmux.run(&["set-hook", "-t", "one", "client-attached", "list-buffers"]);
    let mut session = tmux.serve(&[]);
    let all = session.call("show_hooks", json!({"scope": "server"}));
    let entry = |name: &str, index: u32, command: &str| json!({"hook_name": name, "index": index, "command": command});
    let session_renamed = entry("session-renamed", 2, "display-message \"a  b\" ; list-keys");
    let pane_exited = entry("pane-exited", 0, "display-message x");
    assert_eq!(structured(&all)["entries"], json!([pane_exited, session_renamed]));
    let own = session.call("show_hooks", json!({"scope": "session", "target": "one"}));
    let attached = entry("client-attached", 0, "list-buffers");
    assert_eq!(structured(&own)["entries"], json!([attached]));
    for (arguments, entries) in [
        (json!({"hook_name": "pane-exited", "scope": "server"}), json!([pane_exited])),
        (json!({"hook_name": "session-renamed", "global_": true}), json!([session_renamed])),
        (json!({"hook_name": "session-renamed[2]", "global_": true}), json!([session_renamed])),
        (
            json!({"hook_name": "client-attached", "scope": "session", "target": "one"}),
            json!([attached]),
        ),
        (json!({"hook_name": "client-detached"}), json!([])),
    ] {
        let shown = session.call("show_hook", arguments.clone());
        assert_eq!(structured(&shown)["entries"], entries, "{arguments}");
    }
    for none in ["no-hook", "mouse", "default-command"] {
        let unknown = session.call("show_hook", json!({"hook_name": none, "global_": true}));
        let expected = format!("tmux error: invalid option: {none}");
        assert_eq!(text(&unknown).lines().next(), Some(&*expected));
    }
}
