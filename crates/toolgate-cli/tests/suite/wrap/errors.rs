//! Failures from outside: every code that a door can give, what the client reads of it, and no secrets.

use std::{fmt::Write as _, path::Path};

use serde_json::{Value, json};
use toolgate::{Code, Delivery};

use crate::harness::{Session, governed::Governed, text};

/// How a code is provoked through the program; gives what the client read.
fn provoke(code: Code) -> Option<Value> {
    let mut session =
        Session::fixture(&["--safety", "readonly", "--limit", "2000", "--timeout", "200ms"], &[]);
    session.initialize();
    let raw = |session: &mut Session, line: &str| {
        session.send_line(line);
        session.wait_for(|m| m.get("error").is_some())
    };
    Some(match code {
        Code::ParseError => raw(&mut session, "{\"jsonrpc\":\"2.0\","),
        Code::InvalidRequest => {
            raw(&mut session, r#"{"jsonrpc":"2.0","id":5,"id":6,"method":"ping"}"#)
        }
        Code::MessageTooLarge => {
            let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
            raw(
                &mut session,
                &format!(r#"{{"jsonrpc":"2.0","id":5,"method":"ping","params":{{"x":{deep}}}}}"#),
            )
        }
        Code::UnknownTool => session.call("nope", json!({})),
        Code::InvalidArguments => {
            let folder = Governed::new("[validate]\ninput_schema = true\n");
            folder.start().call("reject", json!({"code": "-1", "text": "no"}))
        }
        Code::TierDenied => session.call("crash", json!({})),
        Code::TierUnknown => session.call("fail", json!({})),
        Code::TimedOut => session.call("hang", json!({})),
        Code::ServerRejected => {
            session.call("reject", json!({"code": -32000, "message": "the workspace is archived"}))
        }
        Code::ServerCrashed => {
            let mut session = Session::fixture(&[], &[]);
            session.initialize();
            session.call("crash", json!({}))
        }
        Code::ServerUnavailable => {
            let mut session = Session::wrap(&[], &["/no/such/server"]);
            session.call("echo", json!({}))
        }
        Code::ServerStartTimeout => {
            let mut session =
                Session::fixture(&["--start-timeout", "100ms"], &["--hang-initialize"]);
            session.request("initialize", json!({"protocolVersion": "2025-11-25"}))
        }
        Code::ServerProtocol => {
            let mut session = Session::fixture(&[], &[]);
            session.initialize();
            session.call("garbage", json!({}))
        }
        Code::Overloaded => overloaded(),
        Code::ResponseTooLarge => {
            let mut session = Session::fixture(&["--limit", "2000"], &[]);
            session.initialize();
            session.call("rigid", json!({"keys": 1000}))
        }
        // Only between eras, which `serve` translates: see `incidents/bounds.rs`.
        Code::ClientIncapable => return None,
        // No answer may be sent for a cancelled call: `wrap_passes` shows that none is. The others come
        // from tools, layers and preconditions written with the library, and are provoked there.
        Code::Cancelled | Code::ToolFailed | Code::Refused | Code::Deferred | Code::Internal => {
            return None;
        }
        Code::PolicyDenied => {
            governed("[namespaces.default]\npolicy = \"p\"\n[policies.p]\n", "echo")
        }
        Code::ScopeRejected => governed("[namespaces.default]\nscopes = [\"nothing\"]\n", "echo"),
        Code::OutputInvalid => {
            let folder = Governed::new("[validate]\noutput = \"enforce\"\n");
            folder.start_with(&["--answering"]).call("answer", json!({"result": {"content": []}}))
        }
        Code::ToolInactive => {
            governed("[namespaces.default.tools.\"main/echo\"]\nstatus = \"inactive\"\n", "echo")
        }
        Code::ToolNotAllowed => session
            .request("tools/call", json!({"name": "echo", "_meta": {"allowedTools": ["pid"]}})),
        Code::ControlTooLarge => session.request(
            "tools/call",
            json!({"name": "echo", "_meta": {"allowedTools": vec!["echo"; 1001]}}),
        ),
        Code::ToolQuarantined => governed(
            "store = \"sqlite:x.db\"\n[namespaces.default]\nnew_tools = \"quarantine\"\n",
            "nobody_lists_this",
        ),
        Code::ToolDisabled => governed("[flags]\ndisabled = [\"main/echo\"]\n", "echo"),
        Code::CircuitOpen => {
            let config = "[limits]\ntimeout = \"50ms\"\n[breaker]\nfailures = 1\n";
            let mut session = Governed::new(config).start();
            session.call("hang", json!({}));
            session.call("echo", json!({}))
        }
        Code::AuditUnavailable => unrecorded(),
        Code::RateLimited => used_up("rate", "1/h"),
        Code::QuotaExceeded => used_up("quota", "1/day"),
        Code::DryRunPreview => {
            governed("[confirm]\nwhen = [\"main/*\"]\nmode = \"preview\"\n", "echo")
        }
        Code::ConfirmRequired => pending(),
        Code::ConfirmDeclined => answered("decline"),
        Code::ConfirmCancelled => answered("cancel"),
        Code::ConfirmExpired => {
            let governed = Governed::new(&format!("{CONFIRM}ttl = \"1s\"\n"));
            eliciting(&governed).call("echo", json!({}))
        }
        Code::ConfirmTampered => confirmed_with(|_| json!({"__confirm": "tgc1t-00"})),
        Code::ConfirmMismatch => confirmed_with(|token| json!({"__confirm": token, "text": "x"})),
        Code::ConfirmReplayed => {
            let mut session = Governed::new(CONFIRM).start();
            let token = token(&session.call("echo", json!({})));
            session.call("echo", json!({"__confirm": token}));
            session.call("echo", json!({"__confirm": token}))
        }
        other => panic!("nobody says how {other:?} is provoked"),
    })
}

/// Every call has to be confirmed.
const CONFIRM: &str = "[confirm]\nwhen = [\"main/*\"]\nfallback = \"agent-may-confirm-itself\"\n";

/// The token of a preview.
fn token(answer: &Value) -> String {
    let preview = &answer["result"]["_meta"]["preview"];
    preview["confirm_token"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

/// What a call answers that is confirmed with arguments made from the token for it.
fn confirmed_with(arguments: impl Fn(&str) -> Value) -> Value {
    let mut session = Governed::new(CONFIRM).start();
    let token = token(&session.call("echo", json!({})));
    session.call("echo", arguments(&token))
}

/// A client that can be asked.
fn eliciting(governed: &Governed) -> Session {
    let mut session = governed.start_silent(&[]);
    let capabilities = json!({"elicitation": {}});
    session.request(
        "initialize",
        json!({"protocolVersion": "2025-11-25", "capabilities": capabilities}),
    );
    session
}

/// A call that waits for a person, with a fixed id and time.
fn pending() -> Value {
    let answer = governed("[confirm]\nwhen = [\"main/*\"]\n", "echo");
    let mut text = answer.to_string();
    for (key, fixed) in [("id", "k7f2w3qd"), ("expires_at", "2026-01-31T12:05:00Z")] {
        let value = answer["result"]["_meta"]["approval"][key].as_str().unwrap();
        text = text.replace(value, fixed);
    }
    serde_json::from_str(&text).unwrap()
}

/// What a call answers that the user answers so.
fn answered(action: &str) -> Value {
    let governed = Governed::new(CONFIRM);
    let mut session = eliciting(&governed);
    let id = session.post_call("echo", json!({}));
    let asked = session.wait_for(|m| m["method"] == "elicitation/create");
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": action}});
    session.send_line(&answer.to_string());
    session.answer(id)
}

/// Calls the tool under a config.
fn governed(config: &str, tool: &str) -> Value {
    Governed::new(config).start().call(tool, json!({}))
}

/// A call that cannot be recorded, where it must be.
fn unrecorded() -> Value {
    let folder = Governed::new("");
    folder.write("toolgate.toml", "[audit]\nfile = \"/dev/full\"\nrequired = true\n");
    folder.start().call("echo", json!({}))
}

/// The second call where only one is allowed.
fn used_up(kind: &str, limit: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("t.toml");
    let rule = format!("{kind} = [{{ tools = \"main/*\", limit = \"{limit}\" }}]");
    std::fs::write(&config, format!("[limits]\n{rule}\n[audit]\nfile = \"off\"\n")).unwrap();
    let mut session = Session::fixture(&["--config", config.to_str().unwrap()], &[]);
    session.initialize();
    session.call("echo", json!({}));
    session.call("echo", json!({}))
}

fn overloaded() -> Value {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("t.toml");
    std::fs::write(&config, "[limits]\nin_flight = 1\n[audit]\nfile = \"off\"\n").unwrap();
    let mut session = Session::fixture(&["--config", config.to_str().unwrap()], &[]);
    session.initialize();
    let hanging = session.post_call("hang", json!({}));
    session.wait_for(|m| m["params"]["data"]["hanging"] == json!(hanging));
    session.call("echo", json!({}))
}

/// What a client reads for each code, as it was agreed on.
const AGREED: &str = include_str!("codes.txt");

/// An answer without what differs from run to run.
fn steady(answer: &Value) -> String {
    let mut answer = answer.clone();
    answer.as_object_mut().unwrap().remove("id");
    let text = serde_json::to_string_pretty(&answer).unwrap();
    let mut steady = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("tgc1t-") {
        let (before, token) = rest.split_at(at + "tgc1t-".len());
        steady.push_str(before);
        steady.push_str("TOKEN");
        rest = token.trim_start_matches(|c: char| c.is_ascii_hexdigit());
    }
    steady.push_str(rest);
    // What is left of an hour, on a machine that takes its time. After the tokens, which contain any digits.
    for seconds in 3560..=3600 {
        steady = steady.replace(&seconds.to_string(), "…");
    }
    let lines = steady.lines().map(|line| {
        let changing = ["\"expires_at\": ", "\"toolgate/call_uuid\": ", "\"retry_after\": "];
        match changing.iter().find_map(|key| line.split_once(key).map(|(before, _)| (before, key)))
        {
            Some((before, key)) => {
                let end = if line.ends_with(',') { "," } else { "" };
                format!("{before}{key}…{end}")
            }
            None => match line.split_once(", in ") {
                Some((before, rest)) => {
                    format!(
                        "{before}, in …{}",
                        rest.trim_start_matches(|c: char| c.is_ascii_digit())
                    )
                }
                None => line.to_owned(),
            },
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_code_is_reachable_and_reaches_the_client_as_its_row_says() {
    let mut read = String::new();
    for code in Code::ALL {
        let Some(answer) = provoke(*code) else { continue };
        let row = code.entry();
        writeln!(read, "{}\n{}\n", row.name, steady(&answer)).unwrap();
        match row.delivery {
            Delivery::Result => {
                let result = &answer["result"];
                assert_eq!(result["_meta"]["code"], row.name, "{answer}");
                assert_eq!(result["isError"], true);
                assert!(result["_meta"]["error_type"].is_string());
                assert!(result.get("structuredContent").is_none(), "{answer}");
                let suggestion = result["_meta"]["suggestion"].as_str();
                assert!(suggestion.is_none_or(|s| text(&answer).ends_with(s)), "{answer}");
            }
            Delivery::Error => {
                assert_eq!(answer["error"]["data"]["code"], row.name, "{answer}");
                assert_eq!(answer["error"]["code"], row.rpc);
                assert!(answer["error"]["data"]["suggestion"].is_string());
            }
            Delivery::Silence => panic!("{code:?} has an answer"),
        }
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("codes.txt");
    std::fs::write(&folder, &read).unwrap();
    assert!(
        read == AGREED,
        "what clients read has changed: compare tests/suite/wrap/codes.txt with {folder:?}"
    );
}

#[test]
fn the_servers_message_is_told_exactly_as_raised() {
    let mut session = Session::fixture(&[], &[]);
    session.initialize();
    let answer = session.call("reject", json!({"code": -32000, "message": "Pane not found: %5"}));
    assert_eq!(text(&answer), "Pane not found: %5");
    assert_eq!(answer["result"]["_meta"]["error_type"], "McpError");
    assert_eq!(answer["result"]["_meta"]["expected"], false);
}

#[test]
fn invalid_arguments_are_named_and_their_values_never_echoed() {
    let mut session = Session::fixture(&[], &[]);
    session.initialize();
    session.request("tools/list", json!({}));
    let secret = "hunter2-correct-horse-battery-staple";
    let message = format!(
        "1 validation error for call[reject]\nentr\n  Unexpected [input_value='{secret}', input_type=str]"
    );
    let answer = session.call("reject", json!({"message": message, "entr": secret}));
    assert!(!answer.to_string().contains("hunter2"), "{answer}");
    let suggestion =
        "Remove or correct the unrecognized argument(s): entr. The tool takes: code, message.";
    assert_eq!(answer["result"]["_meta"]["suggestion"], suggestion);
    assert!(text(&answer).ends_with(suggestion));
    let answer = session.call("reject", json!({"wait_for_previous": true}));
    assert_eq!(
        answer["result"]["_meta"]["suggestion"],
        "Remove or correct the unrecognized argument(s): wait_for_previous. wait_for_previous is a scheduling \
         flag your client (harness 7) can leak into batched tool calls; retry the call without it."
    );
    session.finish();
    let log = session.stderr_so_far().join("\n");
    assert!(!log.contains("hunter2"), "{log}");
}

#[test]
fn other_methods_keep_their_json_rpc_errors() {
    let mut session = Session::fixture(&[], &[]);
    session.initialize();
    let answer = session.request("no/such/method", json!({}));
    assert_eq!(answer["error"]["code"], -32601);
    assert!(answer.get("result").is_none());
}

#[test]
fn a_tools_own_error_result_is_not_touched() {
    let mut session = Session::fixture(&[], &[]);
    session.initialize();
    let answer = session.call("fail", json!({}));
    assert_eq!(
        answer["result"],
        json!({"content": [{"type": "text", "text": "it failed"}], "isError": true})
    );
}

#[test]
fn a_timed_out_call_is_cancelled_at_the_server_too() {
    let mut session = Session::fixture(&["--timeout", "150ms"], &[]);
    session.initialize();
    let id = session.post_call("hang", json!({}));
    let answer = session.answer(id);
    assert_eq!(answer["result"]["_meta"]["code"], "TIMED_OUT");
    assert!(text(&answer).starts_with("Tool execution timed out after 150ms"), "{answer}");
    assert_eq!(text(&session.call("cancelled", json!({}))), format!("[{id}]"));
}

#[test]
fn a_request_with_the_id_of_one_in_flight_does_not_steal_its_answer() {
    let mut session = Session::fixture(&[], &[]);
    session.initialize();
    let line = |tool: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":40,"method":"tools/call","params":{{"name":"{tool}","arguments":{{"text":"t"}}}}}}"#
        )
    };
    session.send_line(&line("hang"));
    session.wait_for(|m| m["params"]["data"]["hanging"] == json!(40));
    session.send_line(&line("echo"));
    session.wait_for_stderr("uses the id of one in flight");
    session.notify("notifications/cancelled", json!({"requestId": 40}));
    session.call("pid", json!({}));
    assert!(session.seen.iter().all(|m| m["id"] != 40), "{:?}", session.seen);
}
