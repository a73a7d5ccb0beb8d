//! Presets from outside: who knows one of the three systems finds it here, working as its document says.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{
    Session,
    governed::{Governed, code, definition, listed},
    text, toolgate,
};

const EXTRA: [&str; 4] = ["--extra-tool", "odd_one", "--extra-tool", "hard"];

/// `toolgate wrap --chain NAME` in front of the fixture, with variables.
fn wrap(chain: &str, options: &[&str], variables: &[(&str, &str)]) -> Session {
    let fixture = crate::harness::fixture().display().to_string();
    let all = [&["--chain", chain], options].concat();
    let command: Vec<&str> = std::iter::once(fixture.as_str()).chain(EXTRA).collect();
    let mut session = Session::wrap_in(&all, &command, |wrap| {
        wrap.envs(variables.iter().copied());
    });
    session.initialize();
    session
}

/// The layers that a chain is printed with.
fn printed(chain: &str, options: &[&str]) -> Vec<String> {
    let output = Command::new(toolgate())
        .args(["wrap", "--print-chain", "--chain", chain])
        .args(options)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let layers = text.lines().filter_map(|line| line.split_whitespace().nth(1));
    layers.map(str::to_owned).collect()
}

/// Whether the layers stand in this order; others may stand between them.
fn assert_order(layers: &[String], expected: &[&str]) {
    let places: Vec<_> =
        expected.iter().map(|name| layers.iter().position(|layer| layer == name)).collect();
    assert!(places.iter().all(Option::is_some), "{expected:?} are not all in {layers:?}");
    assert!(places.is_sorted(), "{expected:?} do not stand in this order: {layers:?}");
}

