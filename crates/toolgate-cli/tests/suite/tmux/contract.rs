//! What the original publishes is what we publish: its tools, arguments and result fields, taken down in
//! `original_tools.json`. And what we publish is what we answer.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::harness::{
    Session, text,
    tmux::{Tmux, structured},
};

/// Arguments that the original takes otherwise, and why.
const OTHER_ARGUMENTS: [(&str, &str, &str); 1] = [(
    "run_command",
    "suppress_history",
    "null, the default, follows the configuration; a list of tools that differs by it could not be kept by clients",
)];

/// Hints that the original gives otherwise, and why.
const OTHER_HINTS: [(&str, &str, &str); 6] = [
    ("move_window", "----", "without an index, each move goes to the next free one"),
    ("select_pane", "----", "a direction goes further each time"),
    ("pipe_pane", "-D-O", "append=false empties a file"),
    ("wait_for_channel", "----", "the second wait has no signal"),
    ("signal_channel", "----", "the second signal wakes another wait"),
    ("delete_buffer", "-D--", "what is gone cannot be deleted again (15)"),
];

/// The original, as it was taken down.
fn original() -> Value {
    serde_json::from_str(include_str!("original_tools.json")).unwrap()
}

/// All tools that we have, by name.
fn published(session: &mut Session) -> BTreeMap<String, Value> {
    let answer = session.request("tools/list", json!({}));
    let tools = answer["result"]["tools"].as_array().unwrap().iter();
    tools.map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool.clone())).collect()
}

fn strings(list: &Value) -> BTreeSet<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The types that a schema lets pass, in all of its forms.
fn types(schema: &Value) -> BTreeSet<&str> {
    let mut all = strings(&schema["type"]);
    all.extend(schema["type"].as_str());
    let forms = schema["anyOf"].as_array().into_iter().flatten();
    all.extend(forms.flat_map(types));
    all
}

/// The names of all properties, as `results[].index`.
fn names(schema: &Value, path: &str, all: &mut BTreeSet<String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        names(property, &path, all);
        all.insert(path);
    }
    if schema.get("items").is_some() {
        names(&schema["items"], &format!("{path}[]"), all);
    }
    for form in schema["anyOf"].as_array().into_iter().flatten() {
        names(form, path, all);
    }
}

/// The result fields of a tool of the original, as `result[].pane_id`.
fn fields(original: &Value, tool: &Value) -> BTreeSet<String> {
    let model = |name: &str, path: &str| {
        let fields = strings(&original["models"][name]);
        assert!(!fields.is_empty(), "no model {name}");
        fields.into_iter().map(|field| format!("{path}{field}")).collect()
    };
    match tool["result"].as_str() {
        None => strings(&tool["result"]).into_iter().map(str::to_owned).collect(),
        Some("text") => BTreeSet::from(["result".to_owned()]),
        Some(name) => match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
            Some(name) => model(name, "result[]."),
            None => model(name, ""),
        },
    }
}

