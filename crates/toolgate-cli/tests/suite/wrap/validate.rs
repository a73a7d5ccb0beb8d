//! Validation from outside: arguments before the tool reads them, results before the client does, and no
//! value of either in what is told.

use serde_json::{Value, json};

use crate::harness::{
    Session,
    governed::{Governed, call_with, code, modern},
    text,
};

/// The fixture with a tool `put` that has a schema, and `answer`, which answers as it is told.
fn start(config: &str) -> (Session, Governed) {
    let folder = Governed::new(config);
    let session = folder.start_with(&["--extra-tool", "put", "--answering"]);
    (session, folder)
}

fn issues(answer: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let issues = answer["result"]["_meta"]["issues"].as_array();
    let issues = issues.unwrap_or_else(|| panic!("no issues in {answer}"));
    issues.iter().map(|issue| (text(&issue["path"]), text(&issue["code"]))).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(path, code)| ((*path).to_owned(), (*code).to_owned())).collect()
}

/// The line that reached the server.
fn line(answer: &Value) -> &str {
    text(answer)
}

#[test]
fn everything_that_is_wrong_is_told_at_once_as_text_and_as_facts_in_both_eras() {
    let folder = Governed::new("[validate]\ninput_schema = true\n");
    for is_modern in [false, true] {
        let mut session = folder.start_silent(&["--extra-tool", "put"]);
        let meta = if is_modern { modern(json!({})) } else { json!({}) };
        if !is_modern {
            session.initialize();
        }
        let refused = call_with(&mut session, "put", json!({"mode": "burn", "overwrite": 1}), meta);
        assert_eq!(code(&refused), "INVALID_ARGUMENTS", "{refused}");
        let mut told = issues(&refused);
        told.sort_unstable();
        let expected = pairs(&[
            ("/mode", "enum"),
            ("/overwrite", "boolean_type"),
            ("/path", "missing_argument"),
        ]);
        assert_eq!(told, expected);
        assert!(text(&refused).starts_with("3 validation errors for call[put]\n"), "{refused}");
        let issue = &refused["result"]["_meta"]["issues"][0];
        assert!(text(&refused).contains(issue["message"].as_str().unwrap()), "{refused}");
    }
}

#[test]
fn without_errors_to_results_it_is_an_error_of_invalid_params_with_the_same_facts() {
    let (mut session, _folder) = start(
        "[namespaces.default]\nchain = [\"audit\", \"validate\"]\n[validate]\ninput_schema = true\n",
    );
    for odd in [json!(["hunter2"]), json!("hunter2"), json!(7), Value::Null] {
        let refused = session.request("tools/call", json!({"name": "echo", "arguments": odd}));
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        let expected = json!([{"path": "", "message": "Input should be a valid object", "code": "object_type"}]);
        assert_eq!(refused["error"]["data"]["issues"], expected);
        assert!(!refused.to_string().contains("hunter2"));
    }
    // None at all is an empty object.
    assert!(session.request("tools/call", json!({"name": "pid"}))["result"].is_object());
}

/// A call whose arguments are spelt in a way that nobody would choose.
const ODD: &str = r#"{"jsonrpc":"2.0","id":900,"method":"tools/call","params":{"name":"put","arguments":{ "path" : "\u0061/b", "zz":{"x":"hunter2"}, "mode":"copy" ,"overwrite":true, "n\u0061me":1.50 }}}"#;

fn odd(session: &mut Session) -> Value {
    session.send_line(ODD);
    session.answer(900)
}

