//! The defects of libtmux-mcp are not ours. The numbers are those of the list that was made of them.
//!
//! | defect | shown by |
//! |---|---|
//! | 1 linked windows cannot be reached | here |
//! | 2 keys are dropped | here; `tmux_tools::keys_are_typed_exactly` |
//! | 3 no audit, and secrets in the log | here |
//! | 4 a readonly tool runs shell | here; `tmux_panes::messages_tell_plain_variables_and_run_nothing` |
//! | 5 large results break | here |
//! | 6 a denial looks like a typo | here |
//! | 7 `run_command` reads the screen | here; `tmux_run` |
//! | 8 no bounds | here |
//! | 9 a path in the environment wins | `tmux_tools::a_name_in_a_call_wins_over_a_path_in_the_environment` |
//! | 10 `TMUX` without `TMUX_PANE` opens the guard | `tmux_guard::the_table_of_environments` |
//! | 11 unknown fields in filters | here |
//! | 12 prompts as tools are hidden | `tmux_prompts::prompts_are_tools_where_that_is_asked_for` |
//! | 13 kinds of resources are wrong | here; `tmux_resources::all_templates_read_and_say_what_they_are` |
//! | 14 messages say things twice | here |
//! | 15 `delete_buffer` is said to be idempotent | here |
//! | 16 directories that are not there | here |
//! | 17 resources pass the tiers and have no limit | here; `tmux_config`, `tmux_resources` |

use std::{fs, process::Command};

use serde_json::{Value, json};

use crate::harness::{
    Session, text,
    tmux::{Tmux, structured},
    toolgate,
};

fn meta<'a>(answer: &'a Value, field: &str) -> &'a Value {
    &answer["result"]["_meta"][field]
}

fn tools(session: &mut Session) -> Vec<Value> {
    let answer = session.request("tools/list", json!({}));
    answer["result"]["tools"].as_array().unwrap().clone()
}

#[test]
fn what_two_sessions_share_is_one_and_is_reached_by_every_tool() {
    // 1: a window that is linked, and one of a group of sessions.
    let tmux = Tmux::start();
    tmux.run(&["new-session", "-d", "-s", "two", "cat"]);
    tmux.run(&["link-window", "-d", "-s", "one:0", "-t", "two:7"]);
    tmux.run(&["new-session", "-d", "-t", "two", "-s", "grouped"]);
    let mut session = tmux.serve(&["--safety", "destructive"]);
    for (tool, expected) in [("list_panes", ["%0", "%1"]), ("list_windows", ["@0", "@1"])] {
        let field = if tool == "list_panes" { "pane_id" } else { "window_id" };
        let listed = session.call(tool, json!({}));
        let rows = structured(&listed)["result"].as_array().unwrap();
        let mut ids: Vec<&str> = rows.iter().map(|row| row[field].as_str().unwrap()).collect();
        ids.sort_unstable();
        assert_eq!(ids, expected, "{tool}");
    }
    let (pane, window) = (json!({"pane_id": "%0"}), json!({"window_id": "@0"}));
    for tool in ["capture_pane", "capture_since", "snapshot_pane", "get_pane_info", "run_command"] {
        for mut target in [pane.clone(), window.clone()] {
            if tool == "run_command" {
                target["command"] = json!("echo seen");
            }
            let answer = session.call(tool, target);
            let told = structured(&answer);
            assert!(told.get("pane_id").is_none_or(|id| id == "%0"), "{tool}: {answer}");
        }
    }
    let found = session.call("search_panes", json!({"pattern": "seen"}));
    assert_eq!(structured(&found)["total_panes_matched"], 1, "{found}");
    let split = session.call("split_window", json!({"window_id": "@0", "shell": "cat"}));
    let new = &structured(&split)["pane_id"];
    for (tool, arguments) in [
        ("get_window_info", json!({"window_id": "@0"})),
        ("get_window_info", json!({"session_name": "two", "window_index": "7"})),
        ("send_keys", json!({"pane_id": "%0", "keys": "true"})),
        ("wait_for_text", json!({"pane_id": "%1", "patterns": ["x"], "timeout": 0.05})),
        ("rename_window", json!({"window_id": "@0", "new_name": "both"})),
        ("select_pane", json!({"window_id": "@0", "direction": "next"})),
        ("resize_pane", json!({"pane_id": "%0", "height": 5})),
        ("select_layout", json!({"window_id": "@0", "layout": "tiled"})),
        ("find_pane_by_position", json!({"window_id": "@0", "corner": "top-left"})),
        ("respawn_pane", json!({"pane_id": new, "shell": "cat"})),
        ("kill_pane", json!({"pane_id": new})),
        ("kill_window", json!({"window_id": "@0"})),
    ] {
        structured(&session.call(tool, arguments));
    }
    assert_eq!(tmux.run(&["list-windows", "-a", "-F", "#{window_id}"]), "@1\n@1", "gone from both");
}

