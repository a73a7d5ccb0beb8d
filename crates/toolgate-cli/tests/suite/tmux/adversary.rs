//! What a hostile agent tries. Each of these once went through, or came close.

use std::path::Path;

use serde_json::{Value, json};

use crate::harness::tmux::{Tmux, structured};

fn is_error(answer: &Value) -> bool {
    answer.pointer("/result/isError") == Some(&Value::Bool(true)) || answer.get("error").is_some()
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

/// With `--mask`, no tool shows a secret, and none answers questions about one.
#[test]
fn what_is_masked_can_neither_be_read_nor_guessed() {
    let tmux = Tmux::start();
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let (start, rest) = token.split_at(8);
    let dashes = "-".repeat(5);
    let print = format!(
        "clear; printf '%s\\n' '{dashes}BEGIN PRIVATE KEY{dashes}' MIIrow1 MIIrow2 '{dashes}END PRIVATE KEY{dashes}'; \
         printf '\\033[31m%s\\033[0m%s\\n' {start} {rest}; echo done"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), print).unwrap();
    tmux.run(&["set-environment", "-t", "one", "AWS_SECRET_ACCESS_KEY", &"Ab3/".repeat(10)]);
    tmux.run(&["send-keys", "-t", "%0", &format!(". {}", file.path().display()), "Enter"]);
    tmux.until("done", |tmux| tmux.run(&["capture-pane", "-p"]).lines().any(|l| l == "done"));
    let pane = || json!({"pane_id": "%0"});
    for (options, masks) in [(&["--mask"][..], true), (&[], false)] {
        let mut session = tmux.serve(options);
        let shown = [
            session.call("capture_pane", json!({"pane_id": "%0", "colors": true})),
            session.call("capture_since", pane()),
            session.call("snapshot_pane", pane()),
            session.call("wait_for_text", json!({"pane_id": "%0", "timeout": 0.05})),
            session.call("show_environment", json!({"session_name": "one"})),
            session.request("resources/read", json!({"uri": "tmux://panes/%250/content"})),
            session.request("resources/read", json!({"uri": "tmux://panes/%250/tail"})),
        ];
        for secret in ["MIIrow", rest, "Ab3/Ab3/"] {
            let told = shown.iter().filter(|answer| answer.to_string().contains(secret)).count();
            assert_eq!(told == 0, masks, "{secret}: {shown:?}");
        }
        for guess in ["MIIrow1", "ghp_a1B2"] {
            let found = session.call("search_panes", json!({"pattern": guess}));
            assert_eq!(structured(&found)["total_panes_matched"] == 0, masks, "{found}");
            let wait = json!({"patterns": [guess], "pane_id": "%0", "timeout": 0.05});
            let waited = session.call("wait_for_text", wait);
            assert_eq!(structured(&waited)["matched_at_entry"] == false, masks, "{waited}");
        }
    }
}

/// Whatever is asked for, the log has no payload: neither our own words nor those of what we are made of.
#[test]
fn the_log_tells_no_payload_at_any_level() {
    let tmux = Tmux::start();
    let mut session = tmux.serve_in(&["--safety", "destructive"], |command| {
        command.env("TOOLGATE_LOG", "debug").env("RUST_LOG", "trace");
    });
    let secret = |n: u32| format!("hunter{n}");
    let to_pane = |name: &str, n: u32| json!({"pane_id": "%0", name: secret(n)});
    session.call("send_keys", to_pane("keys", 1));
    session.call("paste_text", to_pane("text", 2));
    session.call("run_command", to_pane("command", 3));
    session.call("set_environment", json!({"name": "LANG", "value": secret(4)}));
    session.call("set_option", json!({"option": "@a", "value": secret(5)}));
    session.call(
        "set_option",
        json!({"option": "history-limit", "value": secret(6), "global_": true}),
    );
    session.call("create_window", json!({"environment": {"A": secret(7)}}));
    session.call("send_keys", json!({"keys": [secret(8)]}));
    session.call("send_keys_batch", json!({"operations": [{"keys": secret(9), "pane_id": "%9"}]}));
    let inner = json!({"tool": "load_buffer", "arguments": {"content": secret(10)}});
    session.call("call_mutating_tools_batch", json!({"operations": [inner]}));
    session.notify("notifications/hunter11", json!({"text": secret(11)}));
    session.send_line(&format!("{{\"jsonrpc\": \"2.0\", \"broken\": \"{}", secret(12)));
    session.request(
        "prompts/get",
        json!({"name": "run_and_wait",
        "arguments": {"command": secret(13), "pane_id": "%0"}}),
    );
    session.finish();
    let log = session.all_stderr().join("\n");
    assert!(!log.contains("hunter"), "{log}");
    assert!(!session.audit_so_far().is_empty());
    let audit = std::fs::read_to_string(&session.audit).unwrap();
    assert!(!audit.contains("hunter"), "{audit}");
}

fn kind(answer: &Value) -> &str {
    answer.pointer("/result/_meta/error_type").and_then(Value::as_str).unwrap_or_default()
}