#[test]
fn nothing_of_the_original_is_missing() {
    let original = original();
    let tools = published(&mut Tmux::down().serve(&["--safety", "destructive"]));
    assert_eq!(original["tools"].as_object().unwrap().len(), 56);
    for (name, theirs) in original["tools"].as_object().unwrap() {
        let ours = tools.get(name).unwrap_or_else(|| panic!("no {name}"));
        let arguments = &ours["inputSchema"];
        for (argument, kind) in theirs["arguments"].as_object().unwrap() {
            let schema = &arguments["properties"][argument];
            let at = format!("{name} {argument}: {schema}");
            let theirs_only = |field: &str| theirs[field].get(argument);
            if OTHER_ARGUMENTS
                .iter()
                .any(|(tool, other, _)| (tool, other) == (&&**name, &&**argument))
            {
                assert!(!schema.is_null(), "{at}");
                continue;
            }
            assert_eq!(types(schema), kind.as_str().unwrap().split('|').collect(), "{at}");
            assert_eq!(schema.get("default"), theirs_only("defaults"), "{at}");
            let choices = theirs_only("enums").map(strings).unwrap_or_default();
            assert_eq!(strings(&schema["enum"]), choices, "{at}");
        }
        assert_eq!(strings(&arguments["required"]), strings(&theirs["required"]), "{name}");
        let mut nested = BTreeSet::new();
        names(arguments, "", &mut nested);
        let nested_of_theirs = strings(&theirs["nested"]);
        assert!(nested_of_theirs.iter().all(|path| nested.contains(*path)), "{name}: {nested:?}");

        let mut told = BTreeSet::new();
        names(&ours["outputSchema"], "", &mut told);
        // A tool that tells of what it changed names the tool whose schema has all fields; the next test reads them.
        let elsewhere = ours["outputSchema"]["description"].as_str();
        let elsewhere = elsewhere.and_then(|text| text.strip_prefix("As ")?.strip_suffix('.'));
        if let Some(teller) = elsewhere {
            names(&tools[teller]["outputSchema"], "", &mut told);
        }
        // So does a list, of its items.
        let items = ours["outputSchema"].pointer("/properties/result/items/description");
        let items = items.and_then(Value::as_str);
        if let Some(teller) = items.and_then(|text| text.strip_prefix("As ")?.strip_suffix('.')) {
            let mut each = BTreeSet::new();
            names(&tools[teller]["outputSchema"], "", &mut each);
            told.extend(each.iter().map(|field| format!("result[].{field}")));
        }
        let missing: Vec<_> = fields(&original, theirs).difference(&told).cloned().collect();
        assert!(missing.is_empty(), "{name}: {missing:?}");

        let hints = [
            ("readOnlyHint", 'R'),
            ("destructiveHint", 'D'),
            ("idempotentHint", 'I'),
            ("openWorldHint", 'O'),
        ];
        let hints: String = hints
            .iter()
            .map(|(hint, sign)| if ours["annotations"][hint] == true { *sign } else { '-' })
            .collect();
        let other = OTHER_HINTS.iter().find(|(tool, ..)| tool == name);
        let expected =
            other.map_or_else(|| theirs["hints"].as_str().unwrap(), |(_, hints, _)| hints);
        assert_eq!(hints, expected, "{name}");
        let mut tags = vec![theirs["tier"].as_str().unwrap()];
        tags.extend((theirs["self_bounded"] == true).then_some("self-bounded"));
        assert_eq!(ours["_meta"]["fastmcp"]["tags"], json!(tags), "{name}");
    }
    let always: Vec<&String> = tools
        .iter()
        .filter(|(_, tool)| tool["_meta"]["anthropic/alwaysLoad"] == true)
        .map(|(name, _)| name)
        .collect();
    assert_eq!(always, ["list_panes", "list_windows", "snapshot_pane"]);
}

/// Whether a value has a field, as `results[].index`: in each row, where there are rows.
fn has(value: &Value, path: &str) -> bool {
    if let Some((list, rest)) = path.split_once("[].") {
        return value[list].as_array().is_some_and(|rows| rows.iter().all(|row| has(row, rest)));
    }
    match path.split_once('.') {
        Some((name, rest)) => has(&value[name], rest),
        None => value.get(path).is_some(),
    }
}

/// Calls tools, and holds each answer against what the tool publishes and what the original tells.
struct Checked {
    session: Session,
    tools: BTreeMap<String, Value>,
    original: Value,
    called: BTreeSet<String>,
}

impl Checked {
    fn new(mut session: Session) -> Self {
        let tools = published(&mut session);
        Self { session, tools, original: original(), called: BTreeSet::new() }
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.session.call(tool, arguments);
        let told = structured(&answer);
        let schema = &self.tools[tool]["outputSchema"];
        let checked = jsonschema::validate(schema, told);
        assert!(checked.is_ok(), "{tool} answers what it does not publish: {checked:?}");
        // The text says the same, for clients that read only this.
        let same = if let Value::String(result) = &told["result"] {
            text(&answer) == result
        } else {
            let read: Value = serde_json::from_str(text(&answer)).unwrap();
            read == *told || read == told["result"]
        };
        assert!(same, "{answer}");
        if let Some(theirs) = self.original["tools"].get(tool) {
            for field in fields(&self.original, theirs) {
                assert!(has(told, &field), "{tool} does not tell {field}: {told}");
            }
        }
        self.called.insert(tool.to_owned());
        told.clone()
    }
}

/// Two sessions, of which `two` shows the window of `one` too; a shell in %0, `cat` in %1.
fn linked() -> Tmux {
    let tmux = Tmux::start();
    tmux.run(&["new-session", "-d", "-s", "two", "cat"]);
    tmux.run(&["link-window", "-d", "-s", "one:0", "-t", "two:7"]);
    tmux
}

