//! Errors to results: the message as raised, the way out appended, and no value repeated.

use std::sync::Arc;

use tracing::Level;

use super::*;
use crate::{
    Executed, Tool,
    random::Random,
    registry::Class,
    testing::{
        self, CapturedLog, answering, chain, client, context, defined_tool, failing, json,
        result_value,
    },
};

/// The tool `main/send_keys`, which takes `keys` and `enter` and nothing else.
fn closed() -> Arc<Tool> {
    let schema = r#"{"name":"send_keys","inputSchema":{"type":"object",
        "properties":{"keys":{},"enter":{}},"additionalProperties":false}}"#;
    defined_tool("send_keys", None, schema)
}

fn open() -> Arc<Tool> {
    testing::tool("t", None)
}

async fn rendered_by(tool: &Arc<Tool>, arguments: &str, failure: Failure) -> serde_json::Value {
    let server = failing(failure);
    result_value(&testing::call(&chain(ErrorResults), tool, arguments, &server).await)
}

/// The text that a client reads for arguments that a server refused with this message.
async fn told(arguments: &str, message: &str) -> String {
    let failure = Failure::new(Code::InvalidArguments, message);
    let result = rendered_by(&open(), arguments, failure).await;
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_message_is_told_exactly_as_raised_with_the_way_out_appended() {
    let failure = Failure::tool("PaneNotFound", "Pane not found: %999")
        .suggest("Call list_panes to discover valid pane ids.");
    let result = rendered_by(&open(), "{}", failure).await;
    assert_eq!(
        result,
        serde_json::json!({
            "content": [{
                "type": "text",
                "text": "Pane not found: %999\nCall list_panes to discover valid pane ids.",
            }],
            "isError": true,
            "_meta": {
                "ran": true,
                "error_type": "PaneNotFound",
                "expected": true,
                "code": "TOOL_FAILED",
                "suggestion": "Call list_panes to discover valid pane ids.",
            },
        }),
        "no prefix, no doubling, no structuredContent, nothing else"
    );
}

#[tokio::test]
async fn without_a_suggestion_nothing_is_appended() {
    let result = rendered_by(&open(), "{}", Failure::tool("Odd", " two\nlines\t")).await;
    assert_eq!(result["content"][0]["text"], " two\nlines\t");
    assert!(result["_meta"].get("suggestion").is_none());
    assert!(result["_meta"].get("rule").is_none());
}

#[tokio::test]
async fn the_outcome_stays_what_it_was() {
    let failure = Failure::new(Code::TimedOut, "too long").by("timeout", "limits.timeout = 1s");
    let server = failing(failure);
    let outcome = testing::call(&chain(ErrorResults), &open(), "{}", &server).await;
    assert_eq!(outcome.class(), Class::TimedOut);
    assert_eq!(outcome.code(), Some(Code::TimedOut));
    assert_eq!(outcome.executed(), Executed::Maybe);
    assert_eq!(result_value(&outcome)["_meta"]["rule"], "limits.timeout = 1s");
    assert_eq!(result_value(&outcome)["_meta"]["expected"], false);
}

#[tokio::test]
async fn what_the_tool_answered_passes_untouched() {
    for result in [
        r#"{"content":[],"structuredContent":{"n":1e400}}"#,
        r#"{"content":[{"type":"text","text":"Internal error"}],"isError":true}"#,
    ] {
        let server = answering(json(result));
        let outcome = testing::call(&chain(ErrorResults), &open(), "{}", &server).await;
        assert_eq!(outcome.result().unwrap().json().as_str(), result);
    }
}

#[tokio::test]
async fn codes_that_are_no_results_are_left_alone() {
    for code in Code::ALL {
        let delivery = code.entry().delivery;
        let server = failing(Failure::new(*code, "as it is"));
        let outcome = testing::call(&chain(ErrorResults), &open(), "{}", &server).await;
        let rendered = outcome.result().is_some();
        assert_eq!(rendered, delivery == Delivery::Result, "{code:?}");
        match outcome.into_reply() {
            crate::Reply::Result(_) => assert_eq!(delivery, Delivery::Result, "{code:?}"),
            crate::Reply::Error(_) => assert_eq!(delivery, Delivery::Error, "{code:?}"),
            // A cancelled call gets no answer, not even an error with code 0.
            crate::Reply::Nothing => assert_eq!(delivery, Delivery::Silence, "{code:?}"),
            crate::Reply::Verbatim(_) => panic!("{code:?} came from nowhere"),
        }
    }
}

#[tokio::test]
async fn errors_of_the_protocol_reach_the_client_with_their_data() {
    for (code, is_result) in [
        (-32042, false),
        (-32021, false),
        (-32020, false),
        (-32601, true),
        (-32603, true),
        (-32002, true),
        (7, true),
    ] {
        let rpc = RpcError {
            code,
            message: "from the server".to_owned(),
            data: Some(json(r#"{"elicitations":[1.0]}"#)),
        };
        let outcome = Outcome::failed(Failure::rejected(rpc)).with_origin("line".into());
        let server = testing::ScriptedServer::new(move |_| outcome.clone());
        let outcome = testing::call(&chain(ErrorResults), &open(), "{}", &server).await;
        match outcome.into_reply() {
            crate::Reply::Result(_) => assert!(is_result, "{code}"),
            crate::Reply::Verbatim(line) => {
                assert!(!is_result, "{code}");
                assert_eq!(line, "line");
            }
            other => panic!("{code}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn other_requests_keep_their_errors() {
    let layer = chain(ErrorResults);
    assert!(!layer.sees_request("ping") && !layer.sees_listings());
    let request = crate::Request { method: "resources/read".into(), params: None };
    let server = answering(json("{}"));
    let answer = layer.request(&mut context(), request, &server).await;
    assert_eq!(answer.body.unwrap_err().as_str(), r#"{"code":-32602,"message":"no params"}"#);
}

#[tokio::test]
async fn what_the_caller_can_put_right_is_a_warning() {
    for (failure, level) in [
        (Failure::tool("PaneNotFound", "no such pane"), Level::WARN),
        (Failure::new(Code::InvalidArguments, "bad 'hunter2!'"), Level::WARN),
        (Failure::internal("a bug"), Level::ERROR),
        (Failure::new(Code::ServerCrashed, "gone"), Level::ERROR),
        (Failure::tool("Bug", "unexpected").expected(false), Level::ERROR),
    ] {
        let log = CapturedLog::default();
        let _guard = log.start();
        rendered_by(&open(), r#"{"password":"hunter2!"}"#, failure).await;
        let lines = log.lines();
        let [(found, line)] = lines.as_slice() else { panic!("one line, not {lines:?}") };
        assert_eq!(*found, level, "{line}");
        assert!(line.contains("main/t"), "{line}");
        assert!(!line.contains("hunter2"), "{line}");
    }
}

#[tokio::test]
async fn rejected_values_are_never_repeated() {
    let secret = "correct horse battery staple, and more of it";
    let arguments = format!(r#"{{"a":{{"b":[{secret:?}]}},"n":123456,"s":"x1","pin":"007"}}"#);
    for (message, clean) in [
        (format!("bad value '{secret}'"), "bad value '[value]'".to_owned()),
        (
            format!("[type=int_parsing, input_value='{secret}', input_type=str]"),
            "[type=int_parsing, input_value=[value], input_type=str]".to_owned(),
        ),
        (
            "input_value='correct horse batte...nd more of it', input_type=str".to_owned(),
            "input_value=[value], input_type=str".to_owned(),
        ),
        (
            "input_value={'a': {'b': ['correc...it']}}, input_type=dict".to_owned(),
            "input_value=[value], input_type=dict".to_owned(),
        ),
        (
            "received \"correct horse b...ore of it\"".to_owned(),
            "received \"[value]...[value]\"".to_owned(),
        ),
        (
            "123456 is too much, '007' too little, x1 common".to_owned(),
            "[value] is too much, [value] too little, x1 common".to_owned(),
        ),
        ("keys: Field required".to_owned(), "keys: Field required".to_owned()),
    ] {
        assert_eq!(told(&arguments, &message).await, clean);
    }
}

#[tokio::test]
async fn values_are_found_however_they_are_spelt() {
    // Spelt with escapes by the client; quoted decoded, as JSON, and as the client spelt it.
    let arguments = r#"{"a":"caf\u00e9\n\"quoted\""}"#;
    for message in
        ["no: café\n\"quoted\"", r#"no: "café\n\"quoted\"""#, r#"no: "caf\u00e9\n\"quoted\"""#]
    {
        let clean = told(arguments, message).await;
        assert!(clean.starts_with("no: "), "{clean}");
        assert!(!clean.contains("quoted") && !clean.contains("caf"), "{clean}");
    }
}

#[tokio::test]
async fn deep_values_are_masked_too() {
    let arguments = format!("{}\"hunter2!\"{}", "[".repeat(100), "]".repeat(100));
    let arguments = format!("{{\"a\":{arguments}}}");
    assert_eq!(told(&arguments, "no hunter2!").await, "no [value]");
}

#[tokio::test]
async fn the_servers_data_is_not_told_either() {
    let failure = Failure::rejected(RpcError {
        code: -32602,
        message: "Invalid arguments: 'hunter2!'".to_owned(),
        data: Some(json(r#"{"input":"hunter2!"}"#)),
    });
    let result = rendered_by(&open(), r#"{"password":"hunter2!"}"#, failure).await;
    assert_eq!(result["content"][0]["text"], "Invalid arguments: '[value]'");
    assert_eq!(result["_meta"]["error_type"], "InvalidParams");
    assert_eq!(result["_meta"]["expected"], true);
    assert!(!result.to_string().contains("hunter2"));
}

#[tokio::test]
async fn other_failures_are_told_as_raised_even_if_they_name_a_value() {
    let failure = Failure::tool("NotFound", "no file /no/such/file");
    let result = rendered_by(&open(), r#"{"path":"/no/such/file"}"#, failure).await;
    assert_eq!(result["content"][0]["text"], "no file /no/such/file");
}

#[tokio::test]
async fn no_part_of_a_secret_of_eight_characters_survives_at_its_ends() {
    let mut dice = Random::new(1);
    for round in 0..500 {
        let length = 17 + dice.roll(200);
        let letters: Vec<char> = "abcdefghijklmnopqrstuvwxyzàéü漢".chars().collect();
        let secret: String = (0..length).map(|_| *dice.pick(&letters)).collect();
        let chars: Vec<char> = secret.chars().collect();
        let (head, tail) = (8 + dice.roll(length - 8), 8 + dice.roll(length - 8));
        let start: String = chars.iter().take(head).collect();
        let end: String = chars.iter().skip(length - tail).collect();
        let dots = dice.pick(&["...", "…", "", "[cut]"]);
        let message = format!("ROUND {round}: {start}{dots}{end} IS WRONG");
        let clean = told(&format!("{{\"a\":{secret:?}}}"), &message).await;
        assert!(clean.starts_with("ROUND") && clean.ends_with("IS WRONG"), "{clean}");
        let first: String = chars.iter().take(8).collect();
        let last: String = chars.iter().skip(length - 8).collect();
        assert!(!clean.contains(&first) && !clean.contains(&last), "{clean}");
    }
}

#[tokio::test]
async fn a_message_that_is_too_long_to_be_cleaned_is_withheld() {
    let values: Vec<String> = (0..2000).map(|n| format!("\"secret {n}\"")).collect();
    let arguments = format!("{{\"a\":[{}]}}", values.join(","));
    let clean = told(&arguments, &"secret 7 ".repeat(20_000)).await;
    assert!(!clean.contains("secret 7"), "{clean}");
    assert!(clean.contains("withheld"), "{clean}");
}

async fn suggested(arguments: &str, cx: &mut Context, tool: Arc<Tool>) -> Option<String> {
    let server = failing(Failure::new(Code::InvalidArguments, "no"));
    let call = Call::new(tool, Some(json(arguments)));
    let outcome = chain(ErrorResults).call(cx, call, &server).await;
    let result = result_value(&outcome);
    let suggestion = result["_meta"]["suggestion"].as_str().map(str::to_owned);
    if let Some(suggestion) = &suggestion {
        assert_eq!(result["content"][0]["text"], format!("no\n{suggestion}"));
    }
    suggestion
}

#[tokio::test]
async fn names_that_a_closed_schema_does_not_know_are_named() {
    let suggestion = suggested(r#"{"keys":"x","entr":1,"b":2}"#, &mut context(), closed()).await;
    assert_eq!(
        suggestion.as_deref(),
        Some(
            "Remove or correct the unrecognized argument(s): entr, b. Did you mean `enter`? The tool takes: \
             keys, enter."
        )
    );
    assert_eq!(suggested(r#"{"keys":"x"}"#, &mut context(), closed()).await, None);
    // An open schema makes no name wrong.
    assert_eq!(suggested(r#"{"entr":1}"#, &mut context(), open()).await, None);
}

#[tokio::test]
async fn the_scheduling_flag_is_explained_with_the_clients_name() {
    let arguments = r#"{"keys":"x","wait_for_previous":true}"#;
    let mut cx = context().with_client(client("refbench", "1.0"));
    let named = "Remove or correct the unrecognized argument(s): wait_for_previous. \
                 wait_for_previous is a scheduling flag your client (refbench 1.0) can leak into \
                 batched tool calls; retry the call without it.";
    for tool in [closed(), open()] {
        assert_eq!(suggested(arguments, &mut cx, tool).await.as_deref(), Some(named));
    }
    let unnamed = "Remove or correct the unrecognized argument(s): wait_for_previous. \
                   wait_for_previous is a scheduling flag some clients (e.g. Gemini CLI) can leak \
                   into batched tool calls; retry the call without it.";
    let suggestion = suggested(arguments, &mut context(), closed()).await;
    assert_eq!(suggestion.as_deref(), Some(unnamed));
}

#[tokio::test]
async fn the_scheduling_flag_is_never_stripped() {
    let arguments = r#"{"keys":"x","wait_for_previous":true}"#;
    let server = answering(json("{}"));
    testing::call(&chain(ErrorResults), &closed(), arguments, &server).await;
    assert_eq!(server.seen(), [arguments]);
}

#[tokio::test]
async fn a_suggestion_of_the_failure_comes_first() {
    let failure = Failure::new(Code::InvalidArguments, "no").suggest("Read the page.");
    let result = rendered_by(&closed(), r#"{"entr":1}"#, failure).await;
    assert_eq!(result["_meta"]["suggestion"], "Read the page.");
}

#[tokio::test]
async fn many_and_long_names_are_bounded() {
    let names: Vec<String> = (0..50).map(|n| format!("\"{n}{}\":1", "x".repeat(10_000))).collect();
    let arguments = format!("{{{}}}", names.join(","));
    let suggestion = suggested(&arguments, &mut context(), closed()).await.unwrap();
    assert!(suggestion.len() < 1000, "{}", suggestion.len());
    assert!(suggestion.contains(" and 40 more."), "{suggestion}");
}