/// A pane whose program takes what is typed as it is, and writes it into a file.
fn taker(tmux: &Tmux, file: &std::path::Path) -> String {
    let file = file.display();
    let program = format!("stty raw -echo; touch {file}; exec cat > {file}");
    let pane = tmux.run(&["new-window", "-d", "-P", "-F", "#{pane_id}", &program]);
    tmux.until("taking", |tmux| {
        let now = tmux.run(&["display-message", "-p", "-t", &pane, "#{pane_current_command}"]);
        now == "cat"
    });
    pane
}

#[test]
fn every_byte_of_what_is_typed_or_pasted_arrives() {
    // 2: a `;` at the end, a `-` at the beginning; and everything else that tmux reads in its own way.
    let tmux = Tmux::start();
    // The guard would ask about control keys.
    let mut session = tmux.serve(&["--guard", "off"]);
    let file = session.folder().join("taken");
    let pane = taker(&tmux, &file);
    let texts = [
        "echo hi;",
        ";",
        "\\;",
        "a\\",
        "-l",
        "--",
        "-",
        "#{pid} #(id) %H ~ $HOME {a} \"'",
        "é 漢 🙂",
        "a\nb",
        "Enter",
        "\t",
    ];
    let mut expected = Vec::new();
    for text in texts {
        let keys = json!({"keys": text, "pane_id": pane, "literal": true, "enter": false});
        structured(&session.call("send_keys", keys));
        expected.extend(text.as_bytes());
        structured(
            &session.call("paste_text", json!({"text": text, "pane_id": pane, "bracket": false})),
        );
        // A terminal has no newline: its Enter is a carriage return.
        expected.extend(text.replace('\n', "\r").as_bytes());
    }
    for (keys, bytes) in [
        ("echo hi;", &b"echo hi;\r"[..]),
        ("-l", b"-l\r"),
        ("C-c", b"\x03\r"),
        ("C-[", b"\x1b\r"),
        ("Up", b"\x1b[A\r"),
    ] {
        structured(&session.call("send_keys", json!({"keys": keys, "pane_id": pane})));
        expected.extend(bytes);
        let batch = json!({"operations": [{"keys": keys, "pane_id": pane}]});
        structured(&session.call("send_keys_batch", batch));
        expected.extend(bytes);
    }
    tmux.until("all taken", |_| fs::read(&file).unwrap().len() >= expected.len());
    let taken = fs::read(&file).unwrap();
    assert_eq!(String::from_utf8_lossy(&taken), String::from_utf8_lossy(&expected));
}

