//! Confirmation from outside: two keys, every kind of client, every kind of tool, and one call for one yes.

use serde_json::{Value, json};

use crate::harness::{
    Session,
    governed::{Governed, assert_refused, code, definition, definitions, modern},
    text,
};

/// Destructive tools need a confirmation; `TOOLS` are of every kind.
const CONFIRM: &str = r#"
[namespaces.default.tools."main/hard"]
tier = "destructive"
[namespaces.default.tools."main/soft"]
tier = "mutating"
[confirm]
when = [{ tier = "destructive" }]
"#;

/// Each answers with the line that it got; nobody knows the tier of the last one, so it counts as destructive.
const TOOLS: [(&str, bool); 4] =
    [("see_line", false), ("soft", false), ("hard", true), ("odd_one", true)];

const EXTRA: [&str; 8] = [
    "--extra-tool",
    "hard",
    "--extra-tool",
    "soft",
    "--extra-tool",
    "odd_one",
    "--extra-tool",
    "rounds",
];

fn open() -> String {
    format!("{CONFIRM}mode = \"ask\"\nfallback = \"agent-may-confirm-itself\"\n")
}

/// How a client can confirm.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// 2026-07-28: the result asks, the call is repeated with the answer.
    Rounds,
    /// 2026-07-28 without elicitation: a token in `_meta`.
    ModernToken,
    /// Before that: `elicitation/create`.
    Elicits,
    /// Before that, without elicitation: a token in `_meta`.
    MetaToken,
    /// A client that cannot even set `_meta`.
    ArgumentToken,
}

const KINDS: [Kind; 5] =
    [Kind::Rounds, Kind::ModernToken, Kind::Elicits, Kind::MetaToken, Kind::ArgumentToken];

impl Kind {
    fn is_modern(self) -> bool {
        matches!(self, Self::Rounds | Self::ModernToken)
    }

    fn start(self, governed: &Governed) -> Session {
        let mut session = governed.start_silent(&EXTRA);
        if !self.is_modern() {
            let elicitation =
                if self == Self::Elicits { json!({"elicitation": {}}) } else { json!({}) };
            session.request(
                "initialize",
                json!({"protocolVersion": "2025-11-25", "capabilities": elicitation,
                    "clientInfo": {"name": "harness", "version": "7"}}),
            );
            session.notify("notifications/initialized", json!({}));
        }
        session
    }

    fn meta(self) -> Value {
        let capability = "io.modelcontextprotocol/clientCapabilities";
        match self {
            Self::Rounds => modern(json!({capability: {"elicitation": {"form": {}}}})),
            Self::ModernToken => modern(json!({})),
            _ => json!({}),
        }
    }

    fn post(self, session: &mut Session, tool: &str, arguments: Value, more: Value) -> i64 {
        let mut params = json!({"name": tool, "arguments": arguments, "_meta": self.meta()});
        for (key, value) in more.as_object().unwrap() {
            if key == "_meta" {
                params["_meta"].as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
            } else {
                params[key] = value.clone();
            }
        }
        session.post("tools/call", params)
    }

    fn call(self, session: &mut Session, tool: &str, arguments: Value, more: Value) -> Value {
        let id = self.post(session, tool, arguments, more);
        session.answer(id)
    }

    /// Calls, and confirms with this action in the client's own way. A token is always a yes.
    fn confirm(self, session: &mut Session, tool: &str, action: &str) -> Value {
        let arguments = json!({"path": "/a"});
        let answer = json!({"action": action, "content": {"confirm": true}});
        let id = self.post(session, tool, arguments.clone(), json!({}));
        if self == Self::Elicits {
            let asked = session.wait_for(|m| m["method"] == "elicitation/create");
            assert!(asked["params"]["message"].as_str().unwrap().contains("\"/a\""), "{asked}");
            assert_eq!(asked["params"]["requestedSchema"]["required"], json!(["confirm"]));
            let line = json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer});
            session.send_line(&line.to_string());
            return session.answer(id);
        }
        let first = session.answer(id);
        let more = match self {
            Self::Rounds => {
                let result = &first["result"];
                assert_eq!(result["resultType"], "input_required", "{first}");
                let asked = &result["inputRequests"]["toolgate_confirm"];
                assert_eq!(asked["method"], "elicitation/create");
                assert_eq!(asked["params"]["mode"], "form");
                let responses = json!({"toolgate_confirm": answer});
                json!({"inputResponses": responses, "requestState": result["requestState"]})
            }
            Self::ModernToken | Self::MetaToken => {
                json!({"_meta": {"toolgate/confirm": token(&first)}})
            }
            Self::ArgumentToken => {
                let with = json!({"path": "/a", "__confirm": token(&first)});
                return self.call(session, tool, with, json!({}));
            }
            Self::Elicits => unreachable!(),
        };
        self.call(session, tool, arguments, more)
    }
}

