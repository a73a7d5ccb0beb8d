//! Layers of a program's own around a real rmcp server: what they know of a request, whom they can talk to, and the calls
//! that they and the handler nest.

use std::sync::{Arc, Mutex};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientRequest, ContentBlock,
        ListToolsResult, PaginatedRequestParams, Request, Tool,
    },
    service::{PeerRequestOptions, RequestContext},
};
use serde_json::{Value, json};
use toolgate::{
    Chain, Failure, LogLevel, Middleware, Tier, from_fn, gate,
    middleware::{
        audit::{RedactConfig, Target},
        error_results::ErrorResults,
    },
    on_notification, on_request,
    settings::Settings,
    stack::{self, Parts},
};
use toolgate_rmcp::{Governed, nested_call};

use crate::{
    everything::Everything,
    listener::{Line, connect, new_era, old_era, within},
};

/// `whole` calls `part` twice at once, `part` says which `_meta` it got.
#[derive(Clone)]
struct Nest;

impl ServerHandler for Nest {
    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = |name: &'static str| Tool::new(name, name, Arc::default());
        Ok(ListToolsResult::with_all_items(vec![tool("whole"), tool("part")]))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if params.name == "part" {
            return Ok(CallToolResult::success(vec![ContentBlock::text("done")]).into());
        }
        let arguments = json!({"n": 1}).as_object().cloned();
        let (one, two) = tokio::join!(
            nested_call(&context, "part", arguments),
            nested_call(&context, "part", None)
        );
        let texts = [one?, two?].map(|result| result.content);
        Ok(CallToolResult::success(texts.concat()).into())
    }
}

/// Calls a tool with this `_meta`.
async fn call_with<H: ServerHandler>(line: &Line<H>, tool: &'static str, meta: Value) -> Value {
    let call = Request::new(CallToolRequestParams::new(tool));
    let mut options = PeerRequestOptions::no_options();
    options.meta = Some(serde_json::from_value(meta).unwrap());
    let peer = line.client.peer();
    let sent = peer.send_cancellable_request(ClientRequest::CallToolRequest(call), options);
    json!(within(within(sent).await.unwrap().await_response()).await.unwrap())
}

/// The tool and the parent's id of each recorded call.
fn recorded(file: &std::path::Path) -> Vec<(String, String, Option<String>)> {
    let lines = std::fs::read_to_string(file).unwrap();
    let records = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |record: &Value, key: &str| record[key].as_str().map(str::to_owned);
    let calls = records.filter(|record| record["event"] == "call");
    calls
        .map(|r| {
            let ids = (text(&r, "call_id").unwrap(), text(&r, "parent_call_uuid"));
            (text(&r, "tool").unwrap(), ids.0, ids.1)
        })
        .collect()
}

#[tokio::test]
async fn handlers_and_layers_nest_calls_that_inherit_what_narrows_their_parent() {
    for era in [old_era(), new_era()] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("audit.jsonl");
        let mut settings = Settings::default();
        settings.audit.file = Target::File(file.clone());
        let check = from_fn("check", async |cx, call, next| {
            if call.id().name() == "whole" {
                let checked = next.nested(cx, "part", None).await;
                if checked.failure().is_some() {
                    return checked;
                }
            }
            next.call(cx, call).await
        });
        let stack = stack::builder(&settings, Parts::default()).unwrap();
        let stack = stack.before("audit-intent", check).build().unwrap();
        let line = connect(Governed::from_stack(Nest, &settings, &stack), era).await;

        let whole = line.result("whole", json!({})).await;
        assert_eq!(whole["content"].as_array().unwrap().len(), 2, "{whole}");
        let meta = json!({"allowedTools": ["whole"]});
        let refused = call_with(&line, "whole", meta).await;
        assert_eq!(refused["_meta"]["code"], "TOOL_NOT_ALLOWED", "{refused}");
        line.hang_up().await;
        stack.close(std::time::Duration::from_secs(10));

        let records = recorded(&file);
        let wholes: Vec<_> = records.iter().filter(|(tool, ..)| tool == "whole").collect();
        let parts = |of: &str| records.iter().filter(|r| r.2.as_deref() == Some(of)).count();
        assert_eq!(wholes.len(), 2, "{records:?}");
        assert_eq!(wholes.iter().map(|whole| parts(&whole.1)).collect::<Vec<_>>(), [3, 1]);
        assert!(wholes.iter().all(|whole| whole.2.is_none()), "{records:?}");
    }
}

