//! What `toolgate tmux` is set to: command line over variables over file, and both styles of choosing tools.

use std::process::Output;

use serde_json::json;

use crate::harness::{
    Session, text,
    tmux::{Tmux, structured},
    toolgate,
};

fn names(session: &mut Session) -> Vec<String> {
    let answer = session.request("tools/list", json!({}));
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// `toolgate tmux` with these variables.
fn with(tmux: &Tmux, options: &[&str], variables: &[(&str, &str)]) -> Session {
    tmux.serve_in(options, |command| {
        command.env_remove("LIBTMUX_SAFETY").envs(variables.iter().copied());
    })
}

/// What is told by a server that refuses to start.
fn refused(options: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = std::process::Command::new(toolgate());
    let Output { status, stderr, .. } = command
        .args(["tmux", "--audit", "off"])
        .args(options)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    assert_eq!(status.code(), Some(2), "{options:?} {variables:?}");
    String::from_utf8(stderr).unwrap()
}

fn file(config: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("toolgate.toml");
    std::fs::write(&path, config).unwrap();
    let path = path.display().to_string();
    (folder, path)
}

/// What is listed can be called, and nothing else: asked of tools that do no harm here.
fn assert_agrees(session: &mut Session) {
    let listed = names(session);
    for (tool, arguments) in [
        ("list_sessions", json!({})),
        ("rename_session", json!({"new_name": "x", "session_name": "no"})),
        ("create_window", json!({"session_name": "no"})),
        ("send_keys", json!({"keys": "x", "pane_id": "%999"})),
        ("kill_session", json!({"session_name": "no"})),
    ] {
        let answer = session.call(tool, arguments);
        let code = answer["result"]["_meta"]["code"].as_str().unwrap_or_default();
        let is_denied = ["TOOL_INACTIVE", "TIER_DENIED"].contains(&code);
        let is_listed = listed.iter().any(|name| name == tool);
        assert_eq!(is_denied, !is_listed, "{tool} of {listed:?}: {answer}");
        if is_denied {
            assert!(answer["result"]["_meta"]["rule"].is_string(), "it names its rule: {answer}");
        }
    }
}

#[test]
fn toolsets_and_tiers_choose_and_what_is_listed_can_be_called() {
    let tmux = Tmux::start();
    let choose = |variables: &[(&str, &str)]| {
        let mut session = with(&tmux, &[], variables);
        assert_agrees(&mut session);
        names(&mut session)
    };
    let has = |names: &[String], tool: &str| names.iter().any(|name| name == tool);
    let usual = choose(&[]);
    assert!(has(&usual, "send_keys") && !has(&usual, "kill_session"), "{usual:?}");
    assert!(has(&usual, "rename_window") && !has(&usual, "resize_pane"), "the core: {usual:?}");
    assert_eq!(usual, choose(&[("LIBTMUX_TOOLSETS", "core")]));
    // A client puts the whole list into the context of its model.
    let listed = with(&tmux, &[], &[]).request("tools/list", json!({}))["result"].to_string();
    assert!(listed.len() < 25_000, "{} bytes", listed.len());
    let tier = choose(&[("LIBTMUX_SAFETY", "mutating")]);
    assert!(has(&tier, "resize_pane") && !has(&tier, "kill_session"), "all of a tier: {tier:?}");
    let inspect = choose(&[("LIBTMUX_TOOLSETS", "inspect")]);
    assert!(has(&inspect, "capture_pane") && !has(&inspect, "rename_session"), "{inspect:?}");
    let manage = choose(&[("LIBTMUX_TOOLSETS", " manage , inspect")]);
    assert!(has(&manage, "select_window") && !has(&manage, "create_window"), "{manage:?}");
    let teardown = choose(&[("LIBTMUX_TOOLSETS", "teardown")]);
    assert!(has(&teardown, "kill_session") && !has(&teardown, "list_sessions"), "{teardown:?}");
    assert_eq!(choose(&[("LIBTMUX_TOOLSETS", "")]), Vec::<String>::new());
    let one =
        choose(&[("LIBTMUX_TOOLSETS", "inspect"), ("LIBTMUX_TOOLS", "kill_session,send_keys")]);
    assert!(has(&one, "kill_session") && has(&one, "send_keys") && !has(&one, "kill_server"));
    let less = choose(&[("LIBTMUX_TOOLS", "send_keys"), ("LIBTMUX_EXCLUDE_TOOLS", "send_keys")]);
    assert!(!has(&less, "send_keys") && has(&less, "create_window"), "{less:?}");
    // Both must allow.
    let both = choose(&[("LIBTMUX_TOOLSETS", "teardown,inspect"), ("LIBTMUX_SAFETY", "readonly")]);
    assert!(has(&both, "list_sessions") && !has(&both, "kill_session"), "{both:?}");
    let stricter = choose(&[("TOOLGATE_SAFETY", "destructive"), ("LIBTMUX_SAFETY", "readonly")]);
    assert!(!has(&stricter, "send_keys"), "{stricter:?}");
    let flag =
        names(&mut with(&tmux, &["--safety", "destructive"], &[("LIBTMUX_SAFETY", "readonly")]));
    assert!(has(&flag, "kill_session"), "the command line goes first: {flag:?}");
    let mut session = with(&tmux, &[], &[("LIBTMUX_TOOLSETS", "inspect")]);
    let denied = session.call("send_keys", json!({"keys": "x"}));
    assert_eq!(denied["result"]["_meta"]["rule"], "inactive: tmux/send_keys", "{denied}");
    // What may not be called may not be read, subscribed to or completed either.
    let mut blind = with(&tmux, &[], &[("LIBTMUX_EXCLUDE_TOOLS", "capture_pane,list_sessions")]);
    for method in ["resources/read", "resources/subscribe"] {
        let content = blind.request(method, json!({"uri": "tmux://panes/%250/content"}));
        assert_eq!(content["error"]["data"]["rule"], "inactive: tmux/capture_pane", "{content}");
    }
    assert_eq!(blind.request("resources/list", json!({}))["result"]["resources"], json!([]));
    let argument = json!({"name": "session_name", "value": ""});
    let asked = json!({"ref": {"type": "ref/resource", "uri": "tmux://sessions/{session_name}"},
        "argument": argument});
    let completed = blind.request("completion/complete", asked);
    assert_eq!(completed["result"]["completion"]["values"], json!([]));
}

#[test]
fn values_that_mean_nothing_refuse_to_start() {
    for (name, value, output) in [
        ("LIBTMUX_SAFETY", "bogus", "unknown safety tier `bogus`"),
        ("LIBTMUX_TOOLSETS", "inspect,nope", "write core, inspect, manage, execute, teardown"),
        (
            "LIBTMUX_TOOLS",
            "no_tool",
            "names `no_tool`, which is no tool: the tools are list_sessions",
        ),
        ("LIBTMUX_EXCLUDE_TOOLS", "kill_sesion", "no tool: did you mean `kill_session`?"),
        ("LIBTMUX_SUPPRESS_HISTORY", "s3cret", "must be unset, '0', or '1'"),
        ("LIBTMUX_MCP_WAIT_MAX_SECONDS", "soon", "write seconds, from 1 to 120"),
        ("LIBTMUX_MCP_PROMPTS_AS_TOOLS", "yes", "neither '0' nor '1'"),
    ] {
        let told = refused(&[], &[(name, value)]);
        assert!(told.contains(name) && told.contains(output), "{told}");
        assert!(!told.contains("s3cret"), "{told}");
    }
    assert!(refused(&["--toolsets", "x"], &[]).contains("unknown toolset `x`"));
    assert!(refused(&["--wait-max", "3m"], &[]).contains("write 1s to 120s"));
    assert!(refused(&["--server", "x"], &[]).contains("`toolgate tmux` is a server itself"));
    for (config, output) in [
        ("[tmux]\nsocket = \"x\"\n", "socket_name"),
        ("[tmux]\ntoolsets = [\"all\"]\n", "`inspect`"),
        ("[tmux]\nwait_max = \"500s\"\n", "write 1s to 120s"),
        ("[tmux]\ntools = [\"nope\"]\n", "`nope`, which is no tool"),
    ] {
        let (_folder, path) = file(config);
        let told = refused(&["--config", &path], &[]);
        assert!(told.contains(output), "{told}");
    }
    let tmux = Tmux::down();
    let mut session = with(&tmux, &["--tmux-bin", "/no/tmux"], &[]);
    session.wait_for_stderr("cannot find the tmux program `/no/tmux`");
    let failed = session.call("list_sessions", json!({}));
    assert!(text(&failed).contains("--tmux-bin"), "{failed}");
    let session =
        with(&tmux, &[], &[("LIBTMUX_MCP_WAIT_MAX_SECONDS", "900"), ("LIBTMUX_TOOLSET", "x")]);
    session.wait_for_stderr("LIBTMUX_MCP_WAIT_MAX_SECONDS=900 is out of bounds");
    let session = with(&tmux, &[], &[("LIBTMUX_TOOLSET", "x")]);
    session.wait_for_stderr("the variable LIBTMUX_TOOLSET means nothing");
}

#[test]
fn the_command_line_goes_over_the_variables_and_these_over_the_file() {
    let [file_tmux, variable_tmux, line_tmux] = [Tmux::start(), Tmux::start(), Tmux::start()];
    for (tmux, name) in [(&file_tmux, "file"), (&variable_tmux, "variable"), (&line_tmux, "line")] {
        tmux.run(&["rename-session", name]);
    }
    let path = file_tmux.format("#{socket_path}");
    let config = format!(
        "[tmux]\nsocket_path = {path:?}\ntoolsets = [\"inspect\"]\nprompts_as_tools = true\n\
         [namespaces.default]\nsafety = \"destructive\"\n"
    );
    let (folder, config) = file(&config);
    let start = |options: &[&str], variable: Option<&str>| {
        file_tmux.serve_in(&[&["--config", &config], options].concat(), |command| {
            command.env_remove("LIBTMUX_SOCKET");
            command.envs(variable.map(|name| ("LIBTMUX_SOCKET", name)));
        })
    };
    let served = |session: &mut Session| {
        let sessions = session.call("list_sessions", json!({}));
        structured(&sessions)["result"][0]["session_name"].as_str().unwrap().to_owned()
    };
    let mut session = start(&[], None);
    assert_eq!(served(&mut session), "file");
    let listed = names(&mut session);
    assert!(
        listed.contains(&"list_prompts".to_owned()) && !listed.contains(&"send_keys".to_owned())
    );
    // The socket is one thing: a name in a variable goes over a path in the file.
    assert_eq!(served(&mut start(&[], Some(&variable_tmux.name))), "variable");
    let line = ["--socket-name", &line_tmux.name, "--toolsets", "inspect,teardown"];
    let mut session = start(&line, Some(&variable_tmux.name));
    assert_eq!(served(&mut session), "line");
    assert!(names(&mut session).contains(&"kill_session".to_owned()), "the file allows the tier");
    drop(folder);
}

#[test]
fn the_chain_is_that_of_the_file_and_of_the_options_of_wrap() {
    let tmux = Tmux::start();
    let (folder, config) = file(
        "store = \"sqlite:calls.db\"\n\
         [audit]\nfile = \"own.jsonl\"\n\
         [namespaces.team]\nsafety = \"destructive\"\npolicy = \"narrow\"\n\
         [namespaces.team.tools.\"tmux/send_keys\"]\nname = \"type\"\noriginal = \"retired\"\n\
         [policies.narrow]\nallow = [\"tmux/*\"]\ndeny = [\"tmux/kill_*\"]\n",
    );
    let mut command = std::process::Command::new(toolgate());
    command.args(["tmux", "--config", &config, "--namespace", "team", "--dry-run=false"]);
    command.args(["--confirm", "destructive", "--socket-name", &tmux.name]);
    let mut session = Session::spawn(command, tempfile::tempdir().unwrap());
    session.initialize();
    let listed = names(&mut session);
    assert!(listed.contains(&"type".to_owned()) && !listed.contains(&"send_keys".to_owned()));
    assert!(!listed.contains(&"kill_server".to_owned()), "{listed:?}");
    let denied = session.call("kill_server", json!({}));
    assert!(text(&denied).starts_with("Access denied to tool kill_server by policy narrow"));
    structured(&session.call("type", json!({"keys": "", "pane_id": "%0", "enter": false})));
    let gone = session.call("send_keys", json!({"keys": "x", "pane_id": "%0"}));
    assert_eq!(gone["result"]["_meta"]["code"], "UNKNOWN_TOOL", "{gone}");
    let (status, _) = session.finish();
    assert!(status.success());
    let records = std::fs::read_to_string(folder.path().join("own.jsonl")).unwrap();
    let records = crate::harness::outcomes(&records);
    assert_eq!(records.len(), 3, "{records:?}");
    assert!(records.iter().all(|record| record["namespace"] == "team"));
    assert!(folder.path().join("calls.db").exists(), "the log is kept");

    // The words and the order of libtmux-mcp, where that is asked for.
    let mut session = with(&tmux, &["--chain", "libtmux", "--safety", "readonly"], &[]);
    let denied = session.call("send_keys", json!({"keys": "x", "pane_id": "%0"}));
    assert_eq!(
        text(&denied),
        "Tool 'send_keys' is not available at the current safety level.\n\
         Set LIBTMUX_SAFETY=mutating to enable mutating tools."
    );
    let wrong = session.call("capture_pane", json!({"max_lines": 0}));
    assert_eq!(wrong["result"]["_meta"]["code"], "INVALID_ARGUMENTS", "bounds hold there too");
    let mut session = with(&tmux, &["--chain", "libtmux"], &[("LIBTMUX_TOOLSETS", "teardown")]);
    assert_agrees(&mut session);
    assert!(names(&mut session).contains(&"kill_session".to_owned()));
}

#[test]
fn other_commands_know_the_server_of_the_file() {
    let (_folder, config) =
        file("[tmux]\ntoolsets = [\"inspect\"]\nexclude_tools = [\"list_servers\"]\n");
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(toolgate());
        command.args(arguments).args(["--config", &config, "--audit", "off"]);
        let output = command.env_remove("LIBTMUX_TOOLSETS").output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, output) = run(&["check"]);
    assert!(code == Some(0) && output.contains("tools of `tmux`"), "{output}");
    let (_folder, both) = file("[servers.x]\ncommand = \"x\"\n[tmux]\ntools = [\"nope\"]\n");
    let output = std::process::Command::new(toolgate())
        .args(["check", "--offline", "--audit", "off", "--config", &both])
        .output();
    let output = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(output.contains("`nope`, which is no tool"), "{output}");
    let (code, output) = run(&["why", "tmux/list_servers"]);
    assert!(code == Some(1) && output.contains("DENIES  inactive: tmux/list_servers"), "{output}");
    let (code, output) = run(&["why", "capture_pane"]);
    assert!(code == Some(0) && output.contains("readonly, listed by its server"), "{output}");
    let (code, chain) = run(&["chain"]);
    assert!(code == Some(0) && chain.contains("up to readonly"), "{chain}");
    assert_eq!(run(&["tmux", "--print-chain"]), (code, chain));
    // The command guard is a part of the chain, and is explained like the rest.
    let (_folder, usual) = file("[tmux]\nsocket_name = \"tg-none\"\n");
    let guarded = |arguments: &[&str]| {
        let mut command = std::process::Command::new(toolgate());
        command.args(arguments).args(["--config", &usual, "--audit", "off"]);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let chain = guarded(&["tmux", "--print-chain"]);
    let is_told = chain.contains("command-guard for tmux/paste_buffer, tmux/paste_text")
        && !chain.contains("dry run");
    assert!(is_told, "{chain}");
    assert!(
        guarded(&["tmux", "--print-chain", "--guard", "off"]).contains("preconditions      none")
    );
    let output =
        guarded(&["why", "send_keys", "--args", r#"{"keys": "git push -f", "pane_id": "%0"}"#]);
    assert!(output.contains("command-guard of tmux/send_keys"), "{output}");
    let (code, output) = run(&["why", "kill_server", "--server", "tmux"]);
    assert!(code == Some(1) && output.contains("destructive, listed by its server"), "{output}");
}

const RENAMED: &str = r#"
[namespaces.default.tools."tmux/list_sessions"]
name = "sessions"
"#;

/// `_meta.allowedTools` has the names that the client sees, as with every other transport.
#[test]
fn a_request_narrows_itself_by_the_names_that_the_client_sees() {
    let tmux = Tmux::start();
    let (_folder, path) = file(RENAMED);
    let mut session = tmux.serve(&["--config", &path]);
    let mut call = |name: &str, meta: serde_json::Value| {
        let params = json!({"name": name, "arguments": {}, "_meta": meta});
        let answer = session.request("tools/call", params);
        let code = answer["result"]["_meta"]["code"].as_str().unwrap_or("ok").to_owned();
        (code, answer)
    };
    assert_eq!(call("sessions", json!({"allowedTools": ["sessions"]})).0, "ok");
    let own = call("sessions", json!({"allowedTools": ["list_sessions"]}));
    assert_eq!(own.0, "TOOL_NOT_ALLOWED", "{}", own.1);
    assert_eq!(call("sessions", json!({"allowedTools": ["tmux/list_sessions"]})).0, "ok");

    // What narrows the list is the same.
    let listed = |session: &mut Session, allowed: &str| {
        let meta = json!({"allowedTools": [allowed]});
        let answer = session.request("tools/list", json!({"_meta": meta}));
        answer["result"]["tools"].as_array().unwrap().len()
    };
    assert_eq!(listed(&mut session, "sessions"), 1);
    assert_eq!(listed(&mut session, "list_sessions"), 0);

    // A call that is part of a narrowed one is narrowed too.
    let params = json!({"name": "list_panes", "_meta": {"allowedTools": ["list_panes"]}});
    session.request("tools/call", params);
    let mut parent = json!(null);
    tmux.until("recorded", |_| {
        let mut records = session.audit_so_far().into_iter();
        parent = records.find(|record| record["tool"] == "list_panes").unwrap_or_default();
        parent.is_object()
    });
    let meta = json!({"parent_call_uuid": parent["call_id"]});
    let params = json!({"name": "sessions", "arguments": {}, "_meta": meta});
    let part = session.request("tools/call", params);
    assert_eq!(part["result"]["_meta"]["code"], "TOOL_NOT_ALLOWED", "{part}");
}

/// A name that means no tool any more is refused before anything is announced.
#[test]
fn the_audit_has_no_intent_for_a_name_that_means_nothing() {
    let tmux = Tmux::start();
    let (_folder, path) = file(RENAMED);
    let mut session = tmux.serve(&["--config", &path]);
    let answer = session.call("list_sessions", json!({}));
    assert!(text(&answer).contains("Unknown tool: 'list_sessions'"), "{answer}");
    assert_eq!(answer["result"]["_meta"]["code"], "UNKNOWN_TOOL");
    session.close_stdin();
    session.wait();
    let audit = std::fs::read_to_string(session.folder().join("audit.jsonl")).unwrap();
    let events: Vec<serde_json::Value> =
        audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_tool = events.iter().filter(|record| record["tool"] == "list_sessions");
    let of_tool: Vec<_> = of_tool.map(|record| (&record["event"], &record["outcome"])).collect();
    assert_eq!(of_tool, [(&json!("call"), &json!("denied"))], "{audit}");
}

/// `toolgate tmux` with this config file, telling on stderr what it does with it.
fn configured(tmux: &Tmux, path: &str) -> Session {
    with(tmux, &["--config", path], &[("TOOLGATE_LOG", "info")])
}

#[test]
fn what_narrows_is_applied_at_once_and_what_widens_when_the_operator_asks() {
    let tmux = Tmux::start();
    let (folder, path) = file("[namespaces.default]\nsafety = \"mutating\"\n");
    let mut session = configured(&tmux, &path);
    assert!(names(&mut session).iter().any(|name| name == "rename_session"));

    std::fs::write(&path, "[namespaces.default]\nsafety = \"readonly\"\n").unwrap();
    session.wait_for_stderr("the config has changed");
    assert!(!names(&mut session).iter().any(|name| name == "rename_session"));
    let denied = session.call("rename_session", json!({"new_name": "x"}));
    assert_eq!(denied["result"]["_meta"]["code"], "TIER_DENIED", "{denied}");

    std::fs::write(&path, "[namespaces.default]\nsafety = \"destructive\"\n").unwrap();
    session.wait_for_stderr("waits, because it may widen access");
    assert!(!names(&mut session).iter().any(|name| name == "rename_session"));
    // The operator asks, through the command that finds the process by its config.
    let mut reload = std::process::Command::new(toolgate());
    reload.args(["reload", "--config", &path]);
    reload.env("XDG_STATE_HOME", session.folder().join("state"));
    let reloaded = reload.output().unwrap();
    assert!(reloaded.status.success(), "{reloaded:?}");
    session.wait_for_stderr("the config has changed");
    assert!(names(&mut session).iter().any(|name| name == "kill_session"));
    // What the tools themselves decide by the tier has changed as well: a program that is not known.
    let set = json!({"option": "default-command", "value": "made-up-program", "global_": true});
    let answer = session.call("set_option", set);
    assert_ne!(answer["result"]["isError"], true, "{answer}");

    std::fs::write(&path, "nonsense = 1\n").unwrap();
    session.wait_for_stderr("the changed config is refused");
    assert!(names(&mut session).iter().any(|name| name == "kill_session"));
    drop(folder);
}

#[test]
fn a_hangup_reloads_and_begins_a_new_audit_file() {
    let tmux = Tmux::start();
    let (_folder, path) = file("[namespaces.default]\nsafety = \"readonly\"\n");
    let mut session = configured(&tmux, &path);
    session.call("list_sessions", json!({}));
    let audit = session.folder().join("audit.jsonl");
    tmux.until("recorded", |_| !session.audit_so_far().is_empty());
    std::fs::rename(&audit, session.folder().join("audit.1")).unwrap();
    std::fs::write(&path, "[namespaces.default]\nsafety = \"mutating\"\n").unwrap();
    session.wait_for_stderr("waits, because it may widen access");
    session.hang_up();
    session.wait_for_stderr("the config has changed");
    assert!(names(&mut session).iter().any(|name| name == "rename_session"));
    session.call("list_windows", json!({}));
    session.close_stdin();
    assert!(session.wait().success());
    let tools = session.audit_so_far();
    let tools: Vec<_> = tools.iter().map(|record| &record["tool"]).collect();
    assert_eq!(tools, ["list_windows"]);
}

#[test]
fn requests_in_flight_are_bounded_and_parts_of_a_call_need_no_place() {
    let tmux = Tmux::start();
    let (_folder, path) = file("[limits]\nin_flight = 1\n");
    let mut session = tmux.serve(&["--config", &path, "--safety", "mutating"]);
    let waiting = session.post_call("wait_for_channel", json!({"channel": "later"}));
    let refused = session.call("list_sessions", json!({}));
    assert_eq!(refused["result"]["_meta"]["code"], "OVERLOADED", "{refused}");
    let refused = session.request("resources/list", json!({}));
    assert_eq!(refused["error"]["data"]["code"], "OVERLOADED", "{refused}");
    assert!(session.request("ping", json!({}))["result"].is_object());
    tmux.run(&["wait-for", "-S", "later"]);
    assert_ne!(session.answer(waiting)["result"]["isError"], true);
    let batch = json!({"operations": [{"tool": "list_sessions", "arguments": {}}]});
    let answer = session.call("call_readonly_tools_batch", batch);
    assert_eq!(structured(&answer)["succeeded"], 1, "{answer}");
    let refused = session.records().into_iter().filter(|record| record["code"] == "OVERLOADED");
    assert_eq!(refused.count(), 1, "the refusal of the call is recorded");
}

#[test]
fn messages_that_cannot_be_read_are_answered_as_elsewhere() {
    let tmux = Tmux::start();
    let (_folder, path) = file("[limits]\nmessage_bytes = 2000\n");
    let mut session = tmux.serve(&["--config", &path]);
    let long = "x".repeat(3000);
    session.send_line(&format!(
        r#"{{"jsonrpc":"2.0","id":71,"method":"tools/call","params":{{"name":"{long}"}}}}"#
    ));
    let answer = session.answer(71);
    assert_eq!(answer["error"]["data"]["code"], "MESSAGE_TOO_LARGE", "{answer}");
    session.send_line("{broken");
    let answer = session.wait_for(|message| message.get("error").is_some());
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32700), &json!(null)));
    session.send_line(r#"{"jsonrpc":"2.0","id":72,"id":73,"method":"ping"}"#);
    let answer = session.wait_for(|message| message.get("error").is_some());
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    session.send_line(r#"{"jsonrpc":"2.0","id":74,"method":"tools/call","params":7}"#);
    assert!(session.answer(74)["error"].is_object());
    assert!(session.request("ping", json!({}))["result"].is_object());
}
