//! A gateway with layers of its own, as another program composes it: what they decide, know and say holds for a client of
//! the gateway as for one of an rmcp server.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{
    Session, example,
    governed::{call_with, code, listed, modern},
    text,
    upstream::{Era, Upstream},
};

fn gateway(server: &Upstream) -> Session {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("own.toml");
    let text = format!("audit = {{ file = \"audit.jsonl\" }}\n{}", server.table(""));
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new(example("gateway_with_layers"));
    command.arg(&config).current_dir(folder.path());
    command.env("XDG_STATE_HOME", folder.path().join("state"));
    Session::spawn(command, folder)
}

fn hello(session: &mut Session) -> Value {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "harness", "version": "7"}});
    let answer = session.request("initialize", params);
    session.notify("notifications/initialized", json!({}));
    answer
}

#[test]
fn layers_of_a_program_decide_nest_and_speak_in_the_gateway() {
    for era in [Era::Legacy, Era::Modern] {
        let server = Upstream::start("alpha", era);
        let mut session = gateway(&server);
        let answer = hello(&mut session);
        assert_eq!(answer["result"]["instructions"], "Hello, harness", "{answer}");

        assert!(!listed(&mut session).contains(&"reject".to_owned()));
        assert_eq!(code(&session.call("reject", json!({}))), "PRIVATE");

        let meta = json!({"example.com/twice": true, "progressToken": "p"});
        let answer = call_with(&mut session, "echo", json!({"text": "second"}), meta);
        assert_eq!(text(&answer), "second");
        let first = &answer["result"]["_meta"]["example.com/first"];
        assert_eq!(first["content"][0]["text"], "first", "{answer}");
        let said = |method: &str| session.seen.iter().filter(|m| m["method"] == method).count();
        assert_eq!(said("notifications/progress"), 1, "{:?}", session.seen);
        assert_eq!(said("notifications/message"), 1, "{:?}", session.seen);

        let refused = session.request("prompts/get", json!({"name": "greet"}));
        assert_eq!(refused["error"]["code"], 1403, "{refused}");
    }
}

#[test]
fn layers_of_a_program_see_clients_of_2026_07_28() {
    let server = Upstream::start("alpha", Era::Modern);
    let mut session = gateway(&server);
    let answer = call_with(&mut session, "echo", json!({"text": "plain"}), modern(json!({})));
    assert_eq!(text(&answer), "plain", "{answer}");
    let meta = modern(json!({"example.com/twice": true}));
    let answer = call_with(&mut session, "echo", json!({"text": "second"}), meta.clone());
    let first = &answer["result"]["_meta"]["example.com/first"];
    assert_eq!(first["content"][0]["text"], "first", "{answer}");
    let refused = call_with(&mut session, "reject", json!({}), meta);
    assert_eq!(code(&refused), "PRIVATE");
}
