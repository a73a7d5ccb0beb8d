//! Every official client, in each era that it speaks, against `toolgate tmux` and a real tmux. Strict clients check each
//! result against the output schema by themselves: what does not fit is an error in their report.

use serde_json::{Value, json};

use crate::harness::{
    outcomes,
    peers::{Client, peers, report},
    tmux::Tmux,
    toolgate,
};

/// What a driver tells, and the audit of the run.
struct Run {
    client: Client,
    report: Value,
    records: Vec<Value>,
}

impl Run {
    /// Runs the steps with options of `toolgate tmux`. A program that is dangerous is a function here: nothing dangerous
    /// runs even if the guard fails.
    fn of(client: Client, tmux: &Tmux, steps: &[String], options: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let audit = folder.path().join("audit.jsonl");
        let mut command = peers().driver(client);
        command.args(steps).arg("--").arg(toolgate()).args(["tmux", "--socket-name", &tmux.name]);
        command.args(["--safety", "mutating", "--audit"]).arg(&audit).args(options);
        command.env_remove("TMUX").env_remove("TMUX_PANE");
        let report = report(command);
        assert_eq!(report.get("error"), None, "{client:?}: {report}");
        assert_eq!(report.get("faults"), None, "{client:?}");
        let records = outcomes(&std::fs::read_to_string(&audit).unwrap());
        Self { client, report, records }
    }

    /// The answer to the call with this number, which is of this tool.
    fn call(&self, calls: &[(&str, Value)], name: &str) -> &Value {
        let at = calls.iter().position(|(called, _)| *called == name).unwrap();
        self.at(at)
    }

    fn at(&self, at: usize) -> &Value {
        let call = &self.report["calls"][at];
        assert!(call["result"].is_object(), "{:?}, call {at}: {call}", self.client);
        call
    }

    fn structured(&self, calls: &[(&str, Value)], name: &str) -> &Value {
        let call = self.call(calls, name);
        assert_ne!(call["result"]["isError"], true, "{:?}: {call}", self.client);
        &call["result"]["structuredContent"]
    }
}

/// A server with a second session, whose shell has harmless programs of dangerous names.
fn terminal() -> Tmux {
    let tmux = Tmux::start();
    tmux.run(&["new-session", "-d", "-s", "other", "cat"]);
    let functions = "git() { echo ran-git; }; sudo() { echo ran-sudo; }; clear; echo set";
    tmux.run(&["send-keys", "-t", "%0", functions, "Enter"]);
    tmux.until("set", |tmux| tmux.run(&["capture-pane", "-p", "-t", "%0"]).starts_with("set\n"));
    tmux
}

/// The options of a driver for these calls.
fn steps(calls: &[(&str, Value)], more: &[&str]) -> Vec<String> {
    let mut steps: Vec<String> = more.iter().map(ToString::to_string).collect();
    for (name, arguments) in calls {
        steps.extend(["--call".to_owned(), (*name).to_owned(), arguments.to_string()]);
    }
    steps
}