#[test]
fn calls_are_recorded_without_being_asked_and_secrets_are_in_no_log() {
    // 3: nothing was recorded, and the log at its finest told what was typed.
    let tmux = Tmux::start();
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let mut command = Command::new(toolgate());
    command.arg("tmux").env("XDG_STATE_HOME", &state).env("TOOLGATE_LOG", "debug");
    command.env("RUST_LOG", "trace").env("LIBTMUX_SOCKET", &tmux.name);
    command.env("LIBTMUX_SAFETY", "mutating");
    command.env_remove("TMUX").env_remove("TMUX_PANE").env_remove("TOOLGATE_AUDIT");
    let mut session = Session::spawn(command, folder);
    session.initialize();
    let secret = "s3cret-value";
    for (tool, arguments) in [
        ("send_keys", json!({"keys": secret, "pane_id": "%0"})),
        ("send_keys_batch", json!({"operations": [{"keys": secret, "pane_id": "%0"}]})),
        ("paste_text", json!({"text": secret, "pane_id": "%0"})),
        ("load_buffer", json!({"content": secret})),
        ("set_environment", json!({"name": "LANG", "value": secret})),
        ("set_option", json!({"option": "@a", "value": secret})),
        ("create_window", json!({"environment": {"A": secret}})),
        ("create_window", json!({"environment": json!({"A": secret}).to_string()})),
        ("split_window", json!({"shell": format!("echo {secret}; cat")})),
        ("run_command", json!({"pane_id": "%99", "command": format!("echo {secret}")})),
        (
            "call_mutating_tools_batch",
            json!({"operations": [{"tool": "send_keys", "arguments": {"keys": secret}}]}),
        ),
        // Not as they should be: still a secret.
        ("send_keys", json!({"keys": [secret], "pane_id": "%0"})),
    ] {
        session.call(tool, arguments);
    }
    session.finish();
    let audit = fs::read_to_string(state.join("toolgate/audit.jsonl")).unwrap();
    let records = crate::harness::outcomes(&audit);
    assert_eq!(
        records.iter().filter(|record| record["parent_call_uuid"].is_null()).count(),
        12,
        "{audit}"
    );
    assert!(
        records.iter().any(|record| record["tool"] == "send_keys" && record["outcome"] == "ok")
    );
    let log = session.all_stderr().join("\n");
    for (what, told) in [("audit", &audit), ("log", &log)] {
        assert!(!told.contains(secret), "{what}: {told}");
    }
}

#[test]
fn readonly_tools_run_nothing_and_denials_say_what_they_are() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&["--safety", "readonly"]);
    // 4: jobs in what is given, and in options that formats reach.
    let file = session.folder().join("ran");
    let job = format!("#(touch {})", file.display());
    tmux.run(&["set-option", "-g", "@job", &job]);
    for tool in tools(&mut session) {
        let name = tool["name"].as_str().unwrap();
        let properties = tool["inputSchema"]["properties"].as_object().unwrap();
        let is_text = |schema: &Value| {
            schema["type"] == "string" || schema["type"] == json!(["string", "null"])
        };
        for argument in
            properties.iter().filter(|(_, schema)| is_text(schema)).map(|(name, _)| name)
        {
            for value in [&job, "#{E:@job}", "#{T:@job}", "}#{E:@job}", "%0;run-shell 'touch x'"] {
                let mut arguments = json!({argument: value});
                for required in tool["inputSchema"]["required"].as_array().into_iter().flatten() {
                    let required = required.as_str().unwrap();
                    if required != argument {
                        arguments[required] = json!("top-left");
                    }
                }
                session.call(name, arguments);
            }
        }
    }
    for filters in [json!({"pane_id": job}), json!({"pane_id__regex": "#{E:@job}"})] {
        session.call("list_panes", json!({"filters": filters}));
    }
    // A job runs beside tmux: what is started now and waited for comes after those.
    tmux.run(&["run-shell", "sleep 0"]);
    assert!(!file.exists());

    // 6: what is denied is not unknown. 17: resources are judged by the same tiers.
    let denied = session.call("kill_server", json!({}));
    assert_eq!(
        (meta(&denied, "code"), meta(&denied, "expected")),
        (&json!("TIER_DENIED"), &json!(true))
    );
    assert!(text(&denied).contains("destructive"), "{denied}");
    let denied = session.call("send_keys", json!({"keys": "x"}));
    assert!(
        text(&denied).contains("mutating") && !text(&denied).contains("destructive"),
        "{denied}"
    );
    let unknown = session.call("kill_sever", json!({}));
    assert_eq!(
        (meta(&unknown, "code"), meta(&unknown, "expected")),
        (&json!("UNKNOWN_TOOL"), &json!(true))
    );
    assert!(!session.stderr_so_far().iter().any(|line| line.starts_with("toolgate: error")));
    assert!(!file.exists());
    let records = session.records();
    let denied = records.iter().filter(|record| record["error_type"] == *"TierDenied");
    assert_eq!(denied.count(), 2, "{records:?}");
}

