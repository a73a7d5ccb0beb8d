//! Validate: what fits passes as it came, what does not is told without a value, and no schema does harm.

mod results;
mod unknown;

use std::{fs, sync::Arc};

use serde_json::{Value, json};

use super::{
    super::cost::{Cost, UnboundedCost},
    *,
};
use crate::{
    Chain, Tier, Tool, ToolResult,
    middleware::{error_results::ErrorResults, retry::Retry, retry::RetryConfig},
    random::Random,
    testing::{self, CapturedLog, ScriptedServer, context, defined_tool, result_value, tool},
};

fn config(text: &str) -> ValidateConfig {
    toml::from_str(text).unwrap()
}

fn layer(text: &str) -> Validate {
    Validate::new(&config(text), Path::new(".")).unwrap()
}

/// The example of the documentation of `MetaMCP`: a file under one folder, and a request with two methods.
fn metamcp_example() -> Validate {
    layer(
        r#"
        [tools."main/file_read"]
        schema = { type = "object", required = ["path"], properties = { path = { type = "string", pattern = "^/allowed/" } } }
        [tools."main/http_request".schema]
        type = "object"
        required = ["url", "method"]
        properties.url = { type = "string", format = "uri" }
        properties.method = { enum = ["GET", "POST"] }
        "#,
    )
}

fn published(schema: &Value) -> Arc<Tool> {
    let definition = json!({"name": "t", "inputSchema": schema}).to_string();
    defined_tool("t", Some(Tier::Readonly), &definition)
}

fn input_schema() -> Validate {
    layer("input_schema = true")
}

fn ask(layer: &Validate, tool: &Arc<Tool>, arguments: &str) -> Result<(), Failure> {
    layer.judge(&Call::new(Arc::clone(tool), Some(testing::json(arguments)))).map(|_| ())
}

fn told(layer: &Validate, tool: &Arc<Tool>, arguments: &str) -> String {
    ask(layer, tool, arguments).unwrap_err().message().to_owned()
}

