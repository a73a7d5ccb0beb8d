//! Several calls in one: each through the whole chain, none more than it could do by itself.

use serde_json::{Value, json};

use crate::harness::{
    Session,
    gateway::until,
    tmux::{Tmux, structured},
};

const READONLY: &str = "call_readonly_tools_batch";
const MUTATING: &str = "call_mutating_tools_batch";
const DESTRUCTIVE: &str = "call_destructive_tools_batch";

fn batch(session: &mut Session, tool: &str, on_error: &str, operations: &Value) -> Value {
    let answer = session.call(tool, json!({"operations": operations, "on_error": on_error}));
    structured(&answer).clone()
}

fn errors(result: &Value) -> Vec<&str> {
    let rows = result["results"].as_array().into_iter().flatten();
    rows.map(|row| row["error"].as_str().unwrap_or_default()).collect()
}

#[test]
fn parts_answer_as_they_would_alone_and_are_recorded_as_parts() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    let alone = session.call("get_session_info", json!({"session_name": "one"}));
    let operations = json!([
        {"tool": "get_session_info", "arguments": {"session_name": "one"}},
        {"tool": "list_sessions"},
        {"tool": "capture_pane", "arguments": {"pane_id": "%99"}},
        {"tool": "capture_pane", "arguments": {"pane_id": "%0"}},
    ]);
    let stopped = batch(&mut session, READONLY, "stop", &operations);
    assert_eq!((&stopped["succeeded"], &stopped["failed"]), (&json!(2), &json!(1)), "{stopped}");
    assert_eq!(
        (&stopped["stopped_at"], &stopped["response_truncated"]),
        (&json!(2), &json!(false))
    );
    let first = &stopped["results"][0];
    assert_eq!((&first["index"], &first["tool"]), (&json!(0), &json!("get_session_info")));
    assert_eq!((&first["success"], &first["error"]), (&json!(true), &Value::Null));
    assert_eq!(first["structured_content"], *structured(&alone));
    assert_eq!(first["content"], alone["result"]["content"]);
    assert!(first["elapsed_seconds"].is_number());
    let failed = &stopped["results"][2];
    assert!(failed["error"].as_str().unwrap().starts_with("Pane not found: %99"), "{failed}");
    assert_eq!(failed["meta"]["error_type"], "PaneNotFound");
    let all = batch(&mut session, READONLY, "continue", &operations);
    assert_eq!((&all["succeeded"], &all["failed"]), (&json!(3), &json!(1)));
    assert_eq!(all["stopped_at"], Value::Null);

    let secret =
        json!([{"tool": "send_keys", "arguments": {"keys": "echo s3cret", "pane_id": "%0"}}]);
    assert_eq!(batch(&mut session, MUTATING, "stop", &secret)["succeeded"], 1);
    tmux.until("typed", |tmux| tmux.run(&["capture-pane", "-p"]).contains("\ns3cret"));
    for wrong in
        [json!([]), json!([{"tool": "list_sessions", "args": {}}]), json!([{"arguments": {}}])]
    {
        let refused = session.call(READONLY, json!({"operations": wrong}));
        assert_eq!(refused["result"]["_meta"]["code"], "INVALID_ARGUMENTS", "{refused}");
    }
    let many = vec![json!({"tool": "list_sessions"}); 1001];
    let refused = session.call(READONLY, json!({"operations": many}));
    assert_eq!(refused["result"]["_meta"]["code"], "INVALID_ARGUMENTS");

    let records = session.records();
    assert!(!format!("{records:?}").contains("s3cret"), "what is typed is not written down");
    let whole = records.iter().find(|record| record["tool"] == MUTATING).unwrap();
    let part = records.iter().find(|record| record["tool"] == "send_keys").unwrap();
    assert_eq!(part["parent_call_uuid"], whole["call_id"]);
    assert_eq!(part["request_id"], whole["request_id"]);
    assert_eq!(part["tier"], "mutating");
    let parts = records.iter().filter(|record| record["parent_call_uuid"].is_string());
    assert_eq!(parts.count(), 3 + 4 + 1, "{records:?}");
}