#[tokio::test]
async fn a_layer_that_nests_itself_ends() {
    let endless = from_fn("endless", async |cx, call, next| {
        let nested = next.nested(cx, "part", None).await;
        if nested.failure().is_some() { nested } else { next.call(cx, call).await }
    });
    let chain = Chain::builder().layer(ErrorResults).layer(endless).build().unwrap();
    let line = connect(Governed::new(Nest, chain), old_era()).await;
    let result = line.result("part", json!({})).await;
    assert!(result["content"][0]["text"].as_str().unwrap().contains("nested 16 deep"), "{result}");
}

#[tokio::test]
async fn layers_read_meta_claims_and_the_client_and_refuse_with_a_code_of_their_own() {
    let seen = from_fn("seen", async |cx, call, next| {
        let tenant: Option<String> = cx.claim("tenant");
        let facts = json!({
            "locale": cx.meta_member("example.com/locale").map(|json| json.as_str().to_owned()),
            "control": cx.meta_member("policyId").is_some(),
            "tenant": tenant,
            "principal": [cx.principal().kind(), cx.principal().id()],
            "client": cx.client().map(|client| client.name.clone()),
        });
        Ok::<_, Failure>(next.call(cx, call).await.insert_meta("example.com/seen", facts))
    });
    let quota = gate("quota", |cx, access| match cx.claim::<u32>("quota") {
        Some(0) if access.call().is_some() => {
            Err(Failure::refused("used up").with_own_code("QUOTA_GONE"))
        }
        _ => Ok(()),
    });
    let chain = Chain::builder().layer(ErrorResults).layer(seen).layer(quota).build().unwrap();
    for (left, code) in [(1, None), (0, Some("QUOTA_GONE"))] {
        let server = Governed::new(Nest, chain.clone())
            .principal(toolgate::Principal::Subject("ada".into()))
            .prepare_context(move |_, cx| cx.set_claims(json!({"tenant": "acme", "quota": left})));
        let line = connect(server, old_era()).await;
        let meta = json!({"example.com/locale": "de", "policyId": 7, "progressToken": 1});
        let result =
            call_with(&line, "part", json!({"example.com/locale": meta["example.com/locale"]}))
                .await;
        assert_eq!(result["_meta"]["code"].as_str(), code, "{result}");
        if code.is_none() {
            let expected = json!({
                "locale": "\"de\"", "control": false, "tenant": "acme",
                "principal": ["subject", "ada"], "client": "listener",
            });
            assert_eq!(result["_meta"]["example.com/seen"], expected);
        }
    }
}

#[tokio::test]
async fn a_layer_tells_progress_and_logs_and_asks_the_user() {
    let talk = from_fn("talk", async |cx, call, next| {
        let Some(peer) = next.peer() else {
            return Failure::refused("there is no client").into();
        };
        peer.progress(1.0, Some(2.0), Some("half")).await;
        peer.log(LogLevel::Warning, "talk", "careful".into()).await;
        let form = json!({
            "message": "Who?",
            "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
        });
        let answer = peer.elicit(form.into()).await;
        let outcome = next.call(cx, call).await;
        outcome.insert_meta("example.com/answer", answer.ok())
    });
    let chain = Chain::builder().layer(talk).build().unwrap();
    let mut line = connect(Governed::new(Everything::default(), chain), old_era()).await;
    let result = line.result("add", json!({"a": 1, "b": 1})).await;
    assert_eq!(result["_meta"]["example.com/answer"]["content"]["name"], "Ferris", "{result}");
    let heard = line.heard(2).await;
    assert_eq!(heard[0], json!(["log", {"level": "warning", "logger": "talk", "data": "careful"}]));
    assert_eq!(heard[1][0], "progress");
    assert_eq!(heard[1][1]["message"], "half");
}

