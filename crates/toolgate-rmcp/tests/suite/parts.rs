//! A handler that comes back to its own door, with calls that are parts of the one that it runs.

use std::{
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

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
    Selection,
    middleware::{
        audit::Target,
        preconditions::{ConfirmConfig, Fallback},
    },
    settings::Settings,
    stack::{self, Stack},
};
use toolgate_rmcp::Governed;

use crate::listener::{connect, new_era, old_era, within};

/// `whole` calls `part`, and answers with what `part` answered.
#[derive(Default)]
struct Nest(Arc<OnceLock<Weak<Governed<Nest>>>>);

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
        let door = self.0.get().and_then(Weak::upgrade).unwrap();
        let part = CallToolRequestParams::new("part");
        Box::pin(async move { door.call_tool(part, context).await }).await
    }
}

fn governed(stack: &Stack) -> Arc<Governed<Nest>> {
    let nest = Nest::default();
    let slot = Arc::clone(&nest.0);
    let door = Arc::new(Governed::new(nest, stack.chain.clone()));
    slot.set(Arc::downgrade(&door)).unwrap();
    door
}

#[tokio::test]
async fn what_narrows_a_call_narrows_its_parts_which_name_it() {
    for era in [old_era(), new_era()] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("audit.jsonl");
        let mut settings = Settings::default();
        settings.audit.file = Target::File(file.clone());
        let stack = stack::build(&settings).unwrap();
        let line = connect(governed(&stack), era).await;
        assert_eq!(line.result("whole", json!({})).await["content"][0]["text"], "done");
        let call = Request::new(CallToolRequestParams::new("whole"));
        let mut options = PeerRequestOptions::no_options();
        options.meta = Some(serde_json::from_value(json!({"allowedTools": ["whole"]})).unwrap());
        let peer = line.client.peer();
        let sent = peer.send_cancellable_request(ClientRequest::CallToolRequest(call), options);
        let answer = json!(within(within(sent).await.unwrap().await_response()).await.unwrap());
        assert_eq!(answer["_meta"]["code"], "TOOL_NOT_ALLOWED", "{answer}");
        line.hang_up().await;
        stack.audit.unwrap().close(Duration::from_secs(10));

        let lines = std::fs::read_to_string(&file).unwrap();
        let records = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let records: Vec<Value> = records.filter(|record| record["event"] == "call").collect();
        let called = |name: &str| records.iter().filter(|r| r["tool"] == name).collect::<Vec<_>>();
        let (wholes, parts) = (called("whole"), called("part"));
        assert_eq!((wholes.len(), parts.len()), (2, 2), "{records:?}");
        for (whole, part) in wholes.iter().zip(&parts) {
            assert_eq!(part["parent_call_uuid"], whole["call_id"]);
            assert!(whole.get("parent_call_uuid").is_none(), "{whole}");
        }
    }
}

#[tokio::test]
async fn a_part_is_confirmed_by_itself_or_not_at_all() {
    let part = Selection::Glob("main/part".parse().unwrap());
    let confirm = ConfirmConfig::with(|config| {
        config.when = vec![part];
        config.fallback = Fallback::AgentMayConfirmItself;
    });
    let settings = Settings::with(|settings| settings.confirm = Some(confirm));
    let stack = stack::build(&settings).unwrap();
    // The user is asked while the call runs.
    let line = connect(governed(&stack), old_era()).await;
    assert_eq!(line.result("whole", json!({})).await["content"][0]["text"], "done");
    // The client would have to repeat the part, which it did not send.
    let line = connect(governed(&stack), new_era()).await;
    let result = line.result("whole", json!({})).await;
    assert_eq!(result["_meta"]["code"], "CONFIRM_REQUIRED", "{result}");
}