fn token(answer: &Value) -> String {
    assert_eq!(code(answer), "CONFIRM_REQUIRED", "{answer}");
    answer["result"]["_meta"]["preview"]["confirm_token"].as_str().unwrap().to_owned()
}

/// The tool got the call, and nothing of the confirmation.
fn assert_ran(answer: &Value) {
    let line = text(answer);
    let seen: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{answer}"));
    assert_eq!(seen["method"], "tools/call");
    for secret in ["confirm", "requestState", "inputResponses", "tgc1"] {
        assert!(!line.contains(secret), "{line}");
    }
}

#[test]
fn confirm_by_dry_run_by_client_by_tool() {
    let asks = open();
    for kind in KINDS {
        for dry in [true, false] {
            let preview = format!("{CONFIRM}mode = \"preview\"\n");
            let governed = Governed::new(if dry { &preview } else { &asks });
            let mut session = kind.start(&governed);
            for (tool, is_gated) in TOOLS {
                let what = format!("{kind:?}, dry {dry}, {tool}");
                if !is_gated {
                    assert_ran(&kind.call(&mut session, tool, json!({"path": "/a"}), json!({})));
                } else if dry {
                    let answer = kind.call(&mut session, tool, json!({"path": "/a"}), json!({}));
                    assert_refused(&answer, "DRY_RUN_PREVIEW", kind.is_modern());
                    let preview = &answer["result"]["_meta"]["preview"];
                    assert_eq!(preview["missing"], json!(["operator", "caller"]), "{what}");
                    assert_eq!(preview["arguments"], json!({"path": "/a"}));
                    assert!(text(&answer).contains("`confirm.mode` is `preview`"), "{answer}");
                } else {
                    let answer = kind.confirm(&mut session, tool, "accept");
                    assert!(answer["result"]["isError"].is_null(), "{what}: {answer}");
                    assert_ran(&answer);
                }
            }
            session.finish();
            let audit = governed.audit();
            let gated = audit.iter().filter(|r| r["tool"] == "hard" && r["event"] == "call");
            let outcomes: Vec<&Value> = gated.map(|record| &record["outcome"]).collect();
            let expected = match (dry, kind) {
                (true, _) => vec!["preview"],
                (false, Kind::Elicits) => vec!["ok"],
                (false, Kind::Rounds) => vec!["input_required", "ok"],
                (false, _) => vec!["preview", "ok"],
            };
            assert_eq!(outcomes, expected, "{kind:?}, dry {dry}");
        }
    }
}

#[test]
fn a_no_a_closed_question_and_a_second_use_are_told_apart() {
    for kind in [Kind::Rounds, Kind::Elicits] {
        let governed = Governed::new(&open());
        let mut session = kind.start(&governed);
        let declined = kind.confirm(&mut session, "hard", "decline");
        assert_refused(&declined, "CONFIRM_DECLINED", kind.is_modern());
        let cancelled = kind.confirm(&mut session, "hard", "cancel");
        assert_refused(&cancelled, "CONFIRM_CANCELLED", kind.is_modern());
    }
}

#[test]
fn a_token_is_for_one_call_of_one_caller_and_works_once() {
    let governed = Governed::new(&open());
    let kind = Kind::ArgumentToken;
    let mut session = kind.start(&governed);
    let mut call = |tool: &str, arguments: Value| session.call(tool, arguments);
    let token = token(&call("hard", json!({"a": 1, "b": [2]})));
    let with = |a: i64| json!({"b": [2], "a": a, "__confirm": token});
    assert_eq!(code(&call("hard", with(2))), "CONFIRM_MISMATCH");
    assert_eq!(code(&call("odd_one", with(1))), "CONFIRM_MISMATCH");
    let mut changed = token.clone();
    let digit = if &token[8..9] == "0" { "1" } else { "0" };
    changed.replace_range(8..9, digit);
    let tampered = json!({"b": [2], "a": 1, "__confirm": changed});
    assert_eq!(code(&call("hard", tampered)), "CONFIRM_TAMPERED");
    // The order of the keys is not part of the call.
    assert_ran(&call("hard", with(1)));
    assert_eq!(code(&call("hard", with(1))), "CONFIRM_REPLAYED");
    // Another process has another key.
    let mut other = kind.start(&governed);
    assert_eq!(code(&other.call("hard", with(1))), "CONFIRM_TAMPERED");
}

