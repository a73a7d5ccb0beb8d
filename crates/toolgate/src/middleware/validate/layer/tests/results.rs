//! Results that must fit what their tool published about them.

use super::*;
use crate::{Executed, Outcome, registry::Class};

fn answering_tool(output: &Value) -> Arc<Tool> {
    let definition = json!({"name": "t", "inputSchema": {}, "outputSchema": output}).to_string();
    defined_tool("t", Some(Tier::Readonly), &definition)
}

fn rows() -> Value {
    json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"},
        "rows": {"type": "array", "items": {"properties": {"ok": {}}, "additionalProperties": false}}}})
}

async fn answered(layer: Validate, tool: &Arc<Tool>, result: &str) -> Outcome {
    let server = testing::answering(testing::json(result));
    let chain = Chain::builder().layer(ErrorResults).layer(layer).build().unwrap();
    testing::call(&chain, tool, "{}", &server).await
}

fn enforce() -> Validate {
    layer("output = 'enforce'")
}

#[tokio::test]
async fn what_fits_passes_as_it_came_and_what_does_not_is_withheld() {
    let tool = answering_tool(&rows());
    let fine = r#"{"content":[], "structuredContent" : {"n":1e0,"rows":[{}]}}"#;
    let outcome = answered(enforce(), &tool, fine).await;
    assert_eq!(outcome.result().unwrap().json().as_str(), fine);
    assert_eq!(outcome.class(), Class::Ok);

    let wrong = r#"{"content":[{"type":"text","text":"hunter2"}],"structuredContent":{"rows":[{"hunter":"hunter2"}]}}"#;
    let outcome = answered(enforce(), &tool, wrong).await;
    assert_eq!((outcome.class(), outcome.executed()), (Class::ToolError, Executed::Yes));
    assert_eq!(outcome.code(), Some(Code::OutputInvalid));
    let result = result_value(&outcome);
    assert_eq!(
        result["content"][0]["text"],
        "The result of 't' does not fit the output schema that the tool publishes, and is withheld. The \
         tool did run.\n/structuredContent/n\n  Field required [type=missing]\n\
         /structuredContent/rows/0/hunter\n  Extra inputs are not permitted [type=extra_forbidden]\nDo \
         not call it again to mend this: it would run again. Report it to the operator."
    );
    assert_eq!((&result["isError"], &result["_meta"]["expected"]), (&json!(true), &json!(false)));
    assert_eq!(result["_meta"]["rule"], "outputSchema");
    let issues = result["_meta"]["issues"].as_array().unwrap();
    assert_eq!(issues.len(), 2);
    assert!(result.get("structuredContent").is_none());
    assert!(!result.to_string().contains("hunter2"), "{result}");
}