/// A tool of each kind of result: bare, wrapped, empty, truncated; and what goes wrong.
fn calls() -> Vec<(&'static str, Value)> {
    let pane = |more: Value| {
        let mut arguments = json!({"pane_id": "%0"});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let operations = json!([{"tool": "get_server_info"}, {"tool": "get_pane_info",
        "arguments": {"pane_id": "%0"}}, {"tool": "send_keys", "arguments": {"keys": "x"}}]);
    vec![
        ("run_command", pane(json!({"command": "seq 1 200", "max_lines": 5}))),
        ("list_sessions", json!({})),
        ("list_panes", json!({})),
        ("list_windows", json!({"filters": {"window_name": "none"}})),
        ("get_server_info", json!({})),
        ("capture_pane", pane(json!({"max_lines": 3}))),
        ("snapshot_pane", pane(json!({"max_lines": 2}))),
        ("capture_since", pane(json!({"max_lines": 2}))),
        ("search_panes", json!({"pattern": "19", "max_matched_lines_per_pane": 2})),
        ("show_option", json!({"option": "history-limit", "global_": true})),
        ("show_environment", json!({})),
        ("create_window", json!({"session_name": "other", "window_name": "w"})),
        ("load_buffer", json!({"content": "a\nb"})),
        ("call_readonly_tools_batch", json!({"operations": operations, "on_error": "continue"})),
        ("wait_for_text", pane(json!({"patterns": ["never"], "timeout": 1.5}))),
        ("get_pane_info", json!({"pane_id": "%999"})),
        ("resize_pane", pane(json!({"height": "tall"}))),
        ("kill_server", json!({})),
        ("send_keys", pane(json!({"keys": "git push --force"}))),
        ("run_command", pane(json!({"command": "sudo true"}))),
    ]
}

fn check_results(run: &Run, calls: &[(&str, Value)]) {
    let of = |name| run.structured(calls, name);
    let client = run.client;
    let ran = of("run_command");
    assert_eq!(ran["output"], json!(["196", "197", "198", "199", "200"]), "{client:?}");
    assert_eq!(ran["output_truncated_lines"], 195, "{client:?}");
    assert_eq!(of("list_sessions")["result"].as_array().unwrap().len(), 2, "{client:?}");
    assert_eq!(of("list_windows"), &json!({"result": []}), "{client:?}");
    let captured = of("capture_pane")["result"].as_str().unwrap();
    // The prompt may still be on its way.
    let is_tail = captured.starts_with("[... truncated ") && captured.contains("\n199\n200");
    assert!(is_tail, "{client:?}: {captured}");
    assert_eq!(of("snapshot_pane")["content_truncated"], true, "{client:?}");
    assert_eq!(of("capture_since")["lines_missed"], false, "{client:?}");
    assert_eq!(of("search_panes")["truncated"], true, "{client:?}");
    assert_eq!(of("show_option")["value"], 2000, "{client:?}");
    assert_eq!(of("create_window")["window_name"], "w", "{client:?}");
    let batch = of("call_readonly_tools_batch");
    assert_eq!((&batch["succeeded"], &batch["failed"]), (&json!(2), &json!(1)), "{client:?}");
    let wait = run.call(calls, "wait_for_text");
    assert_eq!(wait["result"]["structuredContent"]["outcome"], "timeout", "{client:?}: {wait}");
    let message = wait["progress"][0]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("Waiting on pane %0"), "{client:?}: {wait}");
    for (name, kind, words) in [
        ("get_pane_info", "PaneNotFound", "Pane not found: %999\nCall list_panes"),
        ("resize_pane", "ValidationError", "height"),
        ("kill_server", "TierDenied", "Tool 'kill_server' is not available"),
    ] {
        let failed = &run.call(calls, name)["result"];
        assert_eq!(failed["isError"], true, "{client:?}: {failed}");
        assert_eq!(failed["_meta"]["error_type"], kind, "{client:?}: {failed}");
        assert!(failed["content"][0]["text"].as_str().unwrap().contains(words), "{failed}");
        assert_eq!(failed.get("structuredContent"), None, "{client:?}: {failed}");
    }
}

/// The user was asked before each of the last calls, and said no.
fn check_guard(run: &Run, calls: &[(&str, Value)], tmux: &Tmux) {
    let client = run.client;
    let questions = run.report["requests"].as_array().unwrap();
    assert_eq!(questions.len(), 2, "{client:?}: {questions:?}");
    for (asked, (at, class, typed)) in questions.iter().zip([
        (calls.len() - 2, "command-guard/force-push", "git push --force"),
        (calls.len() - 1, "command-guard/privilege", "sudo true"),
    ]) {
        let denied = &run.at(at)["result"];
        assert_eq!(denied["_meta"]["code"], "CONFIRM_DECLINED", "{client:?}: {denied}");
        let question = asked["params"]["message"].as_str().unwrap();
        let is_whole = question.contains(class) && question.contains(typed);
        assert!(is_whole, "{client:?}: {question}");
    }
    let screen = tmux.run(&["capture-pane", "-p", "-t", "%0", "-S", "-"]);
    assert!(!screen.contains("ran-") && !screen.contains("push"), "{client:?}: {screen}");
}

fn check_resources_and_prompts(run: &Run) {
    let (client, report) = (run.client, &run.report);
    let names = |of: &str, key: &str| -> Vec<String> {
        let items = report[of].as_array().unwrap_or_else(|| panic!("{client:?}: no {of}")).iter();
        items.map(|item| item[key].as_str().unwrap().to_owned()).collect()
    };
    assert!(names("resources", "uri").contains(&"tmux://panes/%250/content".to_owned()));
    assert_eq!(names("templates", "uriTemplate").len(), 7, "{client:?}");
    assert_eq!(names("prompts", "name").len(), 4, "{client:?}");
    let content = |of: &str, at: usize| report[of][at]["result"]["contents"][0].clone();
    let sessions = content("reads", 0);
    assert_eq!(sessions["mimeType"], "application/json", "{client:?}: {sessions}");
    let text = content("reads", 1)["text"].as_str().unwrap().to_owned();
    let pane: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(pane["pane_id"], "%0", "{client:?}");
    let missing = &report["reads"][2]["error"];
    let is_known = missing["code"] == -32002 || missing["code"] == -32602;
    assert!(is_known, "{client:?}: {missing}");
    let prompt = &report["got"][0]["result"]["messages"][0]["content"]["text"];
    assert!(
        prompt.as_str().unwrap().contains("run_command(pane_id=\"%0\""),
        "{client:?}: {prompt}"
    );
    let values = |at: usize| &report["completions"][at]["result"]["completion"]["values"];
    assert_eq!(values(0), &json!(["%0", "%1", "%2"]), "{client:?}");
    assert_eq!(values(1), &json!(["other"]), "{client:?}");
    let followed = &report["followed"][0]["result"];
    let updates = followed["updates"].as_array().unwrap_or_else(|| panic!("{client:?}: {report}"));
    assert!(updates.contains(&json!("tmux://panes/%250/content")), "{client:?}: {followed}");
}

