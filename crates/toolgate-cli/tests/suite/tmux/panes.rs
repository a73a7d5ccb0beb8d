//! Pane tools of `toolgate tmux` over MCP, against real tmux.

use std::{fs, os::unix::fs::symlink, path::Path};

use serde_json::{Value, json};

use crate::harness::{
    text,
    tmux::{Tmux, structured},
};

fn code(answer: &Value) -> &str {
    let code = answer.pointer("/result/_meta/code").and_then(Value::as_str);
    code.unwrap_or_default()
}

fn error_type(answer: &Value) -> &str {
    let error_type = answer.pointer("/result/_meta/error_type").and_then(Value::as_str);
    error_type.unwrap_or_default()
}

fn of_pane(tmux: &Tmux, pane: &str, format: &str) -> String {
    tmux.run(&["display-message", "-p", "-t", pane, format])
}

/// Three panes: %0 at the top left, %2 at the top right, %1 at the bottom. In %0 is a shell.
fn three_panes() -> Tmux {
    let tmux = Tmux::start();
    tmux.run(&["split-window", "-d", "-t", "%0", "cat"]);
    tmux.run(&["split-window", "-d", "-h", "-t", "%0", "cat"]);
    tmux
}

#[test]
fn panes_are_found_selected_and_swapped() {
    let tmux = three_panes();
    tmux.run(&["new-window", "-d", "-t", "one:4", "cat"]);
    let mut session = tmux.serve(&[]);
    let corners =
        [("top-left", "%0"), ("top-right", "%2"), ("bottom-left", "%1"), ("bottom-right", "%1")];
    for (corner, pane) in corners {
        let found =
            session.call("find_pane_by_position", json!({"corner": corner, "window_id": "@0"}));
        assert_eq!(structured(&found)["pane_id"], pane, "{corner}");
        let other =
            session.call("find_pane_by_position", json!({"corner": corner, "window_index": "4"}));
        assert_eq!(structured(&other)["pane_id"], "%3", "{corner}");
    }
    let middle = session.call("find_pane_by_position", json!({"corner": "middle"}));
    assert_eq!(code(&middle), "INVALID_ARGUMENTS");

    let mut select = |arguments: Value| {
        let selected = session.call("select_pane", arguments.clone());
        assert_eq!(structured(&selected)["pane_active"], "1", "{arguments}");
        structured(&selected)["pane_id"].as_str().unwrap().to_owned()
    };
    assert_eq!(select(json!({"pane_id": "%2"})), "%2");
    for (direction, pane) in [
        ("left", "%0"),
        ("right", "%2"),
        ("down", "%1"),
        ("up", "%2"),
        ("last", "%1"),
        // By index: %0, %2, %1; and round.
        ("next", "%0"),
        ("next", "%2"),
        ("previous", "%0"),
        ("previous", "%1"),
    ] {
        assert_eq!(select(json!({"direction": direction, "window_id": "@0"})), pane, "{direction}");
    }
    assert_eq!(
        select(json!({"direction": "next", "window_index": "4"})),
        "%3",
        "not out of the window"
    );
    assert_eq!(tmux.format("#{window_id} #{pane_id}"), "@0 %1", "the current window stays");
    let none = session.call("select_pane", json!({"window_id": "@0"}));
    assert_eq!(text(&none), "Provide either pane_id or direction.");
    assert_eq!(error_type(&session.call("select_pane", json!({"pane_id": "%99"}))), "PaneNotFound");

    let swapped =
        session.call("swap_pane", json!({"source_pane_id": "%0", "target_pane_id": "%3"}));
    assert_eq!(structured(&swapped)["pane_id"], "%0");
    assert_eq!(structured(&swapped)["window_id"], "@1");
    assert_eq!(of_pane(&tmux, "%3", "#{window_id}"), "@0");
    let missing =
        session.call("swap_pane", json!({"source_pane_id": "%0", "target_pane_id": "%99"}));
    assert_eq!(error_type(&missing), "PaneNotFound");
}

