//! Response limit: nothing over it leaves, what leaves is valid, and it says what is missing.

mod shapes;

use std::sync::Arc;

use toolgate_wire::{Json, Kind};

use super::*;
use crate::{
    Chain, Executed, Reply, Tool,
    middleware::error_results::ErrorResults,
    random::Random,
    registry::Class,
    testing::{self, answering, chain, context, defined_tool, failing, json, tool},
};

fn limit(bytes: usize, keep: Keep) -> Chain {
    chain(ResponseLimit::new(ResponseLimitConfig { bytes, keep, tools: Vec::new() }))
}

/// A tool that promises what its structured content looks like.
fn strict() -> Arc<Tool> {
    defined_tool("t", None, r#"{"name":"t","outputSchema":{"type":"object"}}"#)
}

async fn through(chain: &Chain, result: &str) -> Outcome {
    let server = answering(json(result));
    testing::call(chain, &strict(), "{}", &server).await
}

/// The result after a limit that keeps the tail, as text and as a value.
async fn cut(bytes: usize, result: &str) -> Json {
    let outcome = through(&limit(bytes, Keep::Tail), result).await;
    assert_eq!(outcome.failure().map(Failure::code), None);
    let json = outcome.result().unwrap().json().clone();
    assert!(json.len() <= bytes, "{} is over {bytes}", json.len());
    json
}

fn text(result: &Json, block: usize) -> String {
    let blocks = result.get("content").unwrap().array().unwrap();
    blocks[block].get("text").unwrap().text().unwrap().into_owned()
}

fn with_text(text: &str) -> String {
    serde_json::json!({"content": [{"type": "text", "text": text}]}).to_string()
}

/// The number in the header, and the text without it.
fn header(text: &str) -> (usize, &str) {
    let rest = text.strip_prefix("[... truncated ").expect(text);
    let (number, kept) = rest.split_once(" bytes ...]\n").expect(text);
    (number.parse().unwrap(), kept)
}

#[tokio::test]
async fn what_is_under_the_limit_leaves_as_the_bytes_that_came() {
    let result = with_text(&"x".repeat(2000)).replace(':', " : ");
    let length = result.len();
    for (bytes, untouched) in [(length, true), (length + 1, true), (length - 1, false)] {
        let (layer, came) = (limit(bytes, Keep::Tail), json(result.as_str()));
        let server = testing::ScriptedServer::new(move |_| {
            let outcome = Outcome::answered(ToolResult::new(came.clone()));
            outcome.with_origin("the line".into())
        });
        let outcome = testing::call(&layer, &strict(), "{}", &server).await;
        let same = outcome.result().unwrap().json().as_str() == result;
        assert_eq!(same, untouched);
        let verbatim = matches!(outcome.into_reply(), Reply::Verbatim(line) if line == "the line");
        assert_eq!(verbatim, untouched);
    }
}

#[tokio::test]
async fn the_tail_is_kept_whole_lines_and_the_header_counts_exactly() {
    let lines: Vec<String> = (0..1000).map(|n| format!("line {n:04} é漢😀\n")).collect();
    let whole = lines.concat();
    let result = cut(5000, &with_text(&whole)).await;
    let told = text(&result, 0);
    let (dropped, kept) = header(&told);
    assert_eq!(dropped + kept.len(), whole.len());
    assert!(whole.ends_with(kept));
    assert!(kept.starts_with("line "), "no line is cut in two: {kept:.20}");
    assert!(kept.len() > 4000, "the room is used: {}", kept.len());
    let flag = result.get("_meta").unwrap().get(shrink::FLAG).unwrap();
    assert_eq!(flag.get("bytes").unwrap().u64(), Some(dropped as u64));
}

#[tokio::test]
async fn the_head_is_kept_if_the_setting_says_so() {
    let lines: Vec<String> = (0..1000).map(|n| format!("line {n}\n")).collect();
    let whole = lines.concat();
    let outcome = through(&limit(2000, Keep::Head), &with_text(&whole)).await;
    let told = text(outcome.result().unwrap().json(), 0);
    assert!(told.starts_with("line 0\nline 1\n"));
    let (kept, header) = told.rsplit_once('\n').unwrap();
    let dropped = whole.len() - kept.len();
    assert_eq!(header, format!("[... truncated {dropped} bytes ...]"));
}

#[tokio::test]
async fn the_limit_holds_for_what_crosses_the_wire_twice() {
    // 14,000 lines of 101 bytes, as text and structured: libtmux-mcp answers 1,009,996 bytes,
    // begins within a line and drops the structured content.
    let lines: Vec<String> = (0..14_000).map(|n| format!("{n:0>100}\n")).collect();
    let result = serde_json::json!({
        "content": [{"type": "text", "text": lines.concat()}],
        "structuredContent": {"result": lines.concat()},
        "_meta": {"fastmcp": {"wrap_result": true}},
        "isError": false,
    });
    let result = cut(DEFAULT_BYTES, &result.to_string()).await;
    assert!(result.len() > DEFAULT_BYTES * 9 / 10, "{}", result.len());
    let structured = result.get("structuredContent").unwrap().get("result").unwrap();
    for told in [text(&result, 0), structured.text().unwrap().into_owned()] {
        let (dropped, kept) = header(&told);
        assert_eq!(dropped + kept.len(), lines.concat().len());
        assert_eq!(kept.lines().next().map(str::len), Some(100));
        assert!(kept.ends_with("13999\n"));
    }
    assert_eq!(result.get("isError").unwrap().bool(), Some(false));
    let meta = result.get("_meta").unwrap();
    assert_eq!(meta.get("fastmcp").unwrap().as_str(), r#"{"wrap_result":true}"#);
}

#[tokio::test]
async fn errors_stay_errors_and_keep_their_way_out() {
    let both = Chain::builder()
        .layer(ResponseLimit::new(ResponseLimitConfig {
            bytes: 2000,
            ..ResponseLimitConfig::default()
        }))
        .layer(ErrorResults);
    let both = both.build().unwrap();
    let failure = Failure::tool("Huge", "h".repeat(5000)).suggest("Call it with less.");
    let outcome = testing::call(&both, &strict(), "{}", &failing(failure)).await;
    assert_eq!(outcome.class(), Class::ToolError);
    assert!(outcome.result().unwrap().is_error());
    let result = outcome.result().unwrap().json();
    assert!(result.len() <= 2000);
    assert_eq!(result.get("isError").unwrap().bool(), Some(true));
    assert!(text(result, 0).ends_with("hhh\nCall it with less."));
    let meta = result.get("_meta").unwrap().to_value().unwrap();
    assert_eq!(meta["error_type"], "Huge");
    assert_eq!(meta["expected"], true);
    assert_eq!(meta["suggestion"], "Call it with less.");
}

#[tokio::test]
async fn a_failure_that_cannot_be_shortened_stays_that_failure() {
    let rule = "r".repeat(5000);
    let failure = Failure::new(Code::TierDenied, "no").by("custom", rule);
    let both = Chain::builder()
        .layer(ResponseLimit::new(ResponseLimitConfig {
            bytes: 2000,
            ..ResponseLimitConfig::default()
        }))
        .layer(ErrorResults);
    let both = both.build().unwrap();
    let outcome = testing::call(&both, &strict(), "{}", &failing(failure)).await;
    assert_eq!(outcome.class(), Class::Denied);
    assert_eq!(outcome.code(), Some(Code::TierDenied));
    assert_eq!(outcome.executed(), Executed::No);
    let result = testing::result_value(&outcome);
    assert_eq!(result["_meta"]["code"], "RESPONSE_TOO_LARGE");
    assert_eq!(result["isError"], true);
}

#[tokio::test]
async fn unknown_members_and_spellings_survive() {
    let result = format!(
        r#"{{"content":[{{"type":"text","text":"{}","annotations":{{"priority":1.50}}}}],
        "x-new":[1e400, 1.0],"structuredContent":{{"n":1e400,"m":-0.10,"s":"{}"}},"_meta":{{"a":1E2}}}}"#,
        "a".repeat(3000),
        "b".repeat(3000),
    );
    let short = cut(2000, &result).await;
    let text = short.as_str();
    for kept in [r#""priority":1.50"#, "[1e400, 1.0]", r#""n":1e400"#, r#""m":-0.10"#, r#""a":1E2"#]
    {
        assert!(text.contains(kept), "{kept} is not in {text}");
    }
}

#[tokio::test]
async fn one_header_tells_of_several_blocks() {
    let result = serde_json::json!({"content": [
        {"type": "text", "text": "first ".repeat(1000)},
        {"type": "text", "text": "second ".repeat(1000)},
        {"type": "resource", "resource": {"uri": "a:b", "text": "third ".repeat(100)}},
        {"type": "text", "text": "the end"},
    ]});
    let short = cut(3000, &result.to_string()).await;
    let blocks = short.get("content").unwrap().array().unwrap();
    assert_eq!(blocks.len(), 3, "the first is gone, the second is cut");
    let told = text(&short, 0);
    let (dropped, kept) = header(&told);
    assert_eq!(dropped, 6000 + 7000 - kept.len());
    assert!("second ".repeat(1000).ends_with(kept));
    assert_eq!(blocks[1].get("resource").unwrap().get("uri").unwrap().as_str(), "\"a:b\"");
    assert_eq!(text(&short, 2), "the end");
    assert_eq!(short.as_str().matches("truncated ").count(), 1);
}

#[tokio::test]
async fn a_picture_goes_whole_and_the_texts_around_it_stay() {
    let picture =
        serde_json::json!({"type": "image", "data": "A".repeat(5000), "mimeType": "image/png"});
    let size = picture.to_string().len();
    let result = serde_json::json!({"content": [
        {"type": "text", "text": "before"}, picture, {"type": "text", "text": "after"},
    ]});
    let short = cut(2000, &result.to_string()).await;
    assert_eq!(header(&text(&short, 0)), (size, "before"));
    assert_eq!(text(&short, 1), "after");

    let alone = serde_json::json!({"content": [picture]});
    let short = cut(2000, &alone.to_string()).await;
    assert_eq!(
        short.get("content").unwrap().to_value().unwrap(),
        serde_json::json!([{"type": "text", "text": format!("[... truncated {size} bytes ...]")}])
    );

    // A small one stays where it is.
    let small = serde_json::json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
    let result =
        serde_json::json!({"content": [{"type": "text", "text": "x".repeat(5000)}, small]});
    let short = cut(2000, &result.to_string()).await;
    let blocks = short.get("content").unwrap().array().unwrap();
    assert_eq!(blocks[1].to_value().unwrap(), small);
}

#[tokio::test]
async fn escapes_of_the_sender_cost_no_content() {
    // Python's `ensure_ascii` spells each of these with six bytes, which we write with two.
    let spelt = "\\u00e9".repeat(2000);
    let result = format!(r#"{{"content":[{{"type":"text","text":"{spelt}"}}]}}"#);
    let short = cut(3000, &result).await;
    let told = text(&short, 0);
    let (dropped, kept) = header(&told);
    assert_eq!(dropped + kept.len(), 4000);
    assert!(kept.len() > 2500, "{}", kept.len());
    // Where that alone is enough, nothing is missing.
    let both = format!(r#"{{"content":[],"structuredContent":{{"a":"{spelt}"}}}}"#);
    let short = cut(6000, &both).await;
    let a = short.get("structuredContent").unwrap().get("a").unwrap();
    assert_eq!(a.text().unwrap(), "é".repeat(2000));
}

#[tokio::test]
async fn whitespace_of_the_sender_costs_no_content() {
    let spaces = " ".repeat(5000);
    let result = format!(r#"{{"content":[{spaces}{{"type":"text","text":"kept"}}{spaces}]}}"#);
    assert_eq!(text(&cut(2000, &result).await, 0), "kept");
}

#[tokio::test]
async fn what_cannot_be_shortened_is_refused_in_words() {
    let wide: Vec<String> = (0..1000).map(|n| format!(r#","key {n}":{n}"#)).collect();
    let wide = wide.concat();
    let result = format!(r#"{{"content":[],"structuredContent":{{"a":0{wide}}}}}"#);
    let outcome = through(&limit(2000, Keep::Tail), &result).await;
    assert_eq!(outcome.class(), Class::ToolError);
    assert_eq!(outcome.executed(), Executed::Yes);
    assert_eq!(outcome.code(), Some(Code::ResponseTooLarge));
    let size = result.len();
    assert_eq!(
        testing::result_value(&outcome),
        serde_json::json!({
            "content": [{"type": "text", "text": format!(
                "The result of {size} bytes is over the limit of 2000 bytes and cannot be \
                 shortened without breaking its structure\n\
                 Ask for less at once. Only the operator can raise limits.response_bytes."
            )}],
            "isError": true,
            "_meta": {
                "ran": true,
                "error_type": "ResponseTooLarge",
                "expected": true,
                "code": "RESPONSE_TOO_LARGE",
                "suggestion": "Ask for less at once. Only the operator can raise limits.response_bytes.",
                "rule": "limits.response_bytes = 2000",
            },
        })
    );
    // A tool that promises no shape may lose it instead.
    let server = answering(json(result));
    let loose = limit(2000, Keep::Tail);
    let outcome = testing::call(&loose, &tool("t", None), "{}", &server).await;
    assert_eq!(outcome.class(), Class::Ok);
    let result = testing::result_value(&outcome);
    assert!(result.get("structuredContent").is_none());
    assert!(result["_meta"][shrink::FLAG]["bytes"].as_u64().unwrap() > 10_000);
}

#[tokio::test]
async fn results_that_are_no_objects_or_ask_for_input_are_refused_too() {
    let long = "x".repeat(5000);
    for odd in [
        format!("{long:?}"),
        format!("[{long:?}]"),
        format!(r#"{{"resultType":"input_required","inputRequests":{{"a":{long:?}}}}}"#),
        format!(r#"{{"content":{long:?}}}"#),
    ] {
        let outcome = through(&limit(2000, Keep::Tail), &odd).await;
        assert_eq!(outcome.code(), Some(Code::ResponseTooLarge), "{odd:.30}");
        assert!(outcome.result().unwrap().json().len() <= 2000);
    }
}

#[tokio::test]
async fn a_tool_may_have_a_limit_of_its_own() {
    let rule = |tools: &str, bytes, keep| ToolLimit { tools: tools.parse().unwrap(), bytes, keep };
    let layer = chain(ResponseLimit::new(ResponseLimitConfig {
        bytes: 4000,
        keep: Keep::Tail,
        tools: vec![
            rule("main/log*", Some(3000), Some(Keep::Head)),
            rule("main/*", Some(2000), None),
            rule("main/logs", Some(1500), None),
            rule("main/tiny", Some(1), None),
        ],
    }));
    for (name, bytes, keeps_head) in [
        ("logs", 1500, false),
        ("log_lines", 3000, true),
        ("other", 2000, false),
        // Below this a result could not say that it was shortened.
        ("tiny", 1000, false),
    ] {
        let server = answering(json(with_text(&"x".repeat(10_000))));
        let outcome = testing::call(&layer, &tool(name, None), "{}", &server).await;
        let result = outcome.result().unwrap().json();
        assert!(result.len() <= bytes, "{name}");
        assert!(result.len() > bytes * 8 / 10, "{name}: {}", result.len());
        assert_eq!(text(result, 0).starts_with('x'), keeps_head, "{name}");
    }
    let id = crate::ToolId::new("elsewhere", "logs");
    let other = Arc::new(Tool::unlisted(id, &crate::TierRules::default()));
    let server = answering(json(with_text(&"x".repeat(10_000))));
    let outcome = testing::call(&layer, &other, "{}", &server).await;
    assert!(outcome.result().unwrap().json().len() > 3000);
}

async fn read(layer: &Chain, method: &str, result: &str) -> Answer {
    let request = Request { method: method.into(), params: Some(json(result)) };
    let server = answering(json("{}"));
    layer.request(&mut context(), request, &server).await
}

#[tokio::test]
async fn resources_are_limited_too() {
    let layer = limit(2000, Keep::Tail);
    let contents = serde_json::json!({"contents": [
        {"uri": "file:///a", "mimeType": "text/plain", "text": "x".repeat(5000)},
    ], "ttlMs": 1});
    let answer = read(&layer, "resources/read", &contents.to_string()).await;
    let result = answer.body.unwrap();
    assert!(answer.origin.is_none());
    assert!(result.len() <= 2000);
    let block = &result.get("contents").unwrap().array().unwrap()[0];
    assert_eq!(block.get("uri").unwrap().as_str(), "\"file:///a\"");
    header(&block.get("text").unwrap().text().unwrap());
    assert_eq!(result.get("ttlMs").unwrap().as_str(), "1");

    let blob = serde_json::json!({"contents": [
        {"uri": "file:///a.png", "mimeType": "image/png", "blob": "A".repeat(5000)},
    ]});
    let answer = read(&layer, "resources/read", &blob.to_string()).await;
    let value = answer.body.unwrap().to_value().unwrap();
    assert_eq!(value["contents"][0]["uri"], "file:///a.png");
    assert_eq!(value["contents"][0]["mimeType"], "text/plain");
    assert!(value["contents"][0].get("blob").is_none());

    let rigid = format!(r#"{{"contents":[],"other":"{}"}}"#, "x".repeat(5000));
    let answer = read(&layer, "resources/read", &rigid).await;
    assert!(answer.origin.is_none());
    let error = answer.body.unwrap_err().to_value().unwrap();
    assert_eq!(error["code"], 413);
    assert_eq!(error["data"]["code"], "RESPONSE_TOO_LARGE");

    let messages = serde_json::json!({"messages": [
        {"role": "user", "content": {"type": "text", "text": "y".repeat(5000)}},
    ]});
    let answer = read(&layer, "prompts/get", &messages.to_string()).await;
    let result = answer.body.unwrap();
    assert!(result.len() <= 2000);
    let value = result.to_value().unwrap();
    assert_eq!(value["messages"][0]["role"], "user");
    header(value["messages"][0]["content"]["text"].as_str().unwrap());

    let values: Vec<String> = (0..100).map(|at| format!("{at}{}", "v".repeat(100))).collect();
    let completion = serde_json::json!({"completion": {"values": values, "hasMore": false}});
    let answer = read(&layer, "completion/complete", &completion.to_string()).await;
    let result = answer.body.unwrap();
    assert!(result.len() <= 2000 && result.get("completion").is_some());

    for (method, result) in [("resources/read", r#"{"contents":[]}"#), ("tools/list", &rigid)] {
        let answer = read(&layer, method, result).await;
        assert_eq!(answer.body.unwrap().as_str(), result, "{method}");
        assert!(answer.origin.is_some());
    }
}

/// A tool whose structured content has to fit this schema.
fn promising(schema: &str) -> Arc<Tool> {
    defined_tool("t", None, &format!(r#"{{"name":"t","outputSchema":{schema}}}"#))
}

async fn shortened(schema: &str, structured: &serde_json::Value) -> Outcome {
    let result = serde_json::json!({"content": [], "structuredContent": structured});
    let server = answering(json(result.to_string()));
    testing::call(&limit(2000, Keep::Tail), &promising(schema), "{}", &server).await
}

#[tokio::test]
async fn content_that_cannot_be_shortened_within_its_schema_is_refused_honestly() {
    let text = "a".repeat(5000);
    let numbers: Vec<u32> = (0..1000).collect();
    for (schema, content) in [
        (
            r#"{"properties":{"a":{"type":"string","pattern":"^a*$"}}}"#,
            serde_json::json!({"a": text}),
        ),
        (
            r#"{"properties":{"a":{"type":"string","minLength":4000}}}"#,
            serde_json::json!({"a": text}),
        ),
        (
            r#"{"properties":{"a":{"type":"array","minItems":1000}}}"#,
            serde_json::json!({"a": numbers}),
        ),
        (r#"{"properties":{"a":{"contains":{"const":0}}}}"#, serde_json::json!({"a": numbers})),
    ] {
        let outcome = shortened(schema, &content).await;
        assert_eq!(outcome.code(), Some(Code::ResponseTooLarge), "{schema}");
        assert_eq!(outcome.executed(), Executed::Yes);
        let told = testing::result_value(&outcome);
        assert_eq!((&told["isError"], &told["_meta"]["ran"]), (&true.into(), &true.into()));
        assert!(told.get("structuredContent").is_none());
        let text = told["content"][0]["text"].as_str().unwrap();
        let said = ["is over the limit of 2000 bytes", "output schema", "Ask for less at once"];
        assert!(said.iter().all(|part| text.contains(part)), "{text}");
    }
}

#[tokio::test]
async fn content_that_still_fits_its_schema_is_shortened() {
    let content = serde_json::json!({"a": "a".repeat(5000), "kind": "one"});
    let plain = r#"{"type":"object","required":["a"],"properties":{"a":{"type":"string"},
        "kind":{"enum":["one","two"]}}}"#;
    assert_eq!(shortened(plain, &content).await.code(), None);
    // One that only looks as if it could be broken, where a validator can tell.
    let pattern = r#"{"properties":{"a":{"type":"string","pattern":"a$"}}}"#;
    let expected = (!cfg!(feature = "validate")).then_some(Code::ResponseTooLarge);
    assert_eq!(shortened(pattern, &content).await.code(), expected);
    // What was broken before is not broken by the limit.
    let wrong = r#"{"properties":{"a":{"type":"integer","pattern":"x"}}}"#;
    assert_eq!(shortened(wrong, &content).await.code(), expected);
}
