//! `toolgate stdio`: the whole gateway for one client over its pipes, and the thin way to a gateway that runs already.

use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::harness::{
    Session, assert_gone,
    gateway::{Gateway, descendants, stdio, until},
    governed::{call_with, code, listed, listed_with, modern},
    text, toolgate,
    upstream::{Era, Upstream},
};

/// The command `toolgate stdio`, with what it keeps in a folder of its own.
fn command(folder: &std::path::Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(toolgate());
    command.arg("stdio").args(arguments).current_dir(folder).env("TOOLGATE_LOG", "info");
    command.env("XDG_STATE_HOME", folder.join("state")).env_remove("TOOLGATE_CONFIG");
    command
}

/// The whole gateway with this config, for a client on its pipes.
fn whole(config: &str, arguments: &[&str]) -> Session {
    let folder = tempfile::tempdir().unwrap();
    let config = format!("audit = {{ file = \"audit.jsonl\" }}\n{config}");
    std::fs::write(folder.path().join("toolgate.toml"), config).unwrap();
    let command = command(folder.path(), arguments);
    Session::spawn(command, folder)
}

/// A client of a gateway that runs.
fn thin(gateway: &Gateway, path: &str, arguments: &[&str]) -> Session {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("http://{}{path}", gateway.address);
    let mut command = command(folder.path(), &[&["--to", &url], arguments].concat());
    command.env("GATEWAY_TOKEN", "token-of-anna-0001");
    Session::spawn(command, folder)
}

/// Says hello as one that can be asked.
fn hello(session: &mut Session) -> Value {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}, "roots": {}},
        "clientInfo": {"name": "harness", "version": "7"}});
    let answer = session.request("initialize", params);
    session.notify("notifications/initialized", json!({}));
    answer
}

fn respond(session: &mut Session, id: &Value, result: Value) {
    session.send_line(&json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
}

/// What holds for a client over pipes, whatever is between it and the server `alpha`, which has 14 tools.
fn speaks_legacy(session: &mut Session, server: &Upstream) {
    let answer = hello(session);
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25", "{answer}");
    assert_eq!(answer["result"]["instructions"], "This is alpha.", "{answer}");
    assert_eq!(listed(session).len(), 14);
    assert_eq!(text(&session.call("echo", json!({"text": "hi"}))), "hi");
    assert_eq!(code(&session.call("nope", json!({}))), "UNKNOWN_TOOL");
    assert_eq!(session.request("ping", json!({}))["result"], json!({}));
    assert_eq!(session.request("no/such", json!({}))["error"]["code"], -32601);
    // A question comes while the call is under way, under an id that is nobody else's.
    let call = session.post_call("elicit", json!({}));
    let question = session.wait_for(|m| m["method"] == "elicitation/create");
    assert_eq!(question["params"]["message"], "Which color?", "{question}");
    respond(session, &question["id"], json!({"action": "accept", "content": {"color": "teal"}}));
    assert!(text(&session.answer(call)).contains("teal"));
    let token = json!({"progressToken": "p"});
    call_with(session, "progress", json!({"steps": 3}), token);
    let steps = session.seen.iter().filter(|m| m["method"] == "notifications/progress");
    assert_eq!(steps.count(), 3, "before the answer");
    // A call that is given up is given up all the way, and not answered.
    let slow = session.post_call("slow", json!({"key": "legacy"}));
    server.wait_for_call("legacy");
    session.notify("notifications/cancelled", json!({"requestId": slow}));
    server.wait_for_end("legacy");
    assert_eq!(text(&session.call("echo", json!({"text": "after"}))), "after");
    assert_eq!(session.answered(slow), None);
    server.until("the gateway listens", |server| server.streams() > 0);
    server.add_tool("fresh");
    server.announce("tools");
    session.wait_for(|m| m["method"] == "notifications/tools/list_changed");
    until("the new tool", || listed(session).contains(&"fresh".to_owned()));
    server.remove_tool("fresh");
    server.announce("tools");
    assert_eq!(server.complaints(), Vec::<String>::new());
}

/// The same for a client that says everything with each request.
fn speaks_modern(session: &mut Session, server: &Upstream) {
    let able = modern(
        json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}}}),
    );
    let found = session.request("server/discover", json!({"_meta": able}));
    assert_eq!(found["result"]["instructions"], "This is alpha.", "{found}");
    assert!(
        found["result"]["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28"))
    );
    until("its tools", || listed_with(session, able.clone()).len() == 14);
    let answer = call_with(session, "echo", json!({"text": "hi"}), able.clone());
    assert_eq!((text(&answer), &answer["result"]["resultType"]), ("hi", &json!("complete")));
    let mut params = json!({"name": "elicit", "arguments": {}, "_meta": able});
    let asked = session.request("tools/call", params.clone());
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let requests = asked["result"]["inputRequests"].as_object().unwrap();
    let (key, question) = requests.iter().next().unwrap();
    assert_eq!(question["method"], "elicitation/create", "{asked}");
    params["inputResponses"] = json!({key: {"action": "accept", "content": {"color": "teal"}}});
    params["requestState"] = asked["result"]["requestState"].clone();
    assert!(text(&session.request("tools/call", params)).contains("teal"));
    let slow = session
        .post("tools/call", json!({"name": "slow", "arguments": {"key": "modern"}, "_meta": able}));
    server.wait_for_call("modern");
    session.notify("notifications/cancelled", json!({"requestId": slow, "_meta": able}));
    server.wait_for_end("modern");
    let wanted = json!({"notifications": {"toolsListChanged": true}, "_meta": able});
    let listening = session.post("subscriptions/listen", wanted);
    session.wait_for(|m| m["method"] == "notifications/subscriptions/acknowledged");
    server.until("the gateway listens", |server| server.streams() > 0);
    server.add_tool("fresh");
    server.announce("tools");
    let changed = session.wait_for(|m| m["method"] == "notifications/tools/list_changed");
    assert_eq!(
        changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"],
        json!(listening),
        "{changed}"
    );
    server.remove_tool("fresh");
    server.announce("tools");
    assert_eq!(server.complaints(), Vec::<String>::new());
}