#[test]
fn a_batch_does_no_more_than_its_tier_and_its_parts_may() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&["--safety", "destructive"]);
    let operations = json!([
        {"tool": "send_keys", "arguments": {"keys": "x"}},
        {"tool": "kill_server"},
        {"tool": "wait_for_channel", "arguments": {"channel": "x"}},
        {"tool": READONLY, "arguments": {"operations": []}},
        {"tool": "nope"},
        {"tool": "list_sessions", "arguments": {"typo": 1}},
        {"tool": "list_sessions", "arguments": {}},
    ]);
    let readonly = batch(&mut session, READONLY, "continue", &operations);
    let messages = errors(&readonly);
    assert_eq!(
        messages[0],
        "Tool 'send_keys' has tier 'mutating', which exceeds batch tier readonly."
    );
    assert_eq!(
        messages[1],
        "Tool 'kill_server' has tier 'destructive', which exceeds batch tier readonly."
    );
    assert_eq!(
        messages[2],
        "Tool 'wait_for_channel' enforces its own wait ceiling and cannot be batched; batching would multiply \
         that ceiling by the operation count. Call it directly."
    );
    assert_eq!(messages[3], "Batch tools cannot call batch tools recursively.");
    assert_eq!(messages[4], "Unknown tool: 'nope'");
    assert!(messages[5].contains("typo"), "{}", messages[5]);
    assert_eq!(messages[6], "");
    let kill = json!([{"tool": "kill_session", "arguments": {"session_name": "one"}}]);
    let mutating = batch(&mut session, MUTATING, "stop", &kill);
    assert!(errors(&mutating)[0].ends_with("exceeds batch tier mutating."), "{mutating}");
    // What narrows the whole narrows its parts.
    let narrowed = json!({"name": READONLY, "arguments": {"operations": [{"tool": "list_windows"}, {"tool": "list_sessions"}],
        "on_error": "continue"}, "_meta": {"allowedTools": [READONLY, "list_sessions"]}});
    let narrowed = session.request("tools/call", narrowed);
    let messages = errors(structured(&narrowed));
    assert!(!messages[0].is_empty() && messages[1].is_empty(), "{narrowed}");
    drop(session);

    // A tier that the whole process does not allow is not allowed in parts either.
    let mut session = tmux.serve(&["--safety", "mutating"]);
    let denied = session.call(DESTRUCTIVE, json!({"operations": kill}));
    assert_eq!(denied["result"]["_meta"]["code"], "TIER_DENIED");
    let path = json!([{"tool": "set_environment", "arguments": {"name": "PATH", "value": "/x"}}]);
    let denied = batch(&mut session, MUTATING, "stop", &path);
    assert_eq!(denied["results"][0]["meta"]["code"], "TIER_DENIED", "{denied}");
    drop(session);

    // The guard holds: the pane that we run in stays.
    let here = format!("{},1,0", tmux.format("#{socket_path}"));
    let mut session = tmux.serve_in(&["--safety", "destructive"], |command| {
        command.env("TMUX", here).env("TMUX_PANE", "%0");
    });
    let refused = batch(&mut session, DESTRUCTIVE, "stop", &kill);
    assert_eq!(refused["results"][0]["meta"]["error_type"], "SelfKillRefused", "{refused}");
    let tools = session.request("tools/list", json!({}));
    let tools = tools["result"]["tools"].as_array().unwrap();
    let hints = |name: &str| {
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]
            .map(|hint| tool["annotations"][hint] == true)
    };
    assert_eq!(hints(READONLY), [true, false, true, false]);
    assert_eq!(hints(MUTATING), [false, true, false, true]);
    assert_eq!(hints(DESTRUCTIVE), [false, true, false, true]);
}

#[test]
fn large_answers_are_left_off_oldest_first() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    let content = "x".repeat(150_000);
    let loaded = session.call("load_buffer", json!({"content": content}));
    let name = structured(&loaded)["buffer_name"].clone();
    let show = json!({"tool": "show_buffer", "arguments": {"buffer_name": name}});
    let operations = json!([show, show, show, show, {"tool": "list_sessions"}]);
    let answer = session.call(READONLY, json!({"operations": operations}));
    assert!(answer.to_string().len() < 1_010_000, "{}", answer.to_string().len());
    let result = structured(&answer);
    assert_eq!((&result["succeeded"], &result["response_truncated"]), (&json!(5), &json!(true)));
    assert!(result["response_truncated_bytes"].as_u64().unwrap() > 900_000);
    let row = |at: usize| &result["results"][at];
    assert_eq!(row(0)["content"][0]["text"], "[... batch truncated nested content ...]");
    assert_eq!((&row(0)["structured_content"], &row(0)["success"]), (&Value::Null, &json!(true)));
    assert_eq!(row(3)["structured_content"]["content"], content);
    assert_eq!(row(4)["structured_content"]["result"][0]["session_name"], "one");
    let text: Value = serde_json::from_str(crate::harness::text(&answer)).unwrap();
    assert_eq!(text, *result, "the text tells the same");
}