#[test]
fn unknown_arguments_pass_are_removed_or_refused() {
    let (mut session, folder) = start("");
    assert_eq!(line(&odd(&mut session)), ODD, "nobody looks");
    folder.change("[validate]\nunknown = \"strip\"\n");
    session.reload();
    session.wait_for_stderr("the config has changed");
    let seen = odd(&mut session);
    let kept = r#""arguments":{"path" : "\u0061/b","mode":"copy","overwrite":true}"#;
    assert!(line(&seen).contains(kept), "{seen}");
    // A schema that says nothing about names takes what it gets, and one that closes itself does not.
    assert_eq!(text(&session.call("echo", json!({"text": "x"}))), "x");
    let bare = session.call("reject", json!({"code": -32000, "message": "got this far", "z": 1}));
    assert_eq!(text(&bare), "got this far");

    folder.change("[validate]\nunknown = \"reject\"\n");
    session.reload();
    session.wait_for_stderr("the config has changed");
    let refused = odd(&mut session);
    let code_of_unknown = "unexpected_keyword_argument";
    let expected = pairs(&[("/name", code_of_unknown), ("/zz", code_of_unknown)]);
    assert_eq!(issues(&refused), expected);
    assert!(!refused.to_string().contains("hunter2"), "{refused}");

    folder.change(
        "[validate]\nunknown = \"reject\"\n[validate.tools.\"main/put\"]\nunknown = \"pass\"\n",
    );
    session.reload();
    session.wait_for_stderr("the config has changed");
    assert_eq!(line(&odd(&mut session)), ODD);

    folder.change("[validate.tools.\"main/echo\"]\nunknown = \"reject\"\n");
    session.reload();
    session.wait_for_stderr("the config has changed");
    let refused = session.call("echo", json!({"text": "x"}));
    assert_eq!(issues(&refused), pairs(&[("/text", code_of_unknown)]), "named, it holds there too");
    assert_eq!(refused["result"]["_meta"]["rule"], "validate.tools.\"main/echo\"");
}

#[test]
fn a_key_twice_is_refused_before_anything_is_removed() {
    let (mut session, _folder) = start("[validate]\nunknown = \"strip\"\n");
    session.send_line(
        r#"{"jsonrpc":"2.0","id":901,"method":"tools/call","params":{"name":"put","arguments":{"path":"a","z":1,"p\u0061th":"b"}}}"#,
    );
    let refused = session.answer(901);
    assert_eq!(issues(&refused), pairs(&[("/path", "duplicate_argument")]));
}

#[test]
fn arguments_are_judged_as_they_reach_the_tool() {
    // The default and the hidden argument are there when the schema is asked, under the tool's new name.
    let (mut session, folder) = start(
        "[validate]\ninput_schema = true\nunknown = \"reject\"\n\
         [namespaces.default.tools.\"main/put\"]\nname = \"store\"\n\
         defaults = { mode = \"copy\" }\nhidden = { overwrite = false }\n",
    );
    let fine = session.call("store", json!({"path": "x"}));
    let seen: Value = serde_json::from_str(line(&fine)).unwrap();
    let expected = json!({"path": "x", "mode": "copy", "overwrite": false});
    assert_eq!(seen["params"]["arguments"], expected);
    let refused = session.call("store", json!({"path": "x", "mode": "burn"}));
    assert_eq!(issues(&refused), pairs(&[("/mode", "enum")]));
    session.finish();
    let ran: Vec<_> = folder.audit().iter().map(|record| record["ran"].clone()).collect();
    assert_eq!(ran, [json!("yes"), json!("no")]);
}

#[test]
fn strictly_what_cannot_be_checked_does_not_pass() {
    let folder = Governed::new("[validate]\ninput_schema = true\nstrict = true\n");
    let mut session = folder.start_with(&["--bad-schema"]);
    let refused = session.call("bad_schema", json!({}));
    assert_eq!(code(&refused), "INVALID_ARGUMENTS");
    assert!(text(&refused).contains("its input schema cannot be used"), "{refused}");
    assert_eq!(code(&session.call("nobody_lists_this", json!({}))), "UNKNOWN_TOOL");
    // Deeper than the wire lets anything pass, and as deep as it does.
    let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    let call = |id: i64, levels: usize| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"x","d":{}}}}}}}"#,
            nested(levels)
        )
    };
    session.send_line(&call(902, 100));
    assert_eq!(text(&session.answer(902)), "x");
    session.send_line(&call(903, 20_000));
    assert_eq!(session.answer(903)["error"]["data"]["code"], "MESSAGE_TOO_LARGE");
}

#[test]
fn a_tool_whose_results_do_not_fit_is_told_of_once() {
    let wrong = json!({"content": [], "structuredContent": {"n": "hunter2"}});
    let (mut session, _folder) = start("[validate]\noutput = \"warn\"\n");
    for _ in 0..3 {
        assert_eq!(session.call("answer", json!({"result": wrong}))["result"], wrong);
    }
    session.finish();
    let log = session.all_stderr();
    let told: Vec<_> = log.iter().filter(|line| line.contains("published output schema")).collect();
    assert_eq!(told.len(), 1, "{log:?}");
    assert!(told[0].contains("/structuredContent/n (integer_type)"), "{told:?}");
    assert!(!log.join("\n").contains("hunter2"), "{log:?}");
}