#[test]
fn every_tool_answers_what_it_publishes_and_all_that_the_original_tells() {
    let tmux = linked();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    let mut checked = Checked::new(tmux.serve(&["--safety", "destructive", "--pipe-root", root]));
    let pane = || json!({"pane_id": "%0"});
    tmux.run(&["set-hook", "-g", "after-new-window", "display-message x"]);
    for (tool, arguments) in [
        ("list_sessions", json!({})),
        ("list_servers", json!({})),
        ("get_server_info", json!({})),
        ("list_windows", json!({})),
        ("list_panes", json!({})),
        ("list_clients", json!({})),
        ("list_keys", json!({})),
        ("get_session_info", json!({})),
        ("get_window_info", json!({"window_id": "@0"})),
        ("get_pane_info", pane()),
        ("run_command", json!({"command": "seq 1 100", "pane_id": "%0", "max_lines": 3})),
        ("capture_pane", json!({"pane_id": "%0", "max_lines": 1})),
        ("capture_pane", json!({"pane_id": "%0", "colors": true, "join": true})),
        ("capture_since", json!({"pane_id": "%0", "max_lines": 2})),
        ("capture_since", json!({"pane_id": "%0", "max_bytes": 1})),
        ("snapshot_pane", json!({"pane_id": "%0", "max_lines": 1})),
        ("search_panes", json!({"pattern": "9", "limit": 1, "max_matched_lines_per_pane": 1})),
        ("find_pane_by_position", json!({"corner": "top-left", "window_id": "@0"})),
        ("wait_for_text", json!({"patterns": ["never"], "pane_id": "%1", "timeout": 0.05})),
        ("display_message", json!({"format_string": "#{pane_id}", "pane_id": "%0"})),
        ("show_option", json!({"option": "history-limit", "global_": true})),
        ("show_environment", json!({})),
        ("show_hooks", json!({"global_": true})),
        ("show_hook", json!({"hook_name": "after-new-window", "global_": true})),
        ("create_session", json!({"session_name": "three"})),
        ("create_window", json!({"session_name": "three"})),
        ("rename_session", json!({"session_name": "three", "new_name": "drei"})),
        ("rename_window", json!({"window_id": "@0", "new_name": "w"})),
        ("select_window", json!({"session_name": "drei", "direction": "next"})),
        ("split_window", json!({"window_id": "@0", "shell": "cat"})),
        ("select_layout", json!({"window_id": "@0", "layout": "tiled"})),
        ("resize_window", json!({"window_id": "@0", "width": 100, "height": 30})),
        (
            "move_window",
            json!({"window_id": "@0", "session_name": "one", "destination_index": "5"}),
        ),
        ("link_window", json!({"window_id": "@0", "destination_session": "drei"})),
        ("unlink_window", json!({"window_id": "@0", "session_name": "drei"})),
        ("resize_pane", json!({"pane_id": "%0", "height": 10})),
        ("select_pane", pane()),
        ("set_pane_title", json!({"pane_id": "%0", "title": "t"})),
        ("enter_copy_mode", json!({"pane_id": "%0", "scroll_up": 2})),
        ("snapshot_pane", pane()),
        ("exit_copy_mode", pane()),
        ("swap_pane", json!({"source_pane_id": "%0", "target_pane_id": "%4"})),
        ("break_pane", json!({"pane_id": "%4"})),
        ("join_pane", json!({"source_pane_id": "%4", "target_pane_id": "%0"})),
        ("send_keys", json!({"keys": "true", "pane_id": "%0"})),
        ("send_keys_batch", json!({"operations": [{"keys": "true", "pane_id": "%0"}]})),
        ("paste_text", json!({"text": "true", "pane_id": "%0"})),
        ("pipe_pane", json!({"pane_id": "%0", "output_path": folder.path().join("log")})),
        ("pipe_pane", pane()),
        ("clear_pane", pane()),
        ("set_option", json!({"option": "@x", "value": "1", "global_": true})),
        ("set_environment", json!({"name": "LANG", "value": "b"})),
        ("signal_channel", json!({"channel": "c"})),
        ("wait_for_channel", json!({"channel": "c"})),
        ("call_readonly_tools_batch", json!({"operations": [{"tool": "list_panes"}]})),
        ("call_mutating_tools_batch", json!({"operations": [{"tool": "nope"}]})),
        ("call_destructive_tools_batch", json!({"operations": [{"tool": "list_panes"}]})),
        ("respawn_pane", json!({"pane_id": "%1", "shell": "cat"})),
    ] {
        checked.call(tool, arguments);
    }
    let loaded = checked.call("load_buffer", json!({"content": "a\nb\nc"}));
    let name = || json!({"buffer_name": loaded["buffer_name"]});
    let mut cut = name();
    cut["max_lines"] = json!(1);
    assert_eq!(checked.call("show_buffer", cut)["content_truncated_lines"], 2);
    let mut paste = name();
    paste["pane_id"] = json!("%1");
    checked.call("paste_buffer", paste);
    checked.call("delete_buffer", name());
    for (tool, arguments) in [
        ("kill_pane", json!({"pane_id": "%4"})),
        ("kill_window", json!({"window_id": "@0"})),
        ("kill_session", json!({"session_name": "drei"})),
        ("kill_server", json!({})),
        // Nothing runs any more.
        ("get_server_info", json!({})),
        ("list_panes", json!({})),
    ] {
        checked.call(tool, arguments);
    }
    let missed: Vec<_> =
        checked.tools.keys().filter(|name| !checked.called.contains(*name)).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn arguments_do_what_they_do_in_the_original() {
    let (tmux, other) = (Tmux::start(), Tmux::start());
    let mut session = tmux.serve(&["--safety", "destructive"]);
    // Filters: each operator on the name `one`.
    for (operator, fits, fails) in [
        ("contains", "n", "N"),
        ("in", "ne", "NE"),
        ("nin", "x", "n"),
        ("eq", "one", "on"),
        ("exact", "one", "One"),
        ("iexact", "ONE", "on"),
        ("icontains", "NE", "x"),
        ("startswith", "on", "ne"),
        ("istartswith", "ON", "ne"),
        ("endswith", "ne", "on"),
        ("iendswith", "NE", "on"),
        ("regex", "^o.e$", "^O"),
        ("iregex", "^O.E$", "^n"),
    ] {
        for (value, count) in [(fits, 1), (fails, 0)] {
            let filters = json!({(format!("session_name__{operator}")): value});
            let listed = session.call("list_sessions", json!({"filters": filters}));
            let found = structured(&listed)["result"].as_array().unwrap().len();
            assert_eq!(found, count, "{operator} {value}");
        }
    }
    // Sockets elsewhere come after those of the folder, in the order in which they are given; those on which nobody
    // listens are left out.
    let folder = session.folder().to_owned();
    let far = folder.join("far");
    let path = other.format("#{socket_path}");
    std::os::unix::fs::symlink(&path, &far).unwrap();
    let extra = json!({"extra_socket_paths": [folder.join("nobody"), far]});
    let servers = session.call("list_servers", extra);
    let servers = structured(&servers)["result"].as_array().unwrap();
    // Servers of others may be there, too. A socket is told of by the path that tmux itself gives.
    let named =
        |server: &&Value| server["socket_path"] == json!(path) && server["is_alive"] == true;
    assert_eq!(servers.iter().filter(named).count(), 2, "{servers:?}");
    assert!(servers.last().is_some_and(|last| named(&last) && last["socket_name"].is_null()));
    assert!(!servers.iter().any(|server| server.to_string().contains("nobody")));
    // Shells that are to keep no history are told so, and what a caller gives stays.
    let control = json!({"HISTCONTROL": "erasedups", "A": "b;"});
    for (tool, mut arguments) in [
        ("create_session", json!({"session_name": "new"})),
        ("create_window", json!({"session_name": "new"})),
        ("split_window", json!({"session_name": "one"})),
        ("respawn_pane", json!({"pane_id": "%0"})),
    ] {
        arguments["suppress_persistent_history"] = json!(true);
        for (environment, word) in
            [(json!("{\"HISTFILE\": \"/s3cret\"}"), "HISTFILE"), (json!("[1]"), "")]
        {
            arguments["environment"] = environment;
            let refused = session.call(tool, arguments.clone());
            assert_eq!(refused["result"]["_meta"]["code"], "INVALID_ARGUMENTS", "{refused}");
            assert!(
                text(&refused).contains(word) && !text(&refused).contains("s3cret"),
                "{refused}"
            );
        }
        arguments["environment"] = control.clone();
        let made = session.call(tool, arguments);
        let made = structured(&made);
        let pane = made.get("active_pane_id").unwrap_or(&made["pane_id"]);
        let info = session.call("get_pane_info", json!({"pane_id": pane}));
        let pid = structured(&info)["pane_pid"].as_str().unwrap();
        let told = [
            "HISTFILE=",
            "fish_history=",
            "fish_private_mode=1",
            "HISTCONTROL=erasedups:ignorespace",
            "A=b;",
        ];
        tmux.until(tool, |_| {
            let environment = std::fs::read_to_string(format!("/proc/{pid}/environ"));
            let environment = environment.unwrap_or_default();
            told.iter().all(|told| environment.split('\0').any(|variable| variable == *told))
        });
    }
    // A name in a session is that session's; without one it is the first.
    tmux.run(&["set-environment", "-t", "new", "WHERE", "new"]);
    for (arguments, expected) in
        [(json!({"session_name": "new"}), json!("new")), (json!({}), Value::Null)]
    {
        let shown = session.call("show_environment", arguments);
        assert_eq!(structured(&shown)["variables"].get("WHERE").unwrap_or(&Value::Null), &expected);
    }
}
