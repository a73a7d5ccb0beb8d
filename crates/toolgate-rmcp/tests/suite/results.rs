//! What layers change on the way, and what they cannot change.

use std::{sync::atomic::Ordering, time::Duration};

use rmcp::{
    ServerHandler,
    model::{CallToolRequestParams, ClientRequest, ReadResourceRequestParams, Request},
    service::PeerRequestOptions,
};
use serde_json::{Value, json};
use toolgate::{
    Call, Chain, Context, Failure, Outcome, ToolResult,
    middleware::{
        error_results::ErrorResults,
        response_limit::{Keep, ResponseLimit, ResponseLimitConfig},
        retry::{Retry, RetryConfig},
        timeout::Timeout,
    },
    transform_request, transform_response,
};
use toolgate_rmcp::Governed;
use toolgate_wire::Json;

use crate::{
    everything::{Everything, State},
    listener::{Line, connect, new_era, old_era, within},
    watch::looking,
};

async fn with(chain: Chain) -> Line<Governed<Everything>> {
    connect(Governed::new(Everything::default(), chain), old_era()).await
}

fn limited(bytes: usize) -> Chain {
    let config = ResponseLimitConfig { bytes, keep: Keep::Tail, tools: Vec::new() };
    Chain::builder().layer(ResponseLimit::new(config)).build().unwrap()
}

#[tokio::test]
async fn the_limit_keeps_structured_content_valid() {
    let line = with(limited(4000)).await;
    let result = line.result("report", json!({"bytes": 50_000})).await;
    assert!(result.to_string().len() <= 4000);
    let structured = &result["structuredContent"];
    assert!(structured["title"].is_string() && structured["body"].is_string(), "{result}");
    assert!(structured["body"].as_str().unwrap().ends_with("0123456789"));
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("[... truncated "), "{text}");
    assert_eq!(result["isError"], false);
    // What fits is left alone.
    let bare = with(Chain::builder().build().unwrap()).await;
    let small = json!({"bytes": 1000});
    assert_eq!(line.result("report", small.clone()).await, bare.result("report", small).await);
}

#[tokio::test]
async fn the_limit_shortens_resources_too() {
    let line = with(limited(4000)).await;
    let read = ReadResourceRequestParams::new("mem://long");
    let result = json!(within(line.client.peer().read_resource(read)).await.unwrap());
    assert!(result.to_string().len() <= 4000);
    let text = result["contents"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("[... truncated ") && text.ends_with("a line\n"), "{text}");
    let read = ReadResourceRequestParams::new("mem://note");
    let result = json!(within(line.client.peer().read_resource(read)).await.unwrap());
    assert_eq!(result["contents"][0]["text"], "a note");
}

#[tokio::test]
async fn changed_arguments_reach_the_tool_and_a_changed_result_the_client() {
    let chain = Chain::builder()
        .layer(transform_response("note", |outcome: Outcome, _: &Call, _: &mut Context| {
            outcome.insert_meta("noted", true)
        }))
        .layer(transform_request("shift", |mut call: Call, _: &mut Context| {
            call.insert_arg("b", 40)?;
            Ok(call)
        }))
        .build();
    let line = with(chain.unwrap()).await;
    let result = line.result("add", json!({"a": 2, "b": 0})).await;
    assert_eq!(result["structuredContent"], json!({"sum": 42, "half": 21.0}));
    assert_eq!(result["_meta"], json!({"noted": true}));
}