/// A client that listens to changes and closes its end is not waited for.
fn ends_soon(mut session: Session) {
    let (status, left) = session.finish();
    assert_eq!(status.code(), Some(0), "{left:?}");
}

#[test]
fn the_whole_gateway_speaks_both_eras_over_pipes() {
    for era in [Era::Legacy, Era::Modern, Era::OldSse] {
        let server = Upstream::start("alpha", era);
        let config = server.table("");
        let mut session = whole(&config, &["--config", "toolgate.toml"]);
        speaks_legacy(&mut session, &server);
        let records = session.records();
        let first = &records[0];
        assert_eq!(
            (&first["namespace"], &first["tool"]),
            (&json!("default"), &json!("echo")),
            "{first}"
        );
        assert!(first["principal"].as_str().unwrap().starts_with("local:"), "{first}");
        // Found in the folder, where none is named.
        let mut session = whole(&config, &[]);
        speaks_modern(&mut session, &server);
        ends_soon(session);
    }
}

#[test]
fn a_gateway_that_runs_is_reached_over_pipes_in_both_eras() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Upstream::start("alpha", era);
        let config = format!(
            "{}[serve]\ntokens = {{ anna = \"token-of-anna-0001\" }}\n[namespaces.default]\n[namespaces.dev]\nsafety = \"readonly\"\n[namespaces.open]\n",
            server.table("")
        );
        let gateway = Gateway::start(&config);
        let token = ["--token-env", "GATEWAY_TOKEN"];
        speaks_legacy(&mut thin(&gateway, "/mcp/open", &token), &server);
        let mut session = thin(&gateway, "/mcp", &token);
        speaks_modern(&mut session, &server);
        ends_soon(session);
        let mut dev = thin(&gateway, "/mcp/dev", &token);
        hello(&mut dev);
        assert_eq!(code(&dev.call("write", json!({"key": "k"}))), "TIER_DENIED");
        assert_eq!(dev.finish().0.code(), Some(0));
        until("who it was is in the audit", || {
            let denied = |r: &Value| r["namespace"] == "dev" && r["principal"] == "key:anna";
            gateway.audit().iter().any(denied)
        });
        let mut nobody = thin(&gateway, "/mcp", &[]);
        let answer = nobody.request("tools/list", json!({"_meta": modern(json!({}))}));
        assert!(answer["error"]["message"].as_str().unwrap().contains("token"), "{answer}");
        let mut lost = thin(&gateway, "/mcp/nope", &token);
        let answer = lost.request("tools/list", json!({"_meta": modern(json!({}))}));
        assert!(answer["error"]["message"].as_str().unwrap().contains("namespace"), "{answer}");
    }
}