#[test]
fn panes_are_resized_zoomed_named_and_ended() {
    let tmux = three_panes();
    let mut session = tmux.serve(&["--safety", "destructive"]);
    let sized = session.call("resize_pane", json!({"pane_id": "%0", "width": 40, "height": 11}));
    assert_eq!(structured(&sized)["pane_width"], "40");
    assert_eq!(structured(&sized)["pane_height"], "11");
    // Set, not toggled, and on the pane that is meant.
    for (pane, zoom, zoomed) in [
        ("%2", true, "1 %2"),
        ("%2", true, "1 %2"),
        ("%1", true, "1 %1"),
        ("%0", false, "0 %1"),
        ("%0", false, "0 %1"),
    ] {
        structured(&session.call("resize_pane", json!({"pane_id": pane, "zoom": zoom})));
        assert_eq!(tmux.format("#{window_zoomed_flag} #{pane_id}"), zoomed, "{pane} {zoom}");
    }
    let corner = json!({"corner": "top-left"});
    session.call("resize_pane", json!({"pane_id": "%1", "zoom": true}));
    assert_eq!(
        structured(&session.call("find_pane_by_position", corner))["pane_id"],
        "%0",
        "zoom or not"
    );
    session.call("resize_pane", json!({"pane_id": "%1", "zoom": false}));
    let both = session.call("resize_pane", json!({"pane_id": "%0", "zoom": true, "height": 3}));
    assert_eq!(text(&both), "Cannot combine zoom with height/width");
    let nothing = session.call("resize_pane", json!({"pane_id": "%0"}));
    assert_eq!(code(&nothing), "INVALID_ARGUMENTS");
    let zero = session.call("resize_pane", json!({"pane_id": "%0", "height": 0}));
    assert_eq!(code(&zero), "INVALID_ARGUMENTS");

    let named = session
        .call("set_pane_title", json!({"pane_id": "%2", "title": "-T #(touch x) ## #{pid} é"}));
    assert_eq!(structured(&named)["pane_title"], "-T #(touch x) ## #{pid} é");
    assert_eq!(structured(&named)["pane_active"], "0", "a title selects nothing");
    let control = session.call("set_pane_title", json!({"pane_id": "%2", "title": "a\nb"}));
    assert_eq!(code(&control), "INVALID_ARGUMENTS", "tmux would drop it in silence");

    let before = of_pane(&tmux, "%2", "#{pane_pid}");
    let busy = session.call("respawn_pane", json!({"pane_id": "%2", "kill": false}));
    assert!(text(&busy).contains("Set kill=true"), "{busy}");
    let again = json!({"pane_id": "%2", "shell": "printf '%s' \"[$A]\"; cat", "environment": {"A": "#{pid};"}, "start_directory": "/"});
    let again = session.call("respawn_pane", again);
    assert_eq!(structured(&again)["pane_id"], "%2");
    assert_ne!(structured(&again)["pane_pid"], before);
    tmux.until("respawned", |tmux| tmux.run(&["capture-pane", "-p", "-t", "%2"]) == "[#{pid};]");
    assert_eq!(of_pane(&tmux, "%2", "#{pane_current_path}"), "/");
    assert_eq!(
        error_type(&session.call("respawn_pane", json!({"pane_id": "%99"}))),
        "PaneNotFound"
    );
    assert_eq!(code(&session.call("respawn_pane", json!({}))), "INVALID_ARGUMENTS", "no default");

    let killed = session.call("kill_pane", json!({"pane_id": "%2"}));
    assert_eq!(structured(&killed)["result"], "Pane killed: %2");
    assert_eq!(error_type(&session.call("kill_pane", json!({"pane_id": "%2"}))), "PaneNotFound");
    assert_eq!(
        error_type(&session.call("kill_pane", json!({"pane_id": "one:0.0"}))),
        "PaneNotFound"
    );
    assert_eq!(code(&session.call("kill_pane", json!({}))), "INVALID_ARGUMENTS", "no default");
    for pane in ["%1", "%0"] {
        let killed = session.call("kill_pane", json!({"pane_id": pane}));
        assert_eq!(
            structured(&killed)["result"],
            format!("Pane killed: {pane}"),
            "also the last one"
        );
    }
}