#[tokio::test]
async fn a_layer_that_makes_nonsense_is_told_so() {
    let nonsense = |text: &'static str| {
        let json = Json::parse(text, &toolgate_wire::Limits::default()).unwrap();
        let answer = move |mut outcome: Outcome, _: &Call, _: &mut Context| {
            outcome.set_result(ToolResult::new(json.clone()));
            outcome
        };
        let answer = transform_response("nonsense", answer);
        Chain::builder().layer(answer).build().unwrap()
    };
    for text in ["7", "{}", r#"{"content":"none"}"#, r#"{"resultType":"task"}"#] {
        let line = with(nonsense(text)).await;
        let error = line.call("rename", json!({})).await.unwrap_err().to_string();
        assert!(error.contains("no result of a tool"), "{text}: {error}");
    }
    let chain =
        Chain::builder().layer(transform_request("list", |mut call: Call, _: &mut Context| {
            call.set_arguments(Json::value(&json!([1])));
            Ok(call)
        }));
    let line = with(chain.build().unwrap()).await;
    let error = line.call("rename", json!({})).await.unwrap_err().to_string();
    assert!(error.contains("not an object"), "{error}");
}

/// A call that takes too long is dropped, and what it set going hears of it.
#[tokio::test]
async fn a_timeout_cancels_the_tool() {
    let inner = Everything::default();
    let timeout = Timeout::new(Duration::from_millis(20));
    let chain = Chain::builder().layer(ErrorResults).layer(timeout).build().unwrap();
    let line = connect(Governed::new(inner.clone(), chain), old_era()).await;
    let result = line.result("wait", json!({})).await;
    assert_eq!(result["_meta"]["code"], "TIMED_OUT");
    within(inner.0.stopped.acquire()).await.unwrap().forget();
}

#[tokio::test]
async fn a_readonly_call_is_tried_again() {
    let inner = Everything::default();
    let config = RetryConfig { base_delay: Duration::from_millis(1), ..RetryConfig::default() };
    let passing = |outcome: Outcome, _: &Call, _: &mut Context| match outcome.failure() {
        Some(_) => Failure::tool("Flaky", "try again").transient().into(),
        None => outcome,
    };
    let passing = transform_response("passing", passing);
    let chain = Chain::builder().layer(Retry::new(config)).layer(passing).build().unwrap();
    let line = connect(Governed::new(inner.clone(), chain), old_era()).await;
    assert_eq!(line.result("flaky", json!({})).await["content"][0]["text"], "at last");
    assert_eq!(inner.0.ran.load(Ordering::SeqCst), 2);
}

/// A server that shuts down cancels what runs, and still sends what that answers.
#[tokio::test]
async fn a_shutdown_loses_no_answer() {
    let inner = Everything::default();
    let bare = answer_of_shutdown(inner.clone(), &inner.0).await;
    assert_eq!(bare["content"][0]["text"], "stopped");
    let (inner, (chain, _)) = (Everything::default(), looking());
    let governed = Governed::new(inner.clone(), chain);
    assert_eq!(answer_of_shutdown(governed, &inner.0).await, bare);
}

async fn answer_of_shutdown<H: ServerHandler>(handler: H, state: &State) -> Value {
    let line = connect(handler, old_era()).await;
    let shut_down = async {
        within(state.waiting.acquire()).await.unwrap().forget();
        let server = within(line.server).await.unwrap();
        within(server.cancel()).await.unwrap();
    };
    let params = CallToolRequestParams::new("wait");
    let (result, ()) = tokio::join!(within(line.client.call_tool(params)), shut_down);
    json!(result.unwrap())
}

async fn call_with_meta(line: &Line<Governed<Everything>>, meta: Value) -> Value {
    let call = ClientRequest::CallToolRequest(Request::new(CallToolRequestParams::new("meta")));
    let mut options = PeerRequestOptions::no_options();
    options.meta = Some(serde_json::from_value(meta).unwrap());
    let handle = within(line.client.peer().send_request_with_option(call, options)).await.unwrap();
    json!(within(handle.await_response()).await.unwrap())
}

#[tokio::test]
async fn control_data_never_reaches_the_tool() {
    for era in [old_era(), new_era()] {
        let chain = Chain::builder().build().unwrap();
        let line = connect(Governed::new(Everything::default(), chain), era).await;
        let meta = json!({"parent_call_uuid": "p-1", "traceparent": "00-1"});
        let result = call_with_meta(&line, meta).await;
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("traceparent") && !text.contains("parent_call_uuid"), "{text}");
    }
}
