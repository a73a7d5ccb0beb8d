//! What `toolgate wrap` passes on: everything, both ways, byte for byte where nothing has to change.

use serde_json::{Value, json};

use crate::harness::{Session, text};

#[test]
fn a_request_reaches_the_server_as_the_bytes_that_came_in() {
    let mut session = Session::fixture(&[], &[]);
    session.initialize();
    let line = r#"{"id":900,  "method":"tools/call","jsonrpc":"2.0","xTop":[1e40,-0,0.10],"params":{"xNew":{"b":1,"a":2},"name":"see_line","arguments":{"n":123456789012345678901234567890,"e":"\u00e9\/"},"task":{"ttl":1}}}"#;
    session.send_line(line);
    let answer = session.answer(900);
    assert_eq!(text(&answer), line);
}

#[test]
fn an_answer_reaches_the_client_as_the_bytes_that_came_in() {
    // `cat` as a server: what the client sends as an answer comes back as the server's own.
    let mut session = Session::wrap(&[], &["cat"]);
    let notice = r#"{ "jsonrpc":"2.0","method":"notifications/vendor","params":{"n":[1E5,1e400,-0],"x":[ ],"s":"\ud800"} }"#;
    session.send_line(notice);
    assert_eq!(session.line(), notice);
    let request = r#"{"jsonrpc":"2.0","id":1.5,"method":"vendor/ask","params":[1,2]}"#;
    session.send_line(request);
    // The request went through the chain to `cat`, which "asks" it back: passed on as it is.
    assert_eq!(session.line(), request);
    let answer =
        r#"{"result":{"content":[],"contents":[],"tools":[],"n":0.10},"jsonrpc":"2.0","id":1.5}"#;
    session.send_line(answer);
    assert_eq!(session.line(), answer);
}

#[test]
fn unknown_methods_fields_and_content_types_pass_both_ways() {
    let mut session = Session::fixture(&[], &[]);
    let initialize = session.initialize();
    assert_eq!(initialize["result"]["xVendor"]["kept"], json!(1e3));
    let params = json!({"any": {"thing": [null, {"type": "video"}]}});
    assert_eq!(session.request("vendor/echo", params.clone())["result"], params);
    let unknown = session.request("no/such", json!({}));
    assert_eq!(
        unknown["error"],
        json!({"code": -32601, "message": "no such method", "data": {"vendor": true}})
    );
    let list = session.request("tools/list", json!({}));
    assert_eq!(list["result"]["xVendor"], "kept");
    assert_eq!(list["result"]["tools"][0]["xVendor"], "echo");
}

#[test]
fn requests_of_the_server_reach_the_client_and_its_answer_comes_back() {
    let mut session = Session::fixture(&[], &[]);
    session.initialize();
    let id = session.post_call("ask", json!({}));
    let asked = session.wait_for(|m| m["method"] == "sampling/createMessage");
    assert_eq!((&asked["id"], &asked["params"]["xVendor"]), (&json!("server-1"), &json!(1)));
    session.send_line(
        r#"{"jsonrpc":"2.0","id":"server-1","result":{"role":"assistant","xNew":true}}"#,
    );
    let answer = session.answer(id);
    let told: Value = serde_json::from_str(text(&answer)).unwrap();
    assert_eq!(told["result"], json!({"role": "assistant", "xNew": true}));
}

#[test]
fn progress_and_list_changed_reach_the_client() {
    let mut session = Session::fixture(&[], &[]);
    session.initialize();
    let params = json!({"name": "progress", "arguments": {}, "_meta": {"progressToken": "tok"}});
    let answer = session.request("tools/call", params);
    assert_eq!(text(&answer), "done");
    let steps: Vec<_> =
        session.seen.iter().filter(|m| m["method"] == "notifications/progress").collect();
    assert_eq!(
        steps.iter().map(|m| &m["params"]["progress"]).collect::<Vec<_>>(),
        [&json!(1), &json!(2), &json!(3)]
    );
    assert!(steps.iter().all(|m| m["params"]["progressToken"] == "tok"));
    session.call("changed", json!({}));
    session.wait_for(|m| m["method"] == "notifications/tools/list_changed");
}

#[test]
fn a_cancelled_call_has_no_answer_and_the_server_is_told_under_the_same_id() {
    let mut session = Session::fixture(&[], &[]);
    session.initialize();
    let id = session.post_call("hang", json!({}));
    session.wait_for(|m| m["params"]["data"]["hanging"] == json!(id));
    session.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"}));
    let cancelled = session.call("cancelled", json!({}));
    assert_eq!(text(&cancelled), format!("[{id}]"));
    assert!(session.seen.iter().all(|m| m["id"] != json!(id)), "{:?}", session.seen);
    let audit = session.records();
    let record = audit.iter().find(|r| r["tool"] == "hang").unwrap();
    assert_eq!((&record["outcome"], &record["ran"]), (&json!("cancelled"), &json!("maybe")));
}

#[test]
fn concurrent_calls_are_not_serialized() {
    let mut session = Session::fixture(&[], &[]);
    session.initialize();
    let hanging = session.post_call("hang", json!({}));
    session.wait_for(|m| m["params"]["data"]["hanging"] == json!(hanging));
    let ids: Vec<i64> =
        (0..200).map(|n| session.post_call("echo", json!({"text": n.to_string()}))).collect();
    for (n, id) in ids.into_iter().enumerate() {
        assert_eq!(text(&session.answer(id)), n.to_string());
    }
}

