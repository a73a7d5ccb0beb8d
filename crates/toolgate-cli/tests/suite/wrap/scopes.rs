//! Scopes from outside: what is listed and what can be called never disagree, whoever grants, and nothing
//! that a client sends grants anything.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{
    Session, fixture,
    governed::{
        Governed, TOOLS, assert_refused, call_with, code, listed, listed_with, modern, refusal,
    },
    text, toolgate,
};

/// The tools of the fixture that its annotations call readonly.
const READ: [&str; 10] = [
    "echo",
    "see_line",
    "big",
    "hang",
    "pid",
    "cancelled",
    "wrong_id",
    "progress",
    "structured",
    "reject",
];
const WRITE: [&str; 2] = ["ask", "spawn"];
/// `fail` says nothing about itself.
const DESTRUCTIVE: [&str; 2] = ["crash", "fail"];

/// The fixture under this config, with `MCP_SCOPES` if there is one.
fn bare(folder: &Governed, variable: Option<&str>, options: &[&str]) -> Session {
    let config = folder.path("toolgate.toml").display().to_string();
    let fixture = fixture().display().to_string();
    let all = [&["--config", &config, "--", &fixture], options].concat();
    Session::wrap_bare(&all, |wrap| {
        wrap.env("TOOLGATE_LOG", "info");
        match variable {
            Some(scopes) => wrap.env("MCP_SCOPES", scopes),
            None => wrap.env_remove("MCP_SCOPES"),
        };
    })
}

fn start(folder: &Governed, variable: Option<&str>) -> Session {
    let mut session = bare(folder, variable, &["--page-size", "4"]);
    session.initialize();
    session
}