const MORE: &[&str] = &[
    "--progress",
    "--decline",
    "--resources",
    "--prompts",
    "--read",
    "tmux://sessions",
    "--read",
    "tmux://panes/%250",
    "--read",
    "tmux://panes/%2599/content",
    "--prompt",
    "run_and_wait",
    r#"{"command": "make", "pane_id": "%0"}"#,
    "--complete",
    "diagnose_failing_pane",
    "pane_id",
    "%",
    "--complete-uri",
    "tmux://sessions/{session_name}{?socket_name}",
    "session_name",
    "ot",
    "--follow",
    "tmux://panes/%250/content",
    "run_command",
    r#"{"command": "echo [new]", "pane_id": "%0"}"#,
    "[new]",
];

/// Everything that a client may do, once.
fn does_everything(client: Client, version: &str) {
    let (tmux, calls) = (terminal(), calls());
    let run = Run::of(client, &tmux, &steps(&calls, MORE), &[]);
    assert_eq!(run.report["protocolVersion"], version, "{client:?}");
    check_results(&run, &calls);
    check_guard(&run, &calls, &tmux);
    check_resources_and_prompts(&run);
}

/// Waits that are cancelled end at once, and results that are cut by the limit still fit their schemas.
fn cancels_and_is_limited(client: Client) {
    let tmux = terminal();
    tmux.run(&["send-keys", "-t", "%0", "seq 1 3000", "Enter"]);
    tmux.until("3000", |tmux| tmux.run(&["capture-pane", "-p", "-t", "%0"]).contains("3000"));
    let operations = json!([{"tool": "list_panes"}, {"tool": "capture_pane",
        "arguments": {"pane_id": "%0", "start": -900, "max_lines": null}}]);
    let calls = [
        ("wait_for_text", json!({"patterns": ["never"], "pane_id": "%0", "timeout": 30})),
        ("list_sessions", json!({})),
        ("list_panes", json!({})),
        ("capture_pane", json!({"pane_id": "%0", "start": -900, "max_lines": null})),
        ("capture_since", json!({"pane_id": "%0"})),
        ("snapshot_pane", json!({"pane_id": "%0"})),
        ("search_panes", json!({"pattern": "2"})),
        ("show_environment", json!({})),
        ("run_command", json!({"command": "seq 1 2000", "pane_id": "%0"})),
        ("call_readonly_tools_batch", json!({"operations": operations})),
    ];
    let run =
        Run::of(client, &tmux, &steps(&calls, &["--cancel-after-progress"]), &["--limit", "4000"]);
    let cancelled = &run.report["calls"][0];
    assert!(cancelled["error"].is_object(), "{client:?}: {cancelled}");
    assert_eq!(cancelled["progress"].as_array().unwrap().len(), 1, "{client:?}: {cancelled}");
    assert_eq!(run.records[0]["outcome"], "cancelled", "{client:?}: {:?}", run.records[0]);
    for (name, _) in &calls[1..] {
        let answer = run.structured(&calls, name);
        assert!(answer.is_object(), "{client:?}, {name}: {answer}");
        let bytes = run.call(&calls, name)["result"].to_string().len();
        assert!(bytes <= 5000, "{client:?}, {name}: {bytes} bytes");
    }
    let screen = run.structured(&calls, "capture_pane")["result"].as_str().unwrap();
    let is_cut = screen.starts_with("[... truncated ") && screen.contains("\n3000\n");
    assert!(is_cut, "{client:?}: {screen}");
}

#[test]
fn typescript_clients() {
    does_everything(Client::TsV1, "2025-11-25");
    does_everything(Client::Ts("2025-06-18"), "2025-06-18");
    does_everything(Client::Ts("legacy"), "2025-11-25");
    does_everything(Client::Ts("auto"), "2026-07-28");
    does_everything(Client::Ts("modern"), "2026-07-28");
}

#[test]
fn python_clients() {
    does_everything(Client::Python("legacy"), "2025-11-25");
    does_everything(Client::Python("auto"), "2026-07-28");
    does_everything(Client::Python("modern"), "2026-07-28");
}

#[test]
fn rust_clients() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        does_everything(Client::Rust(version), version);
    }
    does_everything(Client::Rust("legacy"), "2025-11-25");
    does_everything(Client::Rust("auto"), "2026-07-28");
    does_everything(Client::Rust("modern"), "2026-07-28");
}

#[test]
fn cancelled_waits_and_limited_results() {
    cancels_and_is_limited(Client::TsV1);
    for mode in ["legacy", "modern"] {
        for client in [Client::Ts(mode), Client::Python(mode), Client::Rust(mode)] {
            cancels_and_is_limited(client);
        }
    }
}
