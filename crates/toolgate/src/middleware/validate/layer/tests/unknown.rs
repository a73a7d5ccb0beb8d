//! Arguments that a tool does not know, and bugs of mcp-core that are test cases here.

use super::*;

fn closed() -> Value {
    json!({"type": "object", "properties": {"a": {"type": "integer"}, "b/c": {}},
        "patternProperties": {"^x-": {}}})
}

/// The arguments that reach the tool, or the codes and places of what is wrong.
async fn sent(
    layer: Validate,
    tool: &Arc<Tool>,
    arguments: &str,
) -> Result<String, Vec<(String, String)>> {
    let server = ScriptedServer::new(|_| ToolResult::text("here").into());
    let chain = Chain::builder().layer(ErrorResults).layer(layer).build().unwrap();
    let outcome = testing::call(&chain, tool, arguments, &server).await;
    if let Some(seen) = server.seen().first() {
        return Ok(seen.clone());
    }
    let issues = result_value(&outcome)["_meta"]["issues"].clone();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let issues = issues.as_array().unwrap().iter();
    Err(issues.map(|issue| (text(&issue["path"]), text(&issue["code"]))).collect())
}

fn unexpected(place: &str) -> (String, String) {
    (place.to_owned(), "unexpected_keyword_argument".to_owned())
}