/// Configs and variables with the tools that they let through.
fn cases() -> Vec<(String, Option<&'static str>, Vec<&'static str>)> {
    let namespace = |scopes: &str| format!("[namespaces.default]\nscopes = {scopes}\n");
    let some = |groups: &[&[&'static str]]| groups.concat();
    let all = || some(&[&READ, &WRITE, &DESTRUCTIVE]);
    vec![
        (String::new(), None, all()),
        // The seed's own setting, which its system reads nowhere.
        (String::new(), Some("nothing"), vec![]),
        (String::new(), Some("read"), READ.to_vec()),
        (String::new(), Some(" read , write ,"), some(&[&READ, &WRITE])),
        (String::new(), Some("*"), all()),
        (String::new(), Some("main"), all()),
        (String::new(), Some("main:destructive,other"), DESTRUCTIVE.to_vec()),
        (String::new(), Some("Read,READ,readonly"), vec![]),
        (namespace("[]"), None, vec![]),
        (namespace("[\"read\"]"), None, READ.to_vec()),
        (namespace("[\"main:*\"]"), None, all()),
        (namespace("[\"read\", \"write\"]"), Some("write,destructive"), WRITE.to_vec()),
        (namespace("[\"read\"]"), Some("write"), vec![]),
        (
            format!(
                "{}grants = {{ \"local:*\" = [\"read\"], \"key:*\" = [\"*\"] }}\n",
                namespace("[\"*\"]")
            ),
            None,
            READ.to_vec(),
        ),
        ("[namespaces.default.grants]\n\"anonymous\" = [\"*\"]\n".to_owned(), None, vec![]),
        ("[namespaces.default]\ngrants = {}\n".to_owned(), None, vec![]),
        // Nobody grants anything: only what is required in so many words is refused.
        (
            "[namespaces.default.tools.\"main/*o*\"]\nscopes = [\"x\"]\n\
             [namespaces.default.tools.\"main/echo\"]\nscopes = []\n"
                .to_owned(),
            None,
            all().into_iter().filter(|tool| !tool.contains('o') || *tool == "echo").collect(),
        ),
        (
            format!(
                "{}[namespaces.default.tools.\"main/e*\"]\nscopes = [\"x\"]\n\
                 [namespaces.default.tools.\"main/*o\"]\nscopes = [\"y\"]\n\
                 [namespaces.default.tools.\"main/spawn\"]\nscopes = [\"y\"]\n\
                 [namespaces.default.tools.\"main/pid\"]\ncategory = \"y\"\ntier = \"destructive\"\n",
                namespace("[\"y\"]")
            ),
            None,
            vec!["pid", "spawn"],
        ),
        (
            "[namespaces.default]\nannotations = \"ignore\"\nscopes = [\"read\", \"write\"]\n\
             [namespaces.default.tools.\"main/pid\"]\ntier = \"readonly\"\n"
                .to_owned(),
            None,
            vec!["pid"],
        ),
    ]
}

fn assert_listing_and_calls_agree(is_modern: bool) {
    for (config, variable, mut allowed) in cases() {
        let folder = Governed::new(&config);
        let meta = if is_modern { modern(json!({})) } else { json!({}) };
        let mut session = bare(&folder, variable, &["--page-size", "4"]);
        if !is_modern {
            session.initialize();
        }
        let mut shown = listed_with(&mut session, meta.clone());
        // The last one ends the server.
        for tool in TOOLS {
            let refused = refusal(&mut session, tool, meta.clone());
            let expected = (!allowed.contains(&tool)).then(|| "SCOPE_REJECTED".to_owned());
            assert_eq!(refused, expected, "{tool}, {variable:?}, {config}");
        }
        shown.sort_unstable();
        allowed.sort_unstable();
        assert_eq!(shown, allowed, "{variable:?}, {config}");
    }
}

#[test]
fn what_is_listed_can_be_called_and_nothing_else_whoever_grants() {
    assert_listing_and_calls_agree(false);
}

#[test]
fn what_is_listed_can_be_called_and_nothing_else_by_clients_of_2026() {
    assert_listing_and_calls_agree(true);
}

#[test]
fn a_call_before_any_listing_is_judged_alike() {
    let folder = Governed::new("");
    let mut session = start(&folder, Some("read"));
    assert_eq!(code(&session.call("spawn", json!({}))), "SCOPE_REJECTED");
    assert_eq!(text(&session.call("echo", json!({"text": "alive"}))), "alive");
    let unknown = session.call("no_such_tool", json!({}));
    assert_eq!(code(&unknown), "UNKNOWN_TOOL");
    session.finish();
    let ran: Vec<_> = folder.audit().iter().map(|record| record["ran"].clone()).collect();
    assert_eq!(ran, [json!("no"), json!("yes"), json!("no")]);
    assert_eq!(folder.audit()[0]["code"], "SCOPE_REJECTED");
}

#[test]
fn the_refusal_is_worded_as_documented_in_both_eras() {
    let folder = Governed::new(
        "[namespaces.default]\nscopes = [\"read\"]\n\
         [namespaces.default.tools.\"main/spawn\"]\nscopes = [\"write\", \"admin\"]\n",
    );
    let wording = "Tool 'spawn' requires all of the scopes write, admin; granted: read.\nAsk the operator \
         whether you may have it: granted by `scopes` of [namespaces.default].";
    for is_modern in [false, true] {
        let mut session = bare(&folder, None, &[]);
        let meta = if is_modern { modern(json!({})) } else { json!({}) };
        if !is_modern {
            session.initialize();
        }
        let denied = call_with(&mut session, "spawn", json!({}), meta);
        assert_refused(&denied, "SCOPE_REJECTED", is_modern);
        assert_eq!(text(&denied), wording);
        assert_eq!(denied["result"]["_meta"]["required"], json!(["write", "admin"]));
        assert_eq!(denied["result"]["_meta"]["granted"], json!(["read"]));
    }
    // The agent is told whom to ask, not to set a variable.
    let mut session = start(&Governed::new(""), Some("write"));
    let denied = session.call("echo", json!({}));
    assert_eq!(
        text(&denied),
        "Tool 'echo' requires one of the scopes main, read, main:read; granted: write.\nAsk the operator \
         whether you may have it: granted by what toolgate is started with in MCP_SCOPES."
    );
}

#[test]
fn nothing_that_a_client_sends_grants_a_scope() {
    let mut session = start(&Governed::new(""), Some("read"));
    for meta in [
        json!({"scopes": ["*"], "scope": "*", "MCP_SCOPES": "*"}),
        json!({"granted": ["write"], "toolgate/scopes": ["write"], "principal": "key:root"}),
        json!({"allowedTools": ["spawn"]}),
        json!({"authInfo": {"scopes": ["write"]}}),
    ] {
        let arguments = json!({"scopes": ["*"], "MCP_SCOPES": "*", "__scopes": "*"});
        let denied = call_with(&mut session, "spawn", arguments, meta.clone());
        assert_eq!(code(&denied), "SCOPE_REJECTED", "{meta}");
        assert!(!listed_with(&mut session, meta).contains(&"spawn".to_owned()));
    }
}

#[test]
fn why_says_what_really_happens() {
    for (config, variable, allowed) in cases() {
        let folder = Governed::new(&config);
        for tool in ["echo", "spawn", "fail"] {
            let mut why = Command::new(toolgate());
            why.args(["why", tool, "--"]).arg(fixture());
            why.env("TOOLGATE_CONFIG", folder.path("toolgate.toml")).env_remove("MCP_SCOPES");
            if let Some(scopes) = variable {
                why.env("MCP_SCOPES", scopes);
            }
            let output = why.output().unwrap();
            let told = String::from_utf8_lossy(&output.stdout);
            assert_eq!(
                output.status.success(),
                allowed.contains(&tool),
                "{tool}, {config}: {told}"
            );
        }
    }
    let folder = Governed::new("[namespaces.default.grants]\n\"key:ci\" = [\"read\"]\n");
    let (runs, told) = folder.why("echo", &["--as", "key:ci"]);
    assert!(runs && told.contains("requires one of the scopes main, read, main:read"), "{told}");
    let (runs, told) = folder.why("echo", &["--as", "key:cj"]);
    assert!(!runs && told.contains("would be denied by `scopes`"), "{told}");
    let chain = folder.run(&["chain"]);
    let chain = String::from_utf8_lossy(&chain.stdout).into_owned();
    assert!(chain.contains("scopes             key:ci: read\n"), "{chain}");
}

#[test]
fn a_renamed_tool_keeps_its_scopes_and_a_shown_annotation_opens_nothing() {
    let folder = Governed::new(
        "[namespaces.default]\nscopes = [\"read\"]\n\
         [namespaces.default.tools.\"main/echo\"]\nname = \"say\"\nscopes = [\"write\"]\n\
         [namespaces.default.tools.\"main/crash\"]\nname = \"peek\"\n\
         annotations = { readOnlyHint = true, destructiveHint = false }\n\
         [namespaces.default.tools.\"main/pid\"]\nname = \"number\"\n",
    );
    let mut session = start(&folder, None);
    for tool in ["say", "peek"] {
        assert_eq!(code(&session.call(tool, json!({}))), "SCOPE_REJECTED", "{tool}");
    }
    assert_eq!(code(&session.call("number", json!({}))), "");
    let shown = listed(&mut session);
    assert!(shown.contains(&"number".to_owned()), "{shown:?}");
    assert!(!shown.iter().any(|name| ["say", "peek", "echo", "crash"].contains(&name.as_str())));
}

#[test]
fn scopes_that_change_hold_for_the_next_call_and_the_next_listing() {
    let folder = Governed::new("");
    let mut session = start(&folder, None);
    assert_eq!(listed(&mut session).len(), TOOLS.len());
    folder.change("[namespaces.default]\nscopes = [\"write\"]\n");
    session.reload();
    session.wait_for_stderr("the config has changed");
    assert_eq!(code(&session.call("pid", json!({}))), "SCOPE_REJECTED");
    assert_eq!(listed(&mut session), WRITE);
    // What is no scope is refused, and what was in force stays.
    folder.change("[namespaces.default]\nscopes = [\"read write\"]\n");
    let told = session.wait_for_stderr("the changed config is refused");
    assert!(told.contains("refused"), "{told}");
    assert_eq!(listed(&mut session), WRITE);
    folder.change("[namespaces.default]\nscopes = [\"read\"]\n");
    session.reload();
    session.wait_for_stderr("the config has changed");
    assert_eq!(code(&session.call("pid", json!({}))), "");
    assert_eq!(code(&session.call("spawn", json!({}))), "SCOPE_REJECTED");
}

#[test]
fn each_call_of_a_batch_is_judged_alone() {
    let folder = Governed::new("");
    let mut session = bare(&folder, Some("read"), &["--page-size", "4"]);
    session.initialize_as("2025-03-26");
    let call = |id: i64, tool: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {"text": "x"}}});
    let list =
        json!({"jsonrpc": "2.0", "id": 72, "method": "tools/list", "params": {"cursor": "8"}});
    session.send_line(&json!([call(70, "echo"), call(71, "spawn"), list]).to_string());
    let answers = session.wait_for(Value::is_array);
    let by_id = |id: i64| answers.as_array().unwrap().iter().find(|a| a["id"] == id).unwrap();
    assert_eq!(text(by_id(70)), "x");
    assert_eq!(code(by_id(71)), "SCOPE_REJECTED");
    assert_eq!(by_id(72)["result"]["tools"], json!([]), "ask, spawn, crash and fail are hidden");
}