#[test]
fn a_snapshot_has_the_screen_and_its_state() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    session.call("send_keys", json!({"keys": "seq 1 100", "pane_id": "%0"}));
    tmux.until("counted", |tmux| {
        tmux.run(&["capture-pane", "-p"]).lines().rev().nth(1) == Some("100")
    });
    let shot = session.call("snapshot_pane", json!({"pane_id": "%0", "max_lines": 2}));
    let shot = structured(&shot);
    assert_eq!(shot.as_object().unwrap().len(), 28, "{shot}");
    let content = shot["content"].as_str().unwrap();
    assert_eq!(content.lines().next(), Some("100"));
    assert_eq!(content.lines().count(), 2);
    assert_eq!(shot["content_truncated"], true);
    assert_eq!(shot["content_truncated_lines"], 38);
    for (field, format) in [
        ("cursor_x", "#{cursor_x}"),
        ("cursor_y", "#{cursor_y}"),
        ("pane_width", "#{pane_width}"),
        ("pane_height", "#{pane_height}"),
        ("history_size", "#{history_size}"),
        ("pane_pid", "#{pane_pid}"),
        ("pane_tty", "#{pane_tty}"),
        ("title", "#{pane_title}"),
        ("pane_current_path", "#{pane_current_path}"),
    ] {
        let told = shot[field].as_str().map_or_else(|| shot[field].to_string(), str::to_owned);
        assert_eq!(told, tmux.format(format), "{field}");
    }
    assert_eq!(shot["pane_in_mode"], false);
    assert_eq!(shot["pane_mode"], Value::Null);
    assert_eq!(shot["scroll_position"], Value::Null);
    assert_eq!(shot["pane_dead"], false);

    let entered = session.call("enter_copy_mode", json!({"pane_id": "%0", "scroll_up": 5}));
    assert_eq!(structured(&entered)["pane_id"], "%0");
    let shot = session.call("snapshot_pane", json!({"pane_id": "%0", "max_lines": null}));
    let shot = structured(&shot);
    assert_eq!(shot["pane_mode"], "copy-mode");
    assert_eq!(shot["pane_in_mode"], true);
    assert_eq!(shot["scroll_position"], 5);
    assert_eq!(shot["content_truncated"], false);
    for _ in 0..2 {
        structured(&session.call("exit_copy_mode", json!({"pane_id": "%0"})));
        assert_eq!(tmux.format("#{pane_in_mode}"), "0");
    }
    let negative = session.call("enter_copy_mode", json!({"pane_id": "%0", "scroll_up": -1}));
    assert_eq!(code(&negative), "INVALID_ARGUMENTS");
    for tool in [
        "snapshot_pane",
        "get_pane_info",
        "enter_copy_mode",
        "exit_copy_mode",
        "clear_pane",
        "resize_pane",
    ] {
        let missing = json!({"pane_id": "%99"});
        let missing =
            if tool == "resize_pane" { json!({"pane_id": "%99", "width": 9}) } else { missing };
        let missing = session.call(tool, missing);
        assert_eq!(
            text(&missing),
            "Pane not found: %99\nCall list_panes to discover valid pane ids.",
            "{tool}"
        );
    }
    for bad in [json!(0), json!(-1)] {
        let bad = session.call("snapshot_pane", json!({"pane_id": "%0", "max_lines": bad}));
        assert_eq!(code(&bad), "INVALID_ARGUMENTS");
    }
    let cleared = session.call("clear_pane", json!({"pane_id": "%0"}));
    assert_eq!(structured(&cleared)["result"], "Pane cleared: %0");
    assert_eq!(tmux.run(&["capture-pane", "-p", "-S", "-"]), "");
}

#[test]
fn colours_survive_a_cut_and_broken_lines_are_joined() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    // One colour over four lines; a line of 150 on a screen of 120.
    let show = r"printf '\033[1;31ma\nb\nc\nd\033[0m\n'; printf 'x%.0s' {1..150}; echo; echo end";
    session.call("send_keys", json!({"keys": show, "pane_id": "%0"}));
    tmux.until("shown", |tmux| tmux.run(&["capture-pane", "-p"]).lines().any(|line| line == "end"));
    let screen = tmux.run(&["capture-pane", "-p"]);
    let lines: Vec<&str> = screen.lines().collect();
    let from_c = lines.len() - lines.iter().position(|line| *line == "c").unwrap();
    let cut = json!({"pane_id": "%0", "colors": true, "max_lines": from_c});
    let cut = session.call("capture_pane", cut);
    let (header, kept) = text(&cut).split_once('\n').unwrap();
    assert_eq!(header, format!("[... truncated {} lines ...]", lines.len() - from_c));
    assert!(kept.starts_with("\u{1b}[0;1;31mc\n"), "{kept:?}");
    let whole = session.call("capture_pane", json!({"pane_id": "%0", "colors": true}));
    assert_eq!(text(&whole), tmux.run(&["capture-pane", "-p", "-e"]));
    let plain = session.call("capture_pane", json!({"pane_id": "%0"}));
    assert_eq!(text(&plain), screen);
    let long = "x".repeat(150);
    assert!(!text(&plain).lines().any(|line| line == long));
    let joined = session.call("capture_pane", json!({"pane_id": "%0", "join": true}));
    assert!(text(&joined).lines().any(|line| line.trim_end() == long), "{joined}");
}