fn refused_to_start(chain: &str, variables: &[(&str, &str)]) -> String {
    let output = Command::new(toolgate())
        .args(["wrap", "--chain", chain, "--audit", "off", "--", "true"])
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    assert!(!output.status.success(), "{variables:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn libtmux_has_its_order_its_tier_and_its_words() {
    let order = ["response-limit", "errors-to-results", "audit", "retry", "safety"];
    assert_order(&printed("libtmux", &[]), &order);
    let mut session = wrap("libtmux", &[], &[]);
    let tools = listed(&mut session);
    assert!(tools.contains(&"ask".to_owned()) && !tools.contains(&"crash".to_owned()));
    let denied = session.call("crash", json!({}));
    assert_eq!(
        text(&denied),
        "Tool 'crash' is not available at the current safety level.\n\
         Set LIBTMUX_SAFETY=destructive to enable destructive tools."
    );
    assert_eq!(denied["result"]["_meta"]["expected"], true);
    let mut session = wrap("libtmux", &[], &[("LIBTMUX_SAFETY", "readonly")]);
    // The tier that the tool really needs, which the original does not say.
    assert!(text(&session.call("ask", json!({}))).ends_with("enable mutating tools."));
    let mut session = wrap("libtmux", &[], &[("LIBTMUX_SAFETY", "DESTRUCTIVE")]);
    session.wait_for_stderr("invalid LIBTMUX_SAFETY='DESTRUCTIVE', falling back to readonly");
    assert!(!listed(&mut session).contains(&"ask".to_owned()));
}

#[test]
fn metamcp_has_its_order_and_its_words() {
    let config = "store = \"sqlite:log.db\"\n[namespaces.default]\nchain = \"metamcp\"\n\
        [namespaces.default.tools.\"main/pid\"]\nstatus = \"inactive\"\n\
        [namespaces.default.tools.\"main/echo\"]\nname = \"say\"\n\
        [policies.narrow]\nallow = [\"main/pid\"]\n";
    let governed = Governed::new(config);
    let chain = governed.run(&["chain"]);
    let chain = String::from_utf8(chain.stdout).unwrap();
    let layers = chain.lines().filter_map(|line| line.split_whitespace().nth(1));
    let layers: Vec<String> = layers.map(str::to_owned).collect();
    assert_order(&layers, &["log", "policy", "filter", "overrides"]);
    let mut session = governed.start();
    assert_eq!(
        text(&session.call("pid", json!({}))).lines().next().unwrap(),
        "Tool \"pid\" is currently inactive and disallowed in this namespace"
    );
    assert_eq!(text(&session.call("say", json!({"text": "hi"}))), "hi");
    let params = json!({"name": "say", "arguments": {}, "_meta": {"policyId": "narrow"}});
    let denied = session.request("tools/call", params);
    assert!(text(&denied).starts_with("Access denied to tool echo by policy narrow"), "{denied}");
    assert!(listed(&mut session).contains(&"say".to_owned()));
}

const OPEN: (&str, &str) = ("MCP_DRY_RUN", "false");

#[test]
fn mcp_core_has_its_order() {
    let layers = printed("mcp-core", &[]);
    assert_order(&layers, &["errors-to-results", "validate", "preconditions", "audit"]);
}

#[test]
fn a_confirmed_destructive_call_runs() {
    // In the original it never can: the key is stripped before anybody looks for it.
    let mut session = wrap("mcp-core", &[], &[OPEN]);
    let ran = session.call("odd_one", json!({"__confirm": true}));
    assert!(text(&ran).contains("\"name\":\"odd_one\"") && !text(&ran).contains("__confirm"));
    let schema = &definition(&mut session, "odd_one")["inputSchema"];
    assert!(schema["properties"]["__confirm"].is_object(), "{schema}");
    // One key is not enough, whichever it is.
    let shown = session.call("odd_one", json!({"__confirm": false}));
    assert_eq!(shown["result"]["structuredContent"]["code"], "DRY_RUN_PREVIEW", "{shown}");
    let mut session = wrap("mcp-core", &[], &[]);
    let shown = session.call("odd_one", json!({"__confirm": true, "api_token": "hunter2"}));
    let output = &shown["result"]["structuredContent"];
    assert_eq!((&output["code"], &output["retriable"]), (&json!("DRY_RUN_PREVIEW"), &json!(false)));
    assert_eq!(output["preview"]["missing"], json!(["operator"]), "{shown}");
    assert!(text(&shown).starts_with("**Dry-Run**: ") && text(&shown).contains("**Recovery**: "));
    assert!(text(&shown).contains("`MCP_DRY_RUN` is not `false`; only the operator"), "{shown}");
    assert!(!shown.to_string().contains("hunter2"), "{shown}");
    // A readonly tool needs no key.
    assert_eq!(text(&session.call("echo", json!({"text": "hi"}))), "hi");
}

#[test]
fn what_is_wrong_is_told_with_every_field_that_its_document_promises() {
    let mut session = wrap("mcp-core", &[], &[]);
    let answer = session.call("hard", json!({"path": 3, "mode": "copy", "extra": 1}));
    let output = &answer["result"]["structuredContent"];
    assert_eq!(output["code"], "VALIDATION_FAILED", "{answer}");
    for field in ["retriable", "category", "message", "recovery_hint"] {
        assert!(!output[field].is_null(), "{field}: {answer}");
    }
    let issues = output["issues"].as_array().unwrap();
    let paths: Vec<&str> = issues.iter().map(|issue| issue["path"].as_str().unwrap()).collect();
    // All of them, and not what is merely unknown: that is stripped.
    assert_eq!(paths.len(), 2, "{answer}");
    assert!(paths.contains(&"/path") && paths.contains(&"/overwrite"), "{answer}");
    assert!(issues.iter().all(|issue| issue["message"].is_string() && issue["code"].is_string()));
    assert_eq!(answer["result"]["_meta"]["code"], "INVALID_ARGUMENTS");
    // A tool with an output schema keeps structuredContent to itself.
    let refused = session.call("structured", json!([]));
    assert!(refused["result"].get("structuredContent").is_none(), "{refused}");
    assert_eq!(refused["result"]["_meta"]["error"]["code"], "VALIDATION_FAILED", "{refused}");
}

#[test]
fn scopes_gate_calls_and_listings() {
    let mut session = wrap("mcp-core", &[], &[("MCP_SCOPES", "nothing")]);
    assert!(listed(&mut session).is_empty());
    let refused = session.call("echo", json!({}));
    let output = &refused["result"]["structuredContent"];
    assert_eq!(output["code"], "SCOPE_REJECTED", "{refused}");
    assert_eq!(output["granted"], json!(["nothing"]));
    let mut session = wrap("mcp-core", &[], &[("MCP_SCOPES", " read ,")]);
    assert!(listed(&mut session).contains(&"echo".to_owned()));
}

#[test]
fn its_audit_has_what_ran_and_nothing_else() {
    let mut session = wrap("mcp-core", &[], &[OPEN]);
    session.call("echo", json!({"text": "read"}));
    session.call("odd_one", json!({}));
    session.call("odd_one", json!({"__confirm": true}));
    session.call("nope", json!({}));
    let records: Vec<Value> = session.records();
    let calls = records.iter().filter(|record| record["event"] == "call");
    let told: Vec<_> = calls.map(|record| (&record["tool"], &record["outcome"])).collect();
    assert_eq!(told, [(&json!("odd_one"), &json!("ok"))], "{records:?}");
}

#[test]
fn values_that_are_not_clear_do_not_start() {
    for unclear in ["0", "no", "False", ""] {
        let output = refused_to_start("mcp-core", &[("MCP_DRY_RUN", unclear)]);
        assert!(output.contains("the variable MCP_DRY_RUN is"), "{output}");
    }
    let output = refused_to_start("mcp-core", &[("MCP_AUDIT_SINK", "otpl")]);
    assert!(output.contains("write `stderr`, `file`"), "{output}");
    let output = Command::new(toolgate()).args(["wrap", "--chain", "tmux", "--", "true"]).output();
    let output = String::from_utf8_lossy(&output.unwrap().stderr).into_owned();
    assert!(output.contains("write default, libtmux, metamcp or mcp-core"), "{output}");
}

#[test]
fn without_a_preset_its_variables_mean_nothing() {
    let mut session = wrap("default", &[], &[("LIBTMUX_SAFETY", "readonly"), ("MCP_DRY_RUN", "x")]);
    assert!(listed(&mut session).contains(&"crash".to_owned()));
    assert_eq!(code(&session.call("odd_one", json!({}))), "");
}