#[test]
fn a_state_is_bound_to_the_arguments_and_works_once() {
    let kind = Kind::Rounds;
    let governed = Governed::new(&open());
    let mut session = kind.start(&governed);
    let first = kind.call(&mut session, "hard", json!({"path": "/a"}), json!({}));
    let yes = json!({"action": "accept", "content": {"confirm": true}});
    let more = json!({"requestState": first["result"]["requestState"],
        "inputResponses": {"toolgate_confirm": yes}});
    let other = kind.call(&mut session, "hard", json!({"path": "/b"}), more.clone());
    assert_refused(&other, "CONFIRM_MISMATCH", true);
    assert_ran(&kind.call(&mut session, "hard", json!({"path": "/a"}), more.clone()));
    let again = kind.call(&mut session, "hard", json!({"path": "/a"}), more);
    assert_refused(&again, "CONFIRM_REPLAYED", true);
    // Without the answer the question is asked again.
    let state = json!({"requestState": first["result"]["requestState"]});
    let asked = kind.call(&mut session, "hard", json!({"path": "/a"}), state);
    assert_eq!(asked["result"]["resultType"], "input_required");
}

#[test]
fn a_server_that_asks_itself_is_answered_without_a_second_confirmation() {
    let kind = Kind::Rounds;
    let governed = Governed::new(&open());
    let mut session = kind.start(&governed);
    let asked = kind.confirm(&mut session, "rounds", "accept");
    let result = &asked["result"];
    assert_eq!(result["resultType"], "input_required", "{asked}");
    assert!(result["inputRequests"]["n"].is_object(), "{asked}");
    let state = result["requestState"].as_str().unwrap();
    assert!(state.starts_with("tgc1c-") && state.ends_with("\"srv.1\""), "{state}");
    let more = json!({"requestState": state, "inputResponses": {"n": {"action": "accept"}}});
    let done = kind.call(&mut session, "rounds", json!({"path": "/a"}), more.clone());
    // The server gets its own state back, and the answers to its own questions.
    let line: Value = serde_json::from_str(text(&done)).unwrap();
    assert_eq!(line["params"]["requestState"], "srv.1");
    assert_eq!(line["params"]["inputResponses"], json!({"n": {"action": "accept"}}));
    let again = kind.call(&mut session, "rounds", json!({"path": "/a"}), more);
    assert_refused(&again, "CONFIRM_REPLAYED", true);
}

#[test]
fn the_reserved_argument_is_published_only_where_it_is_of_use() {
    let governed = Governed::new(&open());
    let mut session = Kind::ArgumentToken.start(&governed);
    let schema = |tool: &Value| tool["inputSchema"]["properties"]["__confirm"].clone();
    assert_eq!(schema(&definition(&mut session, "hard"))["type"], json!(["string", "boolean"]));
    assert!(schema(&definition(&mut session, "soft")).is_null());
    let mut session = Kind::Elicits.start(&governed);
    assert!(schema(&definition(&mut session, "hard")).is_null());
    // A tool that is not gated keeps an argument of that name.
    let answer = session.call("soft", json!({"__confirm": true}));
    assert!(text(&answer).contains("__confirm"), "{answer}");
}

#[test]
fn a_closed_schema_does_not_stand_in_the_way_of_a_confirmation() {
    // The system that this comes from strips the key before it looks for it: its calls never ran.
    let config = format!(
        "{}[validate.tools.\"main/hard\"]\n\
         schema = {{ type = \"object\", properties = {{ path = {{ type = \"string\" }} }}, \
         additionalProperties = false }}\n",
        open()
    );
    let governed = Governed::new(&config);
    let mut session = Kind::ArgumentToken.start(&governed);
    assert_ran(&Kind::ArgumentToken.confirm(&mut session, "hard", "accept"));
    // Bad arguments are refused before anybody is asked.
    assert_eq!(code(&session.call("hard", json!({"path": 3}))), "INVALID_ARGUMENTS");
}

#[test]
fn without_elicitation_a_person_can_be_insisted_on() {
    let governed = Governed::new(&format!("{CONFIRM}fallback = \"refuse\"\n"));
    let mut session = Kind::ArgumentToken.start(&governed);
    let answer = session.call("hard", json!({}));
    assert_eq!(code(&answer), "CONFIRM_REQUIRED");
    assert!(answer["result"]["_meta"]["preview"].get("confirm_token").is_none(), "{answer}");
    assert!(text(&answer).contains("whom this client cannot ask"));
    let mut session = Kind::Elicits.start(&governed);
    assert_ran(&Kind::Elicits.confirm(&mut session, "hard", "accept"));
}

#[test]
fn a_client_that_cannot_ask_after_all_gets_a_token() {
    let governed = Governed::new(&open());
    let mut session = Kind::Elicits.start(&governed);
    let id = session.post_call("hard", json!({}));
    let asked = session.wait_for(|m| m["method"] == "elicitation/create");
    let error = json!({"code": -32601, "message": "Method not found"});
    session.send_line(&json!({"jsonrpc": "2.0", "id": asked["id"], "error": error}).to_string());
    token(&session.answer(id));
}