#[test]
fn results_pass_or_are_withheld() {
    let wrong = json!({"content": [], "structuredContent": {"n": "hunter2"}});
    let fine = json!({"content": [], "structuredContent": {"n": 1, "more": [1.5]}, "xVendor": 1});
    let (mut session, folder) = start("");
    assert_eq!(session.call("answer", json!({"result": wrong}))["result"], wrong, "nobody looks");

    folder.change("[validate]\noutput = \"enforce\"\n");
    session.reload();
    session.wait_for_stderr("the config has changed");
    for is_modern in [false, true] {
        let meta = if is_modern { modern(json!({})) } else { json!({}) };
        let arguments = |result: &Value| json!({"result": result});
        let withheld = call_with(&mut session, "answer", arguments(&wrong), meta.clone());
        assert_eq!(code(&withheld), "OUTPUT_INVALID", "{withheld}");
        assert_eq!(issues(&withheld), pairs(&[("/structuredContent/n", "integer_type")]));
        assert!(text(&withheld).contains("The tool did run."), "{withheld}");
        assert!(!withheld.to_string().contains("hunter2"), "{withheld}");
        let passed = call_with(&mut session, "answer", arguments(&fine), meta.clone());
        assert_eq!(passed["result"]["structuredContent"], fine["structuredContent"], "{passed}");
        assert_eq!(passed["result"]["xVendor"], 1);
        // A tool's own failure, and a tool that promised nothing, are left alone.
        let failed = json!({"content": [{"type": "text", "text": "no"}], "isError": true});
        assert_eq!(
            text(&call_with(&mut session, "answer", arguments(&failed), meta.clone())),
            "no"
        );
        assert_eq!(text(&call_with(&mut session, "echo", json!({"text": "x"}), meta)), "x");
    }
    session.finish();
    let records = folder.audit();
    let withheld: Vec<_> = records.iter().filter(|r| r["code"] == "OUTPUT_INVALID").collect();
    assert_eq!(withheld.len(), 2);
    assert!(withheld.iter().all(|record| record["ran"] == "yes"), "{withheld:?}");
}

#[test]
fn what_the_limit_cuts_was_whole_when_it_was_checked() {
    let (mut session, _folder) =
        start("[limits]\nresponse_bytes = 2000\n[validate]\noutput = \"enforce\"\n");
    let long = json!({"n": 1, "log": "x".repeat(50_000), "rows": [{}, {}]});
    let cut = session.call("answer", json!({"result": {"content": [], "structuredContent": long}}));
    let content = &cut["result"]["structuredContent"];
    assert!(cut["result"]["_meta"]["toolgate/truncated"].is_object(), "{cut}");
    assert_eq!((&content["n"], &content["rows"]), (&json!(1), &json!([{}, {}])));
    assert!(content["log"].as_str().unwrap().len() < 2000);
    // And what does not fit is told as that, however long it is.
    let wrong = json!({"content": [], "structuredContent": {"n": "x".repeat(50_000)}});
    assert_eq!(code(&session.call("answer", json!({"result": wrong}))), "OUTPUT_INVALID");
}