#[test]
fn the_thin_client_outlives_a_new_start_of_its_gateway_and_says_goodbye() {
    let config = format!(
        "[serve]\nlisten = \"127.0.0.1:0\"\n{}",
        stdio("own", &[], "sharing = \"session\"")
    );
    let gateway = Gateway::start(&config);
    gateway.settled(14);
    let mut session = thin(&gateway, "/mcp", &[]);
    hello(&mut session);
    let own: u32 = text(&session.call("pid", json!({}))).parse().unwrap();
    let address = gateway.address.to_string();
    let place = gateway.into_place();
    assert_gone(own);
    let gone = session.call("pid", json!({}));
    assert!(
        gone.to_string().contains("cannot reach") || gone.to_string().contains("gateway"),
        "{gone}"
    );
    let mut command = place.command();
    command.args(["--listen", &address]);
    let gateway = place.start_as(command);
    let mut at =
        Session::spawn(command_to(&format!("http://{address}/mcp")), tempfile::tempdir().unwrap());
    hello(&mut at);
    let other: u32 = text(&at.call("pid", json!({}))).parse().unwrap();
    until("the session is made anew", || {
        let answer = session.call("pid", json!({}));
        answer["result"]["content"][0]["text"]
            .as_str()
            .is_some_and(|pid| pid.parse::<u32>().is_ok())
    });
    assert_eq!(at.finish().0.code(), Some(0));
    assert_gone(other);
    drop(gateway);
}

fn command_to(url: &str) -> Command {
    let mut command = Command::new(toolgate());
    command.args(["stdio", "--to", url]);
    command
}

#[test]
fn a_namespace_is_named_and_only_its_servers_are_started() {
    let config = format!(
        "{}{}[namespaces.default]\n[namespaces.work]\nservers = [\"two\"]\nsafety = \"readonly\"\nprefix = \"always\"\n",
        stdio("one", &["--full", "one"], ""),
        stdio("two", &["--full", "two"], "")
    );
    let mut session = whole(&config, &["--config", "toolgate.toml", "--namespace", "work"]);
    session.initialize();
    let tools = listed(&mut session);
    assert!(tools.iter().all(|tool| tool.starts_with("two__")), "{tools:?}");
    assert_eq!(code(&session.call("two__write", json!({}))), "TIER_DENIED");
    let told: Value = serde_json::from_str(text(&session.call("two__whoami", json!({})))).unwrap();
    assert_eq!(told["server"], "two");
    assert!(!session.stderr_so_far().iter().any(|line| line.contains("[one]")));
    let records = session.records();
    assert!(records.iter().all(|record| record["namespace"] == "work"), "{records:?}");
    let mut session = whole(&config, &["--namespace", "nope"]);
    assert_eq!(session.wait().code(), Some(2));
    let told = session.all_stderr().join("\n");
    assert!(told.contains("there is no namespace `nope`"), "{told}");
}