#[tokio::test]
async fn unknown_arguments_pass_are_removed_or_refused() {
    let tool = published(&closed());
    let arguments = r#"{ "a" : 1.0e0, "z":[1, 2], "x-y":"é\u00e9" , "b/c":{ }, "p/q":"secret" }"#;
    let pass = sent(input_schema(), &tool, arguments).await;
    assert_eq!(pass.as_deref(), Ok(arguments), "the default: as it came");
    let strip = sent(layer("unknown = 'strip'"), &tool, arguments).await;
    // Keys and values keep their spelling; only the blanks between members go.
    assert_eq!(strip.as_deref(), Ok(r#"{"a" : 1.0e0,"x-y":"é\u00e9","b/c":{ }}"#));
    let reject = sent(layer("unknown = 'reject'"), &tool, arguments).await;
    assert_eq!(reject, Err(vec![unexpected("/p~1q"), unexpected("/z")]));
    let fine = r#"{ "a": 1 }"#;
    for setting in ["strip", "reject"] {
        let known = sent(layer(&format!("unknown = '{setting}'")), &tool, fine).await;
        assert_eq!(known.as_deref(), Ok(fine), "nothing is touched where nothing is unknown");
    }
}

#[tokio::test]
async fn what_is_left_is_what_the_schema_is_asked_about() {
    let shut = json!({"properties": {"a": {"type": "integer"}}, "required": ["a"],
        "additionalProperties": false, "maxProperties": 1});
    let both = "input_schema = true\nunknown = 'strip'";
    let tool = published(&shut);
    assert_eq!(sent(layer(both), &tool, r#"{"a":1,"z":1}"#).await.as_deref(), Ok(r#"{"a":1}"#));
    let wrong = sent(layer(both), &tool, r#"{"a":"x","z":1}"#).await;
    assert_eq!(wrong, Err(vec![("/a".to_owned(), "integer_type".to_owned())]));
    // Refused for both reasons at once, and what both rules say is said once.
    let reject = layer("input_schema = true\nunknown = 'reject'");
    let all = sent(reject, &tool, r#"{"z":1}"#).await.unwrap_err();
    assert_eq!(all, [unexpected("/z"), ("/a".to_owned(), "missing_argument".to_owned())]);
    let rule = ask(&layer("input_schema = true\nunknown = 'reject'"), &tool, r#"{"z":1}"#);
    assert_eq!(rule.unwrap_err().rule(), Some("validate.unknown, inputSchema"));
}

#[tokio::test]
async fn a_schema_that_welcomes_others_means_it_unless_the_operator_names_the_tool() {
    let everywhere = || layer("unknown = 'reject'");
    for open in [
        json!({"properties": {"a": {}}, "additionalProperties": true}),
        json!({"properties": {"a": {}}, "additionalProperties": {"type": "string"}}),
        json!({"properties": {"a": {}}, "unevaluatedProperties": {}}),
        json!({"allOf": [{"properties": {"a": {}}, "additionalProperties": true}]}),
        // It says nothing about names.
        json!({"type": "object"}),
        json!({}),
        json!(true),
    ] {
        let tool = published(&open);
        assert!(ask(&everywhere(), &tool, r#"{"z":""}"#).is_ok(), "{open}");
        for named in ["main/t", "main/*"] {
            let named = layer(&format!("[tools.'{named}']\nunknown = 'reject'"));
            assert!(ask(&named, &tool, r#"{"z":""}"#).is_err(), "{open}");
        }
    }
    for shut in [
        json!({"properties": {}}),
        json!({"properties": {"a": {}}, "additionalProperties": false}),
        json!({"additionalProperties": false}),
        json!({"patternProperties": {"^a": {}}}),
    ] {
        assert!(ask(&everywhere(), &published(&shut), r#"{"z":""}"#).is_err(), "{shut}");
    }
}

#[tokio::test]
async fn names_are_found_wherever_a_schema_keeps_them() {
    let schema = json!({
        "$ref": "#/$defs/base",
        "allOf": [{"properties": {"b": {}}}, {"$ref": "#/$defs/more"}],
        "anyOf": [{"properties": {"c": {}}}, {"oneOf": [{"properties": {"d": {}}}]}],
        "if": {"properties": {"e": {}}}, "then": {"properties": {"f": {}}}, "else": {"properties": {"g": {}}},
        "dependentSchemas": {"a": {"properties": {"h": {}}}},
        "$defs": {"base": {"properties": {"a": {"properties": {"inner": {}}}}, "$ref": "#/$defs/more"},
            "more": {"properties": {"i": {}}}, "unused": {"properties": {"z": {}}}},
    });
    let tool = published(&schema);
    let arguments = r#"{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1}"#;
    assert_eq!(sent(layer("unknown = 'reject'"), &tool, arguments).await.as_deref(), Ok(arguments));
    let wrong = sent(layer("unknown = 'reject'"), &tool, r#"{"z":1,"inner":1}"#).await;
    assert_eq!(wrong, Err(vec![unexpected("/inner"), unexpected("/z")]));
}

#[tokio::test]
async fn the_entry_that_names_a_tool_wins_and_of_globs_the_strictest() {
    let tool = published(&json!({"properties": {"a": {}}}));
    for (config, expected) in [
        ("unknown = 'reject'\n[tools.'main/t']\nunknown = 'pass'", Some(r#"{"z":1}"#)),
        ("unknown = 'reject'\n[tools.'main/*']\nunknown = 'strip'", Some("{}")),
        ("[tools.'main/*']\nunknown = 'strip'\n[tools.'*/t']\nunknown = 'reject'", None),
        ("[tools.'main/*']\nunknown = 'reject'\n[tools.'main/t']\nunknown = 'strip'", Some("{}")),
        ("unknown = 'strip'\n[tools.'other/*']\nunknown = 'reject'", Some("{}")),
        // A schema of one's own says nothing about names.
        ("unknown = 'strip'\n[tools.'main/t']\nschema = { maxProperties = 0 }", Some("{}")),
    ] {
        let sent = sent(layer(config), &tool, r#"{"z":1}"#).await;
        assert_eq!(sent.ok().as_deref(), expected, "{config}");
    }
}

#[test]
fn what_nobody_published_cannot_be_unknown() {
    let reject = layer("unknown = 'reject'");
    let unlisted = Tool::unlisted(crate::ToolId::new("main", "t"), &crate::TierRules::default());
    assert!(ask(&reject, &Arc::new(unlisted), r#"{"z":1}"#).is_ok());
    let none = defined_tool("t", None, r#"{"name":"t"}"#);
    assert!(ask(&reject, &none, r#"{"z":1}"#).is_ok());
    // A schema that the validator does not take can still say its names.
    let odd = published(&json!({"properties": {"a": {"pattern": "(?=a)b"}}}));
    assert!(ask(&reject, &odd, r#"{"z":1}"#).is_err());
    let log = CapturedLog::default();
    let _guard = log.start();
    let torn = published(&json!({"patternProperties": {"(": {}}, "$ref": "#/nowhere"}));
    assert!(ask(&reject, &torn, r#"{"z":1}"#).is_ok() && ask(&reject, &torn, "{}").is_ok());
    assert_eq!(log.lines().len(), 2, "told once each: {:?}", log.lines());
}

#[tokio::test]
async fn what_is_removed_is_logged_by_name_only() {
    let log = CapturedLog::default();
    let guard = log.start();
    let tool = published(&closed());
    let _ = sent(layer("unknown = 'strip'"), &tool, r#"{"gone":"hunter2","a":1}"#).await;
    drop(guard);
    let lines = log.lines();
    let (level, line) = lines.iter().find(|(_, line)| line.contains("are removed")).unwrap();
    assert_eq!(*level, tracing::Level::DEBUG);
    assert!(line.contains("gone"), "{line}");
    assert!(lines.iter().all(|(_, line)| !line.contains("hunter2")), "{lines:?}");
}

#[test]
fn why_tells_what_would_go() {
    let layer = layer("unknown = 'strip'");
    let call = |arguments| Call::new(published(&closed()), Some(testing::json(arguments)));
    let explained = layer.explain(&context(), &call(r#"{"z":1,"y":2}"#)).unwrap();
    assert!(explained.allowed);
    assert_eq!(explained.rule, "validate.unknown");
    assert_eq!(explained.why, "the call goes on without y, z");
    assert_eq!(layer.explain(&context(), &call("{}")).unwrap().why, "");
    assert_eq!(layer.describe(), "unknown ones are removed");
    assert!(layer.needs_tools());
}

#[test]
fn arguments_that_are_not_named_are_invalid_whatever_the_schema_says() {
    // mcp-core answers -32603 with a dump of its parser.
    for config in ["input_schema = true", "unknown = 'reject'", "unknown = 'strip'"] {
        let config = format!("{config}\n[tools.'main/none']\nschema = {{}}");
        for schema in [json!({"type": "object", "properties": {}}), json!({"properties": {}})] {
            let tool = published(&schema);
            for odd in ["[]", r#"["hunter2"]"#, r#""hunter2""#, "7", "true", "null"] {
                let refusal = ask(&layer(&config), &tool, odd).unwrap_err();
                assert_eq!(refusal.code(), Code::InvalidArguments, "{odd}");
                assert_eq!(refusal.to_rpc().code, -32602);
                assert_eq!(
                    refusal.message(),
                    "1 validation error for call[t]\n(arguments)\n  Input should be a valid object \
                     [type=object_type]"
                );
            }
        }
    }
}

#[tokio::test]
async fn defaults_are_neither_demanded_nor_filled_in() {
    let schema = json!({"properties": {"n": {"type": "integer", "default": 5}}});
    for setting in ["input_schema = true", "unknown = 'strip'", "unknown = 'reject'"] {
        let sent = sent(layer(setting), &published(&schema), "{ }").await;
        assert_eq!(sent.as_deref(), Ok("{ }"));
    }
}

#[test]
fn all_issues_are_told_up_to_a_bound_as_text_and_as_facts() {
    let required: Vec<String> = (0..30).map(|n| format!("n{n:02}")).collect();
    let tool = published(&json!({"required": required}));
    let refusal = ask(&input_schema(), &tool, "{}").unwrap_err();
    assert!(refusal.message().starts_with("More than 20 validation errors"));
    let (name, facts) = &refusal.facts()[0];
    assert_eq!((*name, facts.as_array().unwrap().len()), ("issues", 20));
    let first =
        json!({"path": "/n00", "message": "Missing required argument", "code": "missing_argument"});
    assert_eq!(facts[0], first);
    // Of several schemas all issues too.
    let two = layer("input_schema = true\n[tools.'main/t']\nschema = { required = ['own'] }");
    let refusal = ask(&two, &published(&json!({"required": ["theirs"]})), "{}").unwrap_err();
    let told = &refusal.facts()[0].1;
    assert_eq!((&told[0]["path"], &told[1]["path"]), (&json!("/own"), &json!("/theirs")));
    assert_eq!(refusal.rule(), Some("validate.tools.\"main/t\", inputSchema"));
}

#[test]
fn deep_arguments_are_checked_or_refused_and_never_end_the_program() {
    let tree =
        published(&json!({"properties": {"x": {"$ref": "#"}}, "additionalProperties": false}));
    let nested = |levels: usize, inner: &str| {
        format!("{}{inner}{}", r#"{"x":"#.repeat(levels), "}".repeat(levels))
    };
    assert!(ask(&input_schema(), &tree, &nested(100, "{}")).is_ok());
    let wrong = ask(&input_schema(), &tree, &nested(100, r#"{"y":1}"#)).unwrap_err();
    assert_eq!(wrong.code(), Code::InvalidArguments);
    // A client's line is at most 128 levels deep; these come by another door.
    let limits = toolgate_wire::Limits { max_depth: usize::MAX, ..Default::default() };
    let deep = toolgate_wire::Json::parse(nested(20_000, "{}"), &limits).unwrap();
    let refusal = input_schema().judge(&Call::new(tree, Some(deep))).unwrap_err();
    assert!(refusal.message().contains("too many levels"), "{}", refusal.message());
}

#[test]
fn a_schema_is_compiled_once_for_all_calls() {
    let (layer, tool) = (layer("input_schema = true\nunknown = 'reject'"), published(&closed()));
    let learnt = || layer.published.as_ref().unwrap().of(&tool).unwrap();
    let first = learnt();
    for _ in 0..3 {
        assert!(ask(&layer, &tool, r#"{"a":1}"#).is_ok());
        assert!(Arc::ptr_eq(&first, &learnt()));
    }
}