#[test]
fn the_seeds_example() {
    let (layer, read, http) =
        (metamcp_example(), tool("file_read", None), tool("http_request", None));
    assert!(ask(&layer, &read, r#"{"path":"/allowed/x"}"#).is_ok());
    assert!(ask(&layer, &http, r#"{"url":"https://example.com/","method":"GET"}"#).is_ok());
    assert!(ask(&layer, &tool("other", None), r#"{"path":1}"#).is_ok());
    assert_eq!(
        told(&layer, &read, r#"{"path":"/etc/shadow"}"#),
        "1 validation error for call[file_read]\n/path\n  String should match pattern '^/allowed/' \
         [type=string_pattern_mismatch]"
    );
    let refusal = ask(&layer, &http, r#"{"url":"not a url","method":"PUT"}"#).unwrap_err();
    let (mut lines, message) = (refusal.message().lines(), refusal.message());
    assert_eq!(lines.next(), Some("2 validation errors for call[http_request]"));
    assert!(message.contains("\n/url\n  Input should be a valid uri [type=format]"), "{message}");
    assert!(message.contains("\n/method\n  Input should be one of \"GET\", \"POST\" [type=enum]"));
    assert_eq!(refusal.code(), Code::InvalidArguments);
    assert_eq!(refusal.error_type(), "ValidationError");
    assert_eq!(refusal.rule(), Some("validate.tools.\"main/http_request\""));
    let none = layer.judge(&Call::new(read, None)).unwrap_err();
    assert!(none.message().ends_with("/path\n  Missing required argument [type=missing_argument]"));
}

#[test]
fn every_rule_has_its_words_and_no_value_is_ever_repeated() {
    let secret = "hunter2hunter2";
    for (schema, arguments, words) in [
        (
            json!({"a": {"type": "integer"}}),
            json!({"a": secret}),
            "Input should be a valid integer [type=integer_type]",
        ),
        (
            json!({"a": {"type": ["integer", "null"]}}),
            json!({"a": secret}),
            "Input should be one of the types null, integer [type=type]",
        ),
        (json!({"a": {"const": 5}}), json!({"a": secret}), "Input should be 5 [type=const]"),
        (
            json!({"a": {"enum": ["x"]}}),
            json!({"a": {"deep": secret}}),
            "Input should be one of \"x\" [type=enum]",
        ),
        (
            json!({"a": {"minLength": 99}}),
            json!({"a": secret}),
            "String should have at least 99 characters [type=string_too_short]",
        ),
        (
            json!({"a": {"maxLength": 1}}),
            json!({"a": secret}),
            "String should have at most 1 characters [type=string_too_long]",
        ),
        (
            json!({"a": {"minimum": 5}}),
            json!({"a": 4}),
            "Input should be greater than or equal to 5 [type=greater_than_equal]",
        ),
        (
            json!({"a": {"exclusiveMaximum": 5}}),
            json!({"a": 5}),
            "Input should be less than 5 [type=less_than]",
        ),
        (
            json!({"a": {"multipleOf": 3}}),
            json!({"a": 5}),
            "Input should be a multiple of 3 [type=multiple_of]",
        ),
        (
            json!({"a": {"uniqueItems": true}}),
            json!({"a": [secret, secret]}),
            "List should have no item twice [type=unique_items]",
        ),
        (
            json!({"a": {"maxItems": 1}}),
            json!({"a": [secret, secret]}),
            "List should have at most 1 items [type=too_long]",
        ),
        (
            json!({"a": {"anyOf": [{"type": "null"}, {"type": "integer"}]}}),
            json!({"a": secret}),
            "Input fits none of the allowed forms [type=no_form_fits]",
        ),
        (
            json!({"a": {"oneOf": [true, true]}}),
            json!({"a": secret}),
            "Input fits several forms of which it may fit one only [type=several_forms_fit]",
        ),
        (
            json!({"a": {"not": {"type": "string"}}}),
            json!({"a": secret}),
            "Input does not fit `not` of the schema [type=not]",
        ),
        (json!({"a": false}), json!({"a": secret}), "Nothing is allowed here [type=not_allowed]"),
        (
            json!({"a": {"contains": {"type": "null"}}}),
            json!({"a": [secret]}),
            "Input does not fit `contains` of the schema [type=contains]",
        ),
        (
            json!({"a": {"prefixItems": [true], "unevaluatedItems": false}}),
            json!({"a": [1, secret]}),
            "[type=",
        ),
        (
            json!({"a": {"propertyNames": {"maxLength": 1}}}),
            json!({"a": {"xx": secret}}),
            "A name in it is not allowed [type=property_names]",
        ),
    ] {
        let tool = published(&json!({"type": "object", "properties": schema}));
        let message = told(&input_schema(), &tool, &arguments.to_string());
        assert!(message.starts_with("1 validation error for call[t]\n/a"), "{message}");
        assert!(message.ends_with(words) || words == "[type=", "{message}");
        assert!(!message.contains("hunter2"), "{message}");
    }
}

#[test]
fn names_are_told_where_they_are_missing_or_not_expected() {
    let tool = published(&json!({
        "type": "object",
        "properties": {"in": {"type": "object", "required": ["a/b~"], "additionalProperties": false, "properties": {"a/b~": {}}}},
        "additionalProperties": false,
    }));
    assert_eq!(
        told(&input_schema(), &tool, r#"{"entr":1,"wait_for_previous":true}"#),
        "2 validation errors for call[t]\n/entr\n  Unexpected keyword argument \
         [type=unexpected_keyword_argument]\n/wait_for_previous\n  Unexpected keyword argument \
         [type=unexpected_keyword_argument]"
    );
    let nested = told(&input_schema(), &tool, r#"{"in":{"x":1}}"#);
    assert!(nested.contains("\n/in/a~1b~0\n  Field required [type=missing]"), "{nested}");
    assert!(nested.contains("\n/in/x\n  Extra inputs are not permitted [type=extra_forbidden]"));
}

#[test]
fn there_is_an_end_to_what_is_told() {
    let tool = published(&json!({"additionalProperties": {"type": "null"}}));
    let many: serde_json::Map<String, Value> =
        (0..500).map(|at| (format!("{at}{}", "n".repeat(5000)), json!(1))).collect();
    let message = told(&input_schema(), &tool, &Value::Object(many).to_string());
    assert!(message.starts_with("More than 20 validation errors for call[t]\n"));
    assert_eq!(message.lines().count(), 1 + 2 * MAX_ISSUES);
    assert!(message.len() < 8_000, "{}", message.len());
    // A name cannot look like a line of ours.
    let message = told(&input_schema(), &tool, r#"{"x\n1 validation error\u2028y":1}"#);
    assert_eq!(message.lines().count(), 3, "{message}");
}

#[test]
fn what_is_checked_is_what_the_tool_reads() {
    let (layer, read) = (metamcp_example(), tool("file_read", None));
    for twice in [
        r#"{"path":"/allowed/x","path":"/etc/shadow"}"#,
        r#"{"path":"/etc/shadow","path":"/allowed/x"}"#,
        r#"{"path":"/allowed/x","p\u0061th":"/etc/shadow"}"#,
    ] {
        let message = told(&layer, &read, twice);
        assert_eq!(
            message,
            "1 validation error for call[file_read]\n/path\n  Given more than once \
             [type=duplicate_argument]"
        );
        assert!(ask(&layer, &tool("other", None), twice).is_ok(), "no schema, no business of ours");
    }
    for odd in [r#"{"path":"/allowed/\ud800"}"#, r#"{"path":"/allowed/","n":1e400}"#] {
        assert!(told(&layer, &read, odd).contains("(arguments)\n  Holds a number"), "{odd}");
    }
}

#[tokio::test]
async fn what_fits_passes_as_it_came_and_what_does_not_never_runs() {
    let server = ScriptedServer::new(|_| ToolResult::text("here").into());
    let chain = Chain::builder().layer(ErrorResults).layer(metamcp_example()).build().unwrap();
    assert!(!chain.needs_tools() && !chain.sees_listings());
    let read_file = tool("file_read", None);
    let fine = testing::call(&chain, &read_file, r#"{ "path" : "/allowed/x" }"#, &server).await;
    assert!(fine.failure().is_none());
    let outcome = testing::call(&chain, &read_file, r#"{"path":"path"}"#, &server).await;
    assert_eq!(server.calls(), 1);
    assert_eq!(outcome.executed(), crate::Executed::No);
    let result = result_value(&outcome);
    assert_eq!(result["_meta"]["code"], "INVALID_ARGUMENTS");
    assert_eq!(result["_meta"]["error_type"], "ValidationError");
    // A value that is also a word of the message does not make a riddle of it.
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("\n/path\n  String should match pattern"), "{text}");
}

#[tokio::test]
async fn unexpected_names_come_with_a_suggestion() {
    let server = ScriptedServer::new(|_| ToolResult::text("here").into());
    let chain = Chain::builder().layer(ErrorResults).layer(input_schema()).build().unwrap();
    assert!(chain.needs_tools());
    let tool = published(&json!({"properties": {"enter": {}}, "additionalProperties": false}));
    let outcome = testing::call(&chain, &tool, r#"{"entr":true}"#, &server).await;
    let suggestion = result_value(&outcome)["_meta"]["suggestion"].clone();
    assert_eq!(
        suggestion,
        "Remove or correct the unrecognized argument(s): entr. Did you mean `enter`? The tool takes: enter."
    );
}

#[test]
fn all_schemas_that_cover_a_tool_must_fit() {
    let layer = layer(
        r#"
        input_schema = true
        [tools."main/*"]
        schema = { maxProperties = 2 }
        [tools."*/t"]
        schema = { required = ["b"] }
        "#,
    );
    let tool = published(&json!({"required": ["a"]}));
    assert!(ask(&layer, &tool, r#"{"a":1,"b":1}"#).is_ok());
    for (wrong, rule) in [
        (r#"{"b":1}"#, "inputSchema"),
        (r#"{"a":1}"#, "validate.tools.\"*/t\""),
        (r#"{"a":1,"b":1,"c":1}"#, "validate.tools.\"main/*\""),
    ] {
        assert_eq!(ask(&layer, &tool, wrong).unwrap_err().rule(), Some(rule));
    }
    let call = |arguments: &str| Call::new(Arc::clone(&tool), Some(testing::json(arguments)));
    let explained = layer.explain(&context(), &call(r#"{"a":1,"b":1}"#)).unwrap();
    assert!(explained.allowed);
    assert_eq!(explained.rule, "validate.tools.\"*/t\", validate.tools.\"main/*\", inputSchema");
    let explained = layer.explain(&context(), &call("{}")).unwrap();
    assert!(!explained.allowed && explained.why.contains("Missing required argument"));
    assert_eq!(metamcp_example().explain(&context(), &call("{}")), None);
}

#[test]
fn a_definition_that_changed_is_compiled_again() {
    let layer = input_schema();
    assert!(ask(&layer, &published(&json!({"required": ["a"]})), "{}").is_err());
    assert!(ask(&layer, &published(&json!({"required": []})), "{}").is_ok());
    assert!(ask(&layer, &published(&json!({"required": ["a"]})), "{}").is_err());
}

#[test]
fn a_schema_that_cannot_be_used_is_told_once_and_passes_unless_strict() {
    let wrong = [
        json!({"type": "objekt"}),
        json!({"pattern": "(?=a)b"}),
        json!({"$ref": "http://127.0.0.1:1/x.json"}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"$ref": "/etc/passwd"}),
        json!({"$ref": "#/$defs/nothing"}),
        json!({"$schema": "http://example.com/mine"}),
        json!({"properties": {"a": {"pattern": "(a{1000}){1000}"}}}),
        json!({"$ref": "#"}),
        json!({"properties": {"a": {"$id": "http://example.com/other"}}}),
        json!({"description": "x".repeat(300_000)}),
        json!(7),
    ];
    for schema in wrong {
        let log = CapturedLog::default();
        let _guard = log.start();
        let (lax, tool) = (input_schema(), published(&schema));
        assert!(ask(&lax, &tool, "{}").is_ok(), "{schema}");
        assert!(ask(&lax, &tool, r#"{"a":1}"#).is_ok());
        assert_eq!(log.lines().len(), 1, "{:?}", log.lines());
        let strict = layer("input_schema = true\nstrict = true");
        let refusal = ask(&strict, &tool, "{}").unwrap_err();
        assert_eq!(
            refusal.message(),
            "The arguments of 't' cannot be checked: its input schema cannot be used"
        );
    }
    let strict = layer("input_schema = true\nstrict = true");
    let no_schema = defined_tool("t", None, r#"{"name":"t"}"#);
    assert!(ask(&strict, &no_schema, "{}").is_err());
    let unlisted =
        Arc::new(Tool::unlisted(crate::ToolId::new("main", "t"), &crate::TierRules::default()));
    assert_eq!(ask(&strict, &unlisted, "{}").unwrap_err().code(), Code::UnknownTool);
    assert!(ask(&input_schema(), &unlisted, "{}").is_ok());
}

/// `levels` schemas, each of which leads to the next one twice.
fn doubling(levels: usize, twice: impl Fn(Value) -> Value) -> Value {
    let mut defs = serde_json::Map::new();
    for at in 0..levels {
        defs.insert(at.to_string(), twice(json!({"$ref": format!("#/$defs/{}", at + 1)})));
    }
    defs.insert(levels.to_string(), json!({"type": "string"}));
    json!({"$ref": "#/$defs/0", "$defs": defs})
}

#[test]
fn no_schema_makes_more_work_than_one_can_wait_for() {
    // Two to the power of forty, if anyone tried.
    let same = doubling(40, |next| json!({"allOf": [next.clone(), next]}));
    assert!(Cost::of(&same).is_err());
    assert!(ask(&input_schema(), &published(&same), "{}").is_ok());

    let deeper = doubling(
        40,
        |next| json!({"allOf": [{"properties": {"x": next.clone()}}, {"properties": {"x": next}}]}),
    );
    let tool = published(&deeper);
    let deep = format!("{}1{}", r#"{"x":"#.repeat(40), "}".repeat(40));
    // The caller chose how deep they are.
    assert!(told(&input_schema(), &tool, &deep).ends_with("cannot be checked: they are too many"));
    let strict = layer("input_schema = true\nstrict = true");
    assert!(told(&strict, &tool, &deep).ends_with("cannot be checked: they are too many"));
    assert!(ask(&strict, &tool, r#"{"x":{"x":{}}}"#).is_ok(), "shallow ones are");
    assert!(ask(&strict, &tool, r#"{"x":1}"#).is_ok());

    let elements = doubling(40, |next| json!({"items": {"anyOf": [next.clone(), next]}}));
    let deep = format!(r#"{{"a":{}1{}}}"#, "[".repeat(40), "]".repeat(40));
    let tool = published(
        &json!({"properties": {"a": elements["$defs"]["0"]}, "$defs": elements["$defs"]}),
    );
    assert!(told(&strict, &tool, &deep).ends_with("they are too many"));
}

#[test]
fn ordinary_schemas_cost_what_they_should() {
    let tree = json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "left": {"$ref": "#"}, "right": {"$ref": "#"},
            "children": {"type": "array", "items": {"$ref": "#"}}},
    });
    let cost = Cost::of(&tree).unwrap();
    assert!(cost.allows(100_000, 100), "a tree is looked at once, however deep");
    assert!(!cost.allows(u64::MAX, 3));
    assert!(!cost.allows(1, 1000));
    assert_eq!(
        Cost::of(&json!({"$anchor": "a", "$ref": "#a"})).unwrap_err(),
        UnboundedCost::Reference("#a".to_owned())
    );
    assert_eq!(Cost::of(&json!({"anyOf": [{"$ref": "#"}]})).unwrap_err(), UnboundedCost::Nested);
    let wide: Vec<Value> = (0..6000).map(|at| json!({"const": at})).collect();
    assert_eq!(Cost::of(&json!({"anyOf": wide})).unwrap_err(), UnboundedCost::Large);
    assert!(Cost::of(&json!(true)).unwrap().allows(10, 3));
}

#[test]
fn arguments_of_any_shape_are_read_as_they_are() {
    let mut dice = Random::new(11);
    for _ in 0..2000 {
        let text = dice.json(80, 4);
        let json = testing::json(text.clone());
        match (arguments::read(Some(&json)), json.to_value()) {
            (Ok(arguments), Ok(value)) => {
                assert_eq!(arguments.value, value, "{text}");
                assert!(arguments.count >= 1 && arguments.depth <= 4);
            }
            (read, value) => assert_eq!(read.is_err(), value.is_err(), "{text}"),
        }
    }
}

#[test]
fn what_cannot_work_refuses_to_start() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("fine.json"), r#"{"required":["a"]}"#).unwrap();
    fs::write(folder.path().join("torn.json"), r#"{"required":"#).unwrap();
    let build = |text: &str| Validate::new(&config(text), folder.path());
    let from_file = build("[tools.'main/t']\nschema_file = 'fine.json'").unwrap();
    assert!(ask(&from_file, &tool("t", None), "{}").is_err());
    for (wrong, why) in [
        ("[tools.'main/t']\nschema_file = 'torn.json'", "torn.json`: EOF while parsing"),
        ("[tools.'main/t']\nschema_file = 'none.json'", "none.json`: No such file"),
        (
            "[tools.'main/t']\nschema = { type = 'objekt' }",
            "the schema of `validate.tools.\"main/t\"` is refused: \"objekt\"",
        ),
        ("[tools.'main/t']\nschema = { pattern = '(?=x)' }", "is refused"),
        ("[tools.'main/t']\nschema = { '$ref' = 'http://127.0.0.1:1/x' }", "is refused"),
        ("[tools.'main/t']\nschema = {}\nschema_file = 'fine.json'", "and not both"),
        ("[tools.'main/t']", "needs either `schema` or `schema_file`"),
        ("[tools.'t']\nschema = {}", "`t` does not select tools"),
        ("[tools.'main/t']\nschema = {}\n[tools.'main/u']\nschema = 7", "is refused"),
        ("strict = true\n[tools.'main/t']\nschema = {}", "`validate.strict` needs"),
        ("", "checks nothing"),
    ] {
        let told = build(wrong).unwrap_err().to_string();
        assert!(told.contains(why), "{wrong}: {told}");
    }
    assert!(toml::from_str::<ValidateConfig>("input_schemas = true").is_err());
    assert!(toml::from_str::<ValidateConfig>("[tools.'a/b']\nschemas = {}").is_err());
}

#[test]
fn its_place_in_the_chain() {
    let wrong = Chain::builder().layer(metamcp_example()).layer(ErrorResults).build();
    assert!(wrong.is_err());
    let retry = Retry::new(RetryConfig::default());
    assert!(Chain::builder().layer(retry).layer(metamcp_example()).build().is_err());
    assert_eq!(metamcp_example().describe(), "arguments fit 2 schemas of the config");
    let all = "input_schema = true\nstrict = true\n[tools.'main/t']\nschema = {}";
    assert_eq!(
        layer(all).describe(),
        "arguments fit published schemas, strictly and 1 schema of the config"
    );
}