#[test]
fn a_question_is_taken_back_when_its_call_is_given_up_and_a_late_answer_goes_nowhere() {
    let governed = Governed::new(&open());
    let mut session = Kind::Elicits.start(&governed);
    let id = session.post_call("hard", json!({}));
    let asked = session.wait_for(|m| m["method"] == "elicitation/create");
    session.notify("notifications/cancelled", json!({"requestId": id}));
    let back = session.wait_for(|m| m["method"] == "notifications/cancelled");
    assert_eq!(back["params"]["requestId"], asked["id"]);
    let yes = json!({"action": "accept", "content": {"confirm": true}});
    session.send_line(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": yes}).to_string());
    // The server would answer an answer to nothing with noise, and the tool would have run.
    assert_ran(&session.call("see_line", json!({})));
    session.finish();
    let audit = governed.audit();
    let records: Vec<_> = audit.iter().filter(|r| r["tool"] == "hard").collect();
    assert_eq!(records.len(), 1, "{records:?}");
    assert_eq!((&records[0]["outcome"], &records[0]["ran"]), (&json!("cancelled"), &json!("no")));
}

#[test]
fn secrets_and_tricks_do_not_reach_a_preview() {
    let governed = Governed::new(&open());
    let mut session = Kind::ArgumentToken.start(&governed);
    let arguments = json!({"steps": [{"tool": "x", "args": {"interaction_token": "hunter2-token"}}],
        "command": "curl -H 'Authorization: Bearer sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789'",
        "path": "a\u{202e}b"});
    let answer = session.call("hard", arguments);
    let shown_text = answer.to_string();
    assert!(
        !shown_text.contains("hunter2") && !shown_text.contains("abcdefghijklmnop"),
        "{shown_text}"
    );
    assert!(shown_text.contains("curl -H") && !shown_text.contains('\u{202e}'), "{shown_text}");
    session.finish();
    let audit = serde_json::to_string(&governed.audit()).unwrap();
    assert!(!audit.contains("hunter2") && !audit.contains("tgc1"), "{audit}");
}

#[test]
fn a_changed_config_forgets_neither_what_was_given_out_nor_what_was_used() {
    let governed = Governed::new(&open());
    let mut session = Kind::ArgumentToken.start(&governed);
    let first = token(&session.call("hard", json!({})));
    let second = token(&session.call("hard", json!({})));
    assert_ran(&session.call("hard", json!({"__confirm": first})));
    governed.change(&format!("{}ttl = \"1h\"\n", open()));
    session.reload();
    session.wait_for_stderr("the config has changed");
    assert_eq!(code(&session.call("hard", json!({"__confirm": first}))), "CONFIRM_REPLAYED");
    assert_ran(&session.call("hard", json!({"__confirm": second})));
}

#[test]
fn flags_and_variables_do_the_same_and_nothing_unclear_opens_a_door() {
    let mut session = Session::fixture(&["--confirm", "destructive"], &EXTRA);
    session.initialize();
    assert_eq!(code(&session.call("odd_one", json!({}))), "CONFIRM_REQUIRED");
    assert_ran(&session.call("see_line", json!({})));
    let mut session = Session::fixture(&["--dry-run"], &EXTRA);
    session.initialize();
    assert_eq!(code(&session.call("odd_one", json!({}))), "DRY_RUN_PREVIEW");
    assert_ran(&session.call("see_line", json!({})));
    for unclear in ["no", "0", "False", ""] {
        let mut command = std::process::Command::new(crate::harness::toolgate());
        command.env("TOOLGATE_DRY_RUN", unclear).args(["wrap", "--", "true"]);
        let ended = command.output().unwrap();
        assert!(!ended.status.success(), "{unclear:?}");
        assert!(String::from_utf8_lossy(&ended.stderr).contains("--dry-run"), "{ended:?}");
    }
    for wrong in [
        "[confirm]\nwhen = [\"main/*\"]\ndry_run = \"false\"",
        "[confirm]\ndry_run = false",
        "[[preconditions]]\nwhen = [\"main/*\"]\nrequire = [\"confrim\"]",
        "[confirm]\nwhen = [{ teir = \"destructive\" }]",
    ] {
        assert!(!Governed::new(wrong).refused().is_empty());
    }
}

#[test]
fn why_and_listings_agree_with_what_happens() {
    let governed = Governed::new(&open());
    let (allowed, words) = governed.why("hard", &[]);
    assert!(allowed && words.contains("has to be confirmed"), "{words}");
    let dry = Governed::new(&format!("{CONFIRM}dry_run = true\n"));
    let (allowed, words) = dry.why("odd_one", &[]);
    assert!(!allowed && words.contains("operator"), "{words}");
    // A tool that has to be confirmed is not hidden.
    let mut session = Kind::Rounds.start(&governed);
    let names = definitions(&mut session, Kind::Rounds.meta());
    assert!(names.iter().any(|tool| tool["name"] == "hard"));
}