#[test]
fn messages_tell_plain_variables_and_run_nothing() {
    let tmux = Tmux::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ran");
    tmux.run(&["set-option", "-g", "@job", &format!("#(touch {})", file.display())]);
    tmux.run(&["set-environment", "-g", "secret_token", "hunter2"]);
    tmux.run(&["rename-window", "##{pid} %H"]);
    let mut session = tmux.serve(&["--safety", "readonly"]);
    let mut show = |format: &str| {
        session.call("display_message", json!({"format_string": format, "pane_id": "%0"}))
    };
    let pid = tmux.format("#{pid}");
    for (format, shown) in [
        (
            "#{session_name}:#{window_index} %H %% ## #[bold] 100%",
            "one:0 %H %% # #[bold] 100%".to_owned(),
        ),
        ("#S #{pid}##{pid}", format!("one {pid}#{{pid}}")),
        ("[#{window_name}]", format!("[{}]", tmux.format("#{window_name}"))),
        ("-p plain; \"$HOME\" ~ \n é", "-p plain; \"$HOME\" ~ \n é".to_owned()),
        ("", String::new()),
    ] {
        assert_eq!(structured(&show(format))["result"], shown, "{format}");
    }
    let job = show("#(id)");
    assert_eq!(text(&job), "tmux format jobs (#(...)) are not allowed in display_message");
    for format in [
        "#{E:@job}",
        "#{T:@job}",
        "#{@job}",
        "#{secret_token}",
        "#{PATH}",
        "#{status-left}",
        "#{?pid,a,b}",
        "#{",
        "#{l:#{pid}}",
        "#{W:x}",
        "#{buffer_sample}",
    ] {
        let refused = show(format);
        assert_eq!(code(&refused), "INVALID_ARGUMENTS", "{format}: {refused}");
    }
    assert!(!file.exists());
    let missing = session.call("display_message", json!({"format_string": "x", "pane_id": "%99"}));
    assert_eq!(error_type(&missing), "PaneNotFound");
}

#[test]
fn pipes_go_only_where_they_may() {
    let tmux = Tmux::start();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    fs::create_dir(&root).unwrap();
    symlink(folder.path(), root.join("out")).unwrap();
    symlink(folder.path().join("target"), root.join("link")).unwrap();
    let option = root.to_str().unwrap();
    let mut session = tmux.serve(&["--pipe-root", option]);
    let inside = |name: &str| json!({"pane_id": "%0", "output_path": root.join(name)});
    for (at, name) in
        ["it's #{pid} %H $(touch x) `y` #[z] \\ \"q\" ;", "two\nlines", "é ##("].iter().enumerate()
    {
        let piped = session.call("pipe_pane", inside(name));
        let real = root.canonicalize().unwrap().join(name);
        assert_eq!(structured(&piped)["result"], format!("Piping pane %0 to {}", real.display()));
        let words = format!("said-{at}");
        session.call("send_keys", json!({"keys": format!("echo {words}"), "pane_id": "%0"}));
        tmux.until(name, |_| fs::read_to_string(&real).unwrap().contains(&words));
    }
    let names: Vec<_> =
        fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 5, "nothing else came to be: {names:?}");
    let stopped = session.call("pipe_pane", json!({"pane_id": "%0"}));
    assert_eq!(structured(&stopped)["result"], "Piping stopped for pane %0");
    assert_eq!(tmux.format("#{pane_pipe}"), "0");
    let empty = json!({"pane_id": "%0", "output_path": root.join("é ##("), "append": false});
    structured(&session.call("pipe_pane", empty));
    tmux.until("emptied", |_| fs::read_to_string(root.join("é ##(")).unwrap().is_empty());
    structured(&session.call("pipe_pane", json!({"pane_id": "%0"})));

    for path in ["../x", "out/x", "link", "out", "no/x", "../root-x"] {
        let refused = session.call("pipe_pane", inside(path));
        assert_eq!(error_type(&refused), "PipePathRefused", "{path}: {refused}");
    }
    assert!(!folder.path().join("x").exists() && !folder.path().join("target").exists());
    let blank = session.call("pipe_pane", json!({"pane_id": "%0", "output_path": " "}));
    assert_eq!(text(&blank), "output_path must be a non-empty path, or None to stop piping.");
    let relative = session.call("pipe_pane", json!({"pane_id": "%0", "output_path": "x.log"}));
    assert_eq!(code(&relative), "INVALID_ARGUMENTS");
    let missing =
        session.call("pipe_pane", json!({"pane_id": "%99", "output_path": root.join("new")}));
    assert_eq!(error_type(&missing), "PaneNotFound");
    assert!(!root.join("new").exists(), "no file for a pane that is not there");
    assert_eq!(tmux.format("#{pane_pipe}"), "0");

    let mut session = tmux.serve(&[]);
    let refused = session.call("pipe_pane", inside("a"));
    assert!(text(&refused).contains("--pipe-root"), "{refused}");
    structured(&session.call("pipe_pane", json!({"pane_id": "%0"})));
    assert!(!Path::new(&root.join("a")).exists());
}