/// The client runs in our own pane: who types there answers in the user's place.
#[test]
fn nothing_is_typed_into_its_own_pane_and_no_option_ends_it() {
    let tmux = Tmux::start();
    tmux.run(&["new-session", "-d", "-s", "two", "bash --norc"]);
    let here = format!("{},1,0", tmux.format("#{socket_path}"));
    let mut session = tmux.serve_in(&["--safety", "destructive"], |command| {
        command.env("TMUX", here).env("TMUX_PANE", "%0");
    });
    let loaded = session.call("load_buffer", json!({"content": "x"}));
    let buffer = structured(&loaded)["buffer_name"].clone();
    for (tool, mut arguments) in [
        ("send_keys", json!({"keys": "y"})),
        ("paste_text", json!({"text": "y"})),
        ("paste_buffer", json!({"buffer_name": buffer})),
        ("run_command", json!({"command": "true"})),
    ] {
        for own in [json!({"pane_id": "%0"}), json!({"session_name": "one"})] {
            arguments.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
            let answer = session.call(tool, arguments.clone());
            assert_eq!(kind(&answer), "SelfTypingRefused", "{tool} {own}: {answer}");
            arguments.as_object_mut().unwrap().remove("pane_id");
        }
        arguments["session_name"] = json!("two");
        structured(&session.call(tool, arguments));
    }
    let keys = json!({"operations": [{"keys": "y", "pane_id": "%0"}]});
    let batch = session.call("send_keys_batch", keys);
    assert_eq!(structured(&batch)["failed"], 1);
    for (arguments, refused) in [
        (json!({"option": "destroy-unattached", "global_": true}), true),
        (json!({"option": "destroy-un", "scope": "session", "target": "one"}), true),
        (json!({"option": "exit-unattached", "scope": "server"}), true),
        (json!({"option": "destroy-unattached", "scope": "session", "target": "two"}), false),
    ] {
        let mut arguments = arguments;
        arguments["value"] = json!("on");
        let answer = session.call("set_option", arguments.clone());
        assert_eq!(kind(&answer) == "SelfKillRefused", refused, "{arguments}: {answer}");
    }
    assert!(tmux.run(&["list-sessions"]).contains("one"));
    assert_eq!(tmux.run(&["capture-pane", "-p", "-t", "%0"]).matches('y').count(), 0);
}

/// A batch judges the tool that its door will call, whatever an operator named it.
#[test]
fn other_names_do_not_lift_a_tool_into_a_milder_batch() {
    let tmux = Tmux::start();
    tmux.run(&["split-window", "-d", "cat"]);
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("toolgate.toml");
    let entry = |tool: &str, name: &str| {
        format!("[namespaces.default.tools.\"tmux/{tool}\"]\nname = \"{name}\"\n")
    };
    let names = [
        entry("kill_pane", "get_pane_info"),
        entry("get_pane_info", "kill_pane"),
        entry("call_readonly_tools_batch", "several"),
    ];
    std::fs::write(&config, names.concat()).unwrap();
    let mut session =
        tmux.serve(&["--safety", "destructive", "--config", config.to_str().unwrap()]);
    let operation = |tool: &str| json!({"tool": tool, "arguments": {"pane_id": "%1"}});
    let all = ["get_pane_info", "several", "call_readonly_tools_batch", "kill_pane"].map(operation);
    let batch = session.call("several", json!({"operations": all, "on_error": "continue"}));
    let batch = structured(&batch);
    let errors = ["exceeds batch tier", "recursively", "Unknown tool"];
    for (at, words) in errors.iter().enumerate() {
        let error = batch["results"][at]["error"].as_str().unwrap_or_default();
        assert!(error.contains(words), "{batch}");
    }
    assert_eq!(batch["results"][3]["structured_content"]["pane_id"], "%1", "{batch}");
}

/// Each wait for a channel has a process: there are not as many as a client likes.
#[test]
fn waits_and_sockets_are_bounded() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    let waits: Vec<i64> = (0..80)
        .map(|n| {
            let arguments = json!({"channel": format!("c{n}"), "timeout": 20});
            session.post_call("wait_for_channel", arguments)
        })
        .collect();
    let refused = session.wait_for(|answer| answer["result"]["_meta"]["code"] == "REFUSED");
    assert!(refused.to_string().contains("64 waits for channels"), "{refused}");
    for id in waits {
        session.notify("notifications/cancelled", json!({"requestId": id}));
    }
    let long = session.call("list_sessions", json!({"socket_name": "x".repeat(200_000)}));
    assert_eq!(kind(&long), "InvalidSocketName");
    assert!(long.to_string().len() < 1000);
    for n in 0..200 {
        let none = session.call("list_sessions", json!({"socket_name": format!("none-{n}")}));
        assert_eq!(structured(&none)["result"], json!([]));
    }
    structured(&session.call("list_sessions", json!({})));
    assert_eq!(tmux.clients(), 1, "the connection that is in use stays");
}