/// A schema for each kind of violation, and a value with the secret in it that violates it.
fn violations(secret: &str) -> Vec<(Value, Value)> {
    vec![
        (json!({"type": "integer"}), json!(secret)),
        (json!({"type": ["integer", "null"]}), json!([secret])),
        (json!({"enum": ["x"]}), json!(secret)),
        (json!({"const": "x"}), json!({"deep": secret})),
        (json!({"minLength": 99}), json!(secret)),
        (json!({"maxLength": 1}), json!(secret)),
        (json!({"pattern": "^[0-9]$"}), json!(secret)),
        (json!({"format": "uri"}), json!(secret)),
        (json!({"format": "email"}), json!(secret)),
        (json!({"minimum": 1e300}), json!(7_777_001)),
        (json!({"maximum": 1}), json!(7_777_001)),
        (json!({"exclusiveMinimum": 1e300}), json!(7_777_001)),
        (json!({"exclusiveMaximum": 1}), json!(7_777_001)),
        (json!({"multipleOf": 2}), json!(7_777_001)),
        (json!({"uniqueItems": true}), json!([secret, secret])),
        (json!({"minItems": 3}), json!([secret])),
        (json!({"maxItems": 1}), json!([secret, secret])),
        (json!({"contains": {"type": "null"}}), json!([secret])),
        (json!({"prefixItems": [true], "items": false}), json!([1, secret])),
        (json!({"prefixItems": [true], "unevaluatedItems": false}), json!([1, secret])),
        (json!({"additionalProperties": {"type": "null"}}), json!({"k": secret})),
        (json!({"properties": {"a": {}}, "additionalProperties": false}), json!({"k": secret})),
        (json!({"unevaluatedProperties": false}), json!({"k": secret})),
        (json!({"minProperties": 2}), json!({"k": secret})),
        (json!({"maxProperties": 0}), json!({"k": secret})),
        (json!({"required": ["a"]}), json!({"k": secret})),
        (json!({"dependentRequired": {"k": ["a"]}}), json!({"k": secret})),
        (json!({"propertyNames": {"maxLength": 0}}), json!({"k": secret})),
        (json!({"anyOf": [{"type": "null"}, {"maxLength": 1}]}), json!(secret)),
        (json!({"oneOf": [{"type": "null"}, {"maxLength": 1}]}), json!(secret)),
        (json!({"oneOf": [true, true]}), json!(secret)),
        (json!({"allOf": [{"maxLength": 1}]}), json!(secret)),
        (json!({"not": {"type": "string"}}), json!(secret)),
        (json!({"if": true, "then": {"maxLength": 1}}), json!(secret)),
        (json!(false), json!(secret)),
    ]
}

#[test]
fn no_kind_of_violation_tells_a_value_to_anybody() {
    let secret = "hunter2-hunter2";
    for (n, (schema, value)) in violations(secret).into_iter().enumerate() {
        // The audit and the call log keep arguments, less what is redacted: this one is.
        let folder = Governed::new(
            "store = \"sqlite:log.db\"\n[redact]\nkeys = [\"p\", \"result\"]\n\
             [validate]\nunknown = \"reject\"\noutput = \"enforce\"\n\
             [validate.tools.\"main/echo\"]\nschema_file = \"schema.json\"\n",
        );
        let schema = json!({"properties": {"p": schema}});
        folder.write("schema.json", &schema.to_string());
        let config = folder.path("toolgate.toml").display().to_string();
        let fixture = crate::harness::fixture().display().to_string();
        let mut session = Session::wrap_bare(
            &["--config", &config, "--", &fixture, "--extra-tool", "put", "--answering"],
            |wrap| {
                wrap.env("TOOLGATE_LOG", "debug");
            },
        );
        session.initialize();
        let mut answers = vec![session.call("echo", json!({"p": value}))];
        assert_eq!(code(&answers[0]), "INVALID_ARGUMENTS", "{schema}: {}", answers[0]);
        if n == 0 {
            answers.push(session.call("put", json!({"p": value})));
            answers.push(session.call("echo", json!([{"p": value}])));
            let wrong = json!({"content": [{"type": "text", "text": secret}],
                "structuredContent": {"n": value, "log": [value], "rows": [value]}});
            answers.push(session.call("answer", json!({"result": wrong})));
            assert_eq!(code(&answers[3]), "OUTPUT_INVALID", "{}", answers[3]);
        }
        session.finish();
        let log = session.all_stderr().join("\n");
        for told in [json!(answers).to_string(), log, json!(folder.audit()).to_string()] {
            assert!(!told.contains("hunter2") && !told.contains("7777001"), "{schema}: {told}");
        }
        assert!(!folder.audit().is_empty());
        let kept = folder.bytes("log.db");
        assert!(!kept.windows(7).any(|part| part == b"hunter2"), "{schema}: in the store");
    }
}

#[test]
fn settings_that_say_nothing_or_nonsense_do_not_start() {
    for (config, told) in [
        ("[validate]\nunknown = \"drop\"\n", "drop"),
        ("[validate]\noutput = \"on\"\n", "on"),
        ("[validate]\nunknown = \"pass\"\noutput = \"off\"\n", "checks nothing"),
        ("[validate.tools.\"main/echo\"]\n", "needs either `schema` or `schema_file`"),
        (
            "[namespaces.default]\nchain = [\"errors-to-results\", \"audit\"]\n[validate]\noutput = \"warn\"\n",
            "the chain does not name `validate`",
        ),
    ] {
        let refused = Governed::new(config).refused();
        assert!(refused.contains(told), "{config}: {refused}");
    }
}