#[tokio::test]
async fn structured_content_that_was_promised_must_be_there_once_and_readable() {
    let tool = answering_tool(&rows());
    for (result, place, code) in [
        (r#"{"content":[]}"#, "/structuredContent", "missing"),
        ("{}", "/structuredContent", "missing"),
        (r#"{"structuredContent":null}"#, "/structuredContent", "object_type"),
        (r#"{"structuredContent":[1]}"#, "/structuredContent", "object_type"),
        (r#"{"structuredContent":{"n":1,"n":"x"}}"#, "/structuredContent/n", "duplicate_argument"),
        (
            r#"{"structuredContent":{"n":1},"structuredContent":{}}"#,
            "/structuredContent",
            "duplicate_argument",
        ),
        (r#"{"structuredContent":{"n":1e999}}"#, "/structuredContent", "unreadable"),
    ] {
        let outcome = answered(enforce(), &tool, result).await;
        let issue = &result_value(&outcome)["_meta"]["issues"][0];
        assert_eq!((&issue["path"], &issue["code"]), (&json!(place), &json!(code)), "{result}");
    }
}

#[tokio::test]
async fn only_finished_successes_of_tools_that_promised_something_are_looked_at() {
    let (tool, plain) = (answering_tool(&rows()), published(&json!({})));
    for (tool, result) in [
        (&tool, r#"{"content":[],"isError":true}"#),
        (&tool, r#"{"resultType":"input_required","inputRequests":{}}"#),
        (&tool, r#"{"resultType":"task","task":{"taskId":"1"}}"#),
        (&tool, r#"{"resultType":"of_a_later_protocol","content":[]}"#),
        (&tool, r#"{"task":{"taskId":"1"}}"#),
        (&plain, r#"{"content":[]}"#),
        (&plain, r#"{"structuredContent":7}"#),
    ] {
        let log = CapturedLog::default();
        let guard = log.start();
        let outcome = answered(enforce(), tool, result).await;
        drop(guard);
        assert_eq!(outcome.result().unwrap().json().as_str(), result);
        assert!(log.lines().is_empty(), "{:?}", log.lines());
    }
    let complete = r#"{"resultType":"complete","content":[]}"#;
    assert_eq!(answered(enforce(), &tool, complete).await.code(), Some(Code::OutputInvalid));
    let failing = testing::failing(Failure::new(Code::ServerUnavailable, "down"));
    let chain = testing::chain(enforce());
    let outcome = testing::call(&chain, &tool, "{}", &failing).await;
    assert_eq!(outcome.code(), Some(Code::ServerUnavailable));
}

#[tokio::test]
async fn warn_tells_once_for_each_definition_and_names_no_value() {
    let log = CapturedLog::default();
    let _guard = log.start();
    let layer = Arc::new(layer("output = 'warn'"));
    let chain = testing::chain(Arc::clone(&layer));
    let wrong = r#"{"structuredContent":{"n":"hunter2"}}"#;
    let server = testing::answering(testing::json(wrong));
    let other = answering_tool(&json!({"required": ["m"]}));
    for tool in [answering_tool(&rows()), answering_tool(&rows()), other] {
        for _ in 0..3 {
            let outcome = testing::call(&chain, &tool, "{}", &server).await;
            assert_eq!(outcome.result().unwrap().json().as_str(), wrong, "it passes as it came");
        }
    }
    let lines: Vec<_> = log.lines().into_iter().map(|(_, line)| line).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("/structuredContent/n (integer_type)"), "{lines:?}");
    assert!(lines[1].contains("/structuredContent/m (missing)"), "{lines:?}");
    assert!(!lines.concat().contains("hunter2"));
    assert_eq!(layer.describe(), "results that do not fit are logged");
}

#[tokio::test]
async fn a_schema_that_cannot_be_used_passes_unless_strict() {
    let fine = r#"{"structuredContent":{}}"#;
    for schema in [
        json!({"type": "objekt"}),
        json!({"$ref": "http://127.0.0.1:1/x.json"}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"description": "x".repeat(300_000)}),
        json!({"$ref": "#"}),
        json!(7),
    ] {
        let log = CapturedLog::default();
        let guard = log.start();
        let tool = answering_tool(&schema);
        let outcome = answered(enforce(), &tool, fine).await;
        assert_eq!(outcome.class(), Class::Ok, "{schema}");
        drop(guard);
        assert!(log.lines().iter().any(|(_, line)| line.contains("outputSchema cannot be used")));
        let strict = "input_schema = true\nstrict = true\noutput = 'enforce'";
        let outcome = answered(layer(strict), &tool, fine).await;
        let failure = outcome.failure().unwrap();
        assert_eq!((failure.code(), failure.rule()), (Code::OutputInvalid, Some("strict")));
        assert_eq!(failure.executed(), Executed::Yes);
    }
}

#[tokio::test]
async fn no_schema_of_results_makes_more_work_than_one_can_wait_for() {
    let twice = |next: Value| json!({"allOf": [{"properties": {"x": next.clone()}}, {"properties": {"x": next}}]});
    let tool = answering_tool(&doubling(40, twice));
    let deep = format!("{}1{}", r#"{"x":"#.repeat(40), "}".repeat(40));
    let result = format!(r#"{{"structuredContent":{deep}}}"#);
    let outcome = answered(enforce(), &tool, &result).await;
    assert!(outcome.failure().unwrap().message().contains("too many values"));
    assert_eq!(answered(layer("output = 'warn'"), &tool, &result).await.class(), Class::Ok);
    let strict = "input_schema = true\nstrict = true\noutput = 'enforce'";
    let outcome = answered(layer(strict), &tool, &result).await;
    assert!(outcome.failure().unwrap().message().contains("too many values"));
}

#[test]
fn off_is_off() {
    assert!(input_schema().results.is_none());
    assert!(enforce().needs_tools() && enforce().published.is_none());
    assert_eq!(enforce().explain(&context(), &Call::new(answering_tool(&rows()), None)), None);
    for wrong in ["output = true", "output = 'enforced'", "unknown = 'ignore'"] {
        assert!(toml::from_str::<ValidateConfig>(wrong).is_err(), "{wrong}");
    }
}