#[test]
fn names_that_collide_without_a_prefix_refuse_to_start_here_too() {
    let (alpha, beta) = (Upstream::legacy("alpha"), Upstream::modern("beta"));
    let never = "[namespaces.default]\nprefix = \"never\"\n";
    let mut session = whole(&format!("{}{}{never}", alpha.table(""), beta.table("")), &[]);
    assert_eq!(session.wait().code(), Some(2));
    let told = session.all_stderr().join("\n");
    assert!(told.contains("`alpha/echo`") && told.contains("`beta/echo`"), "{told}");
    // A client need not wait for what does not collide.
    let mut session = whole(&format!("{}{never}", alpha.table("")), &[]);
    session.initialize();
    assert_eq!(listed(&mut session).len(), 14);
}

#[test]
fn it_ends_when_its_client_does_and_nobody_is_left() {
    let start = |options: &[&str]| {
        let mut session = whole(&stdio("pipes", options, ""), &[]);
        session.initialize();
        assert_eq!(listed(&mut session).len(), 14);
        let family = descendants(session.child.id());
        assert!(!family.is_empty());
        (session, family)
    };
    let stubborn = ["--ignore-eof", "--ignore-term"];
    let (mut session, family) = start(&stubborn);
    let (status, left) = session.finish();
    assert_eq!((status.code(), left), (Some(0), Vec::new()));
    family.into_iter().for_each(assert_gone);
    for signal in [Signal::TERM, Signal::INT] {
        let (mut session, family) = start(&[]);
        let pid = Pid::from_raw(i32::try_from(session.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        assert_eq!(session.wait().code(), Some(0), "{signal:?}");
        family.into_iter().for_each(assert_gone);
    }
    let (mut session, family) = start(&stubborn);
    session.child.kill().unwrap();
    session.wait();
    family.into_iter().for_each(assert_gone);
}

#[test]
fn what_was_asked_before_the_end_is_answered() {
    let server = Upstream::legacy("alpha");
    let mut session = whole(&server.table(""), &[]);
    session.initialize();
    let ids: Vec<i64> =
        (0..20).map(|n| session.post_call("echo", json!({"text": n.to_string()}))).collect();
    session.send_line("this is no message");
    let slow = session.post_call("slow", json!({"key": "last"}));
    server.wait_for_call("last");
    session.close_stdin();
    server.release("last");
    for id in ids {
        assert!(session.answer(id)["result"].is_object());
    }
    assert_eq!(text(&session.answer(slow)), "alpha:slow:last");
    assert_eq!(session.wait().code(), Some(0));
    let errors: Vec<&Value> = session.seen.iter().filter(|m| m["error"]["code"].is_i64()).collect();
    assert!(!errors.is_empty(), "{:?}", session.seen);
}

#[test]
fn a_client_need_not_wait_for_the_response_to_initialize() {
    let server = Upstream::legacy("alpha");
    let mut session = whole(&server.table(""), &[]);
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "hasty", "version": "1"}});
    let hello = session.post("initialize", params);
    session.notify("notifications/initialized", json!({}));
    let call = session.post_call("echo", json!({"text": "hi"}));
    assert_eq!(text(&session.answer(call)), "hi");
    assert!(session.answer(hello)["result"].is_object());
    let again = session.request("initialize", json!({"protocolVersion": "2025-11-25"}));
    assert_eq!(again["error"]["code"], -32600, "{again}");
}

