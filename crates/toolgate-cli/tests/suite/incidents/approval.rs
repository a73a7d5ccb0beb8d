//! Confirmation by a person who is not at the client: `toolgate approvals`, `toolgate approve` and `toolgate deny`.

use std::{
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::{Value, json};

use crate::{
    harness::matrix::{ALL, Client, Setup, Via},
    harness::{Session, gateway::until_or, tmux::Tmux, toolgate},
};

const CONFIRM: &str = "[confirm]\nwhen = [\"main/wipe\"]\n";

/// Runs a command of a person at another terminal, with the same state folder.
fn person(state: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(toolgate());
    command.args(arguments).env("XDG_STATE_HOME", state).env("USER", "operator");
    command.env_remove("TOOLGATE_CONFIG").env("COLUMNS", "80").output().unwrap()
}

fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8(text).unwrap()
}

/// Runs a command that succeeds.
fn done(state: &Path, arguments: &[&str]) -> String {
    let output = person(state, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    said(&output)
}

/// Runs a command that is refused.
fn refused(state: &Path, arguments: &[&str]) -> String {
    let output = person(state, arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", said(&output));
    said(&output)
}

/// A person approves the call that this answer says is pending.
pub(crate) fn approve(state: &Path, answer: &Value) {
    done(state, &["approve", &pending(answer)]);
}

/// What waits, as `--json` tells it.
fn waiting(state: &Path) -> Vec<Value> {
    let lines = done(state, &["approvals", "--json"]);
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn state(client: &Client) -> PathBuf {
    client.path("state")
}

/// The id of a call that waits. Whatever the agent reads, it cannot confirm with it.
fn pending(answer: &Value) -> String {
    let (result, whole) = (&answer["result"], answer.to_string());
    let meta = &result["_meta"];
    assert_eq!(meta["code"], "CONFIRM_REQUIRED", "{answer}");
    assert_eq!(meta["approval"]["state"], "pending", "{answer}");
    assert!(meta["approval"]["expires_at"].as_str().unwrap().ends_with('Z'), "{answer}");
    assert!(!whole.contains("tgc1") && !whole.contains("confirm_token"), "{answer}");
    let id = meta["approval"]["id"].as_str().unwrap().to_owned();
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("Pending approval") && text.contains("exactly the same arguments"));
    assert!(text.contains(&format!("toolgate approve {id}")), "{text}");
    id
}

fn assert_ran(answer: &Value) {
    assert!(answer.to_string().contains("wipe ran with"), "{answer}");
}

/// [users 0.9] Without elicitation the agent got the confirmation token itself and ran the destructive call at once.
#[test]
fn a_person_approves_and_the_agent_cannot() {
    Setup::new(CONFIRM).each(|client| {
        let state = state(client);
        let arguments = json!({"n": 1, "api_token": "hunter2", "note": "a\u{1b}[2J\u{202e}b"});
        let id = pending(&client.call("wipe", arguments.clone()));
        assert_eq!(pending(&client.call("wipe", arguments.clone())), id, "one request");
        // Nothing that the agent can send is a confirmation.
        for key in [json!(true), json!(id), json!("yes"), json!({"id": id}), json!("tgc1t-00")] {
            client.call_with("wipe", arguments.clone(), json!({"toolgate/confirm": key}));
            let mut with = arguments.clone();
            with["__confirm"] = key;
            client.call("wipe", with);
        }
        assert_eq!(client.ran(), [""; 0]);
        let list = waiting(&state);
        assert_eq!(list.len(), 1, "{list:?}");
        assert_eq!((&list[0]["id"], &list[0]["tool"]), (&json!(id), &json!("wipe")));
        assert_eq!(list[0]["arguments"]["n"], 1);
        let shown = done(&state, &["approvals"]) + &list[0].to_string();
        assert!(shown.contains(&id) && shown.contains("main/wipe"), "{shown}");
        assert!(!shown.contains("hunter2") && !shown.contains('\u{1b}'), "{shown}");
        assert!(!shown.contains('\u{202e}') && shown.contains("u{1b}"), "{shown}");
        // Another value is another call; both wait, and the beginning of an id is enough.
        let other = pending(&client.call("wipe", json!({"n": 2})));
        assert_ne!(other, id);
        let beginning = (1..9).map(|len| &id[..len]).find(|part| !other.starts_with(part)).unwrap();
        assert!(done(&state, &["approve", beginning]).contains("approved"));
        pending(&client.call("wipe", json!({"n": 2})));
        assert_eq!(client.ran(), [""; 0]);
        // The order of the keys is no part of the call.
        let same = json!({"note": arguments["note"], "n": 1, "api_token": "hunter2"});
        assert_ran(&client.call("wipe", same));
        let again = pending(&client.call("wipe", arguments.clone()));
        assert_ne!(again, id, "an approval runs one call");
        assert_eq!(client.ran().len(), 1);
        let record = client.recorded(|record| record["confirmed"] == "approval");
        assert_eq!(record["approval"]["id"], json!(id), "{record}");
        assert_eq!(record["approval"]["by"], "local:operator", "{record}");
        assert!(record["approval"]["at"].is_string(), "{record}");
        client.recorded(|record| record["approval"]["state"] == "pending");
        let audit = client.audit_text();
        assert!(!audit.contains("tgc1") && !audit.contains("hunter2"), "{audit}");
    });
}

/// [issue 12.7] An agent could repeat a denied call until a tired person approves it.
#[test]
fn a_denial_is_read_with_its_reason_and_holds() {
    Setup::new(CONFIRM).each(|client| {
        let state = state(client);
        let id = pending(&client.call("wipe", json!({"n": 1})));
        let reason = "use the staging\u{1b}[31m database";
        assert!(done(&state, &["deny", &id, "--reason", reason]).contains("denied"));
        for _ in 0..2 {
            let denied = client.call("wipe", json!({"n": 1}));
            assert_eq!(denied["result"]["_meta"]["code"], "CONFIRM_DECLINED", "{denied}");
            assert_eq!(denied["result"]["_meta"]["approval"]["state"], "denied");
            let text = denied["result"]["content"][0]["text"].as_str().unwrap();
            assert!(text.contains("use the staging") && !text.contains('\u{1b}'), "{text}");
        }
        assert_eq!(waiting(&state), [json!(null); 0]);
        assert!(done(&state, &["approvals"]).contains("No calls wait for approval"));
        assert!(refused(&state, &["approve", &id]).contains("already denied by local:operator"));
        assert_eq!(client.ran(), [""; 0]);
        let record = client.recorded(|record| record["approval"]["state"] == "denied");
        assert!(record["approval"]["reason"].as_str().unwrap().contains("staging"), "{record}");
    });
}

/// [issue 12.7] A request for approval could be lost when the gateway is killed.
#[test]
fn approvals_survive_kill_9_between_all_steps() {
    let setup = Setup::new(CONFIRM);
    for via in ALL {
        eprintln!("via {via:?}");
        let mut client = setup.client(via);
        let state = state(&client);
        let id = pending(&client.call("wipe", json!({"n": 1})));
        let denied = pending(&client.call("wipe", json!({"n": 2})));
        let mut client = setup.killed_and_restarted(client);
        assert_eq!(pending(&client.call("wipe", json!({"n": 1}))), id);
        done(&state, &["approve", &id]);
        done(&state, &["deny", &denied]);
        let mut client = setup.killed_and_restarted(client);
        assert_ran(&client.call("wipe", json!({"n": 1})));
        assert!(client.call("wipe", json!({"n": 2})).to_string().contains("A person denied"));
        let mut client = setup.killed_and_restarted(client);
        assert_ne!(pending(&client.call("wipe", json!({"n": 1}))), id, "it was used");
        assert_eq!(client.ran().len(), 1, "{via:?}");
        assert!(refused(&state, &["approve", &id]).contains("already run"));
    }
}

/// [issue 12.7] Calls repeated at the same time, by several clients of several gateways, could all use one approval.
#[test]
fn parallel_repeats_of_an_approved_call_run_once() {
    let setup = Setup::new(CONFIRM);
    for via in [Via::Wrap, Via::Legacy, Via::Modern] {
        eprintln!("via {via:?}");
        let mut client = setup.client(via);
        let state = state(&client);
        for round in 1..=3 {
            let id = pending(&client.call("wipe", json!({"n": round})));
            done(&state, &["approve", &id]);
            let params = json!({"name": "wipe", "arguments": {"n": round}});
            let answers: Vec<String> = if via == Via::Wrap {
                let session = client.pipe();
                let ids: Vec<i64> =
                    (0..8).map(|_| session.post("tools/call", params.clone())).collect();
                ids.into_iter().map(|id| session.answer(id).to_string()).collect()
            } else {
                let address = client.gateway.as_ref().unwrap().address;
                let one = || {
                    use crate::harness::clients::{Legacy, Modern};
                    let arguments = json!({"n": round});
                    if via == Via::Modern {
                        Modern::new(address, "/mcp").call("wipe", arguments).to_string()
                    } else {
                        Legacy::new(address, "/mcp").connected().call("wipe", arguments).to_string()
                    }
                };
                std::thread::scope(|scope| {
                    let all: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
                    all.into_iter().map(|one| one.join().unwrap()).collect()
                })
            };
            let ran = answers.iter().filter(|answer| answer.contains("wipe ran with")).count();
            assert_eq!(ran, 1, "{answers:#?}");
            assert_eq!(client.ran().len(), round, "{via:?}");
        }
    }
}

/// [issue 12.7] An approval without an expiry could be used long after the person forgot it.
#[test]
fn requests_and_approvals_expire() {
    let setup = Setup::new("[confirm]\nwhen = [\"main/wipe\"]\nexpires = \"1s\"\n");
    setup.through(&[Via::Wrap, Via::Modern], |client| {
        let state = state(client);
        let expired = |id: &str| {
            let is_over = || waiting_or_approved(&state, id) == "expired";
            until_or(is_over, || format!("{id} expires"));
        };
        let id = pending(&client.call("wipe", json!({"n": 1})));
        expired(&id);
        assert!(refused(&state, &["approve", &id]).contains("has expired"));
        let second = pending(&client.call("wipe", json!({"n": 1})));
        assert_ne!(second, id);
        let approved = person(&state, &["approve", &second]);
        // On a slow machine the second one is over, too.
        assert!(approved.status.success() || said(&approved).contains("has expired"));
        expired(&second);
        pending(&client.call("wipe", json!({"n": 1})));
        assert_eq!(client.ran(), [""; 0]);
    });
}

fn waiting_or_approved(state: &Path, id: &str) -> String {
    let lines = done(state, &["approvals", "--all", "--json"]);
    let all = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let found = all.into_iter().find(|one| one["id"] == id);
    found.map_or_else(String::new, |one| one["state"].as_str().unwrap().to_owned())
}

/// [issue 12.7] One agent could fill the list of approvals and bury the request that matters.
#[test]
fn the_number_of_waiting_calls_is_bounded() {
    Setup::new("[confirm]\nwhen = [\"main/wipe\"]\nmax_pending = 3\n").each(|client| {
        for n in 0..3 {
            pending(&client.call("wipe", json!({"n": n})));
        }
        let full = client.call("wipe", json!({"n": 3}));
        let text = full["result"]["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("3 calls of") && text.contains("`confirm.max_pending`"), "{text}");
        pending(&client.call("wipe", json!({"n": 0})));
        assert_eq!(waiting(&state(client)).len(), 3);
        assert_eq!(client.ran(), [""; 0]);
    });
}

/// [issue 12.7] Another user of the machine, or a file that another program wrote, could decide a call.
#[test]
fn only_the_same_user_decides_and_only_with_toolgate() {
    let setup = Setup::new(CONFIRM);
    let mut client = setup.client(Via::Wrap);
    let state = state(&client);
    let id = pending(&client.call("wipe", json!({"n": 1})));
    let folder = state.join("toolgate/approvals");
    assert_eq!(std::fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    for entry in std::fs::read_dir(&folder).unwrap() {
        let about = entry.unwrap().metadata().unwrap();
        assert_eq!(about.mode() & 0o777, 0o600);
    }
    // Guessed ids, empty ones and patterns decide nothing.
    for guess in ["", " ", "*", "%", "../key", "0", "zzzzzzzz", "."] {
        assert!(refused(&state, &["approve", "--", guess]).contains("there is no approval"));
    }
    // A file that was edited by hand means nothing, nor does a copy under another name.
    let file = folder.join(format!("{id}.approval"));
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("tgc1"));
    std::fs::write(&file, text.replace("\"pending\"", "\"approved\"")).unwrap();
    assert_ne!(pending(&client.call("wipe", json!({"n": 1}))), id);
    std::fs::write(&file, &text).unwrap();
    let copy = folder.join("copycopy.approval");
    std::fs::copy(&file, &copy).unwrap();
    assert!(refused(&state, &["approve", "copycopy"]).contains("there is no approval"));
    assert_eq!(client.ran(), [""; 0]);
    // A folder that others can write to is not trusted, by the gateway or by people.
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o770)).unwrap();
    let answer = client.call("wipe", json!({"n": 1}));
    assert_eq!(answer["result"]["_meta"]["code"], "INTERNAL", "{answer}");
    let words = said(&person(&state, &["approve", &id]));
    assert!(words.contains("is open to others (mode 770)"), "{words}");
    assert_eq!(client.ran(), [""; 0]);
}

/// [issue 12.7] An approval for one server could be used by another one with tools of the same names.
#[test]
fn an_approval_is_for_one_deployment() {
    let setup = Setup::new(CONFIRM);
    let mut client = setup.client(Via::Wrap);
    let state = state(&client);
    let id = pending(&client.call("wipe", json!({"n": 1})));
    done(&state, &["approve", &id]);
    // The same tools, principal and state folder, but another config and another folder.
    let other = setup.clone().env("XDG_STATE_HOME", state.to_str().unwrap());
    let mut other = other.client(Via::Wrap);
    assert_ne!(pending(&other.call("wipe", json!({"n": 1}))), id);
    assert_ran(&client.call("wipe", json!({"n": 1})));
    assert_eq!((client.ran().len(), other.ran().len()), (1, 0));
}

/// [users 0.9] The agent ended a tmux session with a token that was meant for its user.
#[test]
fn the_terminal_waits_for_a_person() {
    let tmux = Tmux::start();
    let options = ["--safety", "destructive", "--confirm", "destructive"];
    let mut session = tmux.serve(&options);
    let state = session.folder().join("state");
    let call = |session: &mut Session| session.call("kill_session", json!({"session_name": "two"}));
    session.call("create_session", json!({"session_name": "two"}));
    let id = pending(&call(&mut session));
    session.child.kill().unwrap();
    let mut again = tmux.serve_in(&options, |command| {
        command.env("XDG_STATE_HOME", &state);
    });
    assert_eq!(pending(&call(&mut again)), id);
    assert!(tmux.run(&["list-sessions"]).contains("two:"));
    done(&state, &["approve", &id]);
    let ended = call(&mut again);
    assert!(ended["result"]["isError"] != true, "{ended}");
    assert!(!tmux.run(&["list-sessions"]).contains("two:"));
}

/// [issue 12.7] A waiting call could miss the decision that another process records.
#[test]
fn a_call_may_wait_for_the_decision() {
    let setup = Setup::new("[confirm]\nwhen = [\"main/wipe\"]\nwait = \"1h\"\n");
    for via in [Via::Wrap, Via::Stdio] {
        let mut client = setup.client(via);
        let state = state(&client);
        let params = json!({"name": "wipe", "arguments": {"n": 1}});
        let call = client.pipe().post("tools/call", params);
        until_or(|| waiting(&state).len() == 1, || "it waits".to_owned());
        let id = waiting(&state)[0]["id"].as_str().unwrap().to_owned();
        done(&state, &["approve", &id]);
        assert_ran(&client.pipe().answer(call));
    }
}

/// [users 0.9] `confirm.dry_run` and `fallback = "token"` did not say what they do.
#[test]
fn old_keys_are_read_with_a_hint() {
    let table = "[confirm]\nwhen = [\"main/wipe\"]\n";
    let old = Setup::new(&format!("{table}dry_run = false\nfallback = \"token\"\n"));
    let mut client = old.client(Via::Legacy);
    let shown = client.call("wipe", json!({}));
    assert!(shown["result"]["_meta"]["preview"]["confirm_token"].is_string(), "{shown}");
    let told = client.stderr().join("\n");
    assert!(told.contains("write `mode = \"ask\"`"), "{told}");
    assert!(told.contains("`fallback = \"agent-may-confirm-itself\"`"), "{told}");
    let mut client = Setup::new(&format!("{table}dry_run = true\n")).client(Via::Legacy);
    assert!(client.call("wipe", json!({})).to_string().contains("DRY_RUN_PREVIEW"));
    let mut client = Setup::new(&format!("{table}mode = \"preview\"\n")).client(Via::Modern);
    assert!(client.call("wipe", json!({})).to_string().contains("DRY_RUN_PREVIEW"));
    assert!(!client.stderr().join("\n").contains("old spelling"));
}
