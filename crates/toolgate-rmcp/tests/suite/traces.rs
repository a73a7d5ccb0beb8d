//! Traces and spans of calls through rmcp.

use opentelemetry::{
    global::BoxedTracer,
    metrics::{MeterProvider as _, noop::NoopMeterProvider},
    trace::TracerProvider as _,
};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use rmcp::{
    ClientLifecycleMode, ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ClientRequest, ContentBlock,
        ListToolsResult, PaginatedRequestParams, Request, ServerCapabilities, ServerConfig,
        ServerResult, Tool,
    },
    service::{PeerRequestOptions, RequestContext},
};
use serde_json::{Value, json};
use toolgate::{
    Chain,
    middleware::telemetry::{Instruments, SCOPE, Telemetry},
};
use toolgate_rmcp::Governed;

use crate::listener::{connect, new_era, old_era, within};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A server with one tool, which answers with its `_meta`.
struct Mirror;

impl ServerHandler for Mirror {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![mirror()]))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        (name == "meta").then(mirror)
    }

    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = serde_json::to_string(&context.meta).unwrap();
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

fn mirror() -> Tool {
    Tool::new("meta", "Shows its _meta", rmcp::object!({"type": "object"}))
}

/// Calls the tool that answers with its `_meta`; gives that, and the spans.
async fn called(era: ClientLifecycleMode, meta: Value) -> (Value, Vec<SpanData>) {
    let kept = InMemorySpanExporter::default();
    let tracers = SdkTracerProvider::builder().with_simple_exporter(kept.clone()).build();
    let tracer = BoxedTracer::new(Box::new(tracers.tracer(SCOPE)));
    let instruments = Instruments::new(tracer, &NoopMeterProvider::new().meter(SCOPE));
    let chain = Chain::builder().layer(Telemetry::new(instruments)).build().unwrap();
    let line = connect(Governed::new(Mirror, chain).server_name("all"), era).await;
    let call = ClientRequest::CallToolRequest(Request::new(CallToolRequestParams::new("meta")));
    let mut options = PeerRequestOptions::no_options();
    options.meta = Some(serde_json::from_value(meta).unwrap());
    let peer = line.client.peer();
    let handle = within(peer.send_cancellable_request(call, options)).await.unwrap();
    let answer = within(handle.await_response()).await.unwrap();
    let ServerResult::CallToolResult(CallToolResult { content, .. }) = answer else {
        panic!("{answer:?}")
    };
    let seen = serde_json::from_str(&content[0].as_text().unwrap().text).unwrap();
    line.hang_up().await;
    (seen, kept.get_finished_spans().unwrap())
}

fn check(seen: &Value, spans: &[SpanData]) {
    let calls: Vec<_> = spans.iter().filter(|span| span.name == "tools/call meta").collect();
    let [span] = &*calls else { panic!("{spans:#?}") };
    assert_eq!(span.parent_span_id.to_string(), "b7ad6b7169203331");
    let ids = (span.span_context.trace_id(), span.span_context.span_id());
    assert_eq!(seen["traceparent"], format!("00-{}-{}-01", ids.0, ids.1));
    assert_eq!((&seen["tracestate"], &seen["baggage"]), (&json!("v=1"), &json!("k=v")));
    // What rmcp asks the handler for by itself is no listing of the client.
    assert!(!spans.iter().any(|span| span.name == "tools/list"), "{spans:#?}");
}

#[tokio::test]
async fn a_call_is_part_of_the_clients_trace_and_the_handler_of_ours() {
    let meta = json!({"traceparent": PARENT, "tracestate": "v=1", "baggage": "k=v"});
    for era in [old_era(), new_era()] {
        let (seen, spans) = called(era, meta.clone()).await;
        check(&seen, &spans);
    }
}

#[tokio::test]
async fn a_parent_that_is_none_is_replaced_by_ours() {
    let (seen, spans) = called(old_era(), json!({"traceparent": "no", "tracestate": "v=1"})).await;
    let span = spans.iter().find(|span| span.name == "tools/call meta").unwrap();
    assert_eq!(span.parent_span_id, opentelemetry::SpanId::INVALID);
    assert!(
        seen["traceparent"].as_str().unwrap().contains(&span.span_context.span_id().to_string())
    );
    assert_eq!(seen.get("tracestate"), None);
}
