//! What is known of the handler's tools, and when it is asked again.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock,
        ListToolsResult, PaginatedRequestParams, Tool, ToolAnnotations,
    },
    service::RequestContext,
};
use serde_json::{Value, json};
use toolgate::{
    Chain, Context, Listing, Tier, ToolList, middleware::safety::Safety, transform_list,
};
use toolgate_rmcp::Governed;

use crate::{
    everything::Everything,
    listener::{connect, old_era, within},
};

/// A server with one tool a page, without `get_tool`, and a list that can fail.
#[derive(Clone, Default)]
struct Paged {
    broken: Arc<AtomicUsize>,
    asked: Arc<Mutex<Vec<Option<String>>>>,
}

fn tool(name: &str, read_only: bool) -> Tool {
    let Value::Object(schema) = json!({"type": "object", "x-own": [1.50, null]}) else { panic!() };
    let mut tool = Tool::new(name.to_owned(), "A tool", schema);
    tool.annotations = Some(ToolAnnotations::new().read_only(read_only));
    tool
}

impl ServerHandler for Paged {
    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        self.asked.lock().unwrap().push(cursor.clone());
        if self.broken.load(Ordering::SeqCst) > 0 {
            self.broken.fetch_sub(1, Ordering::SeqCst);
            return Err(ErrorData::internal_error("out of order", None));
        }
        let page = |tool, next: Option<&str>| ListToolsResult {
            next_cursor: next.map(str::to_owned),
            ttl_ms: Some(5),
            cache_scope: Some(CacheScope::Public),
            ..ListToolsResult::with_all_items(vec![tool])
        };
        Ok(match cursor.as_deref() {
            None => page(tool("read", true), Some("2")),
            Some("2") => page(tool("write", false), Some("3")),
            _ => page(tool("look", true), None),
        })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(CallToolResult::success(vec![ContentBlock::text(request.name)]).into())
    }
}

fn readonly() -> Chain {
    Chain::builder().layer(Safety::new(Tier::Readonly)).build().unwrap()
}

#[tokio::test]
async fn pages_keep_their_cursors_and_tools_their_definitions() {
    let line = connect(Governed::new(Paged::default(), readonly()), old_era()).await;
    let peer = line.client.peer();
    let first = within(peer.list_tools(None)).await.unwrap();
    assert_eq!((first.next_cursor.as_deref(), first.ttl_ms), (Some("2"), Some(5)));
    assert_eq!(first.tools, [tool("read", true)]);
    assert_eq!(first.cache_scope, Some(CacheScope::Public));
    let second = PaginatedRequestParams::default().with_cursor(first.next_cursor);
    let second = within(peer.list_tools(Some(second))).await.unwrap();
    // Nothing is left of the page, but there is another one; and no cache may share the gap.
    assert_eq!((second.tools.len(), second.next_cursor.as_deref()), (0, Some("3")));
    assert_eq!(second.cache_scope, Some(CacheScope::Private));
    assert_eq!(line.tools().await, ["read", "look"]);
}

#[tokio::test]
async fn every_page_is_read_once_before_the_first_call() {
    let paged = Paged::default();
    let line = connect(Governed::new(paged.clone(), readonly()), old_era()).await;
    for _ in 0..3 {
        assert_eq!(line.result("look", json!({})).await["content"][0]["text"], "look");
        assert!(line.call("write", json!({})).await.is_err());
    }
    let asked = paged.asked.lock().unwrap();
    assert_eq!(*asked, [None, Some("2".to_owned()), Some("3".to_owned())]);
}

#[tokio::test]
async fn many_first_calls_ask_for_the_list_once() {
    let inner = Everything::default();
    let line = connect(Governed::new(inner.clone(), readonly()), old_era()).await;
    let calls = (0..20).map(|n| line.result("add", json!({"a": n, "b": 1})));
    for result in join(calls).await {
        assert!(result["structuredContent"]["sum"].is_number());
    }
    assert_eq!(inner.0.listed.load(Ordering::SeqCst), 1);
    // A tool that is not known is looked for again, and then known.
    inner.0.late.store(true, Ordering::SeqCst);
    assert_eq!(line.result("late", json!({})).await["isError"], false);
    line.result("late", json!({})).await;
    assert_eq!(inner.0.listed.load(Ordering::SeqCst), 2);
}

async fn join<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut pending: Vec<_> = futures.map(Box::pin).collect();
    let mut done = Vec::new();
    std::future::poll_fn(|task| {
        pending.retain_mut(|future| match future.as_mut().poll(task) {
            std::task::Poll::Ready(value) => {
                done.push(value);
                false
            }
            std::task::Poll::Pending => true,
        });
        if pending.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done
}

#[tokio::test]
async fn a_tool_that_changes_its_tier_is_noticed_at_its_next_call() {
    let inner = Everything::default();
    let line = connect(Governed::new(inner.clone(), readonly()), old_era()).await;
    assert_eq!(line.result("shifty", json!({})).await["isError"], false);
    inner.0.shifted.store(true, Ordering::SeqCst);
    let error = line.call("shifty", json!({})).await.unwrap_err().to_string();
    assert!(error.contains("it is destructive"), "{error}");
    assert!(!line.tools().await.contains(&"shifty".to_owned()));
}

#[tokio::test]
async fn a_list_that_fails_denies_until_it_works() {
    let paged = Paged::default();
    paged.broken.store(1, Ordering::SeqCst);
    let line = connect(Governed::new(paged, readonly()), old_era()).await;
    assert!(line.call("read", json!({})).await.is_err());
    assert_eq!(line.result("read", json!({})).await["content"][0]["text"], "read");
}

#[tokio::test]
async fn without_a_layer_that_needs_them_the_tools_are_not_asked_for() {
    let inner = Everything::default();
    let chain = Chain::builder().build().unwrap();
    let line = connect(Governed::new(inner.clone(), chain), old_era()).await;
    line.result("add", json!({"a": 1, "b": 1})).await;
    assert_eq!(inner.0.listed.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_layer_may_change_a_definition_and_add_one() {
    let rewrite = transform_list("rewrite", |list: ToolList, _: &Listing, _: &mut Context| {
        let mut tools = list.tools().to_vec();
        let first = tools[0].definition().unwrap();
        let mut definition = first.object().unwrap();
        definition.set("description", toolgate_wire::Json::string("Better"));
        let rules = toolgate::TierRules::default();
        let changed = toolgate::Tool::listed(tools[0].id().clone(), definition.finish(), &rules);
        tools.insert(0, changed.into());
        let mut list = list;
        list.set_tools(tools);
        Ok(list)
    });
    let chain = Chain::builder().layer(rewrite).build().unwrap();
    let line = connect(Governed::new(Paged::default(), chain), old_era()).await;
    let page = within(line.client.peer().list_tools(None)).await.unwrap();
    let mut better = tool("read", true);
    better.description = Some("Better".into());
    assert_eq!(page.tools, [better, tool("read", true)]);
    assert_eq!(page.next_cursor.as_deref(), Some("2"));
}