#[tokio::test]
async fn typed_requests_and_notifications_reach_their_layers() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let chain = Chain::builder()
        .layer(on_request("hello", async |hello: toolgate::Initialize, cx, request, next| {
            let mut answer = next.request(cx, request).await;
            let result = answer.body.as_ref().ok().and_then(toolgate::Json::object);
            if let Some(mut result) = result {
                result.set("instructions", format!("Hello, {}", hello.client_info.name));
                answer.set_result(result.finish());
            }
            answer
        }))
        .layer(on_request("private", async |read: toolgate::ReadResource, cx, request, next| {
            if read.uri.starts_with("mem://") {
                return Err(Failure::refused("private").with_rpc_code(1403));
            }
            Ok(next.request(cx, request).await)
        }))
        .layer(on_notification("watch", move |_, method, _| {
            log.lock().unwrap().push(method.to_owned());
        }))
        .build()
        .unwrap();
    let line = connect(Governed::new(Everything::default(), chain), old_era()).await;
    let info = line.client.peer().peer_info().unwrap();
    assert_eq!(json!(&*info)["instructions"], "Hello, listener");
    let read = rmcp::model::ReadResourceRequestParams::new("mem://note");
    let refused = within(line.client.peer().read_resource(read)).await.unwrap_err();
    assert!(refused.to_string().contains("1403"), "{refused}");
    line.hang_up().await;
    assert_eq!(seen.lock().unwrap()[0], "notifications/initialized");
}

#[tokio::test]
async fn settings_bring_tiers_names_limits_and_the_end_of_the_audit() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("audit.jsonl");
    let mut settings = Settings { safety: Some(Tier::Mutating), ..Settings::default() };
    settings.audit.file = Target::File(file.clone());
    let worst = toolgate::ToolSettings { tier: Some(Tier::Destructive), ..Default::default() };
    let renamed = toolgate::ToolSettings {
        name: Some("piece".to_owned()),
        tier: Some(Tier::Readonly),
        ..Default::default()
    };
    settings.tools.push(("main/whole".parse().unwrap(), worst));
    settings.tools.push(("main/part".parse().unwrap(), renamed));
    let line = connect(Governed::from_settings(Nest, &settings).unwrap(), old_era()).await;
    assert_eq!(line.tools().await, ["piece"], "the tier hides `whole`");
    assert_eq!(line.result("piece", json!({})).await["content"][0]["text"], "done");
    assert_eq!(line.result("whole", json!({})).await["_meta"]["code"], "TIER_DENIED");
    line.hang_up().await;
    assert_eq!(recorded(&file).len(), 2, "the last record is written when the server is dropped");
}

#[tokio::test]
async fn an_audit_that_must_be_written_is_refused_without_its_intents() {
    let config = toolgate::middleware::audit::AuditConfig {
        file: Target::Stderr,
        required: true,
        ..Default::default()
    };
    let sink = toolgate::middleware::audit::AuditSink::open(&config, &RedactConfig::default());
    let sink = sink.unwrap().unwrap();
    let build = |intents: Option<toolgate::middleware::audit::AuditIntent>| {
        let audit = toolgate::middleware::audit::Audit::new(sink.clone());
        Chain::builder().layer(ErrorResults).layer(audit).layer(intents).build()
    };
    let refused = build(None).unwrap_err().to_string();
    assert!(
        refused.starts_with(
            "`audit` needs `audit-intent`, which the chain lacks: `audit.required` is set"
        ),
        "{refused}"
    );
    assert!(build(Some(toolgate::middleware::audit::AuditIntent::new(sink.clone()))).is_ok());
    assert!(!from_fn("x", async |cx, call, next| next.call(cx, call).await).name().is_empty());
}