#[test]
fn a_batch_is_governed_and_answered_as_one_array() {
    let mut session = Session::fixture(&["--safety", "readonly"], &[]);
    session.initialize_as("2025-03-26");
    let call = |id: i64, tool: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {"text": "x"}}});
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/x"});
    session.send_line(&json!([call(70, "echo"), notice, call(71, "crash")]).to_string());
    let answers = session.wait_for(Value::is_array);
    let by_id =
        |id: i64| answers.as_array().unwrap().iter().find(|a| a["id"] == id).unwrap().clone();
    assert_eq!(text(&by_id(70)), "x");
    assert_eq!(by_id(71)["result"]["_meta"]["code"], "TIER_DENIED");
    assert_eq!(answers.as_array().unwrap().len(), 2);
}

#[test]
fn a_modern_client_is_served_without_initialize() {
    let mut session = Session::fixture(&["--safety", "readonly"], &[]);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "modern", "version": "9"}});
    let answer = session
        .request("tools/call", json!({"name": "echo", "arguments": {"text": "hi"}, "_meta": meta}));
    assert_eq!(text(&answer), "hi");
    let denied = session.request("tools/call", json!({"name": "crash", "_meta": meta}));
    assert_eq!(denied["result"]["_meta"]["code"], "TIER_DENIED");
    let audit = session.records();
    assert!(audit.iter().all(|record| record["client"] == "modern 9"), "{audit:?}");
}

#[test]
fn a_modern_client_that_does_not_introduce_itself_is_served_too() {
    // The server refuses whatever carries no version, also what toolgate asks on its own account.
    let mut session = Session::fixture(&["--safety", "readonly"], &["--modern-only"]);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    let params = json!({"name": "echo", "arguments": {"text": "hi"}, "_meta": meta});
    assert_eq!(text(&session.request("tools/call", params)), "hi");
}

#[test]
fn the_parent_of_a_nested_call_is_recorded_and_never_reaches_the_tool() {
    let mut session = Session::fixture(&[], &[]);
    session.initialize();
    let only = json!({"name": "see_line", "arguments": {}, "_meta": {"parent_call_uuid": "p-1"}});
    let answer = session.request("tools/call", only);
    let seen: Value = serde_json::from_str(text(&answer)).unwrap();
    assert_eq!(seen["params"], json!({"name": "see_line", "arguments": {}}));
    let with_more =
        json!({"name": "see_line", "_meta": {"progressToken": 5, "parent_call_uuid": "p-2"}});
    let answer = session.request("tools/call", with_more);
    let seen: Value = serde_json::from_str(text(&answer)).unwrap();
    assert_eq!(seen["params"]["_meta"], json!({"progressToken": 5}));
    let parents: Vec<_> = session.records().iter().map(|r| r["parent_call_uuid"].clone()).collect();
    assert_eq!(parents, [json!("p-1"), json!("p-2")]);
}

#[test]
fn noise_on_the_servers_stdout_is_reported_and_never_forwarded() {
    let mut session = Session::fixture(&[], &["--noise"]);
    session.initialize();
    session.wait_for_stderr("Server starting up...");
    let answer = session.call("flood", json!({"lines": 5000}));
    assert_eq!(text(&answer), "after the flood");
    let (_, left) = session.finish();
    assert_eq!(left, Vec::<String>::new());
    let shown =
        session.stderr_so_far().iter().filter(|line| line.contains("should not be here")).count();
    assert!(shown <= 10, "a flood on stdout became a flood on stderr: {shown} lines");
}

#[test]
fn an_answer_to_an_id_that_nobody_asked_with_is_reported_and_dropped() {
    let mut session = Session::fixture(&[], &[]);
    session.initialize();
    let answer = session.call("wrong_id", json!({}));
    assert_eq!(text(&answer), "the right one");
    session.wait_for_stderr("987654");
    assert!(session.seen.iter().all(|m| m["id"] != 987_654 && m["id"] != "invented"));
}

#[test]
fn what_is_piped_in_is_answered_before_the_end() {
    let mut session = Session::fixture(&[], &[]);
    session.initialize();
    let ids: Vec<i64> =
        (0..20).map(|n| session.post_call("echo", json!({"text": n.to_string()}))).collect();
    let (status, lines) = session.finish();
    assert!(status.success());
    let answers: Vec<Value> =
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    for id in ids {
        assert!(
            answers.iter().any(|a| a["id"] == id && a.get("result").is_some()),
            "{id} of {answers:?}"
        );
    }
}

#[test]
fn the_clients_last_notifications_reach_the_server_before_the_end_of_its_input() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("seen");
    // `tee` reads slowly enough: everything is queued at once.
    let mut session = Session::wrap(&[], &["tee", log.to_str().unwrap()]);
    let notices: Vec<String> = (0..200)
        .map(|n| format!(r#"{{"jsonrpc":"2.0","method":"notifications/vendor","params":{{"n":{n},"x":"{}"}}}}"#, "y".repeat(2000)))
        .collect();
    session.send_line(&notices.join("\n"));
    let (status, _) = session.finish();
    assert_eq!(status.code(), Some(0));
    let seen = std::fs::read_to_string(&log).unwrap();
    assert_eq!(seen.lines().collect::<Vec<_>>(), notices);
}