#[test]
fn a_batch_is_answered_as_one_array_and_its_requests_can_be_cancelled() {
    let server = Upstream::legacy("alpha");
    let mut session = whole(&server.table(""), &[]);
    session.initialize_as("2025-03-26");
    let call = |id: &str, tool: &str, arguments: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
        "params": {"name": tool, "arguments": arguments}})
    };
    let batch = json!([
        call("a", "echo", json!({"text": "one"})),
        {"jsonrpc": "2.0", "method": "notifications/vendor"},
        17,
        call("a", "echo", json!({"text": "the id of another one"})),
        call("b", "nobody", json!({})),
    ]);
    session.send_line(&batch.to_string());
    let answers = session.wait_for(Value::is_array);
    let ids: Vec<&Value> = answers.as_array().unwrap().iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&json!("a"), &Value::Null, &json!("b")], "{answers}");
    assert_eq!(text(&answers[0]), "one");
    assert_eq!(answers[1]["error"]["data"]["code"], "INVALID_REQUEST", "{answers}");
    assert_eq!(code(&answers[2]), "UNKNOWN_TOOL");
    // One that runs is given up, and one that waits behind it never runs.
    let batch = json!([
        call("slow", "slow", json!({"key": "batch"})),
        call("behind", "write", json!({"key": "behind"})),
        call("last", "echo", json!({"text": "last"})),
    ]);
    session.send_line(&batch.to_string());
    server.wait_for_call("batch");
    for id in ["behind", "slow"] {
        session.notify("notifications/cancelled", json!({"requestId": id}));
    }
    server.wait_for_end("batch");
    let answers = session.wait_for(Value::is_array);
    assert_eq!(answers.as_array().unwrap().len(), 1, "{answers}");
    assert_eq!(text(&answers[0]), "last");
    assert_eq!(session.request("ping", json!({}))["result"], json!({}));
    assert!(!session.records().iter().any(|record| record["tool"] == "write"));
}

#[test]
fn a_hangup_reloads_the_config_and_opens_the_audit_again() {
    let server = Upstream::legacy("alpha");
    let mut session = whole(&server.table(""), &[]);
    session.initialize();
    assert_eq!(text(&session.call("echo", json!({"text": "1"}))), "1");
    until("the first record", || !session.audit_so_far().is_empty());
    std::fs::rename(&session.audit, session.folder().join("audit.old")).unwrap();
    let config = format!("{}{}", "[namespaces.default]\nsafety = \"readonly\"\n", server.table(""));
    let config = format!("audit = {{ file = \"audit.jsonl\" }}\n{config}");
    std::fs::write(session.folder().join("toolgate.toml"), config).unwrap();
    hang_up(&session);
    until("the new config holds", || {
        code(&session.call("write", json!({"key": "k"}))) == "TIER_DENIED"
    });
    // It is opened for the next record.
    until("the audit is opened again", || {
        session.call("write", json!({"key": "k"}));
        session.audit.exists()
    });
    assert_eq!(session.finish().0.code(), Some(0));
}

#[test]
fn a_hangup_does_not_end_the_bridge() {
    let server = Upstream::legacy("alpha");
    let gateway = Gateway::start(&server.table(""));
    gateway.settled(14);
    let mut session = thin(&gateway, "/mcp", &[]);
    hello(&mut session);
    hang_up(&session);
    session.wait_for_stderr("nothing to reload");
    assert_eq!(text(&session.call("echo", json!({"text": "hi"}))), "hi");
    assert_eq!(session.finish().0.code(), Some(0));
}

fn hang_up(session: &Session) {
    kill_process(Pid::from_child(&session.child), Signal::HUP).unwrap();
}

#[test]
fn a_server_that_answers_its_call_takes_its_question_back() {
    let spy = crate::harness::example("spy");
    let server =
        format!("[servers.spy]\ncommand = {:?}\nargs = [\"--legacy-only\"]\n", spy.display());
    let gateway = Gateway::start(&server);
    gateway.settled(5);
    for mut session in [whole(&server, &[]), thin(&gateway, "/mcp", &[])] {
        hello(&mut session);
        let id = session.post_call(
            "ask",
            json!({"patience_ms": 50, "params": {"message": "well?",
            "requestedSchema": {"type": "object", "properties": {}}}}),
        );
        let asked = session.wait_for(|message| message["method"] == "elicitation/create");
        // Nobody answers, and the server goes on without an answer.
        assert_eq!(text(&session.answer(id)), "\"no response\"");
        session.wait_for(|message| {
            message["method"] == "notifications/cancelled"
                && message["params"]["requestId"] == asked["id"]
        });
        assert_eq!(session.request("ping", json!({}))["result"], json!({}));
    }
}