#[test]
fn numbers_have_bounds_and_what_is_wrong_is_refused_before_anything_happens() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&["--safety", "destructive"]);
    // 8: each number is bounded below, except lines of a screen, of which those above are negative.
    let mut tried = 0;
    for tool in tools(&mut session) {
        for (argument, schema) in tool["inputSchema"]["properties"].as_object().unwrap() {
            let types = schema["type"].to_string();
            if !(types.contains("integer") || types.contains("number")) {
                continue;
            }
            if ["start", "end", "content_start", "content_end"].contains(&argument.as_str()) {
                continue;
            }
            let name = tool["name"].as_str().unwrap();
            let mut arguments = json!({argument: -1});
            for (required, value) in [
                ("pattern", json!("x")),
                ("command", json!("true")),
                ("channel", json!("x")),
                ("buffer_name", json!("x")),
                ("operations", json!([{"keys": "x"}])),
            ] {
                if tool["inputSchema"]["properties"].get(required).is_some() {
                    arguments[required] = value;
                }
            }
            let refused = session.call(name, arguments);
            assert_eq!(meta(&refused, "code"), "INVALID_ARGUMENTS", "{name} {argument}: {refused}");
            tried += 1;
        }
    }
    assert!(tried > 15, "{tried}");
    for (tool, arguments) in [
        ("capture_pane", json!({"max_lines": 0})),
        ("search_panes", json!({"pattern": "x", "limit": 0})),
    ] {
        assert_eq!(meta(&session.call(tool, arguments), "code"), "INVALID_ARGUMENTS");
    }
    // 11: a field that nothing has finds nothing, and that is not the answer.
    for tool in ["list_sessions", "list_windows", "list_panes"] {
        let wrong = session.call(tool, json!({"filters": {"pane_nmae": "x"}}));
        assert!(text(&wrong).starts_with("Invalid filter field 'pane_nmae'"), "{tool}: {wrong}");
    }
    // 16: a typo in a directory starts nothing somewhere else.
    let before = tmux.run(&["list-panes", "-a", "-F", "#{pane_id} #{pane_pid}"]);
    for (tool, mut arguments) in [
        ("create_session", json!({"session_name": "x"})),
        ("create_window", json!({})),
        ("split_window", json!({"window_id": "@0"})),
        ("respawn_pane", json!({"pane_id": "%0"})),
    ] {
        arguments["start_directory"] = json!("/no/such");
        let refused = session.call(tool, arguments);
        assert_eq!(
            text(&refused),
            "start_directory is not an existing directory: '/no/such'",
            "{tool}"
        );
    }
    assert_eq!(tmux.run(&["list-panes", "-a", "-F", "#{pane_id} #{pane_pid}"]), before);
    // 14: whatever is not there is told once, and the same by all.
    for tool in tools(&mut session) {
        let name = tool["name"].as_str().unwrap();
        let properties = &tool["inputSchema"]["properties"];
        if properties.get("pane_id").is_none() {
            continue;
        }
        let mut arguments = json!({"pane_id": "%999"});
        for required in ["keys", "command", "title", "format_string", "text"] {
            if properties.get(required).is_some() {
                arguments[required] = json!("x");
            }
        }
        match name {
            "paste_buffer" => {
                arguments["buffer_name"] = json!(format!("libtmux_mcp_{}_x", "0".repeat(32)));
            }
            "pipe_pane" => arguments["output_path"] = Value::Null,
            "resize_pane" => arguments["height"] = json!(5),
            _ => {}
        }
        let missing = session.call(name, arguments);
        assert_eq!(
            text(&missing),
            "Pane not found: %999\nCall list_panes to discover valid pane ids.",
            "{name}"
        );
        assert_eq!(meta(&missing, "error_type"), "PaneNotFound");
    }
    // 15: gone is gone.
    let loaded = session.call("load_buffer", json!({"content": "x"}));
    let name = json!({"buffer_name": structured(&loaded)["buffer_name"]});
    structured(&session.call("delete_buffer", name.clone()));
    assert_eq!(session.call("delete_buffer", name)["result"]["isError"], true);
}