#[test]
fn what_is_no_scope_or_names_none_does_not_start() {
    for (config, variable, told) in [
        ("", Some(""), "the variable MCP_SCOPES is set, but names no scope"),
        ("", Some(" , "), "the variable MCP_SCOPES is set, but names no scope"),
        ("", Some("read write"), "`read write` is no scope"),
        ("[namespaces.default]\nscopes = [\"\"]\n", None, "`` is no scope"),
        ("[namespaces.default]\nscopes = \"read\"\n", None, "scopes"),
        ("[namespaces.default.grants]\n\"alice\" = [\"read\"]\n", None, "can cover no principal"),
        ("[namespaces.default.tools.\"main/echo\"]\nscopes = [\"a?\"]\n", None, "`a?` is no scope"),
        (
            "[namespaces.default]\nscopes = [\"read\"]\nchain = [\"errors-to-results\", \"audit\"]\n",
            None,
            "the chain does not name `scopes`",
        ),
        (
            "[namespaces.default]\nscopes = [\"read\"]\nchain = [\"errors-to-results\", \"audit\", \"timeout\", \"scopes\"]\n",
            None,
            "`scopes` must stand outside `timeout`",
        ),
    ] {
        let folder = Governed::new(config);
        let mut session = bare(&folder, variable, &[]);
        assert!(!session.wait().success(), "it started: {config}{variable:?}");
        let refused = session.all_stderr().join("\n");
        assert!(refused.contains(told), "{config}{variable:?}: {refused}");
        assert!(!refused.contains("fixture is up"), "{refused}");
    }
}

#[test]
fn what_is_refused_uses_up_nothing_that_is_rationed() {
    let folder = Governed::new(
        "[limits]\nrate = [{ tools = \"main/*\", limit = \"2/h\" }]\n[namespaces.default]\nscopes = [\"read\"]\n",
    );
    let mut session = start(&folder, None);
    for _ in 0..5 {
        assert_eq!(code(&session.call("spawn", json!({}))), "SCOPE_REJECTED");
    }
    assert_eq!(code(&session.call("echo", json!({}))), "");
    assert_eq!(code(&session.call("echo", json!({}))), "");
    assert_eq!(code(&session.call("echo", json!({}))), "RATE_LIMITED");
}