#[test]
fn keys_go_to_several_panes_in_order() {
    let tmux = Tmux::start();
    tmux.run(&["split-window", "-t", "one", "cat"]);
    let mut session = tmux.serve(&[]);
    let operations = json!([
        {"keys": "echo [a];", "pane_id": "%0"},
        {"keys": "-l;", "pane_id": "%1", "literal": true},
        {"keys": "x", "pane_id": "%99"},
        {"keys": "echo [b]", "pane_id": "%0", "suppress_history": true},
    ]);
    let sent =
        session.call("send_keys_batch", json!({"operations": operations, "on_error": "continue"}));
    let sent = structured(&sent);
    assert_eq!(
        (&sent["succeeded"], &sent["failed"], &sent["stopped_at"]),
        (&json!(3), &json!(1), &Value::Null)
    );
    assert_eq!(
        sent["results"][2]["error"],
        "Pane not found: %99\nCall list_panes to discover valid pane ids."
    );
    let screen = |pane: &str| tmux.run(&["capture-pane", "-p", "-t", pane]);
    tmux.until("typed", |_| {
        let (first, second) = (screen("%0"), screen("%1"));
        first.find("\n[a]") < first.find("\n[b]")
            && first.contains("\n[a]")
            && second.contains("-l;\n-l;")
    });
    let stopped = session.call(
        "send_keys_batch",
        json!({"operations": [{"keys": "x", "pane_id": "%99"}, {"keys": "y"}]}),
    );
    assert_eq!(structured(&stopped)["stopped_at"], 0);
    assert_eq!(structured(&stopped)["results"].as_array().unwrap().len(), 1);
    // tmux hangs: the batch ends when it is told to.
    let hung = json!({"operations": [{"keys": "z", "pane_id": "%1"}, {"keys": "z", "pane_id": "%1"}],
        "timeout": 0.2, "on_error": "continue"});
    let hanging = tmux.hang();
    let late = session.call("send_keys_batch", hung);
    drop(hanging);
    assert_eq!(structured(&late)["failed"], 2);
    assert_eq!(
        structured(&late)["results"][0]["error"],
        "batch execution exceeded timeout of 0.2s"
    );
    let refused = session.call("send_keys_batch", json!({"operations": []}));
    assert_eq!(refused["result"]["_meta"]["code"], "INVALID_ARGUMENTS");
}

#[test]
fn a_batch_that_is_cancelled_goes_no_further() {
    let tmux = Tmux::start();
    let mut session = tmux.serve(&[]);
    structured(&session.call("list_sessions", json!({})));
    // tmux hangs, so that the batch is in the middle of its first part.
    let hanging = tmux.hang();
    let operations = json!([{"tool": "signal_channel", "arguments": {"channel": "x"}},
        {"tool": "send_keys", "arguments": {"keys": "echo ran"}}]);
    let id = session.post_call(MUTATING, json!({"operations": operations}));
    let ended = |session: &Session| {
        session.audit_so_far().iter().filter(|record| record["outcome"] == "cancelled").count()
    };
    let begun = |session: &Session| {
        let audit = std::fs::read_to_string(&session.audit).unwrap_or_default();
        let mut records = audit.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        records.any(|record| record["event"] == "intent" && record["tool"] == "signal_channel")
    };
    until("the call has begun", || begun(&session));
    session.notify("notifications/cancelled", json!({"requestId": id}));
    until("both calls have ended", || ended(&session) == 2);
    drop(hanging);
    structured(&session.call("list_sessions", json!({})));
    assert!(!tmux.run(&["capture-pane", "-p"]).contains("ran"));
    let records = session.records();
    assert!(records.iter().all(|record| record["tool"] != "send_keys"), "{records:?}");
}