#[test]
fn large_results_stay_whole_in_their_form_and_say_what_they_left_off() {
    let tmux = Tmux::down();
    let long = "seq -f %0100g 1 14000; exec cat";
    let start = [
        "set-option",
        "-g",
        "history-limit",
        "50000",
        ";",
        "new-session",
        "-d",
        "-s",
        "one",
        "-x",
        "120",
        "-y",
    ];
    tmux.run(&[&["start-server", ";"], &start[..], &["40", "bash --norc"]].concat());
    let pane = tmux.run(&["new-window", "-d", "-P", "-F", "#{pane_id}", long]);
    let counted = |pane: &str, last: &str| {
        tmux.until(last, |tmux| tmux.run(&["capture-pane", "-p", "-t", pane]).contains(last));
    };
    counted(&pane, "00014000");
    let mut session = tmux.serve(&[]);
    let schemas: Vec<Value> = tools(&mut session);
    let mut call = |tool: &str, arguments: Value| {
        let answer = session.call(tool, arguments);
        assert!(answer.to_string().len() < 1_010_000);
        let schema = schemas.iter().find(|known| known["name"] == tool).unwrap();
        jsonschema::validate(&schema["outputSchema"], structured(&answer)).unwrap();
        answer
    };
    // 5: what is over the limit keeps its form, its end, and tells of the rest.
    let captured =
        call("capture_pane", json!({"pane_id": pane, "start": -20000, "max_lines": null}));
    let kept = structured(&captured)["result"].as_str().unwrap();
    assert!(kept.starts_with("[... truncated ") && kept.ends_with("00014000"));
    let matching = json!({"pattern": "0", "content_start": -20000, "max_matched_lines_per_pane": 20000, "limit": null});
    let found = call("search_panes", matching);
    let lines = structured(&found)["matches"][0]["matched_lines"].as_array().unwrap();
    assert!(lines.len() < 14000 && lines.last().unwrap().as_str().unwrap().ends_with("00014000"));
    assert_eq!(structured(&found)["truncated"], true);
    let content = format!("{}\n", "x".repeat(100)).repeat(14000);
    let loaded = call("load_buffer", json!({"content": content}));
    let buffer = json!({"buffer_name": structured(&loaded)["buffer_name"], "max_lines": null});
    let shown = call("show_buffer", buffer);
    let shown = structured(&shown);
    let kept = shown["content"].as_str().unwrap().lines().count();
    assert_eq!(
        (&shown["content_truncated"], &shown["content_truncated_lines"]),
        (&json!(true), &json!(14000 - kept))
    );
    // 7: a command's output, however much it is, and not what was on the screen before.
    let ran = call("run_command", json!({"pane_id": "%0", "command": "seq -f %0100g 1 14000"}));
    let ran = structured(&ran);
    let kept = ran["output"].as_array().unwrap().len();
    assert_eq!(
        (&ran["output_truncated"], &ran["output_truncated_lines"]),
        (&json!(true), &json!(14000 - kept))
    );
    // Nothing is lost between two looks without being told of.
    let first = call("capture_since", json!({"pane_id": "%0"}));
    tmux.run(&["send-keys", "-t", "%0", "seq -f %0100g 1 14001", "Enter"]);
    counted("%0", "00014001");
    let since =
        json!({"cursor": structured(&first)["cursor"], "max_lines": null, "max_bytes": null});
    let since = call("capture_since", since);
    let since = structured(&since);
    assert_eq!(since["truncated"], true);
    let told = since["lines"].as_array().unwrap().len();
    assert!(
        told + since["truncated_lines"].as_u64().map_or(0, |n| usize::try_from(n).unwrap())
            >= 14000,
        "{told}"
    );
    // A screen can be that large, too.
    tmux.run(&["resize-window", "-t", &pane, "-x", "9000", "-y", "300"]);
    let wide = "yes $(printf 'x%.0s' $(seq 8000)) | head -290; exec cat";
    tmux.run(&["respawn-pane", "-k", "-t", &pane, wide]);
    tmux.until("wide", |tmux| {
        tmux.run(&["capture-pane", "-p", "-t", &pane]).lines().count() >= 290
    });
    let shot = call("snapshot_pane", json!({"pane_id": pane}));
    let shot = structured(&shot);
    let kept = shot["content"].as_str().unwrap().lines().count();
    assert_eq!(
        (&shot["content_truncated"], &shot["content_truncated_lines"]),
        (&json!(true), &json!(290 - kept))
    );
    // 13, 17: a resource says what it is, and has the same limit.
    let read = session.request(
        "resources/read",
        json!({"uri": format!("tmux://panes/%25{}/content", &pane[1..])}),
    );
    let content = &read["result"]["contents"][0];
    assert_eq!(content["mimeType"], "text/plain");
    assert!(
        content["text"].as_str().unwrap().starts_with("[... truncated ")
            && read.to_string().len() < 1_010_000
    );
    let read = session.request("resources/read", json!({"uri": "tmux://sessions"}));
    assert_eq!(read["result"]["contents"][0]["mimeType"], "application/json");
}
